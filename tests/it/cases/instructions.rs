//! Instructions and agent definitions that a repository brings along.
