//! Reviews: a change cut into territories, what is found in them, and what each
//! reviewer was shown of them.
//!
//! Nothing here asks a model, reads a file or waits. A [`Plan`] is made of a diff
//! before anything runs; an [`Outcome`] is a fold over the plan and the events of
//! a session, so all that a report says can be found in the log. Who runs the
//! reviewers is a flow's business, how a report looks is `report::review`'s.

mod change;
mod coverage;
mod finding;
mod generated;
mod ground;
mod merge;
mod outcome;
mod role;
mod shown;
mod territories;
#[cfg(test)]
pub(crate) mod testing;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::git;

pub use change::{Aside, Changed, File, Hunk, HunkId, LINE_CAP, Why};
pub use coverage::{Coverage, Missing, Reviewer};
pub use finding::{
    Claim, FINDINGS_PER_REVIEWER_CAP, Ruling, Severity, Verdict, claims, findings_schema, ruling,
    verdict_schema,
};
pub use ground::Ground;
pub use merge::{FINDINGS_CAP, Finding, FindingId};
pub use outcome::{Judged, Outcome, VERIFIERS_CAP, Verified};
pub use role::Role;
pub use territories::{TERRITORY_CAP, Territory};

/// From what side a reviewer looks at a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Angle {
    /// Whether it does what it sets out to do.
    Correctness,
    /// What somebody can do with it who is not meant to.
    Security,
    /// Whether its tests would fail if it were wrong.
    Tests,
    /// What it costs.
    Performance,
    /// Whether the next person understands it.
    Clarity,
    /// Correctness and security of what nobody had read.
    Again,
}

impl Angle {
    /// Every angle, in the order of reports.
    pub const ALL: [Self; 6] = [
        Self::Correctness,
        Self::Security,
        Self::Tests,
        Self::Performance,
        Self::Clarity,
        Self::Again,
    ];

    /// Returns the name of its step and its rule.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Correctness => "correctness",
            Self::Security => "security",
            Self::Tests => "tests",
            Self::Performance => "performance",
            Self::Clarity => "clarity",
            Self::Again => "again",
        }
    }

    /// Tells whether nobody can judge code from this side by its diff alone.
    ///
    /// Who calls a function, where a value comes from and what tests there are
    /// stands elsewhere; what a loop costs or a name says may well stand there.
    #[must_use]
    pub fn needs_a_look(self) -> bool {
        match self {
            Self::Correctness | Self::Security | Self::Tests | Self::Again => true,
            Self::Performance | Self::Clarity => false,
        }
    }
}

/// How much a review may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effort {
    /// Two angles, and only the worst findings are verified.
    Low,
    /// Five angles; every finding is verified.
    #[default]
    Medium,
    /// The same over smaller territories.
    High,
}

impl Effort {
    /// Every effort, the least first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// Returns the name of the flag's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// Reads a name written by [`Effort::as_str`].
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.as_str() == name)
    }

    /// Returns the angles of the first look.
    #[must_use]
    pub fn angles(self) -> &'static [Angle] {
        match self {
            Self::Low => &Angle::ALL[..2],
            Self::Medium | Self::High => &Angle::ALL[..5],
        }
    }

    /// Tells whether a finding of this severity gets a verifier.
    #[must_use]
    pub fn verifies(self, severity: Severity) -> bool {
        match self {
            Self::Low => severity == Severity::High,
            Self::Medium | Self::High => true,
        }
    }
}

/// What is to be reviewed, and by whom.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What the change is, in one line.
    pub title: String,
    /// The directory at which the paths begin.
    pub root: PathBuf,
    /// The commit that holds the files as they are after the change; `None` where
    /// the working tree does.
    pub commit: Option<String>,
    /// The working directory below it; empty at the top.
    pub below: PathBuf,
    /// How much it may take.
    pub effort: Effort,
    /// Whether findings get verifiers at all. Fixed rules have nobody who could
    /// refute what they find.
    pub has_verifiers: bool,
    /// The files with something to review, by path.
    pub files: Vec<File>,
    /// All changed places, file by file. Those without a territory are the rest
    /// of a change that is too large.
    pub hunks: Vec<Hunk>,
    /// What each reviewer is given.
    pub territories: Vec<Territory>,
    /// What nobody is given, and why.
    pub aside: Vec<Aside>,
}

impl Plan {
    /// Plans the review of a change, for reviewers who work in `cwd`: a real
    /// path, at or below the change's root.
    #[must_use]
    pub fn of(change: &git::Change, cwd: &Path, effort: Effort) -> Self {
        let (mut files, hunks, mut aside) =
            change::read((&change.diff, &change.too_large), territories::size(effort));
        let below = cwd.strip_prefix(&change.root).unwrap_or(Path::new("")).to_owned();
        let frame = territories::Frame {
            title: &change.title,
            // Where they work at the top, names are what they seem.
            root: (!below.as_os_str().is_empty()).then_some(&*change.root),
        };
        let wanted: Vec<_> = (0..files.len()).map(|file| (file, files[file].hunks())).collect();
        let packed = territories::pack((&files, &hunks), wanted, effort);
        let territories = territories::of(&packed.territories, (&files, &hunks), &frame, 't');
        for (file, places) in packed.rest {
            files[file].left_out = places.len();
            aside.push(Aside { path: files[file].path.clone(), why: Why::TooMuch });
        }
        aside.extend(change.apart.iter().map(Aside::from));
        aside.sort_by(|one, other| one.path.cmp(&other.path));
        Self {
            title: change.title.clone(),
            root: change.root.clone(),
            commit: change.commit.clone(),
            below,
            effort,
            has_verifiers: true,
            files,
            hunks,
            territories,
            aside,
        }
    }

    /// Returns the files that reviewers are given without a changed line: only the
    /// name or the mode is another, or the file is empty.
    pub fn without_lines(&self) -> impl Iterator<Item = &File> {
        let given = self.territories.iter().flat_map(|territory| &territory.files);
        let given: HashSet<&str> = given.map(|path| &**path).collect();
        let bare = self.files.iter().filter(|file| file.hunks().is_empty());
        bare.filter(move |file| given.contains(&*file.path))
    }

    /// Returns what the flow's first step comes to: the angles and, for its
    /// `for_each`, the territories.
    #[must_use]
    pub fn inputs(&self) -> Value {
        let angles: Vec<_> = self.effort.angles().iter().map(|angle| angle.as_str()).collect();
        let territories: Vec<_> = self.territories.iter().map(Territory::value).collect();
        json!({
            "title": self.title,
            "effort": self.effort.as_str(),
            "angles": angles,
            "territories": territories,
        })
    }

    /// Returns the territories of what nobody has read: what is sent out once
    /// more.
    #[must_use]
    pub fn unread(&self, coverage: &Coverage) -> Vec<Territory> {
        let root = (!self.below.as_os_str().is_empty()).then_some(&*self.root);
        let frame = territories::Frame { title: &self.title, root };
        let unread = coverage.unread();
        let wanted: Vec<_> = self
            .files
            .iter()
            .enumerate()
            .map(|(file, it)| (file, it.hunks().filter(|hunk| unread.contains(hunk))))
            .map(|(file, hunks)| (file, hunks.collect::<Vec<_>>()))
            .filter(|(_, hunks)| !hunks.is_empty())
            .collect();
        let of = (&*self.files, &*self.hunks);
        let packed = territories::pack(of, wanted, self.effort);
        territories::of(&packed.territories, of, &frame, 'u')
    }

    /// Returns the territories of what nobody has read as the flow's step for
    /// them gives them on.
    #[must_use]
    pub fn unread_inputs(&self, coverage: &Coverage) -> Value {
        let territories: Vec<_> = self.unread(coverage).iter().map(Territory::value).collect();
        json!({ "territories": territories })
    }

    /// Returns the path of the change that a name means: one that a reviewer has
    /// given, relative to the working directory or the root, or absolute. What is set
    /// aside is part of the change, and so is what a file was called before.
    #[must_use]
    pub fn known(&self, name: &str) -> Option<&str> {
        let name = name.strip_prefix("./").unwrap_or(name);
        let find = |path: &str| {
            let file = self.files_of(path).first().map(|file| &*file.path);
            file.or_else(|| self.aside_of(path))
        };
        let before = |name: &str| {
            let file = self.files.iter().find(|file| file.from.as_deref() == Some(name));
            file.map(|file| &*file.path)
        };
        let without_side = name.strip_prefix("a/").or_else(|| name.strip_prefix("b/"));
        let below = self.below.join(name);
        let absolute = Path::new(name).strip_prefix(&self.root).ok().and_then(Path::to_str);
        find(name)
            .or_else(|| find(absolute?))
            .or_else(|| find(below.to_str()?))
            .or_else(|| find(without_side?))
            .or_else(|| before(name))
            .or_else(|| self.spelt(name))
    }

    /// Returns the one file whose name has the same words, where a reviewer has made
    /// one space of several.
    fn spelt(&self, name: &str) -> Option<&str> {
        if !name.contains(char::is_whitespace) {
            return None;
        }
        let is_it = |file: &&File| file.path.split_whitespace().eq(name.split_whitespace());
        let mut files = self.files.iter().filter(is_it);
        files.next().filter(|_| files.next().is_none()).map(|file| &*file.path)
    }

    /// Returns a path if something of the change is set aside that has it.
    fn aside_of(&self, path: &str) -> Option<&str> {
        // They stand by path.
        let first = self.aside.partition_point(|aside| *aside.path < *path);
        let mut there = self.aside[first..].iter().take_while(|aside| *aside.path == *path);
        there.find(|aside| aside.why.is_of_change()).map(|aside| &*aside.path)
    }

    /// Returns the hunks of a path.
    fn hunks_of(&self, path: &str) -> impl Iterator<Item = &Hunk> {
        self.files_of(path).iter().flat_map(File::hunks).map(|place| &self.hunks[place])
    }

    /// Returns the files of a path: two, where a link has become a file.
    fn files_of(&self, path: &str) -> &[File] {
        // They stand by path.
        let first = self.files.partition_point(|file| *file.path < *path);
        let behind = &self.files[first..];
        &behind[..behind.partition_point(|file| *file.path == *path)]
    }
}

/// What the flow file is called among [`FILES`].
pub const FLOW: &str = "flow.toml";

/// The bundled flow, and the files that it names: prompts and schemas.
pub const FILES: [(&str, &str); 10] = [
    (FLOW, include_str!("../skills/review/flow.toml")),
    ("correctness.md", include_str!("../prompts/review/correctness.md")),
    ("security.md", include_str!("../prompts/review/security.md")),
    ("tests.md", include_str!("../prompts/review/tests.md")),
    ("performance.md", include_str!("../prompts/review/performance.md")),
    ("clarity.md", include_str!("../prompts/review/clarity.md")),
    ("again.md", include_str!("../prompts/review/again.md")),
    ("verifier.md", include_str!("../prompts/review/verifier.md")),
    ("findings.schema.json", include_str!("../prompts/review/findings.schema.json")),
    ("verdict.schema.json", include_str!("../prompts/review/verdict.schema.json")),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::testing::{ROOT, Session, adds, change, plan};
    use super::*;
    use crate::git::{Apart, ApartKind};

    fn file(name: &str) -> Option<&'static str> {
        FILES.iter().find(|(file, _)| *file == name).map(|(_, text)| *text)
    }

    /// Every value of a key, wherever it stands in the flow.
    fn values(table: &toml::Value, key: &str, found: &mut Vec<String>) {
        if let Some(fields) = table.as_table() {
            found.extend(fields.get(key).and_then(toml::Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| values(value, key, found));
        }
        table.as_array().into_iter().flatten().for_each(|value| values(value, key, found));
    }

    fn all(key: &str) -> BTreeSet<String> {
        let mut found = Vec::new();
        values(&toml::from_str(file(FLOW).unwrap()).unwrap(), key, &mut found);
        found.into_iter().collect()
    }

    #[test]
    fn the_flow_names_only_files_that_there_are_and_all_of_them() {
        let named: BTreeSet<String> =
            all("prompt_file").union(&all("schema_file")).cloned().collect();
        let missing: Vec<_> = named.iter().filter(|name| file(name).is_none()).collect();
        assert_eq!((missing.len(), named.len()), (0, 9), "{missing:?}");
        assert_eq!(file("other.md"), None);
    }

    #[test]
    fn the_steps_of_the_flow_are_the_roles_of_units() {
        let names = all("name");
        let roles = Angle::ALL.iter().map(|angle| angle.as_str()).chain([role::VERIFY]);
        assert!(roles.into_iter().all(|role| names.contains(role)), "{names:?}");
        let computed = ["review.territories", "review.unread", "review.findings", "review.report"];
        assert_eq!(all("compute"), computed.map(str::to_owned).into());
    }

    /// Checks that an item has all that a prompt asks of it.
    #[track_caller]
    fn check(name: &str, item: &Value) {
        let text = file(name).unwrap();
        let asked: Vec<_> = text.split("item.").skip(1).collect();
        assert!(asked.len() > 3, "{name}");
        for asked in asked {
            let end = asked.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap();
            assert!(item.get(&asked[..end]).is_some(), "{name} asks for {}", &asked[..end]);
        }
    }

    #[test]
    fn each_prompt_asks_only_for_what_its_items_have() {
        let plan = plan(&adds("a.rs", &["x"]), Effort::Low);
        for angle in Angle::ALL {
            check(&format!("{}.md", angle.as_str()), &plan.inputs()["territories"][0]);
        }
        let mut session = Session::new();
        let unit = session.unit("correctness", 0, &plan.territories[0].diff);
        session.answer(unit, "- [high] a.rs:1: bad");
        let outcome = Outcome::of(&plan, &session.log.events);
        check("verifier.md", &outcome.verify_inputs()["to_verify"][0]);
    }

    #[test]
    fn what_is_set_apart_is_named_and_only_a_repository_is_a_gap() {
        let mut change = change(&adds("a.rs", &["x"]));
        let apart = [("rows.jsonl", ApartKind::Ours), ("inside", ApartKind::Repository)];
        change.apart = apart.map(|(path, kind)| Apart { path: path.to_owned(), kind }).into();
        let mut plan = Plan::of(&change, Path::new(ROOT), Effort::Low);
        let aside: Vec<_> = plan.aside.iter().map(|it| (&*it.path, it.why)).collect();
        assert_eq!(aside, [("inside", Why::Repository), ("rows.jsonl", Why::Ours)]);
        let mut session = Session::new();
        session.all_read(&plan);
        assert!(!Outcome::of(&plan, &session.log.events).is_complete());
        plan.aside.retain(|aside| aside.why == Why::Ours);
        let outcome = Outcome::of(&plan, &session.log.events);
        assert_eq!((outcome.is_complete(), outcome.left_out().count()), (true, 1));
    }

    #[test]
    fn of_files_without_lines_those_are_told_that_somebody_is_given() {
        let empty = |name: &str| format!("diff --git a/{name} b/{name}\nnew file mode 100644\n");
        let text = empty("b") + &adds("a.rs", &["x"]) + &empty("c") + &empty("package-lock.json");
        let plan = plan(&text, Effort::Low);
        let told: Vec<_> = plan.without_lines().map(|file| &*file.path).collect();
        assert_eq!(told, ["b", "c"]);
    }

    #[test]
    fn each_effort_has_its_angles_and_is_read_by_its_name() {
        let angles = Effort::ALL.map(|effort| effort.angles().len());
        assert_eq!(angles, [2, 5, 5]);
        assert!(
            Effort::ALL.iter().all(|effort| Effort::from_name(effort.as_str()) == Some(*effort))
        );
        assert_eq!(Effort::from_name("most"), None);
    }
}
