//! The flags that other harnesses have and that change nothing here.

use clap::Args;

/// Flags of other harnesses that scripts and SDKs pass and that change nothing
/// here. They are accepted, so that the script runs, and said to do nothing.
#[derive(Debug, Args, Clone, Default)]
pub struct InertFlags {
    /// Stream-json is always whole
    #[arg(long, global = true, hide = true)]
    verbose: bool,
    #[arg(long, global = true, hide = true)]
    channel: Option<String>,
    #[arg(long, global = true, hide = true)]
    auth_type: Option<String>,
    #[arg(long, global = true, hide = true, num_args = 1..)]
    extensions: Vec<String>,
    #[arg(long, global = true, hide = true)]
    proxy: Option<String>,
    #[arg(long, global = true, hide = true)]
    safe_mode: bool,
    #[arg(long, global = true, hide = true)]
    worktree: bool,
    #[arg(long, global = true, hide = true, num_args = 1..)]
    disabled_slash_commands: Vec<String>,
    #[arg(long, global = true, hide = true)]
    permission_prompt_tool: Option<String>,
    #[arg(long, global = true, hide = true)]
    setting_sources: Option<String>,
}

impl InertFlags {
    /// Returns a line for each flag that was given and does nothing.
    #[must_use]
    pub fn said(&self) -> Vec<String> {
        // This one asks for what is so anyway.
        let Self { verbose: _, .. } = self;
        [
            (self.channel.is_some(), "channel"),
            (self.auth_type.is_some(), "auth-type"),
            (!self.extensions.is_empty(), "extensions"),
            (self.proxy.is_some(), "proxy"),
            (self.safe_mode, "safe-mode"),
            (self.worktree, "worktree"),
            (!self.disabled_slash_commands.is_empty(), "disabled-slash-commands"),
            (self.permission_prompt_tool.is_some(), "permission-prompt-tool"),
            (self.setting_sources.is_some(), "setting-sources"),
        ]
        .into_iter()
        .filter(|(given, _)| *given)
        .map(|(_, name)| format!("note: `--{name}` does nothing here"))
        .collect()
    }
}
