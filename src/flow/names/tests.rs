//! Which names a text may use, and what is said of others.

use std::num::NonZeroU32;

use super::*;
use crate::flow::{Compute, Fault, Flow, Given, OnError, Success};
use crate::tool::AnswerSchema;

fn text(text: &str) -> Wording {
    Wording::parse(text).unwrap()
}

fn agent(name: &str, prompt: &str) -> Step {
    Step::Agent(AgentStep::new(name, "explore", text(prompt)))
}

/// An agent that answers to a schema.
fn answering(name: &str, prompt: &str) -> Step {
    let schema = AnswerSchema::of(&serde_json::json!({"type": "object"})).unwrap();
    let schema = Some(Arc::new(schema));
    Step::Agent(AgentStep { schema, ..AgentStep::new(name, "explore", text(prompt)) })
}

fn each(name: &str, items: &str, body: Step) -> Step {
    Step::each(name, Expression::parse(items).unwrap(), NonZeroU32::MIN, body).unwrap()
}

fn until(condition: &str, body: Step) -> Step {
    Step::until(Expression::parse(condition).unwrap(), NonZeroU32::MIN, body).unwrap()
}

fn when(condition: &str, body: Step) -> Step {
    Step::when(Expression::parse(condition).unwrap(), body).unwrap()
}

fn sequence<const N: usize>(steps: [Step; N]) -> Step {
    Step::sequence(steps.into()).unwrap()
}

fn parallel<const N: usize>(steps: [Step; N]) -> Step {
    Step::parallel(steps.into()).unwrap()
}

fn base() -> Vec<Input> {
    let default = Some("main".into());
    vec![Input { name: "base".into(), default, is_json: false, description: "".into() }]
}

/// Checks what is wrong with a flow that has the input `base`.
#[track_caller]
fn check(step: Step, expected: &[&str]) {
    let errors = match Flow::new("test", "", base(), step) {
        Ok(_) => Vec::new(),
        Err(errors) => errors,
    };
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, expected);
}

#[derive(Debug)]
struct Reads(&'static [&'static str]);

impl Compute for Reads {
    fn reads(&self) -> &[&str] {
        self.0
    }

    fn compute(&self, _: &Given) -> Result<serde_json::Value, Fault> {
        Ok(serde_json::Value::Null)
    }
}

fn computed(reads: &'static [&'static str]) -> Step {
    Step::computed("made", Arc::new(Reads(reads)), OnError::Continue)
}

#[test]
fn a_text_may_name_inputs_and_all_that_has_ended_before() {
    let inside = sequence([
        agent("first", "{{ item.path }} {{ index }} {{ steps.plan.value.why }}"),
        agent(
            "second",
            "{{ steps.first.text }}{% for x in steps.plan.value.places %}{{ x.y }}{% endfor %}",
        ),
    ]);
    let mend =
        sequence([agent("fix", "round {{ round }}"), answering("check", "{{ steps.fix.text }}")]);
    check(
        sequence([
            answering("plan", "against {{ inputs.base }}, {{ inputs | tojson }}, {{ range(3) }}"),
            parallel([agent("one", "{{ steps.plan.text }}"), agent("two", "plain")]).named("both"),
            each("look", "steps.plan.value.places", inside),
            until("steps.check.value.ok and round > 1", mend).named("ignored"),
            when("steps.both.status == 'completed'", agent("last", "{{ steps.one.error }}")),
            agent(
                "end",
                "{{ steps.look.items | length }} {{ steps.fix.text }} {{ steps.last.status }}",
            ),
            computed(&["look", "end"]),
        ]),
        &[],
    );
}

#[test]
fn what_has_not_ended_for_sure_is_not_there() {
    let late = "that step has not ended for sure when this one begins";
    check(
        agent("own", "{{ steps.own.text }}"),
        &[&format!("the prompt of `own` names `steps.own.text`: {late}")],
    );
    check(
        sequence([parallel([agent("a", "{{ steps.b.text }}"), agent("b", "x")]), agent("c", "y")]),
        &[&format!("the prompt of `a` names `steps.b.text`: {late}")],
    );
    check(
        until("steps.b.text", sequence([agent("a", "{{ steps.b.text }}"), agent("b", "x")])),
        &[&format!("the prompt of `a` names `steps.b.text`: {late}")],
    );
    check(
        when("steps.a.text", agent("a", "x")),
        &[&format!("`when` of `a` names `steps.a.text`: {late}")],
    );
}

#[test]
fn what_is_inside_a_for_each_is_not_there_outside() {
    check(
        sequence([
            each("look", "[]", sequence([agent("inner", "{{ steps.look.items }}")])),
            agent("last", "{{ steps.inner.text }}{{ item }}{{ round }}"),
        ]),
        &[
            "the prompt of `inner` names `steps.look.items`: that step has not ended for sure when this one begins",
            "the prompt of `last` names `item`: that is there only inside a `for_each`",
            "the prompt of `last` names `round`: that is there only inside an `until`",
            "the prompt of `last` names `steps.inner.text`: it is a step inside the `for_each` of `look`, of which there is one for each item; `steps.look.items` has what they came to",
        ],
    );
}

#[test]
fn what_is_misspelt_is_told_with_what_is_meant() {
    check(
        sequence([
            agent("plan", "{{ inputs.bse }} {{ inputs.other }} {{ input.base }}"),
            agent("look", "{{ steps.paln.text }} {{ steps.other.text }} {{ steps.plan.vlaue }}"),
            agent("whole", "{{ steps }} {{ steps['plan'] }}"),
            computed(&["nothing"]),
        ]),
        &[
            "the prompt of `plan` names `input.base`: there is no such thing here, but `inputs`, `steps`",
            "the prompt of `plan` names `inputs.bse`: there is no such input; did you mean `base`?",
            "the prompt of `plan` names `inputs.other`: there is no such input; there are `base`",
            "the prompt of `look` names `steps.other.text`: there is no such step; there are `plan`",
            "the prompt of `look` names `steps.paln.text`: there is no such step; did you mean `plan`?",
            "the prompt of `look` names `steps.plan.vlaue`: `plan` has no `vlaue`, but `status`, `text`, `value`, `error`, `unit`",
            "the prompt of `whole` names `steps`: name one of them, as `steps.NAME`; what no text names is not kept",
            "the computation of `made` names `steps.nothing`: there is no such step; there are `look`, `plan`, `whole`",
        ],
    );
}

#[test]
fn what_answers_to_no_schema_has_no_value() {
    let inner = Flow::new("inner", "", Vec::new(), agent("deep", "x")).unwrap();
    let inner = Step::inner("inner", Arc::new(inner), Vec::new(), OnError::Continue).unwrap();
    let why = "`a` answers in words, so it has no value; give it a `schema` or a `schema_file`, or \
               name `steps.a.text`";
    check(
        sequence([
            agent("a", "x"),
            answering("b", "{{ steps.a.value }}"),
            inner,
            computed(&[]),
            when("steps.a.value.ok", agent("c", "{{ steps.b.value }} {{ steps.inner.value.n }}")),
            each("d", "steps.made.value", agent("d", "{{ steps.a.text }} {{ steps.a | tojson }}")),
        ]),
        &[
            &format!("the prompt of `b` names `steps.a.value`: {why}"),
            &format!("`when` of `c` names `steps.a.value.ok`: {why}"),
        ],
    );
}

#[test]
fn what_must_hold_in_the_end_is_said_to_be_of_the_flow() {
    let condition = Expression::parse("steps.zz.value.ok").unwrap();
    let success = Some(Success { condition, otherwise: None });
    let steps = sequence([agent("a", "x"), agent("b", "x")]);
    let flow = Flow::succeeding_if(success, ("test".into(), "".into()), Vec::new(), steps);
    let errors: Vec<String> = flow.unwrap_err().iter().map(ToString::to_string).collect();
    let expected = "`succeeds_if` of the flow names `steps.zz.value.ok`: there is no such step; \
                    there are `a`, `b`";
    assert_eq!(errors, [expected]);
}

#[test]
fn a_name_is_a_word_and_belongs_to_one_step() {
    check(
        sequence([
            agent("a", "x"),
            parallel([agent("a", "x"), each("a", "[]", agent("a", "x"))]),
            each("each", "[]", agent("each", "x")),
            until("true", agent("two words", "x")),
        ]),
        &[
            "two steps are called `a`; later steps would not know which one is meant",
            "two steps are called `a`; later steps would not know which one is meant",
            "`two words` is no name for a step: it takes letters, digits and `_`, no digit in front, and at most 64 of them",
        ],
    );
}

#[test]
fn an_error_says_where_its_step_stands() {
    let inner = parallel([agent("b", "x"), until("true", agent("a", "{{ nothing }}"))]);
    let errors = Flow::new("test", "", Vec::new(), sequence([agent("a", "x"), inner]));
    let errors = errors.unwrap_err();
    let places: Vec<_> = errors.iter().map(|error| error.at().unwrap().0.clone()).collect();
    assert_eq!(places, [[1, 1], [1, 1]]);
}

#[test]
fn only_what_texts_read_is_kept() {
    let steps = [agent("a", "x"), agent("b", "{{ steps.a.text }}"), computed(&["b"])];
    let flow = Flow::new("test", "", Vec::new(), sequence(steps)).unwrap();
    assert!(flow.keeps("a") && flow.keeps("b") && !flow.keeps("made"));
}
