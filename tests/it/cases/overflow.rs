//! Conversations that outgrow the context window.
