//! Tools that write: links, line ends, indentation, encodings, names.
