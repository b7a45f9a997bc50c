//! The environment of hooks: what confined commands get, what reaches a
//! desktop, and where the project is.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::guard::sandbox::Variables;

/// The variables that a hook needs to show something on a desktop, and where
/// temporary files go.
const MORE: [&str; 5] =
    ["DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "TMPDIR"];

/// The names under which hooks find the project: ours, and those that hooks of
/// other harnesses know.
const PROJECT: [&str; 3] = ["TINE_PROJECT_DIR", "CLAUDE_PROJECT_DIR", "QWEN_PROJECT_DIR"];

/// Returns the whole environment of hooks: of what was `inherited` only the
/// variables that are listed by name, and of those none that the caller has taken
/// out, as it does with the ones that the configuration names for keys. What else
/// somebody keeps in a variable that is listed is passed on.
#[must_use]
pub fn environment(inherited: &Variables, project: &Path) -> Vec<(OsString, OsString)> {
    let more = inherited.all().filter(|(name, _)| MORE.iter().any(|it| *name == OsStr::new(it)));
    let passed = inherited.passed(true).chain(more);
    let own = PROJECT.map(|name| (OsString::from(name), project.as_os_str().to_owned()));
    passed.map(|(name, value)| (name.to_owned(), value.to_owned())).chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_get_what_is_listed_and_the_project() {
        let all = [("PATH", "/bin"), ("DISPLAY", ":0"), ("OPENAI_API_KEY", "k"), ("TOKEN", "t")];
        let inherited = Variables::new(all.map(|(name, value)| (name.into(), value.into())));
        let given = environment(&inherited, Path::new("/w"));
        let given: Vec<_> = given
            .iter()
            .map(|(name, value)| [name, value].map(|it| it.to_str().unwrap()))
            .collect();
        let expected = [
            ["PATH", "/bin"],
            ["DISPLAY", ":0"],
            ["TINE_PROJECT_DIR", "/w"],
            ["CLAUDE_PROJECT_DIR", "/w"],
            ["QWEN_PROJECT_DIR", "/w"],
        ];
        assert_eq!(given, expected);
    }
}
