//! Skills that are flows: the bundled ones, those of a repository, and what a
//! conversation holds of them.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::repository::Repository;
use crate::support::screen::Size;
use crate::support::server::{Gate, Reaction, RecordedRequest, Server};
use crate::support::talk::{Talk, serve, serve_calls, shown};
use crate::support::terminal::Sitting;
use crate::support::tine::{Finished, Place};
use crate::support::{anthropic, responses};

/// An answer to the schema of a step.
fn gives(answer: &Value) -> Reaction {
    Reaction::call_reply(&[("StructuredOutput", answer.clone())])
}

fn bash(command: &str) -> Reaction {
    Reaction::call_reply(&[("Bash", json!({ "command": command }))])
}

/// Types a skill where everything is allowed.
fn typed(place: &Place, server: &Server, prompt: &str) -> Finished {
    let flags = ["-p", prompt, "-m", "m", "--permission-mode", "bypassPermissions"];
    place.tine(flags.iter().chain(&["--config", "retry.most=0"])).server(server).run()
}

/// The requests of the agents whose task begins so.
fn of(requests: &[RecordedRequest], task: &str) -> Vec<Talk> {
    let talks = requests.iter().map(Talk::of);
    talks.filter(|talk| talk.task().contains(task) && talk.turn() == 1).collect()
}

/// The names of the units of a session, in the order they were declared.
fn units(place: &Place) -> Vec<String> {
    let log = place.log();
    let queued = log.iter().filter(|line| line["kind"] == "unit_queued");
    queued.map(|line| line["body"]["description"].as_str().unwrap_or_default().to_owned()).collect()
}

#[track_caller]
fn holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[test]
fn explorers_go_into_the_areas_of_a_codebase_side_by_side_and_one_map_is_written() {
    let (came, both) = (AtomicUsize::new(0), Gate::closed());
    let area = |name: &str| json!({ "name": name, "paths": [format!("src/{name}")], "question": format!("what of {name}") });
    let survey =
        json!({ "summary": "A shop.", "areas": [area("prices"), area("orders"), area("lost")] });
    let server = serve(move |talk| match talk.task() {
        task if task.starts_with("Look at this repository from above") => gives(&survey),
        task if task.contains("Area: lost") => Reaction::json(400, &json!({ "error": "no" })),
        task if task.starts_with("Explain one area") => {
            // Each waits for the other: one after the other would wait forever.
            if came.fetch_add(1, Ordering::SeqCst) == 1 {
                both.open();
            }
            Reaction::text_reply("Begins in `load`.").behind(&both)
        }
        _ => Reaction::text_reply("The map."),
    });
    let place = Place::new();
    let finished = typed(&place, &server, "/explain how prices are made").exits(0);
    assert_eq!(finished.stdout, "The map.\n");
    let requests = server.finish();
    assert_eq!(units(&place), ["survey", "explorers[0]", "explorers[1]", "explorers[2]", "map"]);
    holds(of(&requests, "from above")[0].task(), &["explained: how prices are made"]);
    let explorers = of(&requests, "Explain one area");
    assert_eq!(explorers.len(), 3);
    for talk in &explorers {
        assert_eq!(talk.task().matches("what of ").count(), 1, "{}", talk.task());
        assert!(!talk.tools().contains(&"Edit"), "{:?}", talk.tools());
    }
    let map = of(&requests, "Write the map");
    let lost = "## lost\n\nNobody has looked at it: ";
    holds(map[0].task(), &["From above: A shop.", "## prices\n\nBegins in `load`.", lost]);
}

/// What the first step of a fix comes to.
fn reproduced(is: bool) -> Reaction {
    gives(&json!({ "reproduced": is, "command": "cat price.txt", "seen": "1", "expected": "3",
        "cause": "price.txt:1" }))
}

#[test]
fn a_bug_that_cannot_be_reproduced_is_reported_and_nothing_is_changed() {
    let server = serve(|talk| match talk.task().starts_with("Reproduce a bug") {
        true => reproduced(false),
        false => Reaction::text_reply("Not reproduced."),
    });
    let repository = Repository::new();
    repository.write("price.txt", "1\n");
    repository.commit("Begin");
    let finished = typed(&repository.place, &server, "/fix prices are wrong").exits(1);
    assert_eq!(finished.stdout, "Not reproduced.\n");
    assert_eq!(units(&repository.place), ["reproduce", "report"]);
    let requests = server.finish();
    holds(of(&requests, "Reproduce a bug")[0].task(), &["What is wrong: prices are wrong"]);
    let report = of(&requests, "Report on a bug");
    holds(report[0].last_prompt(), &["It could not be reproduced", "\"reproduced\":false"]);
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_bug_is_mended_in_a_worktree_until_somebody_else_finds_it_gone() {
    let checked = |ok: bool, problems: &str| {
        gives(&json!({ "ok": ok, "ran": ["cat price.txt"], "problems": problems }))
    };
    let server = serve(move |talk| {
        let task = talk.task();
        let is_again = task.contains("An earlier attempt");
        match talk.turn() {
            _ if task.starts_with("Reproduce a bug") => reproduced(true),
            _ if task.contains("Somebody says that a bug") => {
                checked(task.contains("second attempt"), "it is 2 now")
            }
            1 if task.contains("Mend a bug") && !is_again => bash("echo 2 > price.txt"),
            1 if task.contains("Mend a bug") => bash("cat price.txt; echo 3 > price.txt"),
            _ if is_again => Reaction::text_reply("second attempt"),
            _ if task.contains("Mend a bug") => Reaction::text_reply("first attempt"),
            _ => Reaction::text_reply("Mended."),
        }
    });
    let repository = Repository::new();
    repository.write("price.txt", "1\n");
    repository.commit("Begin");
    let finished = typed(&repository.place, &server, "/fix prices are wrong").exits(0);
    assert_eq!(finished.stdout, "Mended.\n");
    assert_eq!(repository.place.read("price.txt").as_deref(), Some("3\n"));
    let names = ["reproduce", "change", "check", "change", "check", "report"];
    assert_eq!(units(&repository.place), names);
    let requests = server.finish();
    let changes = of(&requests, "Mend a bug");
    holds(changes[0].task(), &["This shows it: `cat price.txt`", "The cause: price.txt:1"]);
    // The second round knows the check of the first, and goes on from its files.
    holds(changes[1].last_prompt(), &["it is 2 now", "An earlier attempt"]);
    assert!(requests.iter().any(|request| Talk::of(request).outputs() == ["2\n"]));
    let checks = of(&requests, "Somebody says");
    holds(checks[0].task(), &["first attempt", "1 changed file of it put into the workspace"]);
    assert!(!checks[1].task().contains("first attempt"), "{}", checks[1].task());
    let report = of(&requests, "Report on a bug");
    assert!(!report[0].task().contains("did not come to its end"), "{}", report[0].task());
    // Whoever reports knows where the patch is.
    let patch = report[0].task().split_once("Patch: ").and_then(|(_, rest)| rest.split(']').next());
    let patch = std::fs::read_to_string(patch.expect("it is named")).expect("it is kept");
    holds(&patch, &["-2\n+3\n"]);
}

#[test]
fn a_mending_that_fails_is_tried_again() {
    let tried = AtomicUsize::new(0);
    let server = serve(move |talk| match talk.task() {
        task if task.starts_with("Reproduce a bug") => reproduced(true),
        task if task.contains("Somebody says") => {
            gives(&json!({ "ok": true, "ran": [], "problems": "" }))
        }
        task if task.contains("Mend a bug") => match tried.fetch_add(1, Ordering::Relaxed) {
            0 => Reaction::json(400, &json!({ "error": { "message": "no" } })),
            _ => Reaction::text_reply("mended"),
        },
        _ => Reaction::text_reply("Mended."),
    });
    let repository = Repository::new();
    repository.write("price.txt", "1\n");
    repository.commit("Begin");
    let finished = typed(&repository.place, &server, "/fix prices").exits(0);
    assert_eq!(finished.stdout, "Mended.\n");
    let report = of(&server.finish(), "Report on a bug");
    assert!(!report[0].task().contains("did not come to its end"), "{}", report[0].task());
}

#[test]
fn a_bug_that_stays_is_reported_after_three_rounds() {
    let server = serve(|talk| match talk.task() {
        task if task.starts_with("Reproduce a bug") => reproduced(true),
        task if task.contains("Somebody says") => {
            gives(&json!({ "ok": false, "ran": [], "problems": "as before" }))
        }
        task if task.contains("Report on a bug") => Reaction::text_reply("Not mended."),
        _ => Reaction::text_reply("tried"),
    });
    let repository = Repository::new();
    repository.write("price.txt", "1\n");
    repository.commit("Begin");
    let finished = typed(&repository.place, &server, "/fix prices").exits(1);
    assert_eq!(finished.stdout, "Not mended.\n");
    holds(&finished.stderr, &["error: the bug is not mended\n"]);
    let requests = server.finish();
    assert_eq!(of(&requests, "Mend a bug").len(), 3);
    let report = of(&requests, "Report on a bug");
    holds(report[0].task(), &["The mending did not come to its end: ", "after 3 rounds"]);
}

#[test]
fn the_tests_of_a_change_are_written_a_slot_a_file_and_land_together() {
    let file = |path: &str| json!({ "path": path, "missing": format!("line 1 of {path}") });
    let survey = json!({ "how": "make test", "files": [file("a.rs"), file("b.rs")] });
    let server = serve(move |talk| {
        let path = if talk.task().contains("File: a.rs") { "a.rs" } else { "b.rs" };
        match (talk.task(), talk.turn()) {
            (task, _) if task.starts_with("Find the behaviour") => gives(&survey),
            (task, _) if task.starts_with("Tests were written") => {
                gives(&json!({ "ok": true, "ran": ["make test: passes"], "problems": "" }))
            }
            (task, 1) if task.contains("Write the tests") => bash(&format!("echo x > test_{path}")),
            (task, _) if task.contains("Write the tests") => {
                Reaction::text_reply(&format!("tested {path}"))
            }
            _ => Reaction::text_reply("All pass."),
        }
    });
    let repository = Repository::new();
    repository.write("a.rs", "a\n");
    repository.commit("Begin");
    let finished = typed(&repository.place, &server, "/test").exits(0);
    assert_eq!(finished.stdout, "All pass.\n");
    for test in ["test_a.rs", "test_b.rs"] {
        assert_eq!(repository.place.read(test).as_deref(), Some("x\n"), "{test}");
    }
    assert_eq!(units(&repository.place), ["survey", "writers[0]", "writers[1]", "check", "report"]);
    let requests = server.finish();
    let survey = of(&requests, "Find the behaviour");
    holds(survey[0].task(), &["what is not committed in this repository"]);
    assert!(survey[0].tools().contains(&"Bash"), "it has to ask git");
    let writers = of(&requests, "Write the tests");
    assert_eq!(writers.len(), 2);
    for writer in writers {
        holds(writer.task(), &["no test would miss: line 1 of ", "make test"]);
        assert_eq!(writer.task().matches(".rs").count(), 2, "{}", writer.task());
    }
    let report = of(&requests, "Report on tests");
    holds(report[0].task(), &["## a.rs\n", "tested a.rs", "## b.rs\n", "make test: passes"]);
}

#[test]
fn a_change_over_many_files_lands_file_by_file_and_names_what_did_not_fit() {
    let plan = json!({ "rule": "old becomes new", "example": "old: new", "check": "make",
        "files": ["a.txt", "b.txt", "gone.txt"] });
    let server = serve(move |talk| {
        let task = talk.task();
        let file =
            ["a.txt", "b.txt"].into_iter().find(|file| task.contains(&format!("File: {file}")));
        match (file, talk.turn()) {
            (Some(file), 1) => {
                // What both change at the same place cannot both land.
                bash(&format!("echo new > {file}; echo {file} > shared.txt"))
            }
            (Some(file), _) => Reaction::text_reply(&format!("changed {file}")),
            (None, _) if task.starts_with("Prepare a mechanical change") => gives(&plan),
            (None, _) if task.starts_with("Check a mechanical") => {
                gives(&json!({ "ok": false, "ran": ["make"], "left": ["gone.txt"] }))
            }
            (None, _) if task.contains("File: gone.txt") => {
                Reaction::json(400, &json!({ "error": "no" }))
            }
            (None, _) => Reaction::text_reply("Not complete."),
        }
    });
    let repository = Repository::new();
    for (file, text) in [("a.txt", "old\n"), ("b.txt", "old\n"), ("shared.txt", "begin\n")] {
        repository.write(file, text);
    }
    repository.commit("Begin");
    let finished = typed(&repository.place, &server, "/migrate old becomes new").exits(1);
    assert_eq!(finished.stdout, "Not complete.\n");
    let requests = server.finish();
    let files = of(&requests, "Apply a rule to one file");
    assert_eq!(files.len(), 3);
    files.iter().for_each(|talk| holds(talk.task(), &["The rule: old becomes new"]));
    let check = of(&requests, "Check a mechanical change");
    let check = check[0].task();
    holds(check, &["- a.txt: ", "- b.txt: ", "- gone.txt: NOT CHANGED: ", "Run: make."]);
    let report = of(&requests, "Report on a mechanical change");
    holds(report[0].task(), &["Complete: no.", "- ran make\n", "- left: gone.txt\n"]);
    let landed = check.matches("of it put into the workspace").count();
    let kept = check.matches("None of it is in the workspace").count();
    assert_eq!((landed, kept), (1, 1), "{check}");
    let shared = repository.place.read("shared.txt").unwrap();
    let own = repository.place.read(shared.trim()).unwrap();
    assert_eq!(own, "new\n", "{shared}");
}

#[test]
fn the_flows_of_bundled_skills_are_shown_by_name_and_listed() {
    let place = Place::new();
    for name in ["review", "explain", "fix", "test", "migrate"] {
        let shown = place.tine(["flow", "show", name]).run().exits(0).stdout;
        assert!(shown.starts_with(&format!("{name}: ")), "{shown}");
        let slashed = place.tine(["flow", "show", &format!("/{name}")]).run().exits(0).stdout;
        assert_eq!(slashed, shown);
    }
    let list = place.tine(["skills"]).run().exits(0).stdout;
    assert_eq!(list.matches("walks a flow when typed: built in").count(), 5, "{list}");
    let records = place.tine(["skills", "--json"]).run().exits(0).stdout;
    let flows = records.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let flows: Vec<_> =
        flows.map(|record| (record["name"].clone(), record["flow"].clone())).collect();
    assert!(flows.contains(&(json!("fix"), json!("built in"))), "{flows:?}");
    assert!(flows.contains(&(json!("init"), Value::Null)), "{flows:?}");
}

#[test]
fn a_model_that_opens_a_skill_with_a_flow_reads_its_instructions() {
    let place = Place::new();
    let server =
        serve_calls(&[("Skill", json!({ "skill": "fix", "args": "it" }))], |_| Reaction::Close);
    place.ask(&server, &[]).exits(0);
    let outputs = shown(&server.finish());
    holds(&outputs[0], &["# Fix a bug", "What is wrong: it"]);
    assert_eq!(units(&place), [] as [&str; 0]);
}

const SKILL: &str = "---\nname: greet\ndescription: Greets.\nargument-hint: WHO\n---\nGreet $1.\n";

const FLOW: &str = "[inputs]\narguments = { required = true }\n\
                    [[step]]\nname = \"hello\"\nsees = \"none\"\nprompt_file = \"hello.md\"\n";

/// A project with a skill of its own that has a flow.
fn greeting() -> Place {
    let place = Place::new();
    place.write(".tine/skills/greet/SKILL.md", SKILL);
    place.write(".tine/skills/greet/flow.toml", FLOW);
    place.write(".tine/skills/greet/hello.md", "Say hello to {{ inputs.arguments }}.");
    place
}

#[test]
fn a_flow_beside_a_projects_skill_is_what_its_name_means_and_is_read_when_it_is_used() {
    let place = greeting();
    let server = serve(|talk| Reaction::text_reply(&format!("did: {}", talk.task())));
    let finished = typed(&place, &server, "/greet Ada and \"Bob\" ").exits(0);
    assert_eq!(finished.stdout, "did: Say hello to Ada and \"Bob\".\n");
    place.write(".tine/skills/greet/hello.md", "Wave to {{ inputs.arguments }}.");
    let finished = typed(&place, &server, "/greet Ada").exits(0);
    assert_eq!(finished.stdout, "did: Wave to Ada.\n");
    let list = place.tine(["skills"]).run().exits(0).stdout;
    holds(&list, &["walks a flow when typed: .tine/skills/greet/flow.toml"]);
    // By its name it goes on as any flow does.
    let input = ["--input", "arguments=Eve", "-m", "m"];
    let run = place.tine(["flow", "run", "greet"].iter().chain(&input)).server(&server).run();
    assert_eq!(run.exits(0).stdout, "did: Wave to Eve.\n");
    let again = place.tine(["flow", "run", "greet", "-c", "-m", "m"]).server(&server).run();
    assert_eq!(again.exits(0).stdout, "did: Wave to Eve.\n");
    assert_eq!(server.finish().len(), 3, "the last one was answered before");
}

#[test]
fn a_flow_beside_a_skill_that_is_given_a_change_is_given_what_of_it_it_takes() {
    let repository = Repository::new();
    let skill = "---\ndescription: Tells.\nmetadata:\n  tine-context: change\n---\nTell.\n";
    repository.write(".tine/skills/tell/SKILL.md", skill);
    repository.write(
        ".tine/skills/tell/flow.toml",
        "[inputs]\narguments = \"\"\nchange_stat = \"\"\nchange_file = { required = true }\n\
         [[step]]\nname = \"tell\"\nprompt = \"\"\"\nTell {{ inputs.arguments }}: {{ inputs.change_stat }}\n\
         It is in {{ inputs.change_file }}\"\"\"\n",
    );
    repository.write("a.rs", "fn a() {}\n");
    repository.commit("Begin");
    let place = &repository.place;
    let server = serve(|_| Reaction::text_reply("told"));
    repository.write("a.rs", "fn b() {}\n");
    let finished = typed(place, &server, "/tell --uncommitted in a word").exits(0);
    assert_eq!(finished.stdout, "told\n");
    let requests = server.finish();
    let talk = Talk::of(&requests[0]);
    holds(talk.task(), &["Tell in a word: - a.rs (+1 -1)\nIt is in "]);
    let file = talk.task().rsplit_once("It is in ").unwrap().1.trim_end();
    holds(&std::fs::read_to_string(file).unwrap(), &["uncommitted change", "+fn b() {}"]);
    let refused = place.tine(["-p", "/tell --base gone", "-m", "offline"]).run().exits(42);
    holds(&refused.stderr, &["gone"]);
}

#[test]
fn words_that_a_flow_does_not_take_or_lacks_are_refused_before_anything_runs() {
    let place = greeting();
    place
        .tine(["-p", "/greet", "-m", "offline"])
        .run()
        .refuses(42, "error: `/greet` needs words behind it\nhint: `/greet WHO`\n");
    place.write(".tine/skills/greet/flow.toml", "[[step]]\nname = \"a\"\nprompt = \"x\"\n");
    place.tine(["-p", "/greet Ada", "-m", "offline"]).run().refuses(
        42,
        "error: `/greet` takes no words: its flow `greet` has no input `arguments`\n\
         hint: `tine flow run /greet --input NAME=VALUE` gives its inputs\n",
    );
    let model = place.script("script.json", &json!({"units": {"a": [{"text": "y"}]}}));
    assert_eq!(place.tine(["-p", "/greet", "-m", &model]).run().exits(0).stdout, "y\n");
}

#[test]
fn a_broken_flow_beside_a_skill_is_told_by_file_and_line_and_in_nobodys_way() {
    let place = greeting();
    let broken = format!("{FLOW}typ = \"explore\"\n");
    let path = place.write(".tine/skills/greet/flow.toml", broken);
    let refused = place.tine(["-p", "/greet Ada", "-m", "offline"]).run().exits(42);
    holds(&refused.stderr, &[&format!("{}:7: ", path.display()), "there is no key `typ` here"]);
    assert_eq!(place.sessions().len(), 0, "no session was begun");
    let checked = place.tine(["skills", "check", ".tine/skills"]).run().exits(1);
    let line = checked.stdout.lines().find(|line| line.contains("there is no key `typ` here"));
    assert!(
        line.is_some_and(|it| it.starts_with(".tine/skills/greet/flow.toml:7: error: ")),
        "{checked:?}"
    );
    // Whoever does not type it is not bothered.
    let server =
        serve_calls(&[("Skill", json!({ "skill": "greet", "args": "Ada" }))], |_| Reaction::Close);
    place.ask(&server, &[]).exits(0);
    holds(&shown(&server.finish())[0], &["Greet Ada."]);
    place.write(".tine/skills/greet/flow.toml", FLOW);
    let checked = place.tine(["skills", "check", ".tine/skills"]).run().exits(0);
    assert_eq!(checked.stdout, "");
}

#[test]
fn what_a_skill_with_a_flow_allows_is_its_agents_once_it_is_trusted() {
    let place = greeting();
    let allowing = SKILL.replace("argument-hint", "allowed-tools: Write(made.txt)\nargument-hint");
    place.write(".tine/skills/greet/SKILL.md", allowing);
    let server = serve(|talk| match talk.turn() {
        1 => {
            Reaction::call_reply(&[("Write", json!({ "file_path": "made.txt", "content": "x\n" }))])
        }
        _ => Reaction::text_reply("ok"),
    });
    let greet = |flags: &[&str]| {
        let fixed = ["-p", "/greet Ada", "-m", "m"];
        place.tine(fixed.iter().chain(flags)).server(&server).run().exits(0);
        place.read("made.txt")
    };
    assert_eq!(greet(&[]), None);
    assert_eq!(greet(&["--trust"]).as_deref(), Some("x\n"));
}

#[test]
fn a_model_that_only_the_user_may_choose_is_none_for_a_skills_flow_either() {
    let place = greeting();
    place.write(
        ".tine/skills/greet/flow.toml",
        FLOW.replace("sees =", "model = \"offline\"\nsees ="),
    );
    let model = place.script("script.json", &json!({"units": {"*": [{"text": "y"}]}}));
    let finished = place.tine(["-p", "/greet Ada", "-m", &model, "-o", "json"]).run();
    let said = format!("{}{}", finished.stdout, finished.stderr);
    assert!(said.contains("can only be chosen with"), "{said}");
}

/// The roles of what a request says, and what it says, oldest first, without the
/// facts of the moment.
fn said(talk: &Talk) -> Vec<(String, String)> {
    let messages = talk.messages().iter().filter(|message| message["role"] != "system");
    let text = |message: &Value| {
        let text = message["content"].as_str().unwrap_or_default();
        text.split_once("</environment>\n\n").map_or(text, |(_, text)| text).to_owned()
    };
    messages.map(|it| (it["role"].as_str().unwrap_or_default().to_owned(), text(it))).collect()
}

/// Has a session go on after a flow that ended so, and returns what main's next
/// request says.
fn after_a_flow(api: &str, fails: bool) -> Vec<(String, String)> {
    let place = greeting();
    let says: fn(&str) -> Reaction = match api {
        "chat" => Reaction::text_reply,
        "responses" => |text| responses::Says::text(text).reaction(),
        _ => anthropic::text_reply,
    };
    let talk: fn(&RecordedRequest) -> Talk = match api {
        "chat" => Talk::of,
        "responses" => responses::talk,
        _ => anthropic::talk,
    };
    let server = Server::start(move |request| match talk(request).task() {
        "Say hello to Ada." if fails => {
            Reaction::json(400, &json!({ "error": { "message": "no" } }))
        }
        "Say hello to Ada." => says("Hello, Ada."),
        _ => says("ok"),
    });
    let url = server.base_url();
    place.configure(&format!(
        "[models.m]\napi = '{api}'\nbase_url = '{url}'\nkey_env = 'M_KEY'\n[retry]\nmost = 0\n"
    ));
    let run = |flags: &[&str]| place.tine(flags).env("M_KEY", "sk-for-tests-only").run();
    run(&["-p", "/greet Ada", "-m", "m"]).exits(i32::from(fails));
    run(&["-p", "so?", "-m", "m", "-c"]).exits(0);
    let requests = server.finish();
    assert_eq!(requests.len(), 2);
    said(&talk(&requests[1]))
}

#[test]
fn a_conversation_goes_on_after_a_flow_with_its_request_and_what_it_came_to() {
    for api in ["chat", "responses", "anthropic"] {
        let said = after_a_flow(api, false);
        let roles: Vec<&str> = said.iter().map(|(role, _)| &**role).collect();
        assert_eq!(roles, ["user", "assistant", "user"], "{api}");
        holds(&said[0].1, &["Walk the flow `greet`", "Ada"]);
        assert_eq!((&*said[1].1, &*said[2].1), ("Hello, Ada.", "so?"), "{api}");
        let said = after_a_flow(api, true);
        assert_eq!(said.len(), 3, "{api}: {said:?}");
        holds(&said[1].1, &["[The flow did not come to its end: failed: "]);
    }
}

#[test]
fn a_program_that_drives_a_session_walks_a_flow_and_goes_on() {
    let place = greeting();
    let server = serve(|talk| match talk.task() {
        "Say hello to Ada." => Reaction::text_reply("Hello, Ada."),
        _ => Reaction::text_reply("ok"),
    });
    let message =
        |text: &str| json!({"type": "user", "message": {"role": "user", "content": text}});
    let lines = format!("{}\n{}\n", message("/greet Ada"), message("so?"));
    let flags = ["--input-format", "stream-json", "-o", "stream-json", "-m", "m"];
    let finished = place.tine(flags).server(&server).stdin(lines).run().exits(0);
    let records = finished.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let results = records.filter(|it| it["type"] == "result");
    let results: Vec<Value> = results.map(|mut it| it["result"].take()).collect();
    assert_eq!(results, ["Hello, Ada.", "ok"]);
    let requests = server.finish();
    let said = said(&Talk::of(&requests[1]));
    assert_eq!((said.len(), &*said[1].1), (3, "Hello, Ada."), "{said:?}");
}

#[test]
fn a_chat_walks_a_flow_shows_what_it_came_to_and_goes_on() {
    let place = greeting();
    let server = serve(|talk| match talk.task() {
        "Say hello to Ada." => Reaction::text_reply("Hello, Ada."),
        _ => Reaction::text_reply("You are welcome."),
    });
    let flags = ["-m", "m", "--ax-screen-reader", "--config", "retry.most=0"];
    let mut sitting =
        Sitting::start(place.tine(flags).server(&server), Size { columns: 100, rows: 40 });
    sitting.wait_for(">");
    sitting.keys("/greet Ada\n");
    sitting.wait_for("Hello, Ada.");
    sitting
        .wait_until(|screen| screen.text().lines().last().is_some_and(|it| it.trim_end() == ">"));
    sitting.keys("thanks\n");
    sitting.wait_for("You are welcome.");
    sitting
        .wait_until(|screen| screen.text().lines().last().is_some_and(|it| it.trim_end() == ">"));
    sitting.keys("\u{4}");
    assert_eq!(sitting.wait().0, Some(0), "{}", sitting.screen.text());
    let said = said(&Talk::of(&server.finish()[1]));
    assert_eq!((said.len(), &*said[1].1, &*said[2].1), (3, "Hello, Ada.", "thanks"), "{said:?}");
}
