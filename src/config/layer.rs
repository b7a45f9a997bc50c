//! Puts the layers of a configuration over each other.
//!
//! Each layer is a TOML table, walked by hand: so every problem has its line
//! and its whole key, and one pass finds them all. A key is known if its
//! section's function here takes it.

mod entry;
mod executor;
mod flag;
mod sandbox;
mod servers;
mod value;

use std::borrow::Cow;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use entry::Prices;
use flag::{flag_value, key_segments, nested};

use crate::guard::{Mode, Rule, Source};
use crate::hook::{self, Brought, Parsed};
use crate::web::Host;

use super::{
    Bell, CONCURRENT_CAP, Config, ConfigError, DAY, Editing, ForeignSettings, Loaded, Place,
    Problem, Theme, WindowShare, WorktreeEnd, WrittenRule,
};

/// The layers so far.
#[derive(Default)]
pub(super) struct Layers {
    config: Config,
    prices: Prices,
    warnings: Vec<String>,
    problems: Vec<Problem>,
}

impl Layers {
    /// Puts a file over what is there.
    pub(super) fn file(&mut self, path: &Path, text: &str, source: Source) {
        let origin = Origin::File { path, text, source };
        let before = self.problems.len();
        match DeTable::parse(text) {
            Ok(table) => Layer { origin, layers: self }.root(table.get_ref()),
            Err(error) => {
                let place = origin.place(error.span().map_or(0, |span| span.start));
                self.problems.push(Problem::Syntax { place, why: one_line(error.message()) });
            }
        }
        // The walk goes by the alphabet, people read by the line.
        self.problems[before..].sort_by_key(line);
    }

    /// Notes that a file is there but cannot be read.
    pub(super) fn unreadable(&mut self, path: PathBuf, cause: io::Error) {
        self.problems.push(Problem::Unreadable { path, cause });
    }

    /// Puts settings of another shape over what is there.
    pub(super) fn foreign(&mut self, settings: &ForeignSettings) {
        settings.over(&mut self.config);
    }

    /// Puts a `KEY=VALUE` over what is there.
    pub(super) fn flag(&mut self, pair: &str) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(segments) = key_segments(key).filter(|_| pair.contains('=')) else {
            self.problems.push(Problem::BadFlag { key: key.to_owned() });
            return;
        };
        match flag_value(value.trim()) {
            Ok(value) => {
                let mut layer = Layer { origin: Origin::Flag, layers: self };
                layer.root(&nested(segments, value));
            }
            Err(why) => self.problems.push(Problem::Syntax { place: Place::Flag, why }),
        }
    }

    /// Returns the whole configuration.
    pub(super) fn finish(mut self) -> Result<Loaded, ConfigError> {
        self.complete_models();
        self.complete_executor();
        if self.problems.is_empty() {
            Ok(Loaded { config: self.config, warnings: self.warnings })
        } else {
            Err(ConfigError { problems: self.problems })
        }
    }
}

/// What a layer was read from.
#[derive(Clone, Copy)]
enum Origin<'a> {
    File { path: &'a Path, text: &'a str, source: Source },
    Flag,
}

impl<'a> Origin<'a> {
    fn place(self, offset: usize) -> Place {
        match self {
            Self::File { path, text, source: _ } => {
                let before = &text.as_bytes()[..offset.min(text.len())];
                let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
                Place::File { path: path.to_owned(), line }
            }
            Self::Flag => Place::Flag,
        }
    }

    fn source(self) -> Source {
        match self {
            Self::File { source, .. } => source,
            Self::Flag => Source::Flag,
        }
    }

    /// Returns the root of the repository that has brought it along, if one has.
    fn repository(self) -> Option<&'a Path> {
        match self {
            Self::File { path, source: Source::Project, .. } => path.ancestors().nth(2),
            Self::File { .. } | Self::Flag => None,
        }
    }
}

/// One layer on its way over the others.
struct Layer<'a> {
    origin: Origin<'a>,
    layers: &'a mut Layers,
}

/// A value and where it stands.
struct Setting<'a> {
    /// The segments of its key.
    key: Vec<&'a str>,
    /// Where its key starts.
    offset: usize,
    value: &'a DeValue<'a>,
}

impl<'a> Setting<'a> {
    fn of(
        above: &[&'a str],
        key: &'a Spanned<Cow<'_, str>>,
        value: &'a Spanned<DeValue<'_>>,
    ) -> Self {
        let mut segments = above.to_vec();
        segments.push(key.get_ref());
        Self { key: segments, offset: key.span().start, value: value.get_ref() }
    }

    fn name(&self) -> &'a str {
        self.key.last().expect("a key has at least one segment")
    }
}

impl Layer<'_> {
    fn root(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            let setting = Setting::of(&[], key, value);
            match setting.name() {
                "model" => {
                    if let Some(name) = self.text(&setting) {
                        self.layers.config.model = Some(name);
                    }
                }
                "models" => self.each(&setting, Self::model),
                "agents" => self.each(&setting, Self::agents),
                "background" => self.each(&setting, Self::background),
                "permissions" => self.each(&setting, Self::permissions),
                "sandbox" => self.each(&setting, Self::sandbox),
                "session" => self.each(&setting, Self::session),
                "retry" => self.each(&setting, Self::retry),
                "chat" => self.each(&setting, Self::chat),
                "web" => self.each(&setting, Self::web),
                "executor" => self.each(&setting, Self::executor),
                "hooks" => self.hooks(&setting),
                "mcp" => self.each(&setting, Self::mcp),
                _ => self.unknown(&setting),
            }
        }
    }

    /// Hooks of a later layer come in addition.
    fn hooks(&mut self, setting: &Setting<'_>) {
        let Some(value) = self.json(setting) else { return };
        match hook::parse(&value, Brought::ForTine) {
            Ok(Parsed { hooks, unknown: _ }) => {
                let root = self.origin.repository();
                let hooks = hooks.into_iter().map(|hook| match root {
                    Some(root) => hook.brought_by(root),
                    None => hook,
                });
                self.layers.config.hooks.extend(hooks);
            }
            Err(why) => self.bad(setting, why),
        }
    }

    fn agents(&mut self, setting: &Setting<'_>) {
        match setting.name() {
            "max_concurrent" => {
                if let Some(asked) = self.integer(setting) {
                    self.layers.config.agents.max_concurrent = self.concurrent(asked);
                }
            }
            "max_depth" => {
                if let Some(depth) = self.number(setting, 0, u32::MAX) {
                    self.layers.config.agents.max_depth = depth;
                }
            }
            "max_turns" => {
                if let Some(turns) = self.number(setting, 1, u32::MAX) {
                    self.layers.config.agents.max_turns = turns;
                }
            }
            "timeout_s" => {
                if let Some(seconds) = self.number(setting, 0, u32::MAX) {
                    let timeout = Duration::from_secs(seconds.into());
                    self.layers.config.agents.timeout = (seconds > 0).then_some(timeout);
                }
            }
            "confirm_above" => {
                if let Some(most) = self.number(setting, 0, u32::MAX) {
                    let most = usize::try_from(most).unwrap_or(usize::MAX);
                    self.layers.config.agents.confirm_above = NonZeroUsize::new(most);
                }
            }
            "worktree" => {
                let names = [WorktreeEnd::Apply, WorktreeEnd::Keep].map(WorktreeEnd::as_str);
                if let Some(end) = self.one_of(setting, WorktreeEnd::from_name, &names) {
                    self.layers.config.agents.worktree = end;
                }
            }
            "prime_ms" => {
                if let Some(most) = self.number(setting, 0, u32::MAX) {
                    self.layers.config.agents.prime = Duration::from_millis(most.into());
                }
            }
            _ => self.unknown(setting),
        }
    }

    fn background(&mut self, setting: &Setting<'_>) {
        match setting.name() {
            "wait_s" => {
                if let Some(seconds) = self.number(setting, 0, u32::MAX) {
                    self.layers.config.background.wait = Duration::from_secs(seconds.into());
                }
            }
            _ => self.unknown(setting),
        }
    }

    /// A number of units that is possible, with a warning if another one was
    /// asked for.
    fn concurrent(&mut self, asked: i64) -> NonZeroUsize {
        let most = NonZeroUsize::new(CONCURRENT_CAP).expect("the cap is not 0");
        let possible = match usize::try_from(asked).ok().and_then(NonZeroUsize::new) {
            Some(count) => count.min(most),
            None if asked > 0 => most,
            None => NonZeroUsize::MIN,
        };
        if i64::try_from(possible.get()) != Ok(asked) {
            let warning = format!("`agents.max_concurrent` is {asked}; {possible} is used instead");
            self.layers.warnings.push(warning);
        }
        possible
    }

    fn permissions(&mut self, setting: &Setting<'_>) {
        match setting.name() {
            "mode" => {
                let names = Mode::ALL.map(Mode::as_str);
                if let Some(mode) = self.one_of(setting, Mode::from_name, &names) {
                    self.layers.config.permissions.mode = mode;
                }
            }
            "allow" => {
                let rules = self.rules(setting);
                self.layers.config.permissions.allow.extend(rules);
            }
            "ask" => {
                let rules = self.rules(setting);
                self.layers.config.permissions.ask.extend(rules);
            }
            "deny" => {
                let rules = self.rules(setting);
                self.layers.config.permissions.deny.extend(rules);
            }
            _ => self.unknown(setting),
        }
    }

    /// Texts that are rules, each of which can be read. They are parsed again
    /// where home is known. They come to those of earlier layers: no layer
    /// takes back what another one denies.
    fn rules(&mut self, setting: &Setting<'_>) -> Vec<WrittenRule> {
        let texts = self.texts(setting).unwrap_or_default();
        for error in texts.iter().filter_map(|rule| Rule::parse(rule, None).err()) {
            self.bad(setting, error.to_string());
        }
        let source = self.origin.source();
        texts.into_iter().map(|text| WrittenRule { text, source }).collect()
    }

    fn session(&mut self, setting: &Setting<'_>) {
        match setting.name() {
            "persist" => {
                if let Some(persist) = self.truth(setting) {
                    self.layers.config.session.persist = persist;
                }
            }
            "max_age_days" => {
                if let Some(days) = self.number(setting, 0, u32::MAX) {
                    self.layers.config.session.max_age = (days > 0).then_some(DAY * days);
                }
            }
            "compact_at" => {
                if let Some(share) = self.share_or_never(setting) {
                    self.layers.config.session.compact_at = share;
                }
            }
            _ => self.unknown(setting),
        }
    }

    fn retry(&mut self, setting: &Setting<'_>) {
        match setting.name() {
            "most" => {
                if let Some(most) = self.number(setting, 0, u32::MAX) {
                    self.layers.config.retry.most = most;
                }
            }
            "base_ms" => {
                if let Some(base) = self.number(setting, 0, u32::MAX) {
                    self.layers.config.retry.base = Duration::from_millis(base.into());
                }
            }
            _ => self.unknown(setting),
        }
    }

    fn chat(&mut self, setting: &Setting<'_>) {
        match setting.name() {
            "editing" => {
                let names = Editing::ALL.map(Editing::as_str);
                if let Some(editing) = self.one_of(setting, Editing::from_name, &names) {
                    self.layers.config.chat.editing = editing;
                }
            }
            "theme" => {
                let names = Theme::ALL.map(Theme::as_str);
                if let Some(theme) = self.one_of(setting, Theme::from_name, &names) {
                    self.layers.config.chat.theme = theme;
                }
            }
            "bell" => {
                let names = Bell::ALL.map(Bell::as_str);
                if let Some(bell) = self.one_of(setting, Bell::from_name, &names) {
                    self.layers.config.chat.bell = bell;
                }
            }
            "bell_after_s" => {
                if let Some(seconds) = self.number(setting, 0, u32::MAX) {
                    self.layers.config.chat.bell_after = Duration::from_secs(seconds.into());
                }
            }
            "title" => {
                if let Some(title) = self.truth(setting) {
                    self.layers.config.chat.title = title;
                }
            }
            "screen_reader" => {
                if let Some(plain) = self.truth(setting) {
                    self.layers.config.chat.screen_reader = plain;
                }
            }
            _ => self.unknown(setting),
        }
    }

    /// Hosts that may be fetched from wherever they are: whoever is on this
    /// machine or in its network is only the user's to name.
    fn web(&mut self, setting: &Setting<'_>) {
        match setting.name() {
            "allow_hosts" if self.origin.source() == Source::Project => {
                self.bad(setting, "only your own configuration may set it".to_owned());
            }
            "allow_hosts" => {
                let texts = self.texts(setting).unwrap_or_default();
                let (hosts, others): (Vec<_>, Vec<_>) = texts
                    .iter()
                    .map(|text| (Host::parse(text), text))
                    .partition(|it| it.0.is_some());
                if let Some((_, other)) = others.first() {
                    self.bad(setting, format!("`{other}` is no `HOST` or `HOST:PORT`"));
                }
                self.layers.config.web.allow_hosts =
                    hosts.into_iter().filter_map(|(host, _)| host).collect();
            }
            _ => self.unknown(setting),
        }
    }

    /// A share of a context window; 0 is never.
    fn share_or_never(&mut self, setting: &Setting<'_>) -> Option<Option<WindowShare>> {
        let number = self.fraction(setting)?;
        let share = WindowShare::new(number);
        if share.is_none() && number != 0.0 {
            let (least, most) = (WindowShare::LEAST, WindowShare::MOST);
            self.bad(setting, format!("it must be from {least} to {most}, or 0 for never"));
            return None;
        }
        Some(share)
    }

    fn each(&mut self, setting: &Setting<'_>, set: fn(&mut Self, &Setting<'_>)) {
        let Some(table) = setting.value.as_table() else {
            self.wrong_type(setting, "a table");
            return;
        };
        for (key, value) in table {
            set(self, &Setting::of(&setting.key, key, value));
        }
    }
}

/// Returns the key as one would write it.
fn dotted(segments: &[&str]) -> String {
    let is_bare = |segment: &str| {
        !segment.is_empty()
            && segment.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    };
    let quoted = segments
        .iter()
        .map(|&segment| if is_bare(segment) { segment.to_owned() } else { format!("{segment:?}") });
    quoted.collect::<Vec<_>>().join(".")
}

fn one_line(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join("; ")
}

fn line(problem: &Problem) -> usize {
    match problem {
        Problem::UnknownKey { place, .. }
        | Problem::WrongType { place, .. }
        | Problem::BadValue { place, .. }
        | Problem::Syntax { place, .. } => match place {
            Place::File { path: _, line } => *line,
            Place::Flag => 0,
        },
        Problem::Missing { .. } | Problem::BadFlag { .. } | Problem::Unreadable { .. } => 0,
    }
}
