//! Slots, rows and reviews whose answers are not whole.
