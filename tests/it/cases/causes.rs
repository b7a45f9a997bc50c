//! Errors that have to name the real cause.
