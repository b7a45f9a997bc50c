//! Instructions and agent definitions that a repository brings along.

use serde_json::Value;

use crate::support::play::Case;

/// Returns the system prompt of the only request.
fn system(case: &Case) -> String {
    let [body] = &case.bodies()[..] else { panic!("there is one request") };
    let text = |message: &Value| message["content"].to_string();
    body["messages"].as_array().expect("there are messages").iter().map(text).collect()
}

fn ask(name: &str, below: &str) -> String {
    let case = Case::open(name).in_git();
    case.tine(&["-m", "m", "-p", "go"]).at(&case.place.work().join(below)).run().exits(0);
    system(&case)
}

#[test]
fn the_instructions_of_every_directory_hold_and_the_nearest_come_last() {
    let said = ask("agents-md-of-parents", "sub");
    let top = said.find("TOP RULE: never push.").expect("the rule of the top is there");
    let sub = said.find("SUB RULE: use tabs.").expect("the rule of the directory is there");
    assert!(top < sub, "{said}");
}

#[test]
fn what_a_claude_md_imports_is_read() {
    let said = ask("agents-md-of-parents", "imports");
    for rule in ["TOP RULE", "CLAUDE RULE", "IMPORTED RULE"] {
        assert!(said.contains(rule), "{rule}: {said}");
    }
}

#[test]
fn an_import_is_read_under_the_rules_for_reading() {
    let case = Case::open("agents-md-of-parents").in_git();
    case.place.write("imports/CLAUDE.md", "@docs/rules.md\n@../.env\n@~/notes.md\n@gone.md\n");
    case.place.write(".env", "TOKEN=abc123\n");
    case.place.write("../home/notes.md", "PRIVATE NOTE\n");
    let flags = ["-m", "m", "-p", "go", "--disallowed-tools", "Read(docs/**)", "--yolo"];
    case.tine(&flags).at(&case.place.work().join("imports")).run().exits(0);
    let said = system(&case);
    for secret in ["IMPORTED RULE", "abc123", "PRIVATE NOTE"] {
        assert!(!said.contains(secret), "{secret}: {said}");
    }
    for told in [
        "`@docs/rules.md`: denied by the rule `Read(docs/**)`",
        "`@../.env`: `",
        "`@~/notes.md`: it is outside the project",
        "`@gone.md`: there is no such file",
    ] {
        assert!(said.contains(told), "{told}: {said}");
    }
}

#[test]
fn agents_in_directories_are_found_and_a_star_needs_no_quotes() {
    let case = Case::open("agent-files-in-directories").in_git();
    let listed = case.tine(&["agents"]).run().exits(0);
    for name in ["deep ", "review/deep.md", "star ", "agents/star.md"] {
        assert!(listed.stdout.contains(name), "{name}: {}", listed.stdout);
    }
    assert_eq!(listed.stderr, "");
    let checked = case.tine(&["agents", "check"]).run();
    let said = format!("{}{}", checked.stdout, checked.stderr);
    assert!(said.contains("star.md") && said.contains("without quotes this value"), "{said}");
    assert!(said.contains("2 agents: 0 errors, 1 warning"), "{said}");
}

#[test]
fn definitions_are_found_in_every_kind_of_directory_and_the_rest_is_told() {
    let case = Case::open("agent-files-in-directories").in_git();
    let agent = |name: &str| format!("---\nname: {name}\ndescription: d\n---\nWork.\n");
    case.place.write(".tine/agents/a/b/c/d/far.md", agent("far"));
    case.place.write(".tine/agents/a/b/c/d/e/farther.md", agent("farther"));
    case.place.write(".agents/agents/team/near.md", agent("near"));
    case.place.write(".agents/agents/team/README.md", "# How to\n");
    case.place.write(".agents/agents/team/bad.md", "---\ndescription: d\n---\n");
    case.place
        .write(".tine/skills/group/greet/SKILL.md", "---\nname: greet\ndescription: d\n---\n");
    case.place.write("elsewhere/linked.md", agent("linked"));
    case.shell("ln -s ../../elsewhere .tine/agents/link");
    let listed = case.tine(&["agents"]).run().exits(0);
    let (said, warned) = (&listed.stdout, &listed.stderr);
    assert!(said.contains("far") && said.contains("near"), "{said}");
    assert!(!said.contains("farther") && !said.contains("linked"), "{said}");
    for told in [
        "agents/a/b/c/d/e: is nested more than 4 directories deep",
        "agents/link: is a link to a directory, which is not followed",
        "team/bad.md: line 1: an agent needs a `name:`",
    ] {
        assert!(warned.contains(told), "{told}: {warned}");
    }
    assert!(!warned.contains("README"), "{warned}");
    let skills = case.tine(&["skills"]).run().exits(0);
    assert!(skills.stdout.contains("greet"), "{}", skills.stdout);
}

#[test]
fn what_an_agent_in_a_directory_may_counts_only_once_it_is_trusted() {
    let case = Case::open("agent-files-in-directories").in_git();
    let text = "---\nname: free\ndescription: d\npermissionMode: bypassPermissions\n---\nWork.\n";
    case.place.write(".claude/agents/review/deeper/free.md", text);
    let listed = case.tine(&["agents"]).run().exits(0);
    assert!(listed.stderr.contains("review/deeper/free.md"), "{}", listed.stderr);
    assert!(listed.stderr.contains("is not trusted"), "{}", listed.stderr);
}
