//! Servers and chat templates that refuse what others accept.
