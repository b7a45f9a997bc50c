//! The offline model's parts, from request to answer, and each of its rules.

use futures_util::StreamExt as _;

use super::*;
use crate::message::Head;

const SKILL: &str = include_str!("../../../skills/review/SKILL.md");

fn user(text: &str) -> Message {
    Message::User(text.into())
}

/// Asks the model and returns its answer, checking what holds for all.
fn ask(agent: &str, description: &str, messages: &[Message]) -> Result<Reply, ModelError> {
    let mut prefix = Prefix::new(Arc::new(Head::new(String::new(), Vec::new())));
    messages.iter().for_each(|message| prefix.push(message.clone()));
    respond(Purpose::Turn, agent, description, prefix)
}

fn respond(
    purpose: Purpose,
    agent: &str,
    description: &str,
    prefix: Prefix,
) -> Result<Reply, ModelError> {
    let unit = UnitId(u32::from(agent != "main"));
    let (agent, description) = (agent.into(), description.into());
    let asker = Asker {
        unit,
        agent,
        description,
        purpose,
        turn: 1,
        attempt: 1,
        is_afresh: true,
        forked_from: None,
    };
    let stream = Offline::new().respond(Request { prefix, asker, text_schema: None });
    let mut chunks = futures_util::future::FutureExt::now_or_never(stream.collect::<Vec<_>>())
        .expect("the answer is there at once");
    let Chunk::Finished(answer) = chunks.pop().unwrap()? else { panic!("not finished") };
    let text: Vec<_> = chunks.into_iter().map(Result::unwrap).collect();
    let said =
        (!answer.reply.text.is_empty()).then(|| Chunk::Text(answer.reply.text.as_str().into()));
    assert_eq!(text, said.into_iter().collect::<Vec<_>>());
    assert_eq!(answer.usage, Usage::default());
    assert_eq!(answer.stop == StopReason::ToolUse, !answer.reply.calls.is_empty());
    Ok(answer.reply)
}

#[test]
fn it_refuses_to_sum_up_what_it_cannot_read() {
    let prefix = Prefix::new(Arc::new(Head::new(String::new(), Vec::new())));
    let refused = ModelError::new(ModelErrorKind::Request, WHAT_IT_IS);
    assert_eq!(respond(Purpose::Summary, "main", "", prefix), Err(refused));
}

fn outputs(reply: &Reply, texts: &[Output]) -> Vec<Message> {
    let mut messages = vec![Message::Model(Arc::new(reply.clone()))];
    messages.extend(reply.calls.iter().zip(texts).map(|(call, output)| Message::Output {
        call: call.id.clone(),
        output: Arc::new(output.clone()),
    }));
    messages
}

fn calls(reply: &Reply) -> Vec<(&str, Value)> {
    let arguments = |call: &Call| serde_json::from_str(&call.arguments).unwrap();
    reply.calls.iter().map(|call| (&*call.tool, arguments(call))).collect()
}

/// A task as the runtime hands it to a reviewer.
fn task(diff: &str) -> Message {
    user(&prompt::attach("look\n\n@/s/change.diff\n", |_| Ok(diff.as_bytes().to_vec())))
}

/// A diff that adds the given lines to a new file.
fn adding(path: &str, lines: &str) -> String {
    let count = lines.lines().count();
    let added: String = lines.lines().map(|line| format!("+{line}\n")).collect();
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{count} @@\n{added}"
    )
}

/// What a reviewer of this angle finds without having seen any file.
fn review_of(angle: &str, diff: &str) -> Vec<String> {
    let mut messages = vec![task(diff)];
    let mut reply = ask("reviewer", angle, &messages).unwrap();
    if !reply.calls.is_empty() {
        let errors = vec![Output::error("No such file."); reply.calls.len()];
        messages.extend(outputs(&reply, &errors));
        reply = ask("reviewer", angle, &messages).unwrap();
    }
    let (first, rest) = reply.text.split_once("\n\n").unwrap();
    assert_eq!(first, format!("Checked for {angle} by fixed rules, without a model."));
    rest.lines().filter(|line| *line != "No findings.").map(str::to_owned).collect()
}

#[test]
fn every_rule_has_seven_cells_and_patterns_that_compile() {
    let rows: Vec<Vec<&str>> = include_str!("rules.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
        .collect();
    for row in &rows {
        let [angle, severity, place, _, pattern, exception, reason] = row[..] else {
            panic!("not seven cells: {row:?}");
        };
        assert!(rules::ANGLES.contains(&angle), "{row:?}");
        assert!(["high", "medium", "low"].contains(&severity), "{row:?}");
        assert!(["code", "text", "comment", "test", "line"].contains(&place), "{row:?}");
        assert!(!reason.is_empty(), "{row:?}");
        for pattern in [pattern, exception] {
            assert!(grep_regex::RegexMatcher::new(pattern).is_ok(), "{row:?}");
        }
    }
    assert!(rows.len() >= 30);
}

#[test]
fn a_review_starts_with_one_batch_of_a_task_for_each_reviewer() {
    let skill = SKILL.replace("$CHANGE_FILE", "/s s/change.diff");
    let reply = ask("main", "", &[user("before"), user(&skill)]).unwrap();
    assert_eq!(reply.calls[0].id, CallId::from("offline-main-2-0"));
    let calls = calls(&reply);
    let [("Agent", arguments)] = &calls[..] else { panic!("{calls:?}") };
    let tasks = arguments["tasks"].as_array().unwrap();
    let names: Vec<_> = tasks.iter().map(|task| task["description"].as_str().unwrap()).collect();
    assert_eq!(names, rules::ANGLES);
    for task in tasks {
        let prompt = task["prompt"].as_str().unwrap();
        assert_eq!(task["subagent_type"], "reviewer");
        assert!(prompt.starts_with("Review the "), "{prompt}");
        assert!(prompt.ends_with("or with `No findings.`\n\n@/s s/change.diff"), "{prompt}");
        assert_eq!(prompt.matches("\n### ").count(), 0);
    }
}

#[test]
fn the_report_merges_what_was_found_and_names_who_failed() {
    let skill = user(SKILL);
    let started = ask("main", "", std::slice::from_ref(&skill)).unwrap();
    let text = "## Task 1: correctness (reviewer)\n\nChecked.\n\n- [low] src/b.rs:10: one\n- [low] src/b.rs:9: two\n\n---\n\n\
                ## Task 2: security (reviewer)\n\n[failed: HTTP 500]\n\n- [high] a: b.rs:3: three\n\n---\n\n\
                ## Task 3: clarity (reviewer)\n\nNote: only the head of the diff was checked\n\n- [low] src/b.rs:9: two\n- [bad] x:1: y\n- [high] no place\n";
    let mut messages = vec![skill];
    messages.extend(outputs(&started, &[Output::ok(text)]));
    let report = "Checked by fixed rules, without a model: 3 findings, the worst first.\n\n## Findings\n\n\
                  - [high] a: b.rs:3: three (security)\n\
                  - [low] src/b.rs:9: two (correctness, clarity)\n\
                  - [low] src/b.rs:10: one (correctness)\n\n\
                  ## What was checked\n\n\
                  - correctness: completed\n- security: failed: HTTP 500\n\
                  - clarity: completed, but only the head of the diff was checked\n";
    assert_eq!(ask("main", "", &messages).unwrap().text, report);
}

#[test]
fn a_report_says_when_nothing_was_found_or_nothing_could_start() {
    let skill = user(SKILL);
    let started = ask("main", "", std::slice::from_ref(&skill)).unwrap();
    let report = |output: Output| {
        let mut messages = vec![skill.clone()];
        messages.extend(outputs(&started, &[output]));
        ask("main", "", &messages).unwrap().text
    };
    assert_eq!(
        report(Output::ok("## Task 1: tests (reviewer)\n\nNo findings.")),
        "Checked by fixed rules, without a model: no findings, which is no proof that there are none.\n\n\
         ## Findings\n\nNo findings.\n\n## What was checked\n\n- tests: completed\n"
    );
    assert_eq!(
        report(Output::error("No agents here.")),
        "The offline review could not start its reviewers: No agents here."
    );
}

#[test]
fn a_reviewer_reads_the_changed_code_and_for_tests_what_is_named_like_it() {
    let gone = "diff --git a/gone.rs b/gone.rs\ndeleted file mode 100644\n--- a/gone.rs\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";
    let far = "diff --git a/far.py b/far.py\n--- a/far.py\n+++ b/far.py\n@@ -900,2 +900,2 @@\n-a\n+b\n c\n";
    let root = "# title\n# File names are relative to /top\n";
    let diff = [
        root,
        &adding("src/new.rs", "fn a() {}\n"),
        gone,
        far,
        &adding("Cargo.lock", "x"),
        &adding("a.md", "x"),
    ]
    .concat();
    let read = json!({"file_path": "/top/src/new.rs"});
    let page = json!({"file_path": "/top/far.py", "offset": 800, "limit": 201});
    let reply = ask("reviewer", "clarity", &[task(&diff)]).unwrap();
    assert_eq!(calls(&reply), [("Read", read.clone()), ("Read", page.clone())]);
    assert_eq!(reply.calls[1].id, CallId::from("offline-agent-1-1-1"));
    let reply = ask("reviewer", "tests", &[task(&diff)]).unwrap();
    let inside =
        json!({"pattern": r"cfg\(test\)", "path": "/top/src/new.rs", "output_mode": "content"});
    assert_eq!(
        calls(&reply),
        [
            ("Read", read),
            ("Glob", json!({"pattern": "**/*new*"})),
            ("Grep", inside),
            ("Read", page),
            ("Glob", json!({"pattern": "**/*far*"})),
        ]
    );
}

#[test]
fn only_so_many_files_are_read_and_none_for_prose() {
    let many: String = (0..40).map(|n| adding(&format!("f{n}.go"), "x")).collect();
    assert_eq!(ask("reviewer", "security", &[task(&many)]).unwrap().calls.len(), READS_CAP);
    let note = "Note: of 40 changed files only 12 were read";
    assert_eq!(review_of("clarity", &many)[0], note);
    let rest = "x\n".repeat(prompt::ATTACHED_CAP);
    let notes = review_of("clarity", &(many + &adding("a.md", &rest)));
    assert_eq!(notes[..3], ["Note: only the head of the diff was checked", "", note]);
    let prose = ask("reviewer", "clarity", &[task(&adding("a.md", "TODO `x` TODO"))]).unwrap();
    assert_eq!(prose.text, "Checked for clarity by fixed rules, without a model.\n\nNo findings.");
}

#[test]
fn a_task_without_its_diff_fails_and_a_cut_one_says_so() {
    let error = ask("reviewer", "tests", &[user("look\n@/s/change.diff")]).unwrap_err();
    assert_eq!(error.message, "the diff could not be attached to the task");
    let long = adding("a.md", &"x\n".repeat(prompt::ATTACHED_CAP));
    assert_eq!(review_of("clarity", &long), ["Note: only the head of the diff was checked", ""]);
}

#[test]
fn anything_else_is_told_what_this_is() {
    for (agent, description) in [("main", ""), ("explore", "tests"), ("reviewer", "my own angle")] {
        let reply = ask(agent, description, &[user("write me a poem")]).unwrap();
        assert_eq!(reply, said(WHAT_IT_IS));
    }
    // The last prompt counts, not the review before it.
    assert_eq!(ask("main", "", &[user(SKILL), user("thanks")]).unwrap(), said(WHAT_IT_IS));
}

/// Checks which severities an angle gives to the lines of a new file.
#[track_caller]
fn check(angle: &str, path: &str, lines: &str, expected: &[(&str, u32)]) {
    let found = review_of(angle, &adding(path, lines));
    let heads: Vec<_> =
        found.iter().map(|line| line.split(": ").next().unwrap().to_owned()).collect();
    let expected: Vec<_> =
        expected.iter().map(|(severity, line)| format!("- [{severity}] {path}:{line}")).collect();
    assert_eq!(heads, expected, "{found:#?}");
}

#[test]
fn correctness_finds() {
    let rust = "let a = b.unwrap();\nlet c = d.expect(\"x\");\npanic!(\"no\");\ntodo!()\nlet _ = remove(a);";
    let all = [("medium", 1), ("low", 2), ("medium", 3), ("high", 4), ("low", 5)];
    check("correctness", "src/a.rs", rust, &all);
    check(
        "correctness",
        "a.py",
        "try:\n    x()\nexcept:\n    pass\nexcept E: pass",
        &[("medium", 3), ("medium", 5)],
    );
    check("correctness", "a.ts", "} catch (e) {}", &[("medium", 1)]);
    check("correctness", "a.go", "\t_ = file.Close()\n\tif x == 0.1 {", &[("low", 1), ("low", 2)]);
    check(
        "correctness",
        "a.toml",
        "<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> b",
        &[("high", 1), ("high", 5)],
    );
}

#[test]
fn security_finds() {
    let key = ["AKIA", "ABCDEFGHIJKLMNOP"].concat();
    check("security", "README.md", &format!("key {key}"), &[("high", 1)]);
    check("security", "k.pem", "-----BEGIN RSA PRIVATE KEY-----", &[("high", 1)]);
    let python = "password = 'hunter2'\nsubprocess.run(c, shell=True)\neval(text)\nrequests.get(u, verify=False)\n\
                  db.execute(f\"SELECT * FROM users WHERE id = {id}\")\ndb.execute(\"DELETE FROM a WHERE b = '\" + b)";
    let mut found = review_of("security", &adding("app.py", python));
    found.sort_by_key(|line| line.split(':').nth(1).unwrap().parse::<u32>().unwrap());
    let lines: Vec<_> = found.iter().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(lines, (1..=6).map(|n| format!("- [high] app.py:{n}")).collect::<Vec<_>>());
    let rust = "let token: &str = \"abc123def\";\nunsafe { go() }\nlet q = format!(\"SELECT a FROM b WHERE c = {c}\");\nget(\"http://api.shop.com/x\")";
    check("security", "src/a.rs", rust, &[("high", 1), ("medium", 2), ("high", 3), ("low", 4)]);
    check(
        "security",
        "a.js",
        "e.innerHTML = x;\nconst apiKey = \"sk-a1b2c3d4\";",
        &[("high", 2), ("medium", 1)],
    );
    check("security", "a.json", "{\"api_key\": \"a1b2c3d4\"}", &[("high", 1)]);
}

#[test]
fn tests_finds() {
    check(
        "tests",
        "tests/a.rs",
        "#[ignore]\nfn a() {\n    thread::sleep(d);",
        &[("medium", 1), ("low", 3)],
    );
    check(
        "tests",
        "a.test.js",
        "it.only('x', f);\nit.skip('y', f);",
        &[("medium", 2), ("high", 1)],
    );
    check("tests", "src/parse.py", "x = 1\ndef parse(text):\n    return 1", &[("low", 2)]);
}

#[test]
fn tests_beside_the_code_are_seen() {
    let code = adding("src/parse.rs", "pub fn parse() {}");
    assert_eq!(review_of("tests", &code).len(), 1);
    assert_eq!(review_of("tests", &(adding("tests/parse.rs", "fn x() {}") + &code)), [""; 0]);
    let own = adding("src/parse.rs", "pub fn parse() {}\n#[cfg(test)]\nmod tests {\n}");
    assert_eq!(review_of("tests", &own), [""; 0]);
    let first = ask("reviewer", "tests", &[task(&code)]).unwrap();
    for (glob, grep, tested) in [
        ("src/parse.rs\ntests/parse_test.rs", "No matches.", true),
        ("src/parse.rs", "src/parse.rs:90:#[cfg(test)]", true),
        ("src/parse.rs", r"Nothing matches `cfg\(test\)`.", false),
    ] {
        let seen = [Output::ok("     1\tpub fn parse() {}\n"), Output::ok(glob), Output::ok(grep)];
        let mut messages = vec![task(&code)];
        messages.extend(outputs(&first, &seen));
        let text = ask("reviewer", "tests", &messages).unwrap().text;
        assert_eq!(text.ends_with("No findings."), tested, "{text}");
    }
}

#[test]
fn performance_finds() {
    let rust = "async fn a() {\n    std::thread::sleep(d);\n    f.read_to_end(&mut b)?;\n    f.take(9).read_to_end(&mut b)?;\n}";
    check("performance", "src/a.rs", rust, &[("low", 2), ("low", 3)]);
    check("performance", "a.js", "for (const x of xs) await f(x);\nawait g();", &[("low", 1)]);
    check("performance", "a.go", "b, err := io.ReadAll(r)", &[("low", 1)]);
}

#[test]
fn clarity_finds() {
    check(
        "clarity",
        "src/a.rs",
        "// TODO: later\ndbg!(x);\nprintln!(\"{x:?}\");",
        &[("low", 1), ("low", 2), ("low", 3)],
    );
    check(
        "clarity",
        "a.ts",
        &format!("console.log(x);\nlet y = {};", "1 + ".repeat(30)),
        &[("low", 1), ("low", 2)],
    );
}

#[test]
fn a_function_is_measured_in_the_file_and_not_in_the_diff() {
    let diff = "diff --git a/a.rs b/a.rs\n--- a/a.rs\n+++ b/a.rs\n@@ -40,1 +40,2 @@\n     x();\n+    y();\n";
    let file = |lines: u32, last: &str| {
        let body: String = (2..=lines)
            .map(|n| match n {
                41 => format!("{n:>6}\t    y();\n"),
                _ => format!("{n:>6}\t    x();\n"),
            })
            .collect();
        Output::ok(format!("     1\tfn a() {{\n{body}{:>6}\t{last}\n", lines + 1))
    };
    let first = ask("reviewer", "clarity", &[task(diff)]).unwrap();
    let found = |output: Output| {
        let mut messages = vec![task(diff)];
        messages.extend(outputs(&first, &[output]));
        ask("reviewer", "clarity", &messages).unwrap().text.split_once("\n\n").unwrap().1.to_owned()
    };
    assert_eq!(
        found(file(99, "}")),
        "- [low] a.rs:41: the function from line 1 on has 99 lines; split it"
    );
    assert_eq!(found(file(70, "}")), "No findings.");
    assert_eq!(found(file(99, "    x();")), "No findings.");
    // The file has gone on since the change; its lines say nothing about it.
    let other = file(99, "}").text.replace("y();", "z();");
    assert_eq!(found(Output::ok(other)), "No findings.");
}

#[test]
fn the_same_finding_is_listed_three_times_and_then_counted() {
    let found = review_of("clarity", &adding("a.js", &"console.log(1);\n".repeat(9)));
    let lines: Vec<_> = found
        .iter()
        .map(|line| (line.contains(".js:3:"), line.ends_with("(and 6 more)")))
        .collect();
    assert_eq!(lines, [(false, false), (false, false), (true, true)]);
}

#[test]
fn ordinary_lines_give_no_findings() {
    let files = [
        (
            "src/a.rs",
            "// call .unwrap() and panic!() here\nlet a = \"todo!() .unwrap()\";\nlet g = m.lock().unwrap();\nself.expect(Token::Comma)?;\n\
                      let x = y == 0.0;\nfn f<'a>(x: &'a str) -> &'a str;\nlet c = '\"';\n\
                      let token = next_token(\"a1\");\nlet _ = writeln!(out, \"x\");\nlet u = \"http://localhost:8080/\";\n\
                      let url = \"https://api.shop.com\";\nlet s = \"update the SET of {x}\";\nlet a = x.clone();\nprintln!(\"done {n}\");\n\
                      /// TODOs are listed below\nconst P: &str = \"-----BEGIN\";",
        ),
        (
            "src/lib.rs",
            "#[cfg(test)]\nmod tests {\n    fn a() { x.unwrap(); panic!(\"x\"); let password = \"hunter2\"; }\n}",
        ),
        ("tests/it.rs", "fn a() { x.unwrap(); y.expect(\"z\"); println!(\"{x:?}\"); }"),
        (
            "main.py",
            "model.eval()\nre.exec(x)\ntokenizer = \"cl100k_base\"\npassword = os.environ[\"PASS1\"]\nsecret: str = \"<your-secret-1>\"\n\
                     except ValueError as e:\n    raise\nblueprint(x)\nlabel = \"select one from the list\" + x",
        ),
        (
            "a.js",
            "const x = regex.exec(y);\nconst token = `${a}1`;\nif (a.innerHTML === b) {}\n// console.log(x)\nconst p = get(\"password\", \"a1b2c3\");",
        ),
        (
            "README.md",
            "Never use `eval(x)` or `.unwrap()`; TODO http://shop.com password = 'abc123'",
        ),
        ("Cargo.lock", "checksum = \"a1b2c3d4\"\ntoken = \"a1b2c3d4\""),
        ("web/node_modules/x/a.js", "console.log(1); eval(x);"),
        ("main.go", "_, err := f()\nfor _, x := range xs {\n\tfmt.Println(x)\n}"),
    ];
    for (path, lines) in files {
        for angle in rules::ANGLES {
            assert_eq!(review_of(angle, &adding(path, lines)), [""; 0], "{angle} {path}");
        }
    }
}
