//! `tine skills` and `tine agents`: what there is, where it comes from, what is
//! wrong with it.

use serde_json::Value;

use crate::support::tine::Place;

fn lines(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
}

/// A place with skills in two directories and a command.
fn place() -> Place {
    let place = Place::new();
    place.write(
        ".tine/skills/tidy/SKILL.md",
        "---\ndescription: Tidies.\nallowed-tools: Read\n---\nx\n",
    );
    place.write("../home/.claude/skills/tidy/SKILL.md", "---\ndescription: d\n---\nx\n");
    let audit = "---\ndescription: Audits.\nuser-invocable: false\nallowed-tools: Bash(git *)\n\
                 context: fork\nagent: explore\nmodel: small\n---\nx\n";
    place.write("../home/.claude/skills/audit/SKILL.md", audit);
    place.write(".claude/commands/ops/deploy.md", "Deploy.\n");
    place
}

#[test]
fn skills_are_listed_with_where_they_come_from_and_who_may_use_them() {
    let finished = place().tine(["skills"]).run().exits(0);
    let expected = "\
tidy                people, models  .tine/skills/tidy/SKILL.md
                    hides ~/.claude/skills/tidy/SKILL.md
                    would allow Read, once trusted
audit               models          ~/.claude/skills/audit/SKILL.md
                    allows Bash(git *)
                    done by an agent: explore
                    model small
ops:deploy          people          .claude/commands/ops/deploy.md
review              people, models  built in
                    walks a flow when typed: built in
init                people          built in
explain             people, models  built in
                    walks a flow when typed: built in
fix                 people, models  built in
                    walks a flow when typed: built in
test                people, models  built in
                    walks a flow when typed: built in
migrate             people, models  built in
                    walks a flow when typed: built in
";
    assert_eq!(finished.stdout, expected);
    let collision = finished.stderr.lines().filter(|line| line.contains("`tidy` is in")).count();
    assert_eq!(collision, 1, "{}", finished.stderr);
}

#[test]
fn a_list_as_json_has_a_skill_a_line() {
    let place = place();
    let records = lines(&place.tine(["skills", "--json", "--trust"]).run().exits(0).stdout);
    let names: Vec<&Value> = records.iter().map(|record| &record["name"]).collect();
    assert_eq!(
        names,
        ["tidy", "audit", "ops:deploy", "review", "init", "explain", "fix", "test", "migrate"]
    );
    assert_eq!(records[0]["allowed"], serde_json::json!(["Read"]));
    assert_eq!(records[1]["used_by"], serde_json::json!(["models"]));
    assert_eq!((&records[1]["context"], &records[1]["agent"]), (&"fork".into(), &"explore".into()));
    assert_eq!(records[3]["source"], "built in");
}

#[test]
fn a_check_says_what_is_wrong_where_and_ends_with_one_if_something_does_not_work() {
    let place = Place::new();
    place.write(
        ".claude/skills/tidy/SKILL.md",
        "---\nname: neat\ndescription: d\nallowed-tools: Raed\n---\nSee [a](gone.md).\n",
    );
    let finished = place.tine(["skills", "check"]).run().exits(1);
    let expected = "\
.claude/skills/tidy/SKILL.md:2: warning: `name: neat` is not the name of its directory, `tidy`
.claude/skills/tidy/SKILL.md:4: error: `allowed-tools`: there is no tool `Raed`; is it `Read`?
.claude/skills/tidy/SKILL.md:6: warning: there is no `gone.md` beside it
";
    assert_eq!(finished.stdout, expected);
    assert!(finished.stderr.ends_with("1 skill: 1 error, 2 warnings\n"), "{}", finished.stderr);
    let records = lines(&place.tine(["skills", "check", "--json"]).run().exits(1).stdout);
    assert_eq!((&records[1]["line"], &records[1]["severity"]), (&4.into(), &"error".into()));
}

#[test]
fn a_check_tells_of_collisions_and_is_content_with_warnings() {
    let place = place();
    let finished = place.tine(["skills", "check"]).run().exits(0);
    let told = "~/.claude/skills/tidy/SKILL.md:1: warning: the skill `tidy` is in ";
    assert!(finished.stdout.starts_with(told), "{}", finished.stdout);
    assert_eq!(finished.stdout.lines().count(), 1, "{}", finished.stdout);
    assert!(finished.stderr.ends_with("4 skills: 0 errors, 1 warning\n"), "{}", finished.stderr);
}

#[test]
fn a_check_looks_at_the_paths_that_are_named() {
    let place = place();
    place.write("draft/one/SKILL.md", "---\nname: one\n---\nx\n");
    for path in ["draft", "draft/one", "draft/one/SKILL.md"] {
        let finished = place.tine(["skills", "check", path]).run().exits(1);
        let expected = "draft/one/SKILL.md:1: error: the skill `one` needs a `description:`\n";
        assert_eq!(finished.stdout, expected, "{path}");
    }
    place.tine(["skills", "check", ".claude/commands"]).run().exits(0);
    place.tine(["skills", "check", "no/such/file.md"]).run().exits(1);
}

#[test]
fn agents_are_listed_and_checked() {
    let place = Place::new();
    let cook = "---\nname: cook\ndescription: d\ntools: Read\nmaxTurns: 3\nskills: broth\n\
                background: true\ncolor: red\n---\nx\n";
    place.write("../home/.claude/agents/cook.md", cook);
    let finished = place.tine(["agents"]).run().exits(0);
    let row = "cook                ~/.claude/agents/cook.md\n                    \
               tools Read; 3 turns; has read broth; in the background; red\n";
    assert!(finished.stdout.contains(row), "{}", finished.stdout);
    assert!(finished.stdout.starts_with("general-purpose     built in\n"), "{}", finished.stdout);
    let records = lines(&place.tine(["agents", "--json"]).run().exits(0).stdout);
    assert_eq!((&records[3]["name"], &records[3]["color"]), (&"cook".into(), &"red".into()));
    let checked = place.tine(["agents", "check"]).run().exits(1);
    let expected = "~/.claude/agents/cook.md:6: error: `skills`: there is no skill `broth`\n";
    assert_eq!(checked.stdout, expected);
}
