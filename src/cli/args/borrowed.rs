//! The flags that only scripts and programs of other harnesses pass, and that do
//! here what they do there.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use secrecy::SecretString;

use super::GivenJson;
use crate::config::Sources;

/// Flags of other harnesses that do something here, too.
#[derive(Debug, Args, Clone, Default)]
pub struct BorrowedFlags {
    /// Settings as Claude Code has them: JSON, or a file that holds it
    #[arg(long, global = true, value_name = "JSON|FILE")]
    pub settings: Option<GivenJson>,

    /// Whose instructions, skills, commands, agents and settings are read: of
    /// `user`, `project`, `local`; none if it is empty
    #[arg(long, global = true, value_name = "LIST", value_parser = parse_sources)]
    pub setting_sources: Option<Sources>,

    /// Read no instructions, skills, commands, agents and settings of the
    /// project, and none of the user's but `config.toml`
    #[arg(long, global = true)]
    pub bare: bool,

    /// Have no skills and no commands but the built-in ones
    #[arg(long, global = true)]
    pub disable_slash_commands: bool,

    /// Who is asked about what no rule decides
    #[arg(long, global = true, hide = true, value_name = "WHO")]
    pub permission_prompts: Option<Asks>,

    /// Write what happens inside to a file instead of standard error
    #[arg(long, global = true, value_name = "FILE")]
    pub debug_file: Option<PathBuf>,

    /// Write the stream-json records to what is open under this number as well
    #[arg(long, global = true, value_name = "FD", conflicts_with = "json_file",
        value_parser = clap::value_parser!(u32).range(3..))]
    pub json_fd: Option<u32>,

    /// List the extensions, of which there are none
    #[arg(short, long, global = true, hide = true)]
    pub list_extensions: bool,

    /// The key, in the place of `OPENAI_API_KEY`
    #[arg(long, global = true, hide = true, value_name = "KEY")]
    pub openai_api_key: Option<SecretString>,

    /// The server, in the place of `OPENAI_BASE_URL`
    #[arg(long, global = true, hide = true, value_name = "URL")]
    pub openai_base_url: Option<String>,
}

/// Who is asked about what no rule decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Asks {
    /// Whoever sits at the run, as without the flag.
    Host,
    /// Nobody: it is denied.
    None,
}

impl BorrowedFlags {
    /// Returns whose files are read.
    #[must_use]
    pub fn sources(&self) -> Sources {
        if self.bare {
            return Sources::NONE;
        }
        self.setting_sources.unwrap_or_default()
    }
}

fn parse_sources(list: &str) -> Result<Sources, String> {
    let mut sources = Sources::NONE;
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match name {
            "user" => sources.user = true,
            // There are no settings of a project that are one person's alone.
            "project" => sources.project = true,
            "local" => {}
            _ => return Err(format!("`{name}` is none of `user`, `project`, `local`")),
        }
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_a_list_that_may_be_empty() {
        let only = |user, project| Ok(Sources { user, project });
        assert_eq!(parse_sources(""), only(false, false));
        assert_eq!(parse_sources("user, project,local"), only(true, true));
        assert_eq!(parse_sources("local"), only(false, false));
        assert!(parse_sources("everybody").is_err());
    }

    #[test]
    fn bare_is_without_any_source() {
        let sources = |bare, setting_sources| {
            BorrowedFlags { bare, setting_sources, ..BorrowedFlags::default() }.sources()
        };
        assert_eq!(sources(false, None), Sources { user: true, project: true });
        assert_eq!(sources(true, Some(Sources::default())), Sources::NONE);
    }
}
