//! Agent definitions: what each key comes to where the agent works.

use serde_json::{Value, json};

use crate::support::server::{Reaction, RecordedRequest};
use crate::support::talk::{Talk, serve, serve_calls, shown};
use crate::support::tine::Place;

/// Defines the agent `cook`.
fn define(place: &Place, keys: &str) {
    let text = format!("---\nname: cook\ndescription: Cooks.\n{keys}\n---\nYou cook.\n");
    place.write(".claude/agents/cook.md", text);
}

fn task() -> Value {
    json!({"description": "d", "prompt": "soup", "subagent_type": "cook"})
}

/// Has main start the agent, which answers as `react` says. Returns main's output
/// and the agent's requests.
fn cook(
    place: &Place,
    flags: &[&str],
    react: impl Fn(&Talk) -> Reaction + Send + Sync + 'static,
) -> (String, Vec<RecordedRequest>) {
    let server = serve_calls(&[("Agent", task())], react);
    place.ask(&server, flags).exits(0);
    let requests = server.finish();
    let output = shown(&requests).concat();
    let own = requests.into_iter().filter(|it| Talk::of(it).task() == "soup").collect();
    (output, own)
}

fn write() -> (&'static str, Value) {
    ("Write", json!({ "file_path": "made.txt", "content": "x\n" }))
}

#[test]
fn tools_that_a_definition_takes_away_are_not_offered() {
    let place = Place::new();
    define(&place, "tools: Read, Write, Glob\ndisallowedTools: Write, Bash(git push *)");
    let (_, requests) = cook(&place, &[], |_| Reaction::text_reply("ok"));
    let talk = Talk::of(&requests[0]);
    assert_eq!(talk.tools(), ["Read", "Glob"]);
    assert_eq!(talk.system(), "You cook.");
}

#[test]
fn a_definition_uses_its_model_and_inherit_means_the_callers() {
    for (key, model) in [("model: big", "big"), ("model: inherit", "m"), ("", "m")] {
        let place = Place::new();
        define(&place, key);
        let (_, requests) = cook(&place, &[], |_| Reaction::text_reply("ok"));
        assert_eq!(Talk::of(&requests[0]).model(), model);
    }
}

#[test]
fn the_mode_of_a_definition_narrows_what_the_caller_may_and_never_widens_it() {
    let made = |mode: &str, flags: &[&str]| {
        let place = Place::new();
        place.write(
            "../home/.claude/agents/cook.md",
            format!("---\nname: cook\ndescription: d\npermissionMode: {mode}\n---\nYou cook.\n"),
        );
        cook(&place, flags, |talk| match talk.turn() {
            1 => Reaction::call_reply(&[write()]),
            _ => Reaction::text_reply("ok"),
        });
        place.read("made.txt").is_some()
    };
    assert!(!made("bypassPermissions", &[]));
    assert!(!made("plan", &["--permission-mode", "acceptEdits"]));
    assert!(made("acceptEdits", &["--permission-mode", "bypassPermissions"]));
}

#[test]
fn the_turns_of_a_definition_are_its_limit() {
    let place = Place::new();
    define(&place, "maxTurns: 1");
    let (output, requests) =
        cook(&place, &[], |_| Reaction::call_reply(&[("Glob", json!({ "pattern": "*" }))]));
    assert!(output.contains("reached its limit of 1 turn (`maxTurns`)"), "{output}");
    assert_eq!(requests.len(), 1);
}

#[test]
fn an_agent_has_read_the_skills_that_its_definition_names() {
    let place = Place::new();
    define(&place, "skills: [broth, gone]");
    place.write(".claude/skills/broth/SKILL.md", "---\ndescription: d\n---\nBoil bones.\n");
    let server = serve_calls(&[("Agent", task())], |_| Reaction::text_reply("ok"));
    let finished = place.ask(&server, &[]).exits(0);
    let requests = server.finish();
    let own = requests.iter().map(Talk::of).find(|talk| talk.task() == "soup").unwrap();
    assert!(own.system().contains("\n## broth\n\nBoil bones."), "{}", own.system());
    assert!(!Talk::of(&requests[0]).system().contains("Boil bones."));
    let warning = "agent `cook` has not read the skill `gone`: there is none";
    assert!(finished.stderr.contains(warning), "{}", finished.stderr);
}

#[test]
fn the_main_conversation_has_read_them_where_it_is_that_agent() {
    let place = Place::new();
    define(&place, "skills: broth");
    place.write(".claude/skills/broth/SKILL.md", "---\ndescription: d\n---\nBoil bones.\n");
    let server = serve(|_| Reaction::text_reply("ok"));
    place.ask(&server, &["--agent", "cook"]).exits(0);
    let talk = Talk::of(&server.finish()[0]);
    assert!(talk.system().contains("\n## broth\n\nBoil bones."), "{}", talk.system());
}

#[test]
fn an_agent_in_the_background_by_its_definition_holds_nobody_up() {
    let place = Place::new();
    define(&place, "background: true\ncolor: red\neffort: high");
    let server = serve_calls(&[("Agent", task())], |_| Reaction::text_reply("It is hot."));
    let finished = place.ask(&server, &[]).exits(0);
    assert_eq!(finished.stdout, "done\n");
    let requests = server.finish();
    let all: Vec<String> = requests.iter().map(|it| it.json().to_string()).collect();
    assert!(all.iter().any(|body| body.contains("runs in the background. Go on")), "{all:?}");
    assert!(all.iter().any(|body| body.contains("It is hot.")), "{all:?}");
}
