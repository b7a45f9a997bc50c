//! The skills that come with the program, with the files beside them: they are
//! read from memory, since a binary has no directory of its own.

/// The files beside a bundled skill: each by its path from there, and its text.
pub type Files = &'static [(&'static str, &'static str)];

/// A skill that comes with the program.
#[derive(Clone, Copy)]
pub(super) struct Bundled {
    /// Its `SKILL.md`.
    pub(super) text: &'static str,
    pub(super) files: Files,
}

/// All of them, as they are listed.
pub(super) const BUNDLED: [Bundled; 6] = [
    Bundled { text: include_str!("../../skills/review/SKILL.md"), files: &[] },
    Bundled { text: include_str!("../../skills/init/SKILL.md"), files: &[] },
    Bundled {
        text: include_str!("../../skills/explain/SKILL.md"),
        files: &[
            ("flow.toml", include_str!("../../skills/explain/flow.toml")),
            ("explorer.md", include_str!("../../skills/explain/explorer.md")),
            ("map.md", include_str!("../../skills/explain/map.md")),
            ("survey.json", include_str!("../../skills/explain/survey.json")),
            ("survey.md", include_str!("../../skills/explain/survey.md")),
        ],
    },
    Bundled {
        text: include_str!("../../skills/fix/SKILL.md"),
        files: &[
            ("flow.toml", include_str!("../../skills/fix/flow.toml")),
            ("change.md", include_str!("../../skills/fix/change.md")),
            ("check.json", include_str!("../../skills/fix/check.json")),
            ("check.md", include_str!("../../skills/fix/check.md")),
            ("report.md", include_str!("../../skills/fix/report.md")),
            ("reproduce.json", include_str!("../../skills/fix/reproduce.json")),
            ("reproduce.md", include_str!("../../skills/fix/reproduce.md")),
        ],
    },
    Bundled {
        text: include_str!("../../skills/test/SKILL.md"),
        files: &[
            ("flow.toml", include_str!("../../skills/test/flow.toml")),
            ("check.json", include_str!("../../skills/test/check.json")),
            ("check.md", include_str!("../../skills/test/check.md")),
            ("report.md", include_str!("../../skills/test/report.md")),
            ("survey.json", include_str!("../../skills/test/survey.json")),
            ("survey.md", include_str!("../../skills/test/survey.md")),
            ("writer.md", include_str!("../../skills/test/writer.md")),
        ],
    },
    Bundled {
        text: include_str!("../../skills/migrate/SKILL.md"),
        files: &[
            ("flow.toml", include_str!("../../skills/migrate/flow.toml")),
            ("check.json", include_str!("../../skills/migrate/check.json")),
            ("check.md", include_str!("../../skills/migrate/check.md")),
            ("file.md", include_str!("../../skills/migrate/file.md")),
            ("plan.json", include_str!("../../skills/migrate/plan.json")),
            ("plan.md", include_str!("../../skills/migrate/plan.md")),
            ("report.md", include_str!("../../skills/migrate/report.md")),
        ],
    },
];
