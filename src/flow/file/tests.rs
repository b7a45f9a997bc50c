//! Flow files that are right, wrong in every way, and hostile.

use std::fs;
use std::num::NonZeroU32;
use std::os::unix::fs::symlink;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::definition::Isolation;
use crate::flow::{
    AgentStep, Expression, Fault, Given, Input, OnError, Passed, Sees, StepLimits, Wording,
};

/// A directory with these files.
fn files(files: &[(&str, &str)]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = place.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    place
}

#[derive(Debug)]
struct Seven;

impl Compute for Seven {
    fn compute(&self, _: &Given) -> Result<Value, Fault> {
        Ok(json!(7))
    }
}

fn known() -> Known {
    let agents = ["general-purpose", "explore", "reviewer"].map(str::to_owned);
    let computations = vec![("seven", Arc::new(Seven) as Arc<dyn Compute>)];
    Known { agents: Some(agents.to_vec()), computations }
}

/// Reads `a.toml` of a place and returns what is wrong with it, each as
/// `FILE:LINE: MESSAGE`.
fn errors_in(place: &TempDir) -> Vec<String> {
    let findings = read(&place.path().join("a.toml"), &known()).err().unwrap_or_default();
    let said = |Finding { path, line, message, .. }: &Finding| {
        let path = path.strip_prefix(place.path()).unwrap();
        let root = place.path().canonicalize().unwrap().display().to_string();
        let message = message.replace(&root, "ROOT");
        let message = message.replace(&place.path().display().to_string(), "ROOT");
        format!("{}:{line}: {message}", path.display())
    };
    findings.iter().map(said).collect()
}

/// Checks what is wrong with a flow file, each as `LINE: MESSAGE`.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let place = files(&[("a.toml", text), ("p.md", "words"), ("s.json", "{}")]);
    let expected: Vec<String> = expected.iter().map(|error| format!("a.toml:{error}")).collect();
    assert_eq!(errors_in(&place), expected, "{text}");
}

#[track_caller]
fn flow(given: &[(&str, &str)]) -> Arc<Flow> {
    let place = files(given);
    let read = read(&place.path().join("a.toml"), &known());
    read.unwrap_or_else(|findings| panic!("{findings:?}"))
}

fn agent(name: &str, prompt: &str) -> AgentStep {
    AgentStep::new(name, "general-purpose", Wording::parse(prompt).unwrap())
}

fn times(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).unwrap()
}

fn expression(text: &str) -> Expression {
    Expression::parse(text).unwrap()
}

const WHOLE: &str = r#"
name = "audit"
description = """
Looks, then
mends"""

[inputs]
base = "main"
depth = 3
focus = { required = true, description = "what to look at" }
paths = { json = true, default = ["src"] }
rules = { json = true, required = true }

[[step]]
name = "plan"
type = "Explore"
model = "small"
sees = "none"
isolation = "worktree"
on_error = "stop"
limits = { max_turns = 5, max_tokens = 100_000, timeout = "10m" }
schema = { type = "object", properties = { zebra = { type = "string" }, ant = { type = "string" } } }
prompt_file = "texts/plan.md"

[[step]]
name = "look"
when = "steps.plan.value.places | length > 0"
for_each = "steps.plan.value.places"
max_items = 50
until = "round == 2"
max_rounds = 2
prompt = "Look at {{ item.path }} of {{ inputs.base }}"

[[step]]
name = "angles"
[[step.parallel]]
name = "security"
prompt = "s"
[[step.parallel]]
[[step.parallel.steps]]
name = "first"
schema_file = "answer.json"
prompt = "f"
[[step.parallel.steps]]
name = "seven"
compute = "seven"

[[step]]
flow = "inner"
inputs = { base = "{{ inputs.base }}", depth = 4 }
on_error = "stop"
"#;

fn whole() -> Arc<Flow> {
    flow(&[
        ("a.toml", WHOLE),
        ("texts/plan.md", "Plan {{ inputs.focus }}\n"),
        ("answer.json", "{\"type\":\"array\"}"),
        (
            "inner/flow.toml",
            "[inputs]\nbase = \"x\"\ndepth = 1\n[[step]]\nname = \"in\"\nprompt = \"i\"\n",
        ),
    ])
}

#[test]
fn a_flow_has_its_name_its_description_and_its_inputs_in_order() {
    let found = whole();
    assert_eq!((&**found.name(), &**found.description()), ("audit", "Looks, then mends"));
    let input = |name: &str, default: Option<Value>, is_json, description: &str| Input {
        name: name.into(),
        default,
        is_json,
        description: description.into(),
    };
    assert_eq!(
        found.inputs(),
        [
            input("base", Some(json!("main")), false, ""),
            input("depth", Some(json!(3)), true, ""),
            input("focus", None, false, "what to look at"),
            input("paths", Some(json!(["src"])), true, ""),
            input("rules", None, true, ""),
        ]
    );
}

#[test]
fn every_key_comes_to_the_step_that_it_means() {
    let found = whole();
    let schema = |text: &str| Some(Arc::new(crate::tool::AnswerSchema::parse(text).unwrap()));
    // In the order in which it was written, as the model is shown it.
    let zebra =
        r#"{"type":"object","properties":{"zebra":{"type":"string"},"ant":{"type":"string"}}}"#;
    let limits = StepLimits {
        max_turns: Some(5),
        max_tokens: std::num::NonZeroU64::new(100_000),
        timeout: Some(Duration::from_secs(600)),
    };
    let plan = AgentStep {
        agent: "Explore".into(),
        model: Some("small".into()),
        sees: Sees::Nothing,
        isolation: Some(Isolation::Worktree),
        on_error: OnError::Stop,
        limits,
        schema: schema(zebra),
        ..agent("plan", "Plan {{ inputs.focus }}\n")
    };
    let look = Step::Agent(agent("look", "Look at {{ item.path }} of {{ inputs.base }}"));
    let look = Step::until(expression("round == 2"), times(2), look).unwrap();
    let places = expression("steps.plan.value.places");
    let look = Step::each("look", places, times(50), look).unwrap();
    let look = Step::when(expression("steps.plan.value.places | length > 0"), look).unwrap();
    let first = AgentStep { schema: schema("{\"type\":\"array\"}"), ..agent("first", "f") };
    let Step::Sequence(steps) = found.step() else { panic!("{found:?}") };
    let steps: Vec<&Step> = steps.iter().collect();
    assert_eq!((steps[0], steps[1]), (&Step::Agent(plan), &look));
    let Step::Parallel(angles) = steps[2] else { panic!("{:?}", steps[2]) };
    let angles: Vec<&Step> = angles.iter().collect();
    assert_eq!(angles[0], &Step::Agent(agent("security", "s")));
    let Step::Sequence(inside) = angles[1] else { panic!("{angles:?}") };
    let inside: Vec<&Step> = inside.iter().collect();
    assert_eq!(inside[0], &Step::Agent(first));
    let Step::Computed(seven) = inside[1] else { panic!("{inside:?}") };
    assert_eq!(
        format!("{seven:?}"),
        "Computed { name: \"seven\", compute: Seven, on_error: Continue }"
    );
    let Step::Inner(inner) = steps[3] else { panic!("{:?}", steps[3]) };
    assert_eq!((&**inner.flow().name(), steps[3].on_error()), ("inner", OnError::Stop));
    let base = Passed::Words(Wording::parse("{{ inputs.base }}").unwrap());
    let given = [("base".into(), base), ("depth".into(), Passed::Value(json!(4)))];
    assert_eq!(inner.inputs(), given);
}

#[test]
fn a_prompt_from_a_file_is_taken_byte_for_byte() {
    let prompt = "\u{feff}  Two lines,\r\n\tno template { here }.\n\n";
    let found =
        flow(&[("a.toml", "[[step]]\nname = \"a\"\nprompt_file = \"p.md\""), ("p.md", prompt)]);
    let Step::Sequence(steps) = found.step() else { panic!("{found:?}") };
    assert_eq!(steps.iter().next(), Some(&AgentStep::new("a", "general-purpose", prompt).into()));
}

#[test]
fn a_flow_is_called_as_its_file_or_its_directory() {
    let text = "[[step]]\nname = \"a\"\nprompt = \"x\"\n";
    let place = files(&[("deep/flow.toml", text), ("other.toml", text)]);
    let name = |path: &str| read(&place.path().join(path), &known()).unwrap().name().to_string();
    assert_eq!((&*name("deep"), &*name("deep/flow.toml")), ("deep", "deep"));
    assert_eq!(name("other.toml"), "other");
}

#[test]
fn what_a_file_may_say_is_told_where_it_says_something_else() {
    check("", &["1: a flow has at least one `[[step]]`"]);
    check(
        "name = \n",
        &["1: this is not TOML: string values must be quoted, expected literal string"],
    );
    check(
        "nme = \"a\"\n[[step]]\nname = \"a\"\nprompt = \"x\"\n",
        &["1: there is no key `nme` here; did you mean `name`?"],
    );
    check("step = []\n", &["1: `step` has no steps"]);
    check("step = 3\n", &["1: `step` is a whole number; it must be an array of steps"]);
    check(
        "[step]\nname = \"a\"\n",
        &["1: `step` is one table; steps are many, each under `[[…step]]`"],
    );
    check(
        "name = \"a/b\"\nstep = [{ name = \"a\", prompt = \"x\" }, 3]\n",
        &[
            "1: `a/b` is not a name: use 1 to 64 characters without slashes or quotes",
            "2: a step is a table",
        ],
    );
    check(
        "\n[[step]]\nname = \"a\"\n",
        &[
            "2: a step has one of `prompt`, `prompt_file`, `parallel`, `steps`, `flow`, `compute`, and \
         this one has none",
        ],
    );
    check(
        "[[step]]\nname = \"a\"\ntype = \"explore\"\npromt = \"x\"\n[[step]]\nstep = []\n",
        &[
            "4: there is no key `promt` here; did you mean `prompt`?",
            "6: there is no key `step` here; did you mean `steps`?",
        ],
    );
    check(
        "\n[[step]]\nname = \"a\"\nbody = \"x\"\nmodel = \"small\"\n",
        &[
            "2: a step has one of `prompt`, `prompt_file`, `parallel`, `steps`, `flow`, `compute`, and \
         this one has none",
        ],
    );
    check(
        "[[step]]\nname = \"a\"\nprompt = \"x\"\nprompt_file = \"p.md\"\n",
        &["4: a step has `prompt` or `prompt_file`, not both"],
    );
    check(
        "[[step]]\nprompt = \"x\"\n\n[[step]]\nfor_each = \"[]\"\n[[step.steps]]\nname = \"b\"\nprompt = \"y\"\n",
        &["1: a step with `prompt` needs a `name`", "4: a step with `for_each` needs a `name`"],
    );
}

#[test]
fn a_method_is_refused_with_its_line_and_the_filter_that_is_meant() {
    check(
        "[[step]]\nname = \"a\"\nprompt = \"\"\"\nhello\n{{ [1].upper() }}\"\"\"\nwhen = \"'a'.lower()\"\n",
        &[
            "5: `prompt` cannot be read: values have no methods, so no `upper`; the filter `| upper` is there",
            "6: `when` cannot be read: values have no methods, so no `lower`; the filter `| lower` is there",
        ],
    );
}

#[test]
fn what_belongs_to_another_kind_of_step_is_refused() {
    check(
        "[[step]]\nname = \"a\"\ntype = \"explore\"\ninputs = { b = 1 }\non_error = \"stop\"\n\
         [[step.parallel]]\nname = \"b\"\nprompt = \"x\"\ninputs = { c = 1 }\nmax_items = 3\nmax_rounds = 2\n",
        &[
            "3: `type` is for a step with a prompt, and this one has `parallel`",
            "4: `inputs` is for a step with `flow`, and this one has `parallel`",
            "5: `on_error` is for the steps in `parallel`, each for itself",
            "9: `inputs` is for a step with `flow`, and this one has `prompt`",
            "10: `max_items` is for a step with `for_each`",
            "11: `max_rounds` is for a step with `until`",
        ],
    );
}

#[test]
fn each_value_that_cannot_be_is_told_with_what_can() {
    let step = |line: &str| format!("[[step]]\nname = \"a\"\nprompt = \"x\"\n{line}\n");
    for (line, error) in [
        ("typ = \"explore\"", "there is no key `typ` here; did you mean `type`?"),
        ("type = \"explroe\"", "there is no agent `explroe`; did you mean `explore`?"),
        ("type = 3", "`type` is a whole number; it must be a string"),
        ("model = \" \"", "`model` must not be empty"),
        ("sees = \"all\"", "`sees` must be `\"visible\"` or `\"none\"`, not `all`"),
        ("isolation = \"moat\"", "`isolation` must be `\"worktree\"`, not `moat`"),
        ("on_error = \"retry\"", "`on_error` must be `\"continue\"` or `\"stop\"`, not `retry`"),
        ("limits = 5", "`limits` is a whole number; it must be a table"),
        ("limits = { max_turns = 0 }", "`max_turns` must be from 1 to 4294967295"),
        ("limits = { max_tokens = -1 }", "`max_tokens` must be from 1 to 18446744073709551615"),
        ("limits = { max_turn = 1 }", "there is no key `max_turn` here; did you mean `max_turns`?"),
        (
            "limits = { timeout = \"5\" }",
            "`timeout` is `5`; it must be a span of time such as `\"90s\"`, `\"10m\"` or `\"1h\"`, \
             at most a week",
        ),
        ("schema = \"x\"", "`schema` is a string; it must be a table"),
        (
            "schema = { type = \"strin\" }",
            "`schema` is not a usable JSON Schema: at `#/type`: must be one of null, boolean, \
             integer, number, string, array and object",
        ),
        ("schema_file = \"gone.json\"", "`schema_file` is `gone.json`: there is no such file"),
        (
            "for_each = \"[1\"",
            "`for_each` cannot be read: syntax error: unexpected end of input, expected `,`",
        ),
        (
            "for_each = \"{{ inputs.a }}\"",
            "`for_each` is an expression, which stands without `{{ }}`",
        ),
        ("for_each = \"[]\"\nmax_items = 200_000", "`max_items` must be from 1 to 100000"),
        ("until = \"true\"", "an `until` needs `max_rounds`, how often at most"),
        (
            "when = \"steps.b.text\"",
            "`when` of `a` names `steps.b.text`: no step has ended before this one",
        ),
        ("when = 3", "`when` is a whole number; it must be a string"),
    ] {
        let place = files(&[("a.toml", &step(line))]);
        let number = if line.contains('\n') { 5 } else { 4 };
        assert_eq!(errors_in(&place), [format!("a.toml:{number}: {error}")], "{line}");
    }
    let place = files(&[("a.toml", "[[step]]\nname = \"a\"\ncompute = \"sevn\"\n")]);
    let sevn = "a.toml:3: tine computes nothing called `sevn`; did you mean `seven`?";
    assert_eq!(errors_in(&place), [sevn]);
}

#[test]
fn inputs_that_cannot_be_are_told() {
    let step = "[[step]]\nname = \"a\"\nprompt = \"x\"\n";
    check(
        &format!(
            "[inputs]\n\"a b\" = \"x\"\nb = {{}}\nc = {{ required = true, default = \"x\" }}\n\
             d = {{ default = 3, json = false }}\ne = {{ default = \"x\", requird = true }}\n\
             f = 2026-01-01\n{step}"
        ),
        &[
            "2: `a b` is no name for an input: it takes letters, digits and `_`, no digit in \
             front, and at most 64 of them",
            "3: `b` needs a `default`, or `required = true`",
            "4: `c` is required, so its default is never used",
            "5: the default of `d` is no string, so `json` must be `true`",
            "6: there is no key `requird` here; did you mean `required`?",
            "7: `f` holds what JSON has not: a date, `inf` or `nan`",
        ],
    );
}

#[test]
fn names_that_are_not_there_are_told_on_their_own_lines() {
    check(
        r#"[inputs]
base = "main"

[[step]]
name = "plan"
prompt = '''
First
{{ inputs.bse }} and
{{ item }}'''

[[step]]
name = "plan"
for_each = "steps.plan.items"
prompt = """Look at
{{ steps.pln.text }}"""

[[step]]
name = "1st"
until = """
round > 1 and
steps.later.text"""
max_rounds = 2
prompt = "x"
"#,
        &[
            "8: the prompt of `plan` names `inputs.bse`: there is no such input; did you mean `base`?",
            "9: the prompt of `plan` names `item`: that is there only inside a `for_each`",
            "12: two steps are called `plan`; later steps would not know which one is meant",
            "13: `for_each` of `plan` names `steps.plan.items`: `plan` has no `items`, but \
             `status`, `text`, `value`, `error`, `unit`",
            "15: the prompt of `plan` names `steps.pln.text`: there is no such step; did you mean \
             `plan`?",
            "18: `1st` is no name for a step: it takes letters, digits and `_`, no digit in front, \
             and at most 64 of them",
            "21: `until` of `1st` names `steps.later.text`: there is no such step; there are \
             `1st`, `plan`",
        ],
    );
}

#[test]
fn nobody_is_told_that_something_is_not_there_that_only_cannot_be_read() {
    check(
        "inputs = { a = {} }\n[[step]]\nname = \"a\"\nfor_each = \"[1\"\nprompt = \"{{ item }} {{ inputs.a }}\"\n",
        &[
            "1: `a` needs a `default`, or `required = true`",
            "4: `for_each` cannot be read: syntax error: unexpected end of input, expected `,`",
        ],
    );
}

#[test]
fn what_is_wrong_in_a_file_of_its_own_is_told_with_that_files_line() {
    let step = |name: &str, more: &str| format!("[[step]]\nname = \"{name}\"\n{more}\n");
    let text = [
        step("a", "prompt_file = \"p/a.md\""),
        step("b", "prompt_file = \"p/b.md\""),
        step("c", "prompt_file = \"p/c.md\""),
        step("d", "prompt_file = \"p/d.md\""),
        step("e", "prompt = \"x\"\nschema_file = \"s.json\""),
        step("f", "flow = \"inner.toml\""),
    ]
    .concat();
    let place = files(&[
        ("a.toml", &text),
        ("p/a.md", "one\n\n{{ inputs.none }}\n"),
        ("p/b.md", "one\n{{ a + }}\n"),
        ("p/d.md", " \n"),
        ("s.json", "{"),
        ("inner.toml", "\n[[step]]\nname = \"g\"\nprompt = \"{{ steps.a.text }}\"\n"),
    ]);
    fs::write(place.path().join("p/c.md"), b"one\n\xff").unwrap();
    assert_eq!(
        errors_in(&place),
        [
            "a.toml:12: `prompt_file` names a prompt without a word",
            "inner.toml:4: the prompt of `g` names `steps.a.text`: no step has ended before this one",
            "p/b.md:2: `prompt_file` cannot be read: syntax error: unexpected end of variable block",
            "p/c.md:2: the file is not UTF-8 text",
            "s.json:1: `schema_file` is not a usable JSON Schema: it is not valid JSON: EOF while \
             parsing an object at line 1 column 1",
        ]
    );
    // Names are looked at once the rest is right.
    let text = step("a", "prompt_file = \"p/a.md\"");
    fs::write(place.path().join("a.toml"), text).unwrap();
    let none = "p/a.md:3: the prompt of `a` names `inputs.none`: the flow has no inputs";
    assert_eq!(errors_in(&place), [none]);
}

#[test]
fn nothing_outside_the_flow_files_directory_is_read() {
    let text = |file: &str| format!("[[step]]\nname = \"a\"\nprompt_file = {file:?}\n");
    let outside = files(&[("secret.md", "s")]);
    let inside = files(&[("b.md", "fine"), ("deep/c.md", "fine")]);
    let at = |name: &str| inside.path().join(name);
    symlink(outside.path().join("secret.md"), at("link.md")).unwrap();
    symlink(outside.path(), at("way")).unwrap();
    symlink("deep", at("alias")).unwrap();
    symlink("loop.md", at("loop.md")).unwrap();
    nix::unistd::mkfifo(&at("pipe.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let below = "it must lie below the directory of the flow file, named from there";
    let secret = outside.path().canonicalize().unwrap().join("secret.md");
    let leads = format!(
        "it leads to `{}`, which does not lie below the directory of the flow file",
        secret.display()
    );
    for (named, why) in [
        ("../b.md", below),
        ("deep/../b.md", below),
        ("/etc/hostname", below),
        ("link.md", &leads),
        ("way/secret.md", &leads),
        ("deep", "this is not a regular file"),
        (".", "this is not a regular file"),
        ("pipe.md", "this is not a regular file"),
        ("gone.md", "there is no such file"),
        ("loop.md", "cannot be read: Too many levels of symbolic links (os error 40)"),
        ("a\0b", "cannot be read: file name contained an unexpected NUL byte"),
    ] {
        fs::write(at("a.toml"), text(named).replace("\\0", "\\u0000")).unwrap();
        let said = format!("a.toml:3: `prompt_file` is `{named}`: {why}");
        assert_eq!(errors_in(&inside), [said]);
    }
    for named in ["b.md", "./b.md", "alias/c.md"] {
        fs::write(at("a.toml"), text(named)).unwrap();
        assert_eq!(errors_in(&inside), [""; 0], "{named}");
    }
}

#[test]
fn a_flow_that_would_contain_itself_is_refused_with_the_chain() {
    let flow = |file: &str| format!("[[step]]\nname = \"n\"\nflow = \"{file}\"\n");
    let place = files(&[
        ("a.toml", &flow("b.toml")),
        ("b.toml", &flow("./here/c.toml")),
        ("c.toml", &flow("a.toml")),
    ]);
    symlink(".", place.path().join("here")).unwrap();
    let chain = "a flow cannot be a step of itself: `ROOT/a.toml` → `ROOT/b.toml` → \
                 `ROOT/here/c.toml` → `ROOT/here/a.toml`";
    assert_eq!(errors_in(&place), [format!("here/c.toml:3: {chain}")]);
}

#[test]
fn a_flow_that_is_named_twice_is_read_once() {
    let twice =
        "[[step]]\nname = \"m\"\nflow = \"N.toml\"\n[[step]]\nname = \"o\"\nflow = \"N.toml\"\n";
    let place = files(&[("a.toml", &twice.replace('N', "0"))]);
    // Each names the next one twice: a hundred thousand of them if each were
    // read again.
    for number in 0..17 {
        let next = twice.replace('N', &(number + 1).to_string());
        fs::write(place.path().join(format!("{number}.toml")), next).unwrap();
    }
    let last = "[[step]]\nname = \"a\"\nprompt = \"x\"\n";
    fs::write(place.path().join("17.toml"), last).unwrap();
    let errors = errors_in(&place);
    assert!(
        errors.iter().any(|error| error.contains("a flow has at most 100000 steps")),
        "{errors:?}"
    );
    fs::write(place.path().join("9.toml"), last).unwrap();
    assert_eq!(errors_in(&place), [""; 0]);
}

#[test]
fn every_size_has_a_bound() {
    let step = "[[step]]\nname = \"a\"\nprompt_file = \"p.md\"\n";
    let place = files(&[("a.toml", step)]);
    let put =
        |name: &str, size: usize| fs::write(place.path().join(name), vec![b'#'; size]).unwrap();
    put("p.md", TEXT_FILE_CAP + 1);
    let long = "a.toml:3: `prompt_file` is `p.md`: the file is larger than 1048576 bytes";
    assert_eq!(errors_in(&place), [long]);
    put("p.md", TEXT_FILE_CAP);
    assert_eq!(errors_in(&place), [""; 0]);
    let many: String =
        (0..17).map(|number| step.replace("\"a\"", &format!("\"a{number}\""))).collect();
    fs::write(place.path().join("a.toml"), many).unwrap();
    let errors = errors_in(&place);
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].contains("the flow and all it names have more than 16777216 bytes"));
    put("a.toml", FILE_CAP + 1);
    assert_eq!(errors_in(&place), ["a.toml:1: the file is larger than 262144 bytes"]);
    let wrong: String = (0..FINDINGS_CAP + 5).map(|number| format!("k{number} = 1\n")).collect();
    fs::write(place.path().join("a.toml"), wrong).unwrap();
    let errors = errors_in(&place);
    assert_eq!(errors.len(), FINDINGS_CAP + 1);
    assert_eq!(errors[FINDINGS_CAP], "a.toml:99: and 6 more");
}

#[test]
fn hostile_files_are_refused_and_end_nothing_else() {
    let room = FILE_CAP - 100;
    let fill = |begin: &str, unit: &str| {
        format!("{begin}{}", unit.repeat((room - begin.len()) / unit.len()))
    };
    let step = "[[step]]\nname = \"a\"\nprompt = \"x\"\n";
    for text in [
        fill("", "a."),
        fill("", "["),
        fill("a = ", "["),
        fill("a = ", "{a="),
        fill("[", "a."),
        fill("", "[[step]]\n"),
        fill("", "[[step.steps]]\n"),
        fill(&format!("{step}when = \""), "1+"),
        fill(&format!("{step}when = \""), "a."),
        fill("[[step]]\nname = \"a\"\nprompt = \"{{ a", "|a"),
        fill("[[step]]\nname = \"a\"\nprompt = \"{% if a %}", "{% elif a %}"),
        fill("[[step]]\nname = \"a\"\nprompt = \"", "{% for a in b %}"),
        fill("", "\0"),
        (0..5_000).map(|number| format!("k{number} = 1\n")).collect(),
        format!(
            "[inputs]\n{}",
            (0..5_000).map(|number| format!("k{number}={{}}\n")).collect::<String>()
        ),
        (0..300)
            .map(|number| {
                let name = format!("{number:_<60}").replace('_', "x");
                format!("[[step]]\nname = \"a{name}\"\nprompt = \"{{{{ steps.b{name} }}}}\"\n")
            })
            .collect(),
        fill("name = \"", "é"),
    ] {
        let place = files(&[("a.toml", &text)]);
        assert!(!errors_in(&place).is_empty(), "{text:.60}");
    }
    let mut deep = String::from("[[step]]\n");
    for depth in 1..60 {
        deep.push_str(&format!("[[step{}]]\n", ".steps".repeat(depth)));
    }
    deep.push_str("name = \"a\"\nprompt = \"x\"\n");
    let place = files(&[("a.toml", &deep)]);
    let errors = errors_in(&place);
    assert!(errors[0].ends_with("steps stand at most 32 deep in one another"), "{errors:?}");
}

#[test]
fn a_bundled_flow_reads_its_files_from_the_program() {
    const FILES: [(&str, &str); 3] = [
        (
            "skills/x/flow.toml",
            "[[step]]\nname = \"a\"\nprompt_file = \"./deep/p.md\"\n[[step]]\nflow = \"deep/b.toml\"\n",
        ),
        ("skills/x/deep/p.md", "Look"),
        ("skills/x/deep/b.toml", "[[step]]\nname = \"b\"\nprompt_file = \"../flow.toml\"\n"),
    ];
    let read = |files| bundled(Path::new("skills/x/flow.toml"), files, &known());
    let findings = read(&FILES).unwrap_err();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!((&*findings[0].path, findings[0].line), (Path::new("skills/x/deep/b.toml"), 3));
    const FINE: [(&str, &str); 2] = [
        ("skills/x/flow.toml", "[[step]]\nname = \"a\"\nprompt_file = \"p.md\"\n"),
        ("skills/x/p.md", "Look"),
    ];
    assert_eq!(read(&FINE).unwrap().step().whole(), 2);
}

#[test]
fn the_example_of_the_documents_is_a_flow() {
    let page = include_str!("../../../docs/flows.md");
    let blocks = page.split("```").skip(1).step_by(2);
    let examples: Vec<&str> = blocks.filter_map(|block| block.strip_prefix("toml\n")).collect();
    assert!(!examples.is_empty(), "{page}");
    let prompt = page.split("```markdown\n").nth(1).and_then(|text| text.split("```").next());
    let place = files(&[("a.toml", examples[0]), ("plan.md", prompt.unwrap())]);
    assert_eq!(errors_in(&place), [""; 0]);
}

#[test]
fn the_example_of_the_readme_is_a_flow() {
    let readme = include_str!("../../../README.md");
    let (_, section) = readme.split_once("\n## Flows\n").expect("it has the section");
    let example = section.split("```toml\n").nth(1).and_then(|text| text.split("```").next());
    check(example.unwrap(), &[]);
}
