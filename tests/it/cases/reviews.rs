//! What reviewers of one change share.
