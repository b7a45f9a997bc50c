//! How an answer of a model ends, and what proves that it is whole.
