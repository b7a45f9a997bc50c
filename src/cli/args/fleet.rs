//! Who runs agents, and the commands about workers, as they are typed.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use secrecy::SecretString;

use crate::config::{CONCURRENT_CAP, ExecutorKind, Nats};

/// Who runs agents.
#[derive(Debug, Clone, Default, Args)]
pub struct ExecutorFlags {
    /// Who runs agents: this process (`local`), or workers (`nats`)
    #[arg(long, global = true, value_name = "WHO", value_parser = kinds(), hide_possible_values = true)]
    pub executor: Option<ExecutorKind>,
}

/// What a worker is.
#[derive(Debug, Clone, Default, Args)]
pub struct WorkerFlags {
    /// The server to meet runs at, in the place of `executor.nats.servers`; several
    /// of one cluster may be named
    #[arg(long, value_name = "URL")]
    pub connect: Vec<SecretString>,

    /// Most agents at work here at once; `agents.max_concurrent` without it
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub max_concurrent: Option<NonZeroUsize>,

    /// Take agents that ask for this label, too; may be given several times
    #[arg(long, value_name = "NAME", value_parser = parse_label)]
    pub label: Vec<String>,

    /// Where copies of workspaces are kept; below the state directory without it
    #[arg(long, value_name = "DIR")]
    pub work_dir: Option<PathBuf>,
}

/// Which workers to list.
#[derive(Debug, Clone, Default, Args)]
pub struct WorkersFlags {
    /// The server to ask, in the place of `executor.nats.servers`; several of one
    /// cluster may be named
    #[arg(long, value_name = "URL")]
    pub connect: Vec<SecretString>,
}

fn kinds() -> impl TypedValueParser<Value = ExecutorKind> {
    let names = PossibleValuesParser::new(ExecutorKind::ALL.map(ExecutorKind::as_str));
    names.map(|name| ExecutorKind::from_name(&name).expect("only these names are taken"))
}

fn parse_count(text: &str) -> Result<NonZeroUsize, String> {
    let count = text.parse().ok().filter(|count: &NonZeroUsize| count.get() <= CONCURRENT_CAP);
    count.ok_or_else(|| format!("expected a number from 1 to {CONCURRENT_CAP}"))
}

/// Reads a label: like the prefix, it is one part of a subject.
fn parse_label(text: &str) -> Result<String, String> {
    if text == Nats::ANY {
        return Err("every worker takes agents that ask for no label".to_owned());
    }
    let label = Some(text.to_owned()).filter(|text| Nats::is_prefix(text));
    let cap = Nats::PREFIX_CAP;
    label.ok_or_else(|| format!("expected letters, digits, `-` and `_`, at most {cap}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use secrecy::ExposeSecret as _;

    use super::super::{Arguments, Command};
    use super::*;

    fn parsed(words: &[&str]) -> Result<Arguments, String> {
        let words = ["tine"].iter().chain(words);
        Arguments::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn a_worker_is_described_by_its_flags() {
        let words = [
            "worker",
            "--connect",
            "nats://a",
            "--connect",
            "nats://b",
            "--max-concurrent",
            "4",
            "--label",
            "gpu",
            "--label",
            "big",
            "--work-dir",
            "/w",
            "--permission-mode",
            "plan",
        ];
        let arguments = parsed(&words).unwrap();
        let Some(Command::Worker(flags)) = arguments.command else { panic!("it is a worker") };
        let servers: Vec<&str> = flags.connect.iter().map(|it| it.expose_secret()).collect();
        assert_eq!(servers, ["nats://a", "nats://b"]);
        assert_eq!(flags.max_concurrent, NonZeroUsize::new(4));
        assert_eq!(
            (flags.label, flags.work_dir),
            (vec!["gpu".into(), "big".into()], Some("/w".into()))
        );
        assert_eq!(arguments.run.permission_mode, Some(crate::guard::Mode::Plan));
        assert!(!format!("{:?}", flags.connect).contains("nats://a"));
    }

    #[test]
    fn what_cannot_be_is_said() {
        for (words, why) in [
            (&["worker", "--max-concurrent", "0"][..], "expected a number from 1 to 10000"),
            (&["worker", "--label", "any"], "every worker takes agents that ask for no label"),
            (&["worker", "--label", "a.b"], "expected letters, digits, `-` and `_`, at most 32"),
            (&["-p", "x", "--executor", "moon"], "[possible values: local, nats]"),
        ] {
            let error = parsed(words).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let kind = |words: &[&str]| parsed(words).unwrap().run.fleet.executor;
        assert_eq!(kind(&["-p", "x", "--executor", "nats"]), Some(ExecutorKind::Nats));
        assert_eq!(kind(&["review", "--executor", "local"]), Some(ExecutorKind::Local));
        assert_eq!(kind(&["-p", "x"]), None);
    }
}
