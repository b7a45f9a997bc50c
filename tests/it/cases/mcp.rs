//! Replies, schemas and results of MCP servers in unusual shapes.
