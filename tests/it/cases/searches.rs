//! Searches that have to say what they left out.
