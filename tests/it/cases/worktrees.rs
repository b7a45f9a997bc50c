//! Agents in worktrees of their own.
