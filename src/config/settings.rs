//! Writing to the user's configuration: the rules that were granted for good,
//! and the model that was chosen.
//!
//! The file is theirs: comments, order and layout stay. A file that is not
//! understood is left alone. It is replaced as a whole, so that whoever reads
//! it meanwhile has the old one or the new one, and two writers wait for each
//! other. A link leads to the file that is written; it stays a link.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::num::NonZeroU32;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use thiserror::Error;
use toml_edit::{Array, DocumentMut, Item, RawString, Table, TableLike, Value};

use super::{Environment, dirs, read_file};
use crate::guard::Rule;
use crate::real_path;

/// How long another writer may take. One takes some milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often it is looked whether the other one is done.
const LOOK: Duration = Duration::from_millis(10);

/// Stands before a rule on a line of its own where no other shows how.
const INDENT: &str = "    ";

/// What became of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// It is in this file from now on.
    Added(PathBuf),
    /// It was in this file already.
    WasThere(PathBuf),
}

/// Why a rule was not written.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// There is no place for settings.
    #[error("there is no home directory")]
    NoHome,
    /// The file is there, but it is not what it should be.
    #[error("{} is left as it is: {why}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It cannot be read or written.
    #[error("cannot write {}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// Allows calls from now on: adds a rule to `permissions.allow` of the user's
/// configuration, which is made if there is none.
///
/// This waits for the disk, and for other writers.
///
/// # Errors
///
/// The file cannot be read, understood or written; then it is as it was.
pub fn allow(environment: &Environment, rule: &Rule) -> Result<Kept, SettingsError> {
    let (path, is_changed) = change(environment, |text| with_rule(text, &rule.to_string()))?;
    Ok(if is_changed { Kept::Added(path) } else { Kept::WasThere(path) })
}

/// A server's model, for a table of its own under `[models]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewModel<'a> {
    /// What it is called on the server.
    pub model: &'a str,
    /// The server.
    pub server: NewServer<'a>,
    /// The context window in tokens that the server names; `None` leaves it out.
    pub context_window: Option<NonZeroU32>,
}

/// The server of a [`NewModel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewServer<'a> {
    /// That of a preset.
    Preset(&'a str),
    /// One that no preset knows.
    Address {
        /// Where it is.
        base_url: &'a str,
        /// The variable that holds the key; `None` if it needs none.
        key_env: Option<&'a str>,
    },
}

/// Makes a model the one that answers where none is named: sets `model` in the
/// user's configuration, and adds its table where it needs one. Returns the
/// file, which is made if there is none.
///
/// This waits for the disk, and for other writers.
///
/// # Errors
///
/// The file cannot be read, understood or written, or a table with this name
/// says something else; then it is as it was.
pub fn choose_model(
    environment: &Environment,
    name: &str,
    new: Option<&NewModel<'_>>,
) -> Result<PathBuf, SettingsError> {
    change(environment, |text| with_model(text, name, new)).map(|(path, _)| path)
}

/// Replaces the user's configuration by what is made of it, and says whether
/// that is anything else.
fn change(
    environment: &Environment,
    changed: impl FnOnce(&str) -> Result<Option<String>, String>,
) -> Result<(PathBuf, bool), SettingsError> {
    let path = dirs::config_file(environment).ok_or(SettingsError::NoHome)?;
    let io = |source| SettingsError::Io { path: path.clone(), source };
    let file = locate(&path).map_err(io)?;
    let directory = file.parent().unwrap_or(Path::new("/"));
    let _lock = lock(directory).map_err(io)?;
    let text = read_file(&file).map_err(io)?.unwrap_or_default();
    let changed =
        changed(&text).map_err(|why| SettingsError::Malformed { path: path.clone(), why })?;
    if let Some(text) = &changed {
        replace(&file, directory, text).map_err(io)?;
    }
    Ok((path, changed.is_some()))
}

/// Returns where a file really is. What is missing of its directory is made,
/// for the user alone.
fn locate(path: &Path) -> io::Result<PathBuf> {
    let file = real_path::locate(path)?;
    let directory = file.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    Ok(file)
}

/// Keeps other writers out of a directory for as long as the value lives.
fn lock(directory: &Path) -> io::Result<Flock<File>> {
    let mut file = File::open(directory)?;
    let mut waited = Duration::ZERO;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((unlocked, Errno::EWOULDBLOCK)) if waited < PATIENCE => file = unlocked,
            Err((_, error)) => return Err(error.into()),
        }
        sleep(LOOK);
        waited += LOOK;
    }
}

/// Returns the text with a rule more; `None` if it holds the rule already.
///
/// # Errors
///
/// What is wrong with the text.
fn with_rule(text: &str, rule: &str) -> Result<Option<String>, String> {
    let mut document = parse(text)?;
    let Some(permissions) = document.get_mut("permissions") else {
        // Behind all that is there, comments at its end too.
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return Ok(Some(format!("{text}{gap}[permissions]\nallow = [{}]\n", Value::from(rule))));
    };
    let permissions = permissions.as_table_like_mut().ok_or("`permissions` is no table")?;
    let allow = rules_in(permissions)?;
    if allow.iter().any(|known| known.as_str() == Some(rule)) {
        return Ok(None);
    }
    push(allow, rule);
    Ok(Some(document.to_string()))
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: toml_edit::TomlError| error.message().replace('\n', "; "))
}

/// Returns the text with another model chosen; `None` if it is chosen already.
///
/// # Errors
///
/// What is wrong with the text, or with choosing this model in it.
fn with_model(
    text: &str,
    name: &str,
    new: Option<&NewModel<'_>>,
) -> Result<Option<String>, String> {
    let mut document = parse(text)?;
    let mut is_changed = false;
    if let Some(new) = new {
        is_changed = add_model(&mut document, name, new)?;
    }
    match document.get_mut("model").map(|item| item.as_value_mut().ok_or("`model` is no name")) {
        Some(chosen) => {
            let chosen = chosen?;
            if chosen.as_str() != Some(name) {
                let decor = chosen.decor().clone();
                *chosen = Value::from(name);
                *chosen.decor_mut() = decor;
                is_changed = true;
            }
            Ok(is_changed.then(|| document.to_string()))
        }
        // Before all tables, above what is said about the first of them.
        None => {
            let rest = document.to_string();
            let gap = if rest.is_empty() || rest.starts_with('\n') { "" } else { "\n" };
            Ok(Some(format!("model = {}\n{gap}{rest}", Value::from(name))))
        }
    }
}

/// Adds the table of a model. Says whether it was missing.
fn add_model(document: &mut DocumentMut, name: &str, new: &NewModel<'_>) -> Result<bool, String> {
    let NewModel { model, server, context_window } = *new;
    let (preset, base_url, key_env) = match server {
        NewServer::Preset(preset) => (Some(preset), None, None),
        NewServer::Address { base_url, key_env } => (None, Some(base_url), key_env),
    };
    let models = document.entry("models").or_insert_with(|| {
        let mut models = Table::new();
        models.set_implicit(true);
        Item::Table(models)
    });
    let models = models.as_table_like_mut().ok_or("`models` is no table")?;
    let keys =
        [("preset", preset), ("base_url", base_url), ("model", Some(model)), ("key_env", key_env)];
    if let Some(known) = models.get(name) {
        let known = known.as_table_like().ok_or_else(|| format!("`models.{name}` is no table"))?;
        let is_same = |(key, value): (&str, Option<&str>)| {
            known.get(key).map(Item::as_str) == value.map(Some)
        };
        return match keys.into_iter().all(is_same) {
            true => Ok(false),
            false => Err(format!("`models.{name}` is there already and says something else")),
        };
    }
    let mut table = Table::new();
    for (key, value) in keys {
        if let Some(value) = value {
            table.insert(key, toml_edit::value(value));
        }
    }
    if let Some(window) = context_window {
        table.insert("context_window", toml_edit::value(i64::from(window.get())));
    }
    models.insert(name, Item::Table(table));
    Ok(true)
}

fn rules_in(permissions: &mut dyn TableLike) -> Result<&mut Array, &'static str> {
    let allow = permissions.entry("allow").or_insert_with(|| Item::from(Array::new()));
    allow.as_array_mut().ok_or("`permissions.allow` is no array")
}

/// Adds a rule as the others stand: each on a line of its own, or in a row.
///
/// What stands behind the last one, up to the end of its line, stays there: it
/// may be a comment.
fn push(allow: &mut Array, rule: &str) {
    let text = |raw: Option<&RawString>| raw.and_then(RawString::as_str).unwrap_or("").to_owned();
    let end = text(Some(allow.trailing()));
    let new = Value::from(rule);
    let Some(last) = allow.len().checked_sub(1).and_then(|index| allow.get_mut(index)) else {
        let indent = indent_of(&end).unwrap_or(INDENT).to_owned();
        let Some((before, _)) = end.rsplit_once('\n') else {
            allow.push_formatted(new.decorated(&end, ""));
            return;
        };
        allow.push_formatted(new.decorated(format!("{before}\n{indent}"), ""));
        allow.set_trailing("\n");
        allow.set_trailing_comma(true);
        return;
    };
    let before = text(last.decor().prefix());
    // Without a comma behind it, what follows is its own.
    let end = text(last.decor().suffix()) + &end;
    last.decor_mut().set_suffix("");
    let (own, rest) = end.find(['\r', '\n']).map_or(("", &*end), |at| end.split_at(at));
    let prefix = match (before.rsplit_once('\n'), own.contains('#')) {
        (Some((_, indent)), _) => format!("{own}\n{indent}"),
        // No comma can stand behind a comment.
        (None, true) => format!("{own}\n{INDENT}"),
        (None, false) => " ".to_owned(),
    };
    allow.push_formatted(new.decorated(prefix, ""));
    allow.set_trailing(rest);
}

/// Returns what stands before the first comment of some lines.
fn indent_of(lines: &str) -> Option<&str> {
    let line = lines.lines().skip(1).find(|line| line.contains('#'))?;
    line.split('#').next()
}

fn replace(file: &Path, directory: &Path, text: &str) -> io::Result<()> {
    let mode = match fs::metadata(file) {
        Ok(metadata) => metadata.permissions().mode() & 0o777,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0o600,
        Err(error) => return Err(error),
    };
    let mut new = tempfile::Builder::new().prefix(".config-").tempfile_in(directory)?;
    new.write_all(text.as_bytes())?;
    new.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    new.as_file().sync_all()?;
    new.persist(file).map_err(|error| error.error)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[track_caller]
    fn check(before: &str, after: Result<Option<&str>, &str>) {
        let written = with_rule(before, "Bash(make)");
        assert_eq!(written, after.map(|text| text.map(str::to_owned)).map_err(str::to_owned));
    }

    #[test]
    fn a_rule_comes_to_the_others_and_all_else_stays() {
        check("", Ok(Some("[permissions]\nallow = [\"Bash(make)\"]\n")));
        check(
            "# mine\nmodel = 'a' # best\n\n[permissions]\n# rules\nallow = [ \"Read\" ] # few\n\n[agents]\n",
            Ok(Some(
                "# mine\nmodel = 'a' # best\n\n[permissions]\n# rules\nallow = [ \"Read\", \"Bash(make)\" ] # few\n\n[agents]\n",
            )),
        );
        check(
            "[permissions]\nallow = [\n    # reads\n    \"Read\", # all\n    \"Edit(a)\",\n    # end\n]\n",
            Ok(Some(
                "[permissions]\nallow = [\n    # reads\n    \"Read\", # all\n    \"Edit(a)\",\n    \"Bash(make)\",\n    # end\n]\n",
            )),
        );
        check("permissions.allow = []\n", Ok(Some("permissions.allow = [\"Bash(make)\"]\n")));
        check(
            "permissions = { mode = \"plan\" }\n",
            Ok(Some("permissions = { mode = \"plan\" , allow = [\"Bash(make)\"] }\n")),
        );
        check("permissions.allow = ['Bash(make)']", Ok(None));
    }

    #[track_caller]
    fn check_array(before: &str, after: &str) {
        let within = |array: &str| format!("[permissions]\nallow = {array} # mine\n");
        check(&within(before), Ok(Some(&within(after))));
        let again: DocumentMut = within(after).parse().unwrap();
        let rules = again["permissions"]["allow"].as_array().unwrap();
        assert_eq!(rules.iter().last().unwrap().as_str(), Some("Bash(make)"));
    }

    #[test]
    fn a_comment_stays_with_its_rule() {
        check_array("[\n  \"a\", # why\n]", "[\n  \"a\", # why\n  \"Bash(make)\",\n]");
        check_array(
            "[\n  \"a\", # why\n  \"b\", # or\n  # end\n]",
            "[\n  \"a\", # why\n  \"b\", # or\n  \"Bash(make)\",\n  # end\n]",
        );
        check_array(
            "[\n  \"a\",\n  \"b\" # why\n  # end\n]",
            "[\n  \"a\",\n  \"b\", # why\n  \"Bash(make)\"\n  # end\n]",
        );
        check_array("[\n  # why\n  \"a\"\n]", "[\n  # why\n  \"a\",\n  \"Bash(make)\"\n]");
        check_array("[\"a\", \"b\", # why\n]", "[\"a\", \"b\", # why\n    \"Bash(make)\",\n]");
        check_array("[\"a\", # why\n \"b\"]", "[\"a\", # why\n \"b\",\n \"Bash(make)\"]");
    }

    #[test]
    fn a_row_stays_a_row_and_an_empty_list_keeps_its_comment() {
        check_array("[\"a\"]", "[\"a\", \"Bash(make)\"]");
        check_array("[\"a\", ]", "[\"a\", \"Bash(make)\", ]");
        check_array("[ \"a\", \"b\" ]", "[ \"a\", \"b\", \"Bash(make)\" ]");
        check_array("[\n  \"a\", \"b\"\n]", "[\n  \"a\", \"b\", \"Bash(make)\"\n]");
        check_array("[ ]", "[ \"Bash(make)\" ]");
        check_array("[\n]", "[\n    \"Bash(make)\",\n]");
        check_array("[\n  # none\n]", "[\n  # none\n  \"Bash(make)\",\n]");
        check_array("[ # none\n]", "[ # none\n    \"Bash(make)\",\n]");
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        check("permissions = 1", Err("`permissions` is no table"));
        check("permissions.allow = 'Read'", Err("`permissions.allow` is no array"));
        assert!(with_rule("[permissions\n", "Read").is_err());
    }

    #[track_caller]
    fn check_model(before: &str, new: Option<&NewModel<'_>>, after: Result<Option<&str>, &str>) {
        let written = with_model(before, "qwen3", new);
        assert_eq!(written, after.map(|text| text.map(str::to_owned)).map_err(str::to_owned));
    }

    #[test]
    fn a_model_is_chosen_and_all_else_stays() {
        check_model("", None, Ok(Some("model = \"qwen3\"\n")));
        check_model("model = 'qwen3' # best\n", None, Ok(None));
        check_model(
            "# mine\nmodel = 'a' # best\n\n[agents]\n",
            None,
            Ok(Some("# mine\nmodel = \"qwen3\" # best\n\n[agents]\n")),
        );
        check_model(
            "# few\n[agents]\nmax_depth = 1\n",
            None,
            Ok(Some("model = \"qwen3\"\n\n# few\n[agents]\nmax_depth = 1\n")),
        );
        check_model("model = ['a']", None, Ok(Some("model = \"qwen3\"\n")));
        check_model("[model]", None, Err("`model` is no name"));
    }

    #[test]
    fn a_servers_model_gets_a_table_of_its_own() {
        let server = NewServer::Address { base_url: "http://box/v1", key_env: Some("BOX_KEY") };
        let new = NewModel { model: "qwen3", server, context_window: None };
        let table = "[models.qwen3]\nbase_url = \"http://box/v1\"\nmodel = \"qwen3\"\nkey_env = \"BOX_KEY\"\n";
        let chosen = format!("model = \"qwen3\"\n\n{table}");
        check_model("model = 'a'\n", Some(&new), Ok(Some(&chosen)));
        check_model(&chosen, Some(&new), Ok(None));
        let server = NewServer::Address { base_url: "http://box/v1", key_env: None };
        let open = NewModel { server, ..new };
        let why = "`models.qwen3` is there already and says something else";
        check_model(&chosen, Some(&open), Err(why));
        check_model("models = 1", Some(&new), Err("`models` is no table"));
        let other = "[models.a]\npreset = \"groq\"\n\n[agents]\n";
        let after =
            format!("model = \"qwen3\"\n\n[models.a]\npreset = \"groq\"\n\n{table}\n[agents]\n");
        check_model(other, Some(&new), Ok(Some(&after)));
    }

    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn allow(&self, rule: &str) -> Result<Kept, SettingsError> {
            let environment = Environment::from_variables([("TINE_HOME", self.path("tine"))]);
            allow(&environment, &rule.parse().unwrap())
        }
    }

    #[test]
    fn a_file_is_made_for_the_user_alone_and_written_once() {
        let home = Home::new();
        let file = home.path("tine/config.toml");
        assert_eq!(home.allow("Bash(make)").unwrap(), Kept::Added(file.clone()));
        assert_eq!(home.allow("Bash(make)").unwrap(), Kept::WasThere(file.clone()));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(&home.path("tine"))), (0o600, 0o700));
        assert_eq!(fs::read_to_string(&file).unwrap(), "[permissions]\nallow = [\"Bash(make)\"]\n");
        assert_eq!(fs::read_dir(home.path("tine")).unwrap().count(), 1);
    }

    #[test]
    fn a_broken_file_stays_and_says_why() {
        let home = Home::new();
        let file = home.path("tine/config.toml");
        fs::create_dir(home.path("tine")).unwrap();
        fs::write(&file, "[permissions\n").unwrap();
        let error = home.allow("Read").unwrap_err().to_string();
        assert!(error.contains("is left as it is"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "[permissions\n");
    }

    #[test]
    fn a_link_is_written_through_and_the_mode_kept() {
        let home = Home::new();
        fs::create_dir(home.path("tine")).unwrap();
        fs::create_dir(home.path("dots")).unwrap();
        fs::write(home.path("dots/tine.toml"), "# dots\n").unwrap();
        fs::set_permissions(home.path("dots/tine.toml"), fs::Permissions::from_mode(0o640))
            .unwrap();
        symlink("../dots/tine.toml", home.path("tine/config.toml")).unwrap();
        home.allow("Read").unwrap();
        assert!(home.path("tine/config.toml").symlink_metadata().unwrap().is_symlink());
        let text = fs::read_to_string(home.path("dots/tine.toml")).unwrap();
        assert_eq!(text, "# dots\n[permissions]\nallow = [\"Read\"]\n");
        let mode = fs::metadata(home.path("dots/tine.toml")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn many_writers_lose_nothing() {
        let home = Home::new();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let home = &home;
                scope.spawn(move || home.allow(&format!("Bash(make {number})")).unwrap());
            }
        });
        let text = fs::read_to_string(home.path("tine/config.toml")).unwrap();
        assert!((0..8).all(|number| text.contains(&format!("\"Bash(make {number})\""))), "{text}");
    }
}
