//! What people call tools of servers: whatever they write means the tool that
//! they see configured, however its own name had to be changed.

use serde_json::{Value, json};

use super::{calling, config, init, odd, outputs, place, served};
use crate::support::tine::{Finished, Place};

const LONG: &str = "my-company-internal-tools";

/// With its server's name it has more characters than any provider takes.
const LONG_TOOL: &str = "delete_all_records_of_a_customer_and_their_backups";

fn named(tools: &[&str]) -> Value {
    let mut entry = odd(&["named"]);
    entry["env"] = json!({ "NAMES": tools.join(",") });
    entry
}

/// Runs main with these calls.
fn run(place: &Place, servers: &Value, calls: &[&str], flags: &[&str]) -> Finished {
    let calls: Vec<(&str, Value)> = calls.iter().map(|name| (*name, json!({}))).collect();
    let model = place.script("s.json", &calling(&calls));
    let config = config(servers);
    let given = ["-p", "go", "-m", &model, "--mcp-config", &config, "-o", "stream-json"];
    place.tine(given.iter().chain(flags)).run().exits(0)
}

fn rules(kind: &str, rules: &[&str]) -> String {
    json!({ "permissions": { kind: rules } }).to_string()
}

#[test]
fn what_denies_a_tool_by_its_plain_name_holds_however_long_that_is() {
    let place = place();
    let servers = json!({ LONG: named(&["delete", LONG_TOOL]) });
    let names = served(&init(&run(&place, &servers, &[], &[]))).join(" ");
    let names: Vec<&str> = names.split(' ').collect();
    let plain = [format!("mcp__{LONG}__delete"), format!("mcp__{LONG}__{LONG_TOOL}")];
    assert!(names.contains(&&*plain[0]) && names.iter().all(|name| name.len() <= 64), "{names:?}");
    let cut = names.iter().find(|name| **name != plain[0]).expect("there are two");
    let server = format!("mcp__{LONG}");
    for (rule, name) in [(&plain[0], &*plain[0]), (&plain[1], *cut), (&server, *cut)] {
        let settings = rules("deny", &[rule]);
        let denied = run(&place, &servers, &[name], &["--yolo", "--settings", &settings]);
        let (is_error, text) = &outputs(&denied)[0];
        let said = format!("Permission to use {name} denied: denied by the rule `{rule}`");
        assert!(*is_error && text.starts_with(&said), "{rule}: {text}");
        let taken = run(&place, &servers, &[name], &["--yolo", "--disallowed-tools", rule]);
        assert!(outputs(&taken)[0].1.contains("not found"), "{rule}: {:?}", outputs(&taken));
        // What looks nothing like another allows, too.
        let allowed = run(&place, &servers, &[name], &["--allowed-tools", rule]);
        assert_eq!(outputs(&allowed)[0], (false, "{}".to_owned()), "{rule}");
        assert!(!allowed.stdout.contains("means none of the tools"), "{rule}");
    }
    let agent = json!({ "a": { "description": "d", "prompt": "p", "tools": [plain[1]] } });
    let flags = ["--yolo", "--agents", &agent.to_string(), "--agent", "a"];
    let agents = outputs(&run(&place, &servers, &[cut, &plain[0]], &flags));
    assert_eq!(agents[0], (false, "{}".to_owned()));
    assert!(agents[1].1.contains("not found"), "{agents:?}");
}

#[test]
fn a_hook_is_asked_about_a_tool_by_its_plain_name_however_long_that_is() {
    let place = place();
    let servers = json!({ LONG: named(&[LONG_TOOL]) });
    let names = served(&init(&run(&place, &servers, &[], &[]))).join(" ");
    for matcher in [
        format!("mcp__{LONG}__.*"),
        format!("mcp__{LONG}__{LONG_TOOL}"),
        "mcp__.*_and_their_backups$".to_owned(),
    ] {
        let hook = json!({ "type": "command", "command": "echo mine >&2; exit 2" });
        let hooks = json!({ "hooks": { "PreToolUse": [{ "matcher": matcher, "hooks": [hook] }] } });
        let flags = ["--yolo", "--settings", &hooks.to_string()];
        let (is_error, text) = &outputs(&run(&place, &servers, &[&names], &flags))[0];
        assert!(*is_error && text.contains("a hook says no: mine"), "{matcher}: {text}");
    }
}

#[test]
fn a_server_that_looks_like_another_takes_no_denial_from_it_and_no_leave() {
    let place = place();
    let servers = json!({ "a_b": named(&["delete"]), "a.b": named(&["delete", "Delete"]) });
    let names = served(&init(&run(&place, &servers, &[], &[]))).join(" ");
    let names: Vec<&str> = names.split(' ').collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for rule in ["mcp__a_b__delete", "mcp__a_b"] {
        let settings = rules("deny", &[rule]);
        let denied = run(&place, &servers, &names, &["--yolo", "--settings", &settings]);
        for (is_error, text) in outputs(&denied) {
            assert!(is_error && text.contains(&format!("by the rule `{rule}`")), "{rule}: {text}");
        }
    }
    let flags = ["--allowed-tools", "mcp__a_b__delete"];
    let allowed = run(&place, &servers, &names, &flags);
    assert!(outputs(&allowed).iter().all(|(is_error, _)| *is_error), "{:?}", outputs(&allowed));
    let said = "the rule `mcp__a_b__delete` means none of the tools that its server offers";
    assert!(allowed.stdout.contains(said), "{}", allowed.stdout);
}

#[test]
fn a_rule_for_a_server_that_means_none_of_its_tools_is_told() {
    let place = place();
    let servers = json!({ "a": named(&["delete"]), "gone": odd(&["die"]) });
    let settings = json!({ "permissions": {
        "deny": ["mcp__a__delet", "mcp__a__delete", "mcp__a", "mcp__b__x", "mcp__gone__x"],
        "ask": ["mcp__A__DELETE"],
    } });
    let finished = run(&place, &servers, &[], &["--settings", &settings.to_string()]);
    let told = finished.stdout.matches("means none of the tools").count();
    assert_eq!(told, 1, "{}", finished.stdout);
    assert!(finished.stdout.contains("the rule `mcp__a__delet` means none"), "{}", finished.stdout);
}
