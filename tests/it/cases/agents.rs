//! Messages to agents that have ended, and reports that imitate headings.
