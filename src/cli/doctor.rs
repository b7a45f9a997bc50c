//! `tine doctor`: what tine needs, checked, each with what to do about it.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::num::NonZeroU32;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;

use super::args::RunFlags;
use super::exit::{Exit, Refusal};
use super::project::{self, Manner};
use super::{sandbox, session, start, worktree};
use crate::config::{
    self, Api, Config, Environment, ModelChoice, ModelChoiceError, ServerModel, dirs,
};
use crate::guard::sandbox::{Insistence, NoBwrap, NoLandlock};
use crate::message::counted;
use crate::model::Models;
use crate::model::http;
use crate::model::http::probe::{self, AvailableModel};
use crate::model::served::{CONTEXT_WINDOW, Served};
use crate::report::sanitise;

/// How long a server may take to list its models. A hosted one on a slow line
/// needs a second or two.
pub(super) const MODEL_LIMIT: Duration = Duration::from_secs(8);

/// How long a server on this machine may take.
pub(super) const LOCAL_LIMIT: Duration = Duration::from_millis(700);

/// Most models of a local server that are named.
const NAMED_MODELS: usize = 3;

/// Where local servers listen unless told otherwise.
const LOCAL_SERVERS: [(&str, u16); 5] = [
    ("Ollama", 11_434),
    ("LM Studio", 1_234),
    ("llama.cpp", 8_080),
    // Where it has announced to listen next.
    ("llama.cpp", 9_931),
    ("vLLM", 8_000),
];

/// What was found out about one thing.
struct Finding {
    subject: &'static str,
    verdict: Verdict,
}

enum Verdict {
    /// All is well.
    Good(String),
    /// Nothing is wrong, but there is something to know.
    Note(String),
    /// Something does not work; then what to do.
    Bad(String, String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, verdict } = self;
        match verdict {
            Verdict::Good(what) => write!(f, "ok    {subject:<14} {}", sanitise::line(what)),
            Verdict::Note(what) => write!(f, "-     {subject:<14} {}", sanitise::line(what)),
            Verdict::Bad(what, to_do) => {
                // Several problems come as several lines, hints among them.
                let mut lines = what.lines().chain([to_do.as_str()]).map(sanitise::line);
                write!(f, "FAIL  {subject:<14} {}", lines.next().unwrap_or_default())?;
                lines.try_for_each(|line| write!(f, "\n      {:<14} {line}", ""))
            }
        }
    }
}

/// Checks everything; ends with 1 if something does not work.
pub(super) fn run(environment: &Environment, flags: &RunFlags) -> Result<Exit, Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Refusal::new(Exit::Error, format!("cannot start: {error}")))?;
    let mut findings = Vec::new();
    let trusted = project::settle(environment, flags, Manner::Tell)?;
    let given = project::given(flags)?;
    let loaded =
        Config::load(environment, trusted.settings.as_ref(), given.as_ref(), &flags.config);
    let insisted = flags.sandbox.then_some(Insistence::Required);
    findings
        .push(Finding { subject: "configuration", verdict: configuration(environment, &loaded) });
    let config = loaded.map(|loaded| loaded.config).unwrap_or_default();
    let (model, local) = runtime
        .block_on(async { tokio::join!(model(environment, &config, flags), local_servers()) });
    findings.push(Finding { subject: "model", verdict: model });
    findings.extend(local);
    findings.push(Finding { subject: "git", verdict: git(environment) });
    findings.extend(sandboxes(environment, &config, insisted));
    findings.extend(worktrees(environment));
    findings.push(Finding { subject: "terminal", verdict: terminal(environment) });
    findings.push(Finding { subject: "state", verdict: state(environment) });
    let mut out = io::stdout().lock();
    let written = findings.iter().try_for_each(|finding| writeln!(out, "{finding}"));
    session::finish(written)?;
    let is_bad = |finding: &Finding| matches!(finding.verdict, Verdict::Bad(_, _));
    Ok(if findings.iter().any(is_bad) { Exit::Error } else { Exit::Done })
}

fn configuration(
    environment: &Environment,
    loaded: &Result<config::Loaded, config::ConfigError>,
) -> Verdict {
    let path = dirs::config_file(environment);
    match (loaded, path) {
        (Err(error), _) => Verdict::Bad(
            error.to_string(),
            "mend it; `config.example.toml` has every key".to_owned(),
        ),
        (Ok(_), Some(path)) if path.exists() => Verdict::Good(path.display().to_string()),
        (Ok(_), Some(path)) => Verdict::Note(format!(
            "none; the defaults are in force ({} would be read)",
            path.display()
        )),
        (Ok(_), None) => {
            Verdict::Note("none, and no HOME to look in; the defaults are in force".to_owned())
        }
    }
}

async fn model(environment: &Environment, config: &Config, flags: &RunFlags) -> Verdict {
    let choice = match config::resolve_model(config, environment, flags.model.as_deref()) {
        Ok(choice) => choice,
        Err(ModelChoiceError::NothingConfigured) => {
            return Verdict::Note(
                "none configured; set OPENAI_API_KEY, ANTHROPIC_API_KEY or OPENAI_BASE_URL and \
                 pass `-m MODEL`, see `tine models` for more, or use `-m offline`"
                    .to_owned(),
            );
        }
        Err(error) => {
            return Verdict::Bad(error.to_string(), "choose another with `-m`".to_owned());
        }
    };
    match choice {
        ModelChoice::Offline => Verdict::Good("offline: fixed rules, no server needed".to_owned()),
        ModelChoice::Scripted(path) => {
            match Models::default().open(&ModelChoice::Scripted(path.clone())) {
                Ok(_) => Verdict::Good(format!("script {}", path.display())),
                Err(error) => Verdict::Bad(error, "mend the script".to_owned()),
            }
        }
        ModelChoice::Server(server) => hosted(&server).await,
    }
}

async fn hosted(server: &ServerModel) -> Verdict {
    let ServerModel { model, api, .. } = server;
    // A key may stand in it.
    let url = http::shown(&server.base_url);
    let client = match Served::new(server.into()) {
        Ok(client) => client,
        Err(error) => return Verdict::Bad(error.to_string(), "mend the configuration".to_owned()),
    };
    // Anthropic lists versions with their dates, and takes names without.
    let is_listed = |listed: &&AvailableModel| match api {
        Api::Chat | Api::Responses => listed.id == *model,
        Api::Anthropic => listed.id.starts_with(model.as_str()),
    };
    match client.served_models(MODEL_LIMIT).await {
        Ok(models) if models.is_empty() => Verdict::Good(format!("{model} at {url}")),
        Ok(models) if models.iter().any(|listed| is_listed(&listed)) => {
            let window = models.iter().find(is_listed).and_then(|listed| listed.context_window);
            compare_windows(&format!("{model} at {url}"), window, server.context_window)
        }
        Ok(models) => Verdict::Bad(
            format!("{url} answers, but does not list `{model}`"),
            format!("it lists {}; choose one with `-m`", join_ids(&models)),
        ),
        Err(error) => Verdict::Bad(
            error.to_string(),
            "check the address, the key and the network; then run `tine doctor` again".to_owned(),
        ),
    }
}

/// Compares the context window that the server runs a model with and the one that tine takes
/// it to have.
fn compare_windows(model: &str, window: Option<NonZeroU32>, configured: Option<u32>) -> Verdict {
    let Some(window) = window.map(NonZeroU32::get) else { return Verdict::Good(model.to_owned()) };
    let assumed = configured.map_or(CONTEXT_WINDOW, u64::from);
    match u64::from(window) < assumed {
        true => Verdict::Note(format!(
            "{model}; the server gives it a context window of {window} tokens, but tine assumes \
             {assumed}: set `context_window = {window}` for it in config.toml"
        )),
        false => Verdict::Good(format!("{model}, context window {window}")),
    }
}

/// Looks at the usual ports all at once. A server that is not there is not
/// worth a line of its own.
async fn local_servers() -> Vec<Finding> {
    let probes = LOCAL_SERVERS.iter().map(|(name, port)| async move {
        let url = format!("http://127.0.0.1:{port}/v1");
        let models = probe::served_at(&url, LOCAL_LIMIT).await.ok()?;
        let text = match models.as_slice() {
            [] => format!("{name} at {url}, but it lists no model"),
            [first, ..] => format!(
                "{name} at {url} with {}: `OPENAI_BASE_URL={url} tine -m {} -p …`",
                join_ids(&models),
                first.id
            ),
        };
        Some(Finding { subject: "local server", verdict: Verdict::Good(text) })
    });
    let found: Vec<Finding> = join_all(probes).await.into_iter().flatten().collect();
    if found.is_empty() {
        let names: Vec<String> =
            LOCAL_SERVERS.iter().map(|(name, port)| format!("{name} ({port})")).collect();
        let text = format!("none on the usual ports of {}", names.join(", "));
        return vec![Finding { subject: "local server", verdict: Verdict::Note(text) }];
    }
    found
}

fn join_ids(models: &[AvailableModel]) -> String {
    let ids = models.iter().take(NAMED_MODELS).map(|model| model.id.as_str());
    let mut names = ids.collect::<Vec<_>>().join(", ");
    if models.len() > NAMED_MODELS {
        names.push_str(&format!(" and {} more", models.len() - NAMED_MODELS));
    }
    names
}

fn git(environment: &Environment) -> Verdict {
    let mut command = match start::git_here(environment).command() {
        Ok(command) => command,
        Err(error) => {
            let to_do = "install git; `tine review` needs it".to_owned();
            return Verdict::Bad(error.to_string(), to_do);
        }
    };
    match command.arg("--version").stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {
            let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            let here = start::working_directory(environment).ok();
            match here.and_then(|here| start::repository_root(&here)) {
                Some(root) => Verdict::Good(format!("{version}, repository {}", root.display())),
                None => Verdict::Note(format!("{version}, but this directory is in no repository")),
            }
        }
        Ok(_) | Err(_) => Verdict::Bad(
            "git does not run".to_owned(),
            "install git; `tine review` needs it".to_owned(),
        ),
    }
}

/// Returns one line for each sandbox backend, and one if commands should reach hosts but cannot.
fn sandboxes(
    environment: &Environment,
    config: &Config,
    insisted: Option<Insistence>,
) -> Vec<Finding> {
    let sandbox = sandbox::of(environment, config);
    let is_off = "; but `sandbox.mode` is `off`";
    let [bwrap, landlock] = match insisted.unwrap_or(config.sandbox.mode) {
        Insistence::Off => [is_off; 2],
        Insistence::Required | Insistence::Best => {
            ["; commands run in it", "; commands run in it if bubblewrap is missing"]
        }
    };
    let is_needed = insisted.unwrap_or(config.sandbox.mode) == Insistence::Required
        && sandbox.bwrap().is_err()
        && sandbox.landlock().is_err();
    let missing = |why: String, to_do: &str| match is_needed {
        true => Verdict::Bad(why, to_do.to_owned()),
        false => Verdict::Note(format!("{why}; {to_do}")),
    };
    let bwrap = match sandbox.bwrap() {
        Ok(()) => Verdict::Good(format!("bubblewrap and seccomp hold{bwrap}")),
        Err(why @ NoBwrap::NotInstalled) => {
            missing(why.to_string(), "install the package `bubblewrap`")
        }
        Err(why @ NoBwrap::Fails(_)) => missing(
            why.to_string(),
            "allow unprivileged user namespaces; a container needs leave for them",
        ),
        Err(why @ NoBwrap::DoesNotHold(_)) => {
            missing(why.to_string(), "install the package `bubblewrap` of your distribution anew")
        }
    };
    let landlock = match sandbox.landlock() {
        Ok(version) => {
            Verdict::Good(format!("Landlock (version {version}) and seccomp hold{landlock}"))
        }
        Err(why @ (NoLandlock::NotThere | NoLandlock::TooOld(_))) => missing(
            why.to_string(),
            "it needs Linux 6.2, with `landlock` among the kernel's `lsm=`",
        ),
        Err(why @ NoLandlock::Fails(_)) => {
            missing(why.to_string(), "a container may forbid it; use bubblewrap")
        }
    };
    let hosts = match sandbox.own_network() {
        Err(why) if config.sandbox.network_access().is_proxied() => Some(Verdict::Bad(
            format!("commands reach no hosts ({why})"),
            "allow unprivileged user namespaces, or install the package `bubblewrap`".to_owned(),
        )),
        Ok(()) | Err(_) => None,
    };
    let verdicts = [bwrap, landlock].into_iter().chain(hosts);
    verdicts.map(|verdict| Finding { subject: "sandbox", verdict }).collect()
}

/// Says so if runs have left worktrees behind.
fn worktrees(environment: &Environment) -> Option<Finding> {
    let count = worktree::left_over(environment);
    let are = if count == 1 { "is" } else { "are" };
    let count = (count > 0).then(|| counted(u64::try_from(count).unwrap_or(u64::MAX), "worktree"));
    let text = format!(
        "{} of earlier runs {are} still there; `tine worktree prune` saves what was changed there \
         and removes them",
        count?
    );
    Some(Finding { subject: "worktrees", verdict: Verdict::Note(text) })
}

fn terminal(environment: &Environment) -> Verdict {
    if !io::stderr().is_terminal() {
        return Verdict::Note("no terminal: plain lines instead of a live region".to_owned());
    }
    if environment.ci || environment.is_dumb_terminal {
        return Verdict::Note(
            "CI or a dumb terminal: plain lines instead of a live region".to_owned(),
        );
    }
    let colours = if environment.no_color { "no colours (NO_COLOR)" } else { "colours" };
    Verdict::Good(format!("live region, {colours}"))
}

fn state(environment: &Environment) -> Verdict {
    let Ok(root) = dirs::sessions_root(environment) else {
        return Verdict::Bad(
            "HOME is not set".to_owned(),
            "set HOME, XDG_STATE_HOME or TINE_HOME".to_owned(),
        );
    };
    match is_writable(&root) {
        Ok(()) => Verdict::Good(root.display().to_string()),
        Err(error) => Verdict::Bad(
            format!("cannot write to {}: {error}", root.display()),
            "make it writable, or set TINE_HOME to another directory".to_owned(),
        ),
    }
}

/// Makes a file there and removes it again.
fn is_writable(root: &Path) -> io::Result<()> {
    std::fs::create_dir_all(root)?;
    tempfile::NamedTempFile::new_in(root).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_keeps_its_lines_below_one_another() {
        let what = "unknown key `a`\nhint: did you mean `b`?\u{1b}".to_owned();
        let finding =
            Finding { subject: "configuration", verdict: Verdict::Bad(what, "mend it".to_owned()) };
        assert_eq!(
            finding.to_string(),
            "FAIL  configuration  unknown key `a`\n\
             \x20                    hint: did you mean `b`?\\u{1b}\n\
             \x20                    mend it"
        );
    }
}
