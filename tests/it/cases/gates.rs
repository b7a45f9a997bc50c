//! Hooks and rules that cannot be understood: the call does not run.
