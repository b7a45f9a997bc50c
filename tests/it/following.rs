//! Skills that are followed: what holds meanwhile, and agents that do what they
//! say.

use serde_json::{Value, json};

use crate::support::server::{Reaction, RecordedRequest, Server};
use crate::support::talk::{Talk, serve, serve_calls, shown};
use crate::support::tine::{Finished, Place};

/// A skill that may write one file.
const BUILD: &str =
    "---\nname: build\ndescription: Builds.\nallowed-tools: Write(made.txt)\n---\nBuild it.\n";

fn write(file: &str) -> (&'static str, Value) {
    ("Write", json!({ "file_path": file, "content": "x\n" }))
}

/// A server whose main conversation writes a file once in each prompt that says
/// so, by whatever way it came to it.
fn serve_builders() -> Server {
    serve(|talk| match talk.outputs().is_empty() {
        true if talk.last_prompt().contains("Build") => Reaction::call_reply(&[write("made.txt")]),
        true | false => Reaction::text_reply("ok"),
    })
}

fn prompt(place: &Place, server: &Server, prompt: &str, flags: &[&str]) -> Finished {
    let fixed = ["-p", prompt, "-m", "m", "--config", "retry.most=0"];
    place.tine(fixed.iter().chain(flags)).server(server).run().exits(0)
}

fn home(place: &Place, skill: &str, text: &str) {
    place.write(&format!("../home/.claude/skills/{skill}/SKILL.md"), text);
}

#[test]
fn what_a_skill_allows_holds_for_its_turn_and_no_longer() {
    let (place, server) = (Place::new(), serve_builders());
    home(&place, "build", BUILD);
    let finished = prompt(&place, &server, "/build", &[]);
    assert_eq!(place.read("made.txt").as_deref(), Some("x\n"));
    let notice = "the skill `build` allows `Write(made.txt)` for this turn";
    assert!(finished.stderr.contains(notice), "{}", finished.stderr);
    std::fs::remove_file(place.work().join("made.txt")).unwrap();
    prompt(&place, &server, "Build it yourself.", &["-c"]);
    assert_eq!(place.read("made.txt"), None);
}

#[test]
fn a_repositorys_skill_allows_nothing_before_it_is_trusted() {
    for file in [".tine/skills/build/SKILL.md", ".claude/commands/build.md"] {
        let (place, server) = (Place::new(), serve_builders());
        place.write(file, BUILD);
        let finished = prompt(&place, &server, "/build", &[]);
        assert_eq!(place.read("made.txt"), None);
        let note = format!("what `{file}` allows is not used: this repository is not trusted");
        assert!(finished.stderr.contains(&note), "{}", finished.stderr);
        // The instructions are text all the same.
        assert_eq!(Talk::of(&server.requests()[0]).task(), "Build it.");
        prompt(&place, &server, "/build", &["--trust"]);
        assert_eq!(place.read("made.txt").as_deref(), Some("x\n"), "{file}");
        // Trust is of contents.
        place.tine(["trust", "--yes"]).run().exits(0);
        std::fs::remove_file(place.work().join("made.txt")).unwrap();
        place.write(file, BUILD.replace("Build it", "Build it now"));
        prompt(&place, &server, "/build", &[]);
        assert_eq!(place.read("made.txt"), None, "{file}");
    }
}

#[test]
fn long_files_and_links_beside_a_skill_are_no_reason_to_distrust_it() {
    let (place, server) = (Place::new(), serve_builders());
    place.write(".claude/skills/build/SKILL.md", BUILD);
    place.write(".claude/skills/build/logo.png", "x".repeat(3 * 1024 * 1024));
    place.write("tools/run.sh", "true\n");
    let link = |target: &str, name: &str| {
        let name = place.work().join(".claude/skills/build").join(name);
        std::os::unix::fs::symlink(target, name).expect("the place is ours");
    };
    link("SKILL.md", "README.md");
    link("../../../tools/run.sh", "run.sh");
    link("nowhere", "dangling");
    place.tine(["trust", "--yes"]).run().exits(0);
    prompt(&place, &server, "/build", &[]);
    assert_eq!(place.read("made.txt").as_deref(), Some("x\n"));
    // What a link leads to is trusted as it is, too.
    std::fs::remove_file(place.work().join("made.txt")).unwrap();
    place.write("tools/run.sh", "false\n");
    prompt(&place, &server, "/build", &[]);
    assert_eq!(place.read("made.txt"), None);
    for (target, why) in
        [("/etc/passwd", "leads out of the project"), ("../../../tools", "a link to a directory")]
    {
        link(target, "more");
        let refused = place.tine(["trust", "--yes"]).run();
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
        std::fs::remove_file(place.work().join(".claude/skills/build/more")).unwrap();
    }
}

#[test]
fn what_a_skill_allows_is_no_word_against_what_is_denied() {
    let (place, server) = (Place::new(), serve_builders());
    home(&place, "build", BUILD);
    prompt(&place, &server, "/build", &["--disallowed-tools", "Write(made.txt)"]);
    prompt(&place, &server, "/build", &["--permission-mode", "plan"]);
    assert_eq!(place.read("made.txt"), None);
}

#[test]
fn a_skill_that_the_model_opens_allows_what_it_says_from_then_on() {
    let place = Place::new();
    home(&place, "build", BUILD);
    let server = serve(|talk| match (talk.task(), talk.turn()) {
        ("go", 1 | 3) => Reaction::call_reply(&[write("made.txt")]),
        ("go", 2) => Reaction::call_reply(&[("Skill", json!({ "skill": "build" }))]),
        _ => Reaction::text_reply("done"),
    });
    place.ask(&server, &[]).exits(0);
    let outputs: Vec<String> = server.finish().iter().map(last_output).collect();
    assert!(outputs[1].starts_with("Permission to use Write denied: "), "{}", outputs[1]);
    assert_eq!(outputs[2], "Build it.");
    assert!(outputs[3].contains("made.txt"), "{}", outputs[3]);
    assert_eq!(place.read("made.txt").as_deref(), Some("x\n"));
}

fn last_output(request: &RecordedRequest) -> String {
    Talk::of(request).outputs().join("\n")
}

#[test]
fn agents_that_a_unit_starts_follow_no_skill_of_its_own() {
    let place = Place::new();
    home(&place, "build", BUILD);
    let server = serve(|talk| match (talk.task(), talk.turn()) {
        ("Build it.", 1) => Reaction::call_reply(&[(
            "Agent",
            json!({"description": "d", "prompt": "make", "subagent_type": "general-purpose"}),
        )]),
        ("make", 1) => Reaction::call_reply(&[write("made.txt")]),
        _ => Reaction::text_reply("done"),
    });
    prompt(&place, &server, "/build", &[]);
    assert_eq!(place.read("made.txt"), None);
    let requests = server.finish();
    let agent = requests.iter().rfind(|request| Talk::of(request).task() == "make").unwrap();
    assert!(last_output(agent).contains("no rule allows this edit"), "{}", last_output(agent));
}

#[test]
fn the_model_of_a_skill_holds_for_its_turn() {
    let place = Place::new();
    home(&place, "tidy", "---\ndescription: d\nmodel: small\n---\nTidy.\n");
    home(&place, "same", "---\ndescription: d\nmodel: inherit\n---\nTidy too.\n");
    let server = serve(|_| Reaction::text_reply("ok"));
    let going = |text: &str, flags: &[&str]| {
        let fixed = ["-p", text, "--config", "retry.most=0"];
        place.tine(fixed.iter().chain(flags)).server(&server).run().exits(0);
    };
    going("/tidy", &["-m", "big"]);
    going("and now?", &["-c"]);
    going("/same", &["-c"]);
    let requests = server.finish();
    let models: Vec<_> = requests.iter().map(|it| Talk::of(it).model().to_owned()).collect();
    assert_eq!(models, ["small", "big", "big"]);
}

#[test]
fn a_skill_whose_model_there_is_not_is_followed_by_the_one_that_is_there() {
    let place = Place::new();
    let script = place.script("evil.json", &json!({ "units": { "*": [{ "text": "evil" }] } }));
    home(&place, "tidy", &format!("---\ndescription: d\nmodel: {script}\n---\nTidy.\n"));
    let server = serve(|_| Reaction::text_reply("honest"));
    let finished = prompt(&place, &server, "/tidy", &[]);
    assert_eq!(finished.stdout, "honest\n");
    assert!(finished.stderr.contains("the skill `tidy` asks for the model"), "{}", finished.stderr);
}

/// A skill that an agent of its own does.
const AUDIT: &str = "---\nname: audit\ndescription: Audits.\ncontext: fork\nagent: explore\n\
                     model: small\n---\nAudit $1.\n";

fn serve_audits() -> Server {
    serve_calls(&[("Skill", json!({ "skill": "audit", "args": "a.rs" }))], |talk| {
        match talk.task() {
            "Audit a.rs." => Reaction::text_reply("All is well."),
            _ => Reaction::text_reply("main"),
        }
    })
}

#[test]
fn a_forked_skill_that_is_typed_is_done_by_an_agent_whose_report_is_the_answer() {
    let (place, server) = (Place::new(), serve_audits());
    home(&place, "audit", AUDIT);
    let finished = prompt(&place, &server, "/audit a.rs", &[]);
    assert_eq!(finished.stdout, "All is well.\n");
    prompt(&place, &server, "so?", &["-c"]);
    let requests = server.finish();
    assert_eq!(requests.len(), 2);
    let agent = Talk::of(&requests[0]);
    assert_eq!((agent.task(), agent.model()), ("Audit a.rs.", "small"));
    assert_eq!(agent.tools(), ["Read", "Glob", "Grep", "TodoWrite"]);
    // Main knows of it from then on.
    let main = requests[1].json().to_string();
    for part in ["/audit a.rs", "<report>\\nAll is well.\\n</report>", "so?"] {
        assert!(main.contains(part), "{part} is missing in {main}");
    }
}

#[test]
fn a_forked_skill_that_a_model_opens_is_done_by_an_agent_whose_report_is_the_output() {
    let (place, server) = (Place::new(), serve_audits());
    home(&place, "audit", AUDIT);
    place.ask(&server, &[]).exits(0);
    let requests = server.finish();
    assert_eq!(shown(&requests), ["All is well."]);
    let models: Vec<_> = requests.iter().map(|it| Talk::of(it).model().to_owned()).collect();
    assert_eq!(models, ["m", "small", "m"]);
}

#[test]
fn what_a_forked_skill_allows_is_its_agents() {
    let place = Place::new();
    let fork = BUILD.replace("---\nBuild", "context: fork\n---\nBuild");
    home(&place, "build", &fork);
    let server = serve(|talk| match (talk.task(), talk.turn()) {
        ("go", 1) => Reaction::call_reply(&[("Skill", json!({ "skill": "build" }))]),
        ("go", 2) => Reaction::call_reply(&[write("other.txt"), write("made.txt")]),
        ("Build it.", 1) => Reaction::call_reply(&[write("made.txt")]),
        _ => Reaction::text_reply("done"),
    });
    place.ask(&server, &[]).exits(0);
    assert_eq!(place.read("made.txt").as_deref(), Some("x\n"));
    assert!(shown(&server.finish()).iter().all(|output| output.contains("no rule allows")));
}

#[test]
fn a_forked_skill_in_the_background_comes_back_as_news() {
    let place = Place::new();
    home(&place, "audit", &AUDIT.replace("agent: explore", "background: true"));
    let server = serve(|talk| match talk.task() {
        "Audit a.rs." => Reaction::text_reply("All is well."),
        _ if talk.last_prompt().contains("All is well.") => Reaction::text_reply("It is well."),
        _ => Reaction::text_reply("no news"),
    });
    let finished = prompt(&place, &server, "/audit a.rs", &[]);
    assert_eq!(finished.stdout, "It is well.\n");
}

#[test]
fn a_skill_whose_agent_there_is_not_is_refused() {
    let place = Place::new();
    place.write(".tine/skills/audit/SKILL.md", AUDIT.replace("explore", "nobody"));
    place.tine(["-p", "/audit x", "-m", "offline"]).run().refuses(
        42,
        "error: the skill `audit` names no agent there is: `nobody`\n\
         hint: there are: general-purpose, explore, reviewer\n",
    );
    let server = serve_audits();
    place.ask(&server, &[]).exits(0);
    let output = shown(&server.finish()).concat();
    assert!(output.starts_with("Skill \"audit\" names the agent \"nobody\""), "{output}");
}

#[test]
fn a_fork_follows_a_forked_skill_itself() {
    let place = Place::new();
    home(&place, "audit", AUDIT);
    let call = ("Skill", json!({ "skill": "audit", "args": "a.rs" }));
    let server = serve(move |talk| match (talk.directive(), talk.outputs().is_empty()) {
        (Some(_), false) if talk.outputs().contains(&"Audit a.rs.") => {
            Reaction::text_reply("done by myself")
        }
        (Some(_), _) => Reaction::call_reply(std::slice::from_ref(&call)),
        (None, _) => Reaction::text_reply(talk.last_prompt()),
    });
    let finished = prompt(&place, &server, "/fork audit it", &[]);
    assert!(finished.stdout.contains("done by myself"), "{}", finished.stdout);
}

#[test]
fn files_that_a_skill_names_are_put_in_and_its_scripts_are_found() {
    let place = Place::new();
    place.write("notes.md", "the notes\n");
    home(&place, "tidy", "---\ndescription: d\n---\nTidy.\n\n@notes.md\n\nRun scripts/x.sh.\n");
    place.write("../home/.claude/skills/tidy/scripts/x.sh", "#!/bin/sh\n");
    let server =
        serve_calls(&[("Skill", json!({ "skill": "tidy" }))], |_| Reaction::text_reply("ok"));
    prompt(&place, &server, "/tidy", &[]);
    place.ask(&server, &[]).exits(0);
    let requests = server.finish();
    let directory = place.home().join(".claude/skills/tidy");
    let expected = format!(
        "The files of this skill are in {}; its relative paths begin there.\n\nTidy.\n\n\
         <file path=\"notes.md\">\nthe notes\n</file>\n\nRun scripts/x.sh.",
        directory.display()
    );
    assert_eq!(Talk::of(&requests[0]).task(), expected);
    assert_eq!(shown(&requests), [expected]);
}

#[test]
fn commands_of_a_directory_are_typed_with_its_name() {
    let place = Place::new();
    place.write(".claude/commands/ops/deploy.md", "---\ndescription: Deploys.\n---\nDeploy $1.\n");
    place.write(".claude/commands/greet.md", "Greet $ARGUMENTS.\n");
    let server = serve(|_| Reaction::text_reply("ok"));
    for typed in ["/ops:deploy web", "/deploy web", "/greet you and me"] {
        prompt(&place, &server, typed, &[]);
    }
    let finished = prompt(&place, &server, "/OPS:deploy x", &["-o", "stream-json"]);
    let init: Value = serde_json::from_str(finished.stdout.lines().next().unwrap()).unwrap();
    let commands = init["slash_commands"].as_array().unwrap();
    assert!(commands.contains(&json!("ops:deploy")) && commands.contains(&json!("greet")));
    let requests = server.finish();
    let tasks: Vec<_> = requests.iter().map(|it| Talk::of(it).task().to_owned()).collect();
    assert_eq!(tasks, ["Deploy web.", "Deploy web.", "Greet you and me.", "Deploy x."]);
}

#[test]
fn a_client_is_told_of_commands_and_sends_them() {
    let (place, server) = (Place::new(), serve(|_| Reaction::text_reply("ok")));
    place.write(".claude/commands/ops/deploy.md", "---\ndescription: Deploys.\n---\nDeploy $1.\n");
    let message =
        |text: &str| json!({"type": "user", "message": {"role": "user", "content": text}});
    let initialize = json!({"type": "control_request", "request_id": "1",
        "request": {"subtype": "initialize"}});
    let lines = format!("{initialize}\n{}\n", message("/ops:deploy web"));
    let flags = ["--input-format", "stream-json", "-o", "stream-json", "-m", "m"];
    let finished = place.tine(flags).server(&server).stdin(lines).run().exits(0);
    let reply: Value = serde_json::from_str(finished.stdout.lines().next().unwrap()).unwrap();
    let commands = reply["response"]["response"]["commands"].as_array().unwrap();
    let own = commands.iter().find(|command| command["name"] == "ops:deploy").unwrap();
    assert_eq!(own["description"], "Deploys.");
    assert_eq!(Talk::of(&server.finish()[0]).task(), "Deploy web.");
}
