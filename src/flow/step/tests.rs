//! What steps may be put together, and how much they are.

use super::*;

fn agent(name: &str, sees: Sees) -> Step {
    Step::Agent(AgentStep { sees, ..AgentStep::new(name, "explore", "look") })
}

fn agents(count: u32) -> Vec<Step> {
    (0..count).map(|number| agent(&format!("a{number}"), Sees::Nothing)).collect()
}

fn times(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).unwrap()
}

fn expression(text: &str) -> Expression {
    Expression::parse(text).unwrap()
}

fn each(max_items: u32, body: Step) -> Result<Step, FlowError> {
    Step::each("each", expression("[]"), times(max_items), body)
}

#[test]
fn steps_without_a_step_are_refused() {
    assert_eq!(Step::sequence(Vec::new()), Err(FlowError::Empty));
    assert_eq!(Step::parallel(Vec::new()), Err(FlowError::Empty));
}

#[test]
fn more_steps_than_the_cap_are_refused_wherever_they_stand() {
    let half = Step::parallel(agents(STEPS_CAP / 2 - 1)).unwrap();
    assert!(Step::sequence(vec![half.clone(), agent("last", Sees::Nothing)]).is_ok());
    assert_eq!(Step::sequence(vec![half.clone(), half]), Err(FlowError::TooMany));
    assert_eq!(Step::parallel(agents(STEPS_CAP)), Err(FlowError::TooMany));
}

#[test]
fn steps_nested_too_deep_are_refused() {
    let mut step = agent("inmost", Sees::Nothing);
    for _ in 1..NESTING_CAP {
        step = Step::sequence(vec![step]).unwrap();
    }
    assert_eq!(Step::sequence(vec![step.clone()]), Err(FlowError::TooDeep));
    assert_eq!(Step::when(expression("true"), step.clone()), Err(FlowError::TooDeep));
    let flow = Arc::new(Flow::new("inner", "", Vec::new(), step).unwrap());
    let inner = Step::inner("inner", flow, Vec::new(), OnError::Continue);
    assert_eq!(inner, Err(FlowError::TooDeep));
}

#[test]
fn a_flow_sees_others_if_one_of_its_agents_does() {
    let nothing = Step::parallel(agents(3)).unwrap();
    assert!(!nothing.sees_others());
    let steps = vec![nothing, each(3, agent("last", Sees::Visible)).unwrap()];
    assert!(Step::sequence(steps).unwrap().sees_others());
}

#[test]
fn each_step_of_a_parallel_forks_and_those_inside_it_too() {
    let inner = Step::parallel(agents(3)).unwrap();
    let group = Step::sequence(vec![inner, agent("reducer", Sees::Visible)]).unwrap();
    let outer = Step::parallel(vec![group.clone(), group]).unwrap();
    assert_eq!(outer.forks(), 8);
}

#[test]
fn items_and_rounds_take_as_many_tokens_as_there_may_be_of_them() {
    let pair = Step::parallel(agents(2)).unwrap();
    let rounds = Step::until(expression("true"), times(5), pair).unwrap();
    assert_eq!(rounds.forks(), 10);
    let items = each(7, rounds).unwrap();
    assert_eq!(items.forks(), 7 * 11);
    let maybe = Step::when(expression("true"), items).unwrap();
    assert_eq!(maybe.forks(), 7 * 11);
}

#[test]
fn more_items_rounds_or_branches_than_a_flow_may_have_are_refused() {
    let one = || agent("one", Sees::Nothing);
    assert_eq!(each(ITEMS_CAP + 1, one()), Err(FlowError::TooManyItems));
    let rounds = Step::until(expression("true"), times(ROUNDS_CAP + 1), one());
    assert_eq!(rounds, Err(FlowError::TooManyRounds));
    let many = each(ITEMS_CAP, one()).unwrap();
    let more = each(ITEMS_CAP, many).unwrap();
    assert_eq!(each(ITEMS_CAP, more), Err(FlowError::TooManyTokens));
}
