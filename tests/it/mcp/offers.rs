//! What a conversation has of servers: the same from the first request on,
//! until a summary makes room for what came later.

use serde_json::{Value, json};

use super::{IMPATIENT, config, init, odd, outputs, place, records, served};

/// A script whose main makes no calls, and checks what it is told of tools.
fn expecting(contains: &[&str], lacks: &[&str]) -> Value {
    let contains: Vec<String> = contains.iter().map(|name| format!("tool {name}")).collect();
    let lacks: Vec<String> = lacks.iter().map(|name| format!("tool {name}")).collect();
    let reply =
        json!({ "text": "ok", "expect": { "contains": contains, "lacks": lacks }, "repeat": true });
    json!({ "units": { "main": [reply] } })
}

#[test]
fn a_late_servers_tools_wait_for_a_summary_and_then_join() {
    let place = place();
    // It answers once this is there.
    let gate = place.root().join("gate");
    let late = odd(&["late", gate.to_str().expect("the path is UTF-8")]);
    let config = config(&json!({ "late": late, "soon": odd(&["plain"]) }));
    let given = ["--mcp-config", &config, "-o", "stream-json"];
    let flags: Vec<&str> = given.iter().chain(&IMPATIENT).copied().collect();
    // The first prompt: the late one is not waited for.
    let first = place.script("1.json", &expecting(&["mcp__soon__echo"], &["mcp__late__echo"]));
    let finished = place.tine(["-p", "one", "-m", &first].iter().chain(&flags)).run().exits(0);
    assert_eq!(init(&finished)["mcp_servers"][0]["status"], "pending");
    assert!(
        finished.stdout.contains("its tools join at the next compaction"),
        "{}",
        finished.stdout
    );
    std::fs::write(gate, "").expect("the place can be written");
    // The session goes on, and now it is there in time: what the conversation
    // has stays the same.
    let patient = ["--mcp-config", &config, "-o", "stream-json", "-c"];
    let second = place.script("2.json", &expecting(&["mcp__soon__echo"], &["mcp__late__echo"]));
    let finished = place.tine(["-p", "two", "-m", &second].iter().chain(&patient)).run().exits(0);
    assert_eq!(init(&finished)["mcp_servers"][0]["status"], "connected");
    assert!(served(&init(&finished)).iter().all(|name| name.starts_with("mcp__soon__")));
    // A summary makes room.
    let summed = json!({ "units": { "main:compact": [{ "text": "all so far" }] } });
    let third = place.script("3.json", &summed);
    place.tine(["-p", "/compact", "-m", &third].iter().chain(&patient)).run().exits(0);
    let fourth = place.script("4.json", &expecting(&["mcp__late__echo", "mcp__soon__echo"], &[]));
    let finished = place.tine(["-p", "four", "-m", &fourth].iter().chain(&patient)).run().exits(0);
    assert_eq!(served(&init(&finished))[0], "mcp__late__die");
}

#[test]
fn a_session_goes_on_with_the_tools_it_had_though_the_server_is_gone() {
    let place = place();
    let good = config(&json!({ "a": odd(&["plain"]) }));
    let script = place.script("1.json", &expecting(&["mcp__a__echo"], &[]));
    let flags = ["-o", "stream-json", "--yolo", "--mcp-config"];
    let run = |script: &str, config: &str, more: &[&str]| {
        let given = ["-p", "go", "-m", script];
        place.tine(given.iter().chain(&flags).chain(&[config]).chain(more)).run().exits(0)
    };
    run(&script, &good, &[]);
    // The same server, which now dies at once.
    let dead = config(&json!({ "a": odd(&["die"]) }));
    let calling = json!({ "units": { "main": [
        { "calls": [{ "name": "mcp__a__echo", "arguments": {} }], "expect": { "contains": ["tool mcp__a__echo"] } },
        { "text": "done" },
    ] } });
    let finished = run(&place.script("2.json", &calling), &dead, &["-c"]);
    assert!(served(&init(&finished)).contains(&"mcp__a__echo"));
    let (is_error, text) = &outputs(&finished)[0];
    assert!(*is_error && text.starts_with("The server `a` gave no result: "), "{text}");
    // One that is not configured any more takes its tools along.
    let gone = run(
        &place.script("3.json", &expecting(&[], &["mcp__a__echo"])),
        "{\"mcpServers\":{}}",
        &["-c"],
    );
    assert_eq!(served(&init(&gone)), Vec::<&str>::new());
}

#[test]
fn an_agents_tools_are_its_callers_and_a_list_may_name_a_server() {
    let place = place();
    place.write(
        ".claude/agents/served.md",
        "---\nname: served\ndescription: d\ntools: Read, mcp__a\n---\nYou serve.\n",
    );
    let config = config(&json!({ "a": odd(&["plain"]), "b": odd(&["plain"]) }));
    let slot = json!({ "description": "s", "prompt": "go", "subagent_type": "served" });
    let fork = json!({ "description": "f", "prompt": "go", "subagent_type": "fork" });
    let all = ["tool mcp__a__echo", "tool mcp__b__echo"];
    let script = json!({ "units": {
        "main": [
            { "calls": [{ "name": "Agent", "arguments": { "tasks": [slot, fork] } }] },
            { "text": "done" },
        ],
        "s": [{ "text": "ok", "expect": { "contains": ["tool mcp__a__echo"], "lacks": ["tool mcp__b__echo"] } }],
        "f": [{ "text": "ok", "expect": { "contains": all } }],
    } });
    let flags = ["--mcp-config", &config, "-o", "stream-json"];
    let finished = place.play(&script, &flags).exits(0);
    let (is_error, text) = &outputs(&finished)[0];
    assert!(!is_error && text.matches("ok").count() >= 2, "{text}");
}

#[test]
fn a_tool_that_is_denied_is_not_offered_and_an_agent_has_what_it_lists() {
    let place = place();
    place.write(
        ".claude/agents/served.md",
        "---\nname: served\ndescription: d\ntools: Read, mcp__a\n---\nYou serve.\n",
    );
    let config = config(&json!({ "a": odd(&["plain"]), "b": odd(&["plain"]) }));
    let denied = ["tool mcp__a__die", "tool mcp__b__echo"];
    let reply =
        json!({ "text": "ok", "expect": { "contains": ["tool mcp__a__echo"], "lacks": denied } });
    let script = json!({ "units": { "main": [reply] } });
    let flags = ["--disallowed-tools", "mcp__a__die", "mcp__b", "--mcp-config", &config];
    place.play(&script, &flags).exits(0);
    let flags = ["--agent", "served", "--disallowed-tools", "mcp__a__die", "--mcp-config", &config];
    place.play(&script, &flags).exits(0);
}

#[test]
fn a_prompt_of_a_server_is_typed_as_a_command_and_a_resource_is_named() {
    let place = place();
    let config = config(&json!({ "a": odd(&["plain"]) }));
    let run = |prompt: &str, contains: &[&str]| {
        let reply = json!({ "text": "ok", "expect": { "contains": contains } });
        let script = place.script("s.json", &json!({ "units": { "main": [reply] } }));
        place.tine(["-p", prompt, "-m", &script, "--mcp-config", &config]).run()
    };
    run("/mcp__a__greet Ada Lovelace", &["Say hello to Ada Lovelace."]).exits(0);
    run("/MCP__a__Greet Ada", &["Say hello to Ada."]).exits(0);
    let shown = [
        "read @a:odd://one, please",
        "<resource server=\"a\" uri=\"odd://one\">\nthe text of one\n</resource>",
    ];
    run("read @a:odd://one, please", &shown).exits(0);
    run("read @a:odd://two", &["[@a:odd://two: not attached: no such resource]"]).exits(0);
    run("mail me@a:b or @nobody:x", &["mail me@a:b or @nobody:x"]).exits(0);
    let missing = run("/mcp__a__greet", &[]).exits(1);
    assert!(missing.stderr.contains("needs its argument `who`"), "{}", missing.stderr);
    let unknown = run("/mcp__a__no", &[]).exits(1);
    assert!(unknown.stderr.contains("there are: /mcp__a__greet"), "{}", unknown.stderr);
}

#[test]
fn the_servers_are_listed_for_people_and_for_programs() {
    let place = place();
    let config = config(&json!({ "a": odd(&["plain"]), "b": odd(&["die"]) }));
    let flags = ["mcp", "list", "--mcp-config", &config];
    let text = place.tine(flags).run().exits(1).stdout;
    assert!(text.starts_with("a  connected  (`--mcp-config`)\n  mcp__a__die\n"), "{text}");
    assert!(
        text.contains("  /mcp__a__greet\n  1 resource, as @a:URI\n    @a:odd://one\n"),
        "{text}"
    );
    assert!(text.contains("b  failed  ") && text.contains("the key is wrong"), "{text}");
    let lines = place.tine(flags.iter().chain(&["--json"])).run().exits(1);
    let records = records(&lines);
    assert_eq!(
        (&records[0]["status"], &records[1]["status"]),
        (&json!("connected"), &json!("failed"))
    );
    assert_eq!(records[0]["prompts"], json!(["mcp__a__greet"]));
    place.tine(flags.iter().chain(&["--allowed-mcp-server-names", "a"])).run().exits(0);
}

#[test]
fn a_client_is_told_how_servers_stand() {
    let place = place();
    let config = config(&json!({ "a": odd(&["plain"]) }));
    let request = json!({ "type": "control_request", "request_id": "r",
        "request": { "subtype": "mcp_server_status" } });
    let flags = ["--input-format", "stream-json", "-o", "stream-json", "-m", "offline"];
    let tine = place.tine(flags.iter().chain(&["--mcp-config", &config]));
    let finished = tine.stdin(format!("{request}\n")).run().exits(0);
    let reply = &records(&finished)[0]["response"]["response"];
    assert_eq!(reply["mcpServers"], json!([{ "name": "a", "status": "pending" }]));
}

#[test]
fn the_use_of_the_context_counts_the_tools_of_servers() {
    let place = place();
    let config = config(&json!({ "a": odd(&["plain"]) }));
    let model = place.script("script.json", &json!({ "units": { "main": [{ "text": "hi" }] } }));
    let flags = ["--input-format", "stream-json", "-o", "stream-json", "--mcp-config", &config];
    let mut running = place.tine(flags.iter().chain(&["-m", &model])).silent_stdin().start();
    let message = json!({ "type": "user", "message": { "role": "user", "content": "go" } });
    running.say(&message.to_string());
    running.read_until(|record| record["type"] == "result");
    let request = json!({ "type": "control_request", "request_id": "r",
        "request": { "subtype": "get_context_usage" } });
    running.say(&request.to_string());
    let reply = running.read_until(|record| record["type"] == "control_response");
    let usage = &reply["response"]["response"];
    let tools = usage["mcpTools"].as_array().expect("a list");
    let first = &tools[0];
    assert_eq!((&first["name"], &first["serverName"]), (&json!("mcp__a__die"), &json!("a")));
    let tokens = usage["breakdown"]["mcpTools"].as_u64().expect("a number");
    let share = tokens / u64::try_from(tools.len()).expect("there are few");
    assert!(share > 0 && first["tokens"] == share, "{usage}");
    running.hang_up();
    running.wait().exits(0);
}
