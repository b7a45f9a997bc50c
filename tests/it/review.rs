//! `tine review` with the embedded rules: the right change, five reviewers,
//! one report.

use std::collections::BTreeSet;

use crate::support::repository::Repository;
use crate::support::tine::Finished;

/// What the rules find on the line `x.unwrap();`.
const UNWRAP: &str = "`unwrap` panics where there is no value";

/// A repository with three commits, each with a finding of its own line.
fn three_commits() -> (Repository, [String; 3]) {
    let repository = Repository::new();
    let commits = [1, 2, 3].map(|number| {
        let text = format!("fn f{number}() {{\n    x.unwrap();\n}}\n");
        repository.write(&format!("src/f{number}.rs"), &text);
        repository.commit(&format!("Commit {number}"))
    });
    (repository, commits)
}

fn review(repository: &Repository, flags: &[&str]) -> Finished {
    repository.place.tine(["review"].iter().chain(flags)).run().exits(0)
}

/// Returns the places of the findings on unwraps, without their lines' ends.
fn found(report: &str) -> BTreeSet<&str> {
    let findings = report.lines().filter(|line| line.contains(UNWRAP));
    findings.filter_map(|line| line.split_once(": ")).map(|(place, _)| place).collect()
}

#[track_caller]
fn check(repository: &Repository, flags: &[&str], expected: &[&str]) {
    let report = review(repository, flags).stdout;
    let expected = expected.iter().copied().collect::<BTreeSet<_>>();
    assert_eq!(found(&report), expected, "{flags:?}:\n{report}");
}

#[test]
fn the_report_is_markdown_that_says_offline_first_and_names_file_and_line() {
    let (repository, _) = three_commits();
    repository.write("src/f1.rs", "fn f1() {\n    // TODO\n    y.unwrap();\n}\n");
    let finished = review(&repository, &[]);
    let first = finished.stdout.lines().next().unwrap();
    assert!(first.starts_with("Checked by fixed rules, without a model: 2 findings"), "{first}");
    assert_eq!(found(&finished.stdout), ["- [medium] src/f1.rs:3"].into());
    assert!(finished.stdout.contains("\n## Findings\n\n- ["), "{}", finished.stdout);
    let checked = "\n## What was checked\n\n- correctness: completed\n- security: completed\n\
                   - tests: completed\n- performance: completed\n- clarity: completed\n";
    assert!(finished.stdout.ends_with(checked), "{}", finished.stdout);
    assert!(finished.stderr.contains("[security] started (reviewer)\n"), "{}", finished.stderr);
}

#[test]
fn an_uncommitted_change_goes_before_the_last_commit() {
    let (repository, _) = three_commits();
    check(&repository, &[], &["- [medium] src/f3.rs:2"]);
    repository.write("src/f1.rs", "fn f1() {\n    x.unwrap();\n    y.unwrap();\n}\n");
    repository.write("src/new.rs", "fn new() {\n\n    x.unwrap();\n}\n");
    let uncommitted = ["- [medium] src/f1.rs:3", "- [medium] src/new.rs:3"];
    check(&repository, &[], &uncommitted);
    check(&repository, &["--uncommitted"], &uncommitted);
}

#[test]
fn a_commit_or_a_base_can_be_named() {
    let (repository, commits) = three_commits();
    check(&repository, &["--commit", &commits[1]], &["- [medium] src/f2.rs:2"]);
    check(&repository, &["--commit", &commits[1][..8]], &["- [medium] src/f2.rs:2"]);
    repository.git(&["branch", "before", &commits[0]]);
    let since = ["- [medium] src/f2.rs:2", "- [medium] src/f3.rs:2"];
    check(&repository, &["--base", "before"], &since);
    repository.write("src/new.rs", "x.unwrap();\n");
    let with_uncommitted = ["- [medium] src/f2.rs:2", "- [medium] src/f3.rs:2"];
    let with_uncommitted = [&with_uncommitted[..], &["- [medium] src/new.rs:1"]].concat();
    check(&repository, &["--base", "before"], &with_uncommitted);
}

#[test]
fn a_root_commit_is_a_change_from_nothing() {
    let repository = Repository::new();
    repository.write("src/only.rs", "x.unwrap();\n");
    repository.commit("Begin");
    check(&repository, &[], &["- [medium] src/only.rs:1"]);
}

#[test]
fn a_subdirectory_is_as_good_as_the_top() {
    let (repository, _) = three_commits();
    let (place, below) = (&repository.place, repository.place.work().join("src"));
    let finished = place.tine(["review"]).at(&below).run().exits(0);
    assert_eq!(found(&finished.stdout), ["- [medium] src/f3.rs:2"].into());
    let finished = place.tine(["review", "-C", "src"]).run().exits(0);
    assert_eq!(found(&finished.stdout), ["- [medium] src/f3.rs:2"].into());
}

#[test]
fn the_session_is_kept_out_of_the_repository() {
    let (repository, _) = three_commits();
    review(&repository, &[]);
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    assert_eq!(repository.place.sessions().len(), 1);
}

#[test]
fn json_is_the_report_in_one_object() {
    let (repository, _) = three_commits();
    let result = review(&repository, &["-o", "json"]).result();
    assert_eq!((&result["type"], &result["subtype"]), (&"result".into(), &"success".into()));
    let text = result["result"].as_str().unwrap();
    assert_eq!(found(text), ["- [medium] src/f3.rs:2"].into());
}

#[test]
fn stream_json_has_one_agent_call_five_slots_and_one_result_at_the_end() {
    let (repository, _) = three_commits();
    let records = review(&repository, &["--output-format", "stream-json"]).records();
    let calls: Vec<_> = records
        .0
        .iter()
        .filter(|record| record["type"] == "assistant" && record["parent_tool_use_id"].is_null())
        .filter(|record| record["message"]["content"][0]["type"] == "tool_use")
        .collect();
    let [call] = &calls[..] else { panic!("one call of main: {calls:#?}") };
    let block = &call["message"]["content"][0];
    assert_eq!((&block["name"], &call["agent_id"].is_null()), (&"Agent".into(), &true));
    assert_eq!(block["input"]["tasks"].as_array().map(Vec::len), Some(5));

    let slots: Vec<_> = records
        .system("task_started")
        .iter()
        .map(|slot| {
            assert_eq!(slot["tool_use_id"], block["id"]);
            assert_eq!(slot["subagent_type"], "reviewer");
            (slot["description"].as_str().unwrap(), slot["slot"]["index"].as_u64().unwrap())
        })
        .collect();
    let angles = ["correctness", "security", "tests", "performance", "clarity"];
    assert_eq!(slots, angles.into_iter().zip(0..).collect::<Vec<_>>());
    assert!(records.result()["result"].as_str().unwrap().starts_with("Checked by fixed rules"));
}

#[test]
fn what_fixed_rules_cannot_do_is_refused_before_anything_runs() {
    let (repository, _) = three_commits();
    let place = &repository.place;
    let sarif = place.work().join("out.sarif");
    let sarif = sarif.to_str().unwrap();
    for (flags, named) in [
        (&["--sarif", sarif][..], "`--sarif` needs"),
        (&["--annotations"], "`--annotations` needs"),
        (&["--fail-on", "high", "-m", "offline"], "`--fail-on` needs"),
        (&["--effort", "low"], "`--effort` needs"),
        (&["--annotations", "--sarif", sarif], "`--sarif`, `--annotations` need"),
    ] {
        let told = format!(
            "error: {named} a model, and fixed rules answer\n\
             hint: choose a model with `-m MODEL`; `tine doctor` says how to get one\n"
        );
        place.tine(["review"].iter().chain(flags)).run().refuses(42, &told);
    }
    let typed = ["-p", "/review --effort low", "-m", "offline"];
    let refused = place.tine(typed).run().exits(42);
    assert!(refused.stderr.contains("`--effort` needs a model"), "{}", refused.stderr);
    let by_name = place.tine(["flow", "run", "review", "-m", "offline"]).run().exits(42);
    assert!(by_name.stderr.contains("`tine flow run` needs a model"), "{}", by_name.stderr);
    assert!(place.read("out.sarif").is_none(), "nothing was begun");
    assert_eq!(place.sessions().len(), 0);
}

#[test]
fn a_word_that_names_a_commit_is_not_taken_for_what_to_look_for() {
    let (repository, _) = three_commits();
    for words in [&["main"][..], &["main~1", "-m", "offline"]] {
        let told = format!(
            "error: `{name}` names a branch or a commit, and words say what to look for besides\n\
             hint: `--base {name}` reviews what has come since, `--commit {name}` that commit \
             alone; what to look for is said in several words\n",
            name = words[0]
        );
        repository.place.tine(["review"].iter().chain(words)).run().refuses(42, &told);
    }
    assert_eq!(repository.place.sessions().len(), 0);
}

#[test]
fn the_demo_finds_something_in_every_file_of_its_example() {
    let finished = Repository::new().place.tine(["demo"]).run().exits(0);
    for file in ["src/orders.py:", "src/report.js:", "src/totals.rs:"] {
        assert!(finished.stdout.contains(file), "{}", finished.stdout);
    }
}
