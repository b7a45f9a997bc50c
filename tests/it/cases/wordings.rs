//! The wordings of errors that servers send.
