//! Skills: typed as `/name`, opened by the model, found in the project.

use serde_json::json;

use crate::support::repository::Repository;
use crate::support::server::Reaction;
use crate::support::talk::{Talk, serve, serve_calls, shown};
use crate::support::tine::Place;

/// A repository with a branch `main`, and a branch with one change on top.
fn branched() -> Repository {
    let repository = Repository::new();
    repository.write("a.rs", "fn a() {}\n");
    repository.commit("Begin");
    repository.git(&["switch", "--quiet", "--create", "topic"]);
    repository.write("b.rs", "fn b() {\n    x.unwrap();\n}\n");
    repository.commit("Add b");
    repository
}

#[test]
fn a_typed_skill_is_the_prompt_with_its_arguments_put_in() {
    let repository = branched();
    repository.write(
        ".tine/skills/tell/SKILL.md",
        "---\ndescription: Tells.\nmetadata:\n  tine-context: change\n---\n\
         Tell of $CHANGE_TITLE, in $CHANGE_FILE: $ARGUMENTS.\n$CHANGE_STAT\n",
    );
    let server = serve(|_| Reaction::text_reply("ok"));
    let flags = ["-p", "/tell --base main the error paths", "-m", "m"];
    repository.place.tine(flags).server(&server).run().exits(0);
    let requests = server.finish();
    let talk = Talk::of(&requests[0]);
    assert!(talk.task().starts_with("Tell of "), "{}", talk.task());
    for part in ["/change.diff: the error paths.\n", "- b.rs (+3 -0, added)"] {
        assert!(talk.task().contains(part), "{part} is missing in {}", talk.task());
    }
    assert!(!talk.task().contains("$CHANGE"), "{}", talk.task());
}

#[test]
fn the_review_works_as_a_typed_skill() {
    let repository = branched();
    let finished =
        repository.place.tine(["-p", "/review --base main", "-m", "offline"]).run().exits(0);
    assert!(finished.stdout.contains("[medium] b.rs:2: `unwrap`"), "{}", finished.stdout);
}

#[test]
fn a_slot_gets_the_diff_in_its_first_message() {
    let repository = branched();
    let server = serve(|talk| match (talk.task(), talk.turn()) {
        ("go", 1) => Reaction::call_reply(&[("Skill", json!({ "skill": "review" }))]),
        ("go", 2) => {
            let told = talk.outputs()[0];
            let file = told.split_once("`@").and_then(|(_, rest)| rest.split_once('`')).unwrap().0;
            let slot = json!({ "description": "tests", "subagent_type": "reviewer",
                "prompt": format!("Look at it.\n\n@{file}") });
            Reaction::call_reply(&[("Agent", json!({ "tasks": [slot] }))])
        }
        _ => Reaction::text_reply("No findings."),
    });
    repository.place.ask(&server, &[]).exits(0);
    let requests = server.finish();
    let slot = requests.iter().map(Talk::of).find(|talk| talk.task().starts_with("Look")).unwrap();
    assert!(slot.task().contains("+    x.unwrap();\n"), "{}", slot.task());
    assert!(slot.task().contains("+++ b/b.rs\n"), "{}", slot.task());
}

#[test]
fn the_model_opens_a_skill_by_its_name() {
    let place = Place::new();
    place.write(
        ".claude/skills/tidy/SKILL.md",
        "---\nname: tidy\ndescription: Tidies a file.\n---\nTidy $1, then $ARGUMENTS.\n",
    );
    let call = |name: &str| ("Skill", json!({ "skill": name, "args": "a b" }));
    let server = serve_calls(&[call("tidy"), call("nope")], |_| Reaction::Close);
    place.ask(&server, &[]).exits(0);
    let requests = server.finish();
    let outputs = [
        "Tidy a, then a b.",
        "Skill \"nope\" not found. Available skills: tidy, review, explain, fix, test, migrate",
    ];
    assert_eq!(shown(&requests), outputs);
    // The system prompt names it; the body waits until it is used.
    let talk = Talk::of(&requests[0]);
    assert!(talk.system().contains("tidy") && talk.system().contains("Tidies a file."));
    assert!(!talk.system().contains("Tidy $1"), "{}", talk.system());
}

#[test]
fn the_skill_tool_opens_the_bundled_review() {
    let repository = branched();
    let calls = [("Skill", json!({ "skill": "review", "args": "--base main" }))];
    let server = serve_calls(&calls, |_| Reaction::Close);
    repository.place.ask(&server, &[]).exits(0);
    let outputs = shown(&server.finish());
    assert!(outputs[0].starts_with("# Review a change\n"), "{outputs:?}");
    assert!(outputs[0].contains("b.rs"), "{outputs:?}");
}

#[test]
fn the_skill_of_a_project_goes_before_the_bundled_one_with_a_warning() {
    let place = Place::new();
    let path = place.write(
        ".tine/skills/review/SKILL.md",
        "---\nname: review\ndescription: Ours.\n---\nOur own way: $ARGUMENTS\n",
    );
    let server = serve(|_| Reaction::text_reply("ok"));
    let finished = place.tine(["-p", "/review it", "-m", "m"]).server(&server).run().exits(0);
    assert_eq!(Talk::of(&server.finish()[0]).task(), "Our own way: it");
    let warning = finished.stderr.lines().find(|line| line.starts_with("warning: "));
    let warning = warning.unwrap_or_else(|| panic!("no warning: {}", finished.stderr));
    assert!(warning.contains(path.to_str().unwrap()) && warning.contains("`review`"), "{warning}");
}

#[test]
fn of_two_files_of_one_name_the_nearer_wins_with_a_warning() {
    let repository = Repository::new();
    let skill = |body: &str| format!("---\ndescription: d\n---\n{body}");
    repository.write(".tine/skills/tidy/SKILL.md", &skill("far"));
    repository.write("deep/.agents/skills/tidy/SKILL.md", &skill("near"));
    let server = serve(|_| Reaction::text_reply("ok"));
    let place = &repository.place;
    let tine = place.tine(["-p", "/tidy", "-m", "m"]).at(&place.work().join("deep"));
    let finished = tine.server(&server).run().exits(0);
    assert_eq!(Talk::of(&server.finish()[0]).task(), "near");
    assert!(finished.stderr.contains("warning: ") && finished.stderr.contains("`tidy` is in"));
}

#[test]
fn an_unknown_skill_is_refused_with_those_there_are() {
    let place = Place::new();
    place.write(".tine/skills/tidy/SKILL.md", "---\ndescription: d\n---\nx");
    place.tine(["-p", "/tidi now", "-m", "offline"]).run().refuses(
        42,
        "error: there is no skill `/tidi`\nhint: there are: /compact, /fork, /undo, /usage, /tidy, /review, /init, /explain, /fix, /test, /migrate\n",
    );
}

#[test]
fn a_path_at_the_start_of_a_prompt_is_no_skill() {
    let server = serve(|_| Reaction::text_reply("ok"));
    let place = Place::new();
    for prompt in ["/tmp is full", "/a/b.rs does not build"] {
        place.tine(["-p", prompt, "-m", "m"]).server(&server).run().exits(0);
    }
    let requests = server.finish();
    let tasks: Vec<_> =
        requests.iter().map(|request| Talk::of(request).task().to_owned()).collect();
    assert_eq!(tasks, ["/tmp is full", "/a/b.rs does not build"]);
}

#[test]
fn the_offline_rules_refuse_a_review_skill_they_cannot_follow() {
    let repository = branched();
    let skill = "---\nname: review\ndescription: ours\n---\nLook at it your own way.\n";
    repository.write(".tine/skills/review/SKILL.md", skill);
    let finished = repository.place.tine(["review", "--base", "main"]).run().exits(42);
    let error = "error: the offline rules cannot follow this project's own `review` skill\n";
    assert!(finished.stderr.contains(error), "{}", finished.stderr);
    assert_eq!(finished.stdout, "");
}

#[test]
fn init_may_write_agents_md_and_nothing_else() {
    let place = Place::new();
    let write = |file: &str| json!({ "name": "Write", "arguments": { "file_path": file, "content": "# Shop\n" } });
    let main = json!([
        { "calls": [write("AGENTS.md"), write("CLAUDE.md")] },
        { "text": "Done.", "expect": { "contains": ["no rule allows this edit"] } }
    ]);
    let model = place.script("script.json", &json!({ "units": { "main": main } }));
    let finished = place.tine(["init", "keep", "it", "short", "-m", &model]).run().exits(0);
    assert_eq!(finished.stdout, "Done.\n");
    assert_eq!(place.read("AGENTS.md").as_deref(), Some("# Shop\n"));
    assert_eq!(place.read("CLAUDE.md"), None);
    let prompt = place.log().into_iter().find(|event| event["kind"] == "prompted").unwrap();
    let text = prompt["body"]["text"].as_str().unwrap();
    assert!(text.contains("(may be empty): keep it short\n"), "{text}");
}
