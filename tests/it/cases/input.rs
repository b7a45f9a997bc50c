//! What is piped in, and what configuration files hold.
