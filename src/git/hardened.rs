//! What our own git calls turn off: every setting that makes git run a program,
//! ask somebody, reach a network or look elsewhere. Variables that would do so
//! are not inherited: see `program`.
//!
//! One list for all calls. Flags that only some commands know (`--no-ext-diff`,
//! `--no-textconv`) stand with those.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::process::Command;

/// Most settings that are turned off for drivers. They travel in the
/// environment, which the kernel bounds; nobody has this many drivers.
const DRIVERS_CAP: usize = 400;

/// A setting's name and the value that turns it off.
pub(super) type Setting = (OsString, &'static str);

/// Settings that name programs, or make git run them, or name files of which git shows
/// lines, and what turns each off.
pub(crate) const PROGRAMS: [(&str, &str); 20] = [
    ("core.fsmonitor", ""),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.sshCommand", "false"),
    ("core.askPass", ""),
    ("core.alternateRefsCommand", "false"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("commit.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("protocol.allow", "never"),
    ("submodule.recurse", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // Lines with an address in them appear as the names of authors.
    ("mailmap.file", ""),
    // Git stops where an empty name is given: an empty file sets no order.
    ("diff.orderFile", "/dev/null"),
];

/// What else our own calls set.
const OWN: [(&str, &str); 6] = [
    // What would write beside an index of our own, or into it.
    ("core.splitIndex", "false"),
    ("core.untrackedCache", "false"),
    // What would change the words that are read here.
    ("core.quotePath", "false"),
    ("merge.conflictStyle", "merge"),
    ("diff.noprefix", "false"),
    // What would refuse to hash a file for its line ends.
    ("core.safecrlf", "false"),
];

/// Turns everything off for one call.
pub(super) fn harden(command: &mut Command, drivers: &[Setting]) {
    command
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        // A partial clone would fetch what it misses, with the repository's
        // own idea of how.
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        // What we commit is nobody's work; whose it is, nobody has to say.
        .env("GIT_AUTHOR_NAME", "tine")
        .env("GIT_AUTHOR_EMAIL", "tine@localhost")
        .env("GIT_COMMITTER_NAME", "tine")
        .env("GIT_COMMITTER_EMAIL", "tine@localhost")
        // The errors are told apart by their words.
        .env("LC_ALL", "C");
    // As variables, not as `-c`: there a driver's name that holds a `=` would
    // end the setting's name early and stay in force.
    let settings = PROGRAMS.iter().chain(&OWN).map(|&(name, value)| (OsStr::new(name), value));
    let drivers = drivers.iter().map(|(name, value)| (name.as_os_str(), *value));
    let mut count = 0;
    for (name, value) in settings.chain(drivers) {
        command.env(format!("GIT_CONFIG_KEY_{count}"), name);
        command.env(format!("GIT_CONFIG_VALUE_{count}"), value);
        count += 1;
    }
    command.env("GIT_CONFIG_COUNT", count.to_string());
}

/// Returns what turns off every filter driver and every hook of a name of its
/// own in the listed settings.
///
/// The error says that there are too many.
pub(super) fn drivers(listed: &[u8]) -> Result<Vec<Setting>, String> {
    let filter = [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")];
    let hook = [("enabled", "false"), ("command", "true")];
    let mut settings = off(listed, "filter.", &filter);
    settings.extend(off(listed, "hook.", &hook));
    if settings.len() > DRIVERS_CAP {
        return Err(format!("the configuration has over {DRIVERS_CAP} settings of drivers"));
    }
    Ok(settings)
}

/// Returns the names of a section's drivers in the listed settings.
pub(super) fn names<'a>(listed: &'a [u8], section: &str) -> BTreeSet<&'a [u8]> {
    listed
        .split(|&byte| byte == 0)
        .filter_map(|name| {
            let driver = name.strip_prefix(section.as_bytes())?;
            let dot = driver.iter().rposition(|&byte| byte == b'.')?;
            Some(&driver[..dot])
        })
        .collect()
}

fn off(listed: &[u8], section: &str, keys: &[(&str, &'static str)]) -> Vec<Setting> {
    names(listed, section)
        .into_iter()
        .flat_map(|driver| keys.iter().map(move |&(key, value)| (driver, key, value)))
        .map(|(driver, key, value)| {
            let name = [section.as_bytes(), driver, b".", key.as_bytes()].concat();
            (OsString::from_vec(name), value)
        })
        .collect()
}
