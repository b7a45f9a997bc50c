//! Commands and what they leave running.
