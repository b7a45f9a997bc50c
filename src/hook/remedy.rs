//! Remedies for hooks that could not be started.

use std::io;
use std::path::Path;

use super::Command;
use super::process::Ended;
use crate::guard::SearchPath;

/// Exit statuses of a shell that could not start a program: it is not executable, or it
/// does not exist.
const CANNOT_RUN: i32 = 126;
const NOT_FOUND: i32 = 127;

/// Where programs are looked for.
pub(super) struct Places<'a> {
    /// The directory in which the command runs.
    pub(super) directory: &'a Path,
    /// The `PATH` that tine was started with.
    pub(super) search: &'a SearchPath,
}

/// Returns what to change so that a command can be started; `None` if it was.
pub(super) fn find_remedy(ended: &Ended, command: &Command, places: &Places) -> Option<String> {
    let program = command.text.split_whitespace().next().unwrap_or_default();
    match ended {
        Ended::Exited { status, stdout: _, stderr } => {
            let complaint = String::from_utf8_lossy(stderr);
            match status.code()? {
                CANNOT_RUN if complaint.contains("Is a directory") => {
                    Some(format!("`{program}` is a directory: name a program"))
                }
                CANNOT_RUN if complaint.contains("ermission denied") => {
                    Some(make_executable(missing_program(&complaint).unwrap_or(program)))
                }
                CANNOT_RUN => Some(name_interpreter(program)),
                NOT_FOUND => Some(find_it(missing_program(&complaint).unwrap_or(program), places)),
                _ => None,
            }
        }
        Ended::NotStarted(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Some(make_executable(&command.text))
        }
        Ended::NotStarted(error) if error.kind() == io::ErrorKind::NotFound => {
            Some(find_it(&command.text, places))
        }
        Ended::NotStarted(_) => Some(name_interpreter(&command.text)),
        Ended::TimedOut { .. } | Ended::Cancelled => None,
    }
}

fn make_executable(file: &str) -> String {
    format!("make it executable: `chmod +x {file}`")
}

fn name_interpreter(file: &str) -> String {
    format!("`{file}` must be a program, or begin with a line such as `#!/usr/bin/env python3`")
}

fn find_it(file: &str, places: &Places) -> String {
    if let Some(inside) = places.search.explain(file, "in the hook's command") {
        return inside;
    }
    let without = match file.contains('/') {
        true => "",
        false => ", without the workspace in `PATH`",
    };
    let directory = places.directory.display();
    format!("`{file}` does not exist: fix the path or `PATH` (it ran in `{directory}`{without})")
}

/// Returns the file that the message of a shell or of `env` names: `./a` in
/// `sh: 1: ./a: not found`.
pub(crate) fn missing_program(complaint: &str) -> Option<&str> {
    let line = complaint.trim().lines().next_back()?;
    let blamed = line.rsplit(": ").nth(1)?.trim().trim_matches(['\'', '"', '‘', '’', '`']);
    let is_name = !blamed.is_empty() && !blamed.contains(char::is_whitespace);
    is_name.then_some(blamed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn what_could_not_be_started_comes_with_what_to_mend() {
        let command = Command { text: "./a.py --x".into(), arguments: None, is_async: false };
        for (code, stderr, expected) in [
            (126, "sh: 1: ./a.py: Permission denied\n", Some("`chmod +x ./a.py`")),
            (126, "bash: line 1: /w/b: Permission denied", Some("`chmod +x /w/b`")),
            (126, "Permission denied", Some("`chmod +x ./a.py`")),
            (126, "bash: ./a.py: Is a directory", Some("name a program")),
            (126, "bash: ./a.py: cannot execute binary file", Some("must be a program")),
            (127, "sh: 1: ./a.py: not found", Some("`./a.py` does not exist")),
            (127, "bash: line 1: jq: command not found", Some("`jq` does not exist")),
            (127, "/usr/bin/env: ‘node’: No such file or directory", Some("`node` does not exist")),
            (127, "env: 'node': No such file or directory", Some("`node` does not exist")),
            (127, "", Some("`./a.py` does not exist")),
            (1, "Traceback", None),
            (0, "", None),
        ] {
            let status = ExitStatus::from_raw(code << 8);
            let ended = Ended::Exited { status, stdout: Vec::new(), stderr: stderr.into() };
            let search = SearchPath::default();
            let places = Places { directory: Path::new("/w"), search: &search };
            let remedy = find_remedy(&ended, &command, &places);
            assert_eq!(remedy.is_some(), expected.is_some(), "{stderr}: {remedy:?}");
            let text = remedy.unwrap_or_default();
            assert!(text.contains(expected.unwrap_or_default()), "{stderr}: {text}");
        }
    }
}
