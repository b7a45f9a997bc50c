//! Prompts: the words a model is given.
//!
//! The words themselves are in `prompts/`; here they are put together.

mod context;
mod ending;
mod frame;
mod hooked;
mod marks;
mod summing_up;
mod walked;

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use crate::skill::Skills;

pub use context::{CONTEXT_CAP, Context, Part as SaidPart, Said, SaidApart, context};
pub use ending::{cut, cut_escaped, ending, mark_summary};
pub use frame::{fill, unused_tag};
pub use hooked::{held, hook, with_hook};
pub use marks::{breaks_line, escape_worktree_notes};
pub use summing_up::{
    compact, compacted, nothing_answered, output_left_out, prompt_left_out, set_aside_as_refused,
    set_aside_as_too_long,
};
pub use walked::walked;

/// Most characters of a file that are put into a prompt. About 15,000 tokens:
/// most changes in full, and five reviewers can hold one each.
pub const ATTACHED_CAP: usize = 60_000;

/// Most files that are put into one prompt: a list of thousands of names must
/// not become a prompt of thousands of files.
pub const ATTACHED_FILES_CAP: usize = 16;

/// Most characters of an input that stand in what a flow is walked for. A prompt
/// that needs the whole of it names it.
const FLOW_INPUT_CAP: usize = 1_000;

/// Most inputs that stand there.
const FLOW_INPUTS_CAP: usize = 20;

/// What stands between the facts of the moment and a request.
const FACTS_END: &str = "\n\n";

/// Facts of the moment, for a unit's first message.
#[derive(Debug, Clone)]
pub struct Environment<'a> {
    /// The working directory.
    pub cwd: &'a Path,
    /// Whether it is in a git repository.
    pub is_repository: bool,
    /// The day, as `2026-01-31`.
    pub date: &'a str,
}

/// Returns the main conversation's system prompt.
#[must_use]
pub fn main() -> &'static str {
    include_str!("../prompts/system.md").trim_ascii_end()
}

/// Returns a unit's whole system prompt: its own part, the instructions of the
/// user and the project, and the skills it can open.
///
/// Everything in it stays the same for a whole session; what changes stands in
/// messages, behind the part that providers cache.
#[must_use]
pub fn system(own: &str, instructions: &str, skills: Option<&Skills>) -> String {
    let mut system = own.trim_end().to_owned();
    if !instructions.is_empty() {
        system.push_str("\n\n");
        system.push_str(instructions);
    }
    let mut listed = skills.into_iter().flat_map(Skills::for_models).peekable();
    if listed.peek().is_some() {
        system.push_str("\n\n");
        system.push_str(include_str!("../prompts/skills.md").trim_end());
        for skill in listed {
            let _ = write!(system, "\n- `{}`: {}", skill.name, skill.description);
        }
    }
    system
}

/// Returns the text of a skill as a model reads it: with the directory of its
/// files, if it has some that it does not name itself, and with what becomes of
/// the commands in it. No skill runs anything: a model asks for it, and the
/// guard decides.
#[must_use]
pub fn skill(text: &str, directory: Option<&str>) -> String {
    let mut whole = String::new();
    if let Some(directory) = directory {
        let files = include_str!("../prompts/skill_files.md").trim_end();
        whole = fill(files, &[("directory", directory)]) + "\n\n";
    }
    whole.push_str(text);
    if text.contains("!`") {
        whole.push_str("\n\n");
        whole.push_str(include_str!("../prompts/skill_commands.md").trim_end());
    }
    whole
}

/// Returns the system prompt of an agent that is to have read these skills.
/// They stand behind its own part, each under its name.
#[must_use]
pub fn with_skills(own: &str, skills: &[(&str, String)]) -> String {
    let mut prompt = own.trim_end().to_owned();
    if !skills.is_empty() {
        prompt.push_str("\n\n");
        prompt.push_str(include_str!("../prompts/skills_preloaded.md").trim_end());
    }
    for (name, text) in skills {
        let _ = write!(prompt, "\n\n## {name}\n\n{}", text.trim());
    }
    prompt
}

/// Returns what main is told of the agent that did what a skill says.
#[must_use]
pub fn skill_report(name: &str, report: &str) -> String {
    let tag = unused_tag("report", &[report]);
    let values = [("name", name), ("tag", &tag), ("report", report)];
    fill(include_str!("../prompts/skill_report.md").trim_end(), &values)
}

/// Returns what a flow is walked for, in the user's words: its agents may see it
/// as what the user asked for. Each input stands under its name, as JSON unless
/// it is a text.
#[must_use]
pub fn flow_request(name: &str, description: &str, inputs: &[(&str, String)]) -> String {
    let values = [("name", name), ("description", description)];
    let mut request = fill(include_str!("../prompts/flow.md").trim_end(), &values);
    request.truncate(request.trim_end().len());
    if !inputs.is_empty() {
        request.push_str("\n\n");
        request.push_str(include_str!("../prompts/flow_inputs.md").trim_end());
    }
    for (name, value) in inputs.iter().take(FLOW_INPUTS_CAP) {
        let _ = write!(request, "\n- `{name}`: {}", cut(value, FLOW_INPUT_CAP, None));
    }
    request
}

/// Puts instruction files together, each under its path.
#[must_use]
pub fn instructions(files: &[(PathBuf, String)]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let mut text = include_str!("../prompts/instructions.md").trim_end().to_owned();
    for (path, content) in files {
        let _ = write!(text, "\n\n## {}\n\n{}", path.display(), content.trim());
    }
    text
}

/// Returns the facts of the moment as a unit reads them.
#[must_use]
pub fn environment(facts: &Environment<'_>) -> String {
    include_str!("../prompts/environment.md")
        .trim_end()
        .replace("{cwd}", &facts.cwd.to_string_lossy())
        .replace("{git}", if facts.is_repository { "yes" } else { "no" })
        .replace("{platform}", std::env::consts::OS)
        .replace("{date}", facts.date)
}

/// Returns the facts of the moment for a unit that works elsewhere.
/// `environment` is what [`environment`] returned.
#[must_use]
pub fn moved(environment: &str, from: &Path, to: &Path) -> String {
    let line = |cwd: &Path| {
        let template = include_str!("../prompts/environment.md");
        let line = template.lines().find(|line| line.contains("{cwd}")).unwrap_or_default();
        line.replace("{cwd}", &cwd.to_string_lossy())
    };
    environment.replacen(&line(from), &line(to), 1)
}

/// Returns what a unit must know that goes on from a conversation, and works in a
/// copy of its workspace; in an empty directory, if there is none.
#[must_use]
pub fn elsewhere(cwd: &Path, is_copy: bool) -> String {
    let template = match is_copy {
        true => include_str!("../prompts/elsewhere.md"),
        false => include_str!("../prompts/elsewhere_empty.md"),
    };
    fill(template.trim_end(), &[("cwd", &cwd.to_string_lossy())])
}

/// Puts the facts of the moment in front of a request: a conversation's first
/// message. `environment` is what [`environment`] returned.
#[must_use]
pub fn with_facts(environment: &str, request: &str) -> String {
    format!("{environment}{FACTS_END}{request}")
}

/// Takes the facts off that [`with_facts`] put there. A message that has none
/// is returned as it is.
#[must_use]
pub fn without_facts<'a>(environment: &str, message: &'a str) -> &'a str {
    let rest = message.strip_prefix(environment);
    rest.and_then(|rest| rest.strip_prefix(FACTS_END)).unwrap_or(message)
}

/// Returns what another program's model is told of the tool that runs a batch.
#[must_use]
pub fn run_batch(agents: &str) -> String {
    let text = include_str!("../prompts/tools/run_batch.md").trim_end();
    fill(text, &[("agents", agents)])
}

/// Returns what another program is told of tine as a server of tools.
#[must_use]
pub const fn serve_instructions() -> &'static str {
    include_str!("../prompts/serve.md").trim_ascii_end()
}

/// Returns a fork's first message of its own.
#[must_use]
pub fn directive(text: &str) -> String {
    let tag = unused_tag("fork-boilerplate", &[text]);
    fill(include_str!("../prompts/fork.md").trim_end(), &[("tag", &tag), ("directive", text)])
}

/// Returns what a model is told of an undo; `files` has a line for each file.
#[must_use]
pub fn undone(files: &str) -> String {
    include_str!("../prompts/undone.md").trim_end().replace("{files}", files)
}

/// Returns what stands before the images of an output where they cannot stand
/// in it.
#[must_use]
pub fn shown_images(call: &str) -> String {
    include_str!("../prompts/shown_images.md").trim_end().replace("{call}", call)
}

/// Returns what stands in the place of an image that a model cannot see.
#[must_use]
pub const fn unseen_image() -> &'static str {
    include_str!("../prompts/unseen_image.md").trim_ascii()
}

/// Returns the note in place of an image that the model's server refused.
#[must_use]
pub const fn refused_image() -> &'static str {
    include_str!("../prompts/refused_image.md").trim_ascii()
}

/// Returns the note in place of a message without content.
#[must_use]
pub const fn empty_message() -> &'static str {
    include_str!("../prompts/empty_message.md").trim_ascii()
}

/// Returns the words of a message that a chat template wants between two others.
#[must_use]
pub const fn acknowledged() -> &'static str {
    include_str!("../prompts/acknowledged.md").trim_ascii()
}

/// Returns a call for a server that takes no calls in a conversation.
#[must_use]
pub fn call_as_text(tool: &str, arguments: &str) -> String {
    let frame = include_str!("../prompts/call_as_text.md").trim_end();
    frame.replace("{tool}", tool).replace("{arguments}", arguments)
}

/// Returns an output for a server that takes no outputs in a conversation.
#[must_use]
pub fn output_as_text(tool: &str, output: &str) -> String {
    let frame = include_str!("../prompts/output_as_text.md").trim_end();
    frame.replace("{tool}", tool).replace("{output}", output)
}

/// Returns the note that replaces an image of a request that was summarized.
#[must_use]
pub const fn image_summed_up() -> &'static str {
    include_str!("../prompts/image_summed_up.md").trim_ascii()
}

/// Returns what stands below the output of a call that was made so many times
/// in a row; at `limit` the unit ends.
#[must_use]
pub fn repeated(tool: &str, times: u32, limit: u32) -> String {
    let values = [("tool", tool), ("times", &times.to_string()), ("limit", &limit.to_string())];
    fill(include_str!("../prompts/repeated.md").trim_end(), &values)
}

/// Returns the notice for a model that repeats the same `turns` turns for the so many-th
/// time; after `limit` rounds the unit ends.
#[must_use]
pub fn repeated_turns(turns: usize, times: u32, limit: u32) -> String {
    let [turns, times, limit] = [turns.to_string(), times.to_string(), limit.to_string()];
    let values = [("turns", &*turns), ("times", &times), ("limit", &limit)];
    fill(include_str!("../prompts/repeated_turns.md").trim_end(), &values)
}

/// Returns the output of a call whose arguments are an answer that fits.
#[must_use]
pub const fn structured_taken() -> &'static str {
    include_str!("../prompts/structured_taken.md").trim_ascii()
}

/// Returns what a model reads whose answer does not fit its schema; `problems`
/// has a line for each place.
#[must_use]
pub fn structured_misfit(problems: &str) -> String {
    let template = include_str!("../prompts/structured_misfit.md").trim_end();
    fill(template, &[("problems", problems)])
}

/// Returns what [`structured_misfit`] tells of, on one line, or another output
/// as it is.
#[must_use]
pub fn structured_problems(output: &str) -> String {
    let frame = include_str!("../prompts/structured_misfit.md").trim_end();
    let before = frame.split("{problems}").next().unwrap_or_default();
    output.strip_prefix(before).unwrap_or(output).replace('\n', "; ")
}

/// Returns the message to a model that has said its last word and given no
/// answer.
#[must_use]
pub const fn structured_reminder() -> &'static str {
    include_str!("../prompts/structured_reminder.md").trim_ascii()
}

/// Returns the message to a model that is to write its answer as text.
#[must_use]
pub const fn structured_text() -> &'static str {
    include_str!("../prompts/structured_text.md").trim_ascii()
}

/// Returns the output of a fork that gives an answer in its parent's way.
#[must_use]
pub const fn structured_fork() -> &'static str {
    include_str!("../prompts/structured_fork.md").trim_ascii()
}

/// Replaces each line that holds only `@PATH` by the text of that file.
///
/// The text stands between `<file path="PATH">` and `</file>` and is not
/// searched for further lines of this kind. Of a file over [`ATTACHED_CAP`]
/// the head is kept, and a line after it says how to go on. A line whose file
/// cannot be read stays, with a note; one that names no file just stays.
pub fn attach(text: &str, mut read: impl FnMut(&Path) -> io::Result<Vec<u8>>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut files = 0;
    for line in text.split_inclusive('\n') {
        let Some(path) = attached_path(line) else {
            result.push_str(line);
            continue;
        };
        let put = if files == ATTACHED_FILES_CAP {
            Err(format!("not attached: at most {ATTACHED_FILES_CAP} files are"))
        } else {
            match read(Path::new(path)) {
                // `@property` names no file; the line is what it is.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    result.push_str(line);
                    continue;
                }
                other => other.map_err(|error| format!("not attached: {error}")),
            }
        };
        files += 1;
        match put {
            Ok(bytes) => frame(path, &String::from_utf8_lossy(&bytes), &mut result),
            Err(note) => {
                let _ = write!(result, "@{path}\n[{path}: {note}]");
            }
        }
        if line.ends_with('\n') {
            result.push('\n');
        }
    }
    result
}

/// Returns a resource of a server as a prompt holds it: its text between two tags
/// that do not occur in it, and of one over [`ATTACHED_CAP`] the head.
#[must_use]
pub fn resource(server: &str, uri: &str, text: &str) -> String {
    let tag = unused_tag("resource", &[text]);
    let (head, rest) = match text.char_indices().nth(ATTACHED_CAP) {
        Some((cap, _)) => text.split_at(cap),
        None => (text, ""),
    };
    let uri = uri.replace('"', "&quot;");
    let gap = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    let mut framed = format!("<{tag} server=\"{server}\" uri=\"{uri}\">\n{head}{gap}</{tag}>");
    if !rest.is_empty() {
        let left = rest.chars().count();
        let _ = write!(framed, "\n[@{server}:{uri}: the last {left} characters are left out]");
    }
    framed
}

/// Says in a prompt that a resource is not in it.
#[must_use]
pub fn no_resource(server: &str, uri: &str, why: &str) -> String {
    format!("[@{server}:{uri}: not attached: {why}]")
}

/// Returns the text of a file that came along with a prompt, as one that is
/// attached stands there.
#[must_use]
pub fn brought_along(path: &str, text: &str) -> String {
    let mut framed = String::new();
    frame(path, text, &mut framed);
    framed
}

/// Returns the text of the first attached file in a prompt, and whether that
/// is all of it.
#[must_use]
pub fn attached(prompt: &str) -> Option<(&str, bool)> {
    let mut start = 0;
    for line in prompt.split_inclusive('\n') {
        start += line.len();
        let Some((tag, _)) = line.strip_prefix('<').and_then(|tag| tag.split_once(" path=\""))
        else {
            continue;
        };
        if tag.starts_with("file") {
            let end = format!("</{tag}>");
            let (text, after) = prompt[start..].split_once(&end)?;
            return Some((text, !after.starts_with("\n[")));
        }
    }
    None
}

/// The path of a line that asks for a file. The header of a hunk asks for none,
/// though a repository may hold a file of such a name.
fn attached_path(line: &str) -> Option<&str> {
    let path = line.strip_prefix('@').map(str::trim_end);
    path.filter(|path| !path.is_empty() && !path.starts_with("@ -"))
}

/// Writes a file's text between two tags that do not occur in it.
fn frame(path: &str, text: &str, result: &mut String) {
    let tag = unused_tag("file", &[text]);
    let (head, cut) = head(text);
    let name = path.replace('"', "&quot;");
    let gap = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    let _ = write!(result, "<{tag} path=\"{name}\">\n{head}{gap}</{tag}>");
    if let Some(cut) = cut {
        let _ = write!(result, "\n[{path}: {cut}]");
    }
}

/// The part of a text that is attached and, if that is not all, how to go on.
fn head(text: &str) -> (&str, Option<String>) {
    let Some((cap, _)) = text.char_indices().nth(ATTACHED_CAP) else { return (text, None) };
    // At a line's end, unless the first line alone is too long.
    let end = text[..cap].rfind('\n').map_or(cap, |at| at + 1);
    let (head, rest) = text.split_at(end);
    let next = head.matches('\n').count() + 1;
    let left = rest.chars().count();
    let note = format!(
        "the last {left} characters are left out; go on with Read from line {next} of this file"
    );
    (head, Some(note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_move_name_the_new_directory_and_stay_the_same_otherwise() {
        let at = |cwd: &str| {
            environment(&Environment {
                cwd: Path::new(cwd),
                is_repository: true,
                date: "2026-01-31",
            })
        };
        assert_eq!(
            moved(&at("/work"), Path::new("/work"), Path::new("/copy/work")),
            at("/copy/work")
        );
        assert_eq!(moved("", Path::new("/work"), Path::new("/copy")), "");
    }

    #[test]
    fn a_summary_is_asked_for_with_the_hint_and_framed_as_it_is() {
        assert!(compact(None).ends_with("Do not thank, greet or ask."));
        assert_eq!(compact(Some(" \n")), compact(None));
        let hinted = compact(Some(" keep {hint} the paths "));
        assert!(hinted.ends_with("heed this: keep {hint} the paths"), "{hinted}");
        assert!(hinted.starts_with(&compact(None)));

        let framed = compacted("{summary}", "\na {summary} {request}\n", Some("{environment}"));
        assert!(framed.starts_with("{summary}\n\nWhat"), "{framed}");
        assert!(framed.contains("<summary>\na {summary} {request}\n</summary>\n\nThe"), "{framed}");
        assert!(framed.contains("<request>\n{environment}\n</request>\n\nFiles"), "{framed}");
        let bare = compacted("", "x", None);
        assert!(bare.starts_with("What was said"), "{bare}");
        assert!(bare.contains("</summary>\n\nFiles"), "{bare}");
    }

    #[test]
    fn the_facts_in_front_of_a_request_can_be_taken_off_again() {
        for environment in ["It is Monday.", ""] {
            for request in ["go", "\n\ngo\n", "", "It is Monday.\n\ngo"] {
                let message = with_facts(environment, request);
                assert_eq!(without_facts(environment, &message), request);
            }
        }
        assert_eq!(without_facts("It is Monday.", "It is Monday. Go."), "It is Monday. Go.");
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let mut asked = Vec::new();
        let result = attach(text, |path| {
            asked.push(path.to_owned());
            match path.to_str() {
                Some("a.txt") => Ok(b"one\n@b.txt\n".to_vec()),
                Some("/b c.txt") => Ok(b"no newline </file>".to_vec()),
                Some("empty" | "@ -1 +1,2 @@ fn f()") => Ok(Vec::new()),
                Some("locked") => Err(io::Error::new(io::ErrorKind::PermissionDenied, "locked")),
                _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
            }
        });
        assert_eq!(result, expected, "{asked:?}");
    }

    #[test]
    fn a_line_that_holds_only_a_path_becomes_the_file_and_its_text_is_not_searched() {
        check(
            "look:\n@a.txt \t\nend\n",
            "look:\n<file path=\"a.txt\">\none\n@b.txt\n</file>\nend\n",
        );
        check("@empty", "<file path=\"empty\">\n</file>");
    }

    #[test]
    fn a_text_that_holds_the_end_tag_gets_another_one() {
        check("@/b c.txt", "<file_ path=\"/b c.txt\">\nno newline </file>\n</file_>");
    }

    #[test]
    fn other_lines_are_left_alone() {
        let header = "@@ -1 +1,2 @@ fn f()\n";
        for text in ["mail me@a.txt\n", " @a.txt", "@\n@ \n", "", "`@a.txt`", header] {
            check(text, text);
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_leaves_the_line_and_a_note() {
        check("@locked\r\nx", "@locked\n[locked: not attached: locked]\nx");
        check("@property\r\nx", "@property\r\nx");
    }

    #[test]
    fn a_long_file_keeps_its_head_and_says_where_to_go_on() {
        let line = format!("{}\n", "é".repeat(99));
        let long = line.repeat(700);
        let result = attach("@long", |_| Ok(long.clone().into_bytes()));
        let kept = line.repeat(600);
        let note = "[long: the last 10000 characters are left out; go on with Read from line 601 of this file]";
        assert_eq!(result, format!("<file path=\"long\">\n{kept}</file>\n{note}"));
    }

    #[test]
    fn no_more_files_are_attached_than_the_cap_says() {
        let mut reads = 0;
        let text = "@x\n".repeat(ATTACHED_FILES_CAP + 1);
        let result = attach(&text, |_| {
            reads += 1;
            Ok(b"x\n".to_vec())
        });
        assert_eq!(reads, ATTACHED_FILES_CAP);
        assert!(result.ends_with("@x\n[x: not attached: at most 16 files are]\n"), "{result}");
    }

    #[test]
    fn what_was_attached_can_be_found_again() {
        let read = |_: &Path| Ok(b"diff </file>\nmore\n".to_vec());
        let prompt = attach("task\n\n@x.diff\n", read);
        assert_eq!(attached(&prompt), Some(("diff </file>\nmore\n", true)));
        let long = attach("@x", |_| Ok("x\n".repeat(ATTACHED_CAP).into_bytes()));
        assert_eq!(attached(&long), Some((&*"x\n".repeat(ATTACHED_CAP / 2), false)));
        assert_eq!(attached("task\n@x.diff\n[x.diff: not attached]\n"), None);
    }
}
