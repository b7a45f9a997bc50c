//! Looking for words in what was said in a session.
//!
//! A log is read line by line and most lines are passed over unparsed: only a
//! prompt that the user typed and an answer of the main conversation are looked
//! at, and of these only lines that hold a word somewhere.

use super::list::SessionSummary;
use super::read::{Entry, read};
use crate::event::{Event, EventKind, UnitId};

/// Most characters of an excerpt: one line of a terminal.
const EXCERPT_CAP: usize = 100;

/// How many characters of an excerpt stand in front of the word.
const EXCERPT_LEAD: usize = 30;

/// How far into a line its kind is looked for. Only the branch and the path
/// stand before it; a line in which it comes later is parsed.
const HEAD_CAP: usize = 4 * 1024;

/// Words to look for, in any case. Each is looked for as it stands, with the
/// spaces in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(Vec<Word>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    /// The same as it stands in a log's line.
    escaped: String,
}

impl Words {
    /// Takes words as they were typed; `None` if all of them are blank.
    #[must_use]
    pub fn new(words: &[String]) -> Option<Self> {
        let words: Vec<Word> = words
            .iter()
            .map(|word| fold(word.trim()))
            .filter(|word| !word.is_empty())
            .map(|text| Word { escaped: escape(&text), text })
            .collect();
        (!words.is_empty()).then_some(Self(words))
    }
}

/// Looks for the words in a session: in its name, its id, the prompts that were
/// typed, and the answers of the main conversation. Lines that cannot be read
/// are passed over.
///
/// Returns an excerpt of the first text of the log that holds one of them, or
/// the first prompt if the words are all in the name and the id; `None` if any
/// of them is nowhere. It is what was said: strip control characters before
/// showing it.
#[must_use]
pub fn search(session: &SessionSummary, words: &Words) -> Option<String> {
    let name = session.name.as_ref().map(|name| fold(name.as_str())).unwrap_or_default();
    let id = fold(&session.id);
    let mut missing: Vec<&Word> = words.0.iter().collect();
    missing.retain(|word| !name.contains(&word.text) && !id.contains(&word.text));
    let mut excerpt = None;
    let mut entries = read(&session.directory).ok();
    while !missing.is_empty() {
        let entry = entries.as_mut()?.next_where(|line| may_hold(line, &missing))?;
        let Entry::Event(event) = &entry else { continue };
        let text = said(event).unwrap_or_default();
        let folded = fold(text);
        missing.retain(|word| {
            let found = folded.find(&word.text);
            if let (None, Some(at)) = (&excerpt, found) {
                excerpt = Some(cut(text, at));
            }
            found.is_none()
        });
    }
    Some(excerpt.unwrap_or_else(|| session.first_prompt.clone()))
}

/// Returns what an event adds to what is looked through.
fn said(event: &Event) -> Option<&str> {
    match &event.kind {
        EventKind::InvocationStarted { prompt, .. } => Some(prompt),
        EventKind::UserWrote { text } => Some(text),
        EventKind::Replied(replied) if event.unit == UnitId::MAIN => Some(&replied.reply.text),
        EventKind::Replied(_)
        | EventKind::SessionOpened(_)
        | EventKind::Prompted(_)
        | EventKind::Notified { .. }
        | EventKind::Compacted(_)
        | EventKind::PrefixShared(_)
        | EventKind::Throttled(_)
        | EventKind::Admitted { waited_ms: _ }
        | EventKind::RequestFailed(_)
        | EventKind::UnitQueued(_)
        | EventKind::UnitStarted
        | EventKind::Lost { .. }
        | EventKind::TurnStarted { .. }
        | EventKind::ToolStarted { .. }
        | EventKind::ToolFinished { .. }
        | EventKind::FileChanged(_)
        | EventKind::Worktree(_)
        | EventKind::HookRan(_)
        | EventKind::Denied { .. }
        | EventKind::Asked { .. }
        | EventKind::Answered { .. }
        | EventKind::UnitEnded(_)
        | EventKind::UserTookBack
        | EventKind::SetAside { .. }
        | EventKind::Rewound { .. }
        | EventKind::Walked(_)
        | EventKind::Chosen(_)
        | EventKind::Offered(_)
        | EventKind::Left
        | EventKind::Joined { .. }
        | EventKind::Notice { .. }
        | EventKind::InvocationEnded(_) => None,
    }
}

/// Tells whether a line may say one of the words, without parsing it. Within
/// the strings of JSON every quote is escaped, so what is found here is what it
/// looks like.
fn may_hold(line: &[u8], words: &[&Word]) -> bool {
    let head = &line[..line.len().min(HEAD_CAP)];
    let value = |key: &[u8]| after(head, key);
    let is_said = match value(b"\"kind\":\"") {
        None => true,
        Some(kind) if kind.starts_with(b"invocation_started\"") => true,
        Some(kind) if kind.starts_with(b"user_wrote\"") => true,
        Some(kind) if kind.starts_with(b"replied\"") => {
            value(b"\"unit\":\"").is_none_or(|unit| unit.starts_with(b"main\""))
        }
        Some(_) => false,
    };
    is_said && {
        let folded = fold(&String::from_utf8_lossy(line));
        words.iter().any(|word| folded.contains(&word.escaped))
    }
}

fn after<'a>(bytes: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let at = bytes.windows(key.len()).position(|window| window == key)?;
    Some(&bytes[at + key.len()..])
}

/// Returns `text` so that texts which differ in the case of letters alone are
/// the same, letter by letter: `ß` and `SS`, `ς` and `Σ`.
fn fold(text: &str) -> String {
    text.chars().flat_map(folded).collect()
}

fn folded(character: char) -> impl Iterator<Item = char> {
    character.to_uppercase().flat_map(char::to_lowercase)
}

fn escape(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("a text is always JSON");
    quoted[1..quoted.len() - 1].to_owned()
}

/// Cuts one line out of `text`, around what stands at byte `at` of it folded.
fn cut(text: &str, at: usize) -> String {
    let mut length = 0;
    let before = text.chars().take_while(|&character| {
        length += folded(character).map(char::len_utf8).sum::<usize>();
        length <= at
    });
    let place = before.count();
    let start = place.saturating_sub(EXCERPT_LEAD);
    let mut characters = text.chars().skip(start);
    let mut line = String::from(if start > 0 { "…" } else { "" });
    let kept: String = characters.by_ref().take(EXCERPT_CAP).collect();
    line.push_str(&kept.split_whitespace().collect::<Vec<_>>().join(" "));
    if characters.next().is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::event::Replied;
    use crate::message::{Call, Image, ImageKind, Output, Reply, StopReason, Usage};
    use crate::session::samples::{ended, event, notice, opened, started};
    use crate::session::{SessionLog, SessionName, list, write_name};

    fn replied(unit: u32, text: &str, thinking: &str) -> Event {
        let call = Call { id: "c".into(), tool: "Read".into(), arguments: "arguments".into() };
        let reply = Reply {
            text: text.into(),
            thinking: thinking.into(),
            calls: vec![call],
            ..Reply::default()
        };
        let replied = Replied {
            reply: reply.into(),
            model: "m".into(),
            usage: Usage::default(),
            stop: StopReason::EndTurn,
            took_ms: 1,
        };
        Event { unit: UnitId(unit), ..event(1, EventKind::Replied(replied)) }
    }

    fn write(root: &Path, events: &[Event]) {
        let mut log = SessionLog::create(&root.join("project/0198-a")).unwrap();
        events.iter().for_each(|event| log.append(event).unwrap());
    }

    fn found(root: &Path, words: &[&str]) -> Option<String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        search(&list(root).unwrap()[0], &Words::new(&words).unwrap())
    }

    #[test]
    fn every_word_must_be_said_by_the_user_or_by_main() {
        let root = tempfile::tempdir().unwrap();
        let events = [
            event(1, opened()),
            event(2, started("Find the \"retry\" logic\nin C:\\src")),
            event(3, EventKind::Prompted("prompted".into())),
            replied(1, "a slot answered", ""),
            replied(0, "It is in gate.rs", "thought"),
            event(9, notice("noticed")),
            event(9, ended()),
        ];
        write(root.path(), &events);
        write_name(&root.path().join("project/0198-a"), &SessionName::parse("Nightly").unwrap())
            .unwrap();
        let found = |words: &[&str]| found(root.path(), words);
        let prompt = "Find the \"retry\" logic in C:\\src";
        assert_eq!(found(&["RETRY", "gate"]).as_deref(), Some(prompt));
        assert_eq!(found(&["gate.RS"]).as_deref(), Some("It is in gate.rs"));
        assert_eq!(found(&["\"retry\"", "c:\\src", "0198", "nightly"]).as_deref(), Some(prompt));
        assert_eq!(found(&["nightly"]).as_deref(), Some("Find the \"retry\" logic"));
        for nowhere in
            ["prompted", "slot", "thought", "noticed", "arguments", "replied", "retry gate", "done"]
        {
            assert_eq!(found(&["retry", nowhere]), None, "{nowhere}");
        }
    }

    #[test]
    fn an_image_is_not_looked_through() {
        let root = tempfile::tempdir().unwrap();
        let image = Image { kind: ImageKind::Png, base64: "needle".into() };
        let output = Arc::new(Output { images: vec![image], ..Output::ok("needle") });
        let (call, tool) = ("c".into(), "Read".into());
        let finished = EventKind::ToolFinished { call, tool, output, took_ms: 1 };
        write(root.path(), &[event(1, opened()), event(2, started("go")), event(3, finished)]);
        assert_eq!(found(root.path(), &["needle"]), None);
    }

    #[test]
    fn letters_of_every_script_are_found_in_any_case() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            &[event(1, opened()), event(2, started("Große ÜBERSICHT der ΟΔΟΣ 東京"))],
        );
        for word in ["GROSSE", "übersicht", "οδοσ", "ΟΔΟς", "東京", "t der"] {
            assert!(found(root.path(), &[word]).is_some(), "{word}");
        }
        assert_eq!(found(root.path(), &["grose"]), None);
    }

    #[test]
    fn damaged_lines_hide_nothing() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &[event(1, opened()), event(2, started("needle"))]);
        let path = root.path().join("project/0198-a/log.jsonl");
        let whole = std::fs::read_to_string(&path).unwrap();
        let damaged = b"\xff\xfe needle\n{\"kind\":\"replied\",\"needle\"\n";
        let later = whole.replace("needle", "later").into_bytes();
        std::fs::write(&path, [damaged, whole.as_bytes(), &later].concat()).unwrap();
        assert_eq!(found(root.path(), &["needle", "later"]).as_deref(), Some("needle"));
    }

    #[test]
    fn an_excerpt_is_one_line_around_the_word() {
        let (before, after) = ("ß ".repeat(40), " y".repeat(100));
        let text = format!("{before}the\n  needle{after}");
        let cut = cut(&text, fold(&text).find("needle").unwrap());
        let lead = "ß ".repeat(12);
        let rest = " y".repeat(32);
        assert_eq!(cut, format!("…{lead}the needle{rest}…"));
        assert_eq!(super::cut("the needle", 4), "the needle");
    }

    #[test]
    fn blank_words_are_none() {
        assert_eq!(Words::new(&[String::new(), " \t".to_owned()]), None);
    }
}
