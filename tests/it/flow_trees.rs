//! Random flows on paused time, held against the rules, which are written here
//! once more: who is asked, which tokens everybody has, who sees whose words,
//! and that everything has its one end wherever it is cut short.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use proptest::prelude::*;
use tine::branch::{Token, TokenSet};
use tine::event::{Event, EventKind, UnitId};
use tine::flow::{
    AgentStep, Expression, Flow, Input, InputValues, OnError, Passed, Step, Success, Supplied,
    Walk, Wording,
};
use tine::message::{Message, Reply, StopReason, Usage};
use tine::model::{Answer, Chunk, Model, ModelError, ModelErrorKind, Request};
use tine::run::Signal;

use crate::fanout::check_invariants;
use crate::support::inside::{Setup, Story};

/// A flow as it is made up.
#[derive(Debug, Clone)]
enum Tree {
    Agent(Ends, u16),
    Sequence(Vec<Tree>),
    Parallel(Vec<Tree>),
    Each {
        items: u32,
        spare: u32,
        body: Box<Tree>,
    },
    Until {
        holds_in: u32,
        most: u32,
        body: Box<Tree>,
    },
    When(bool, Box<Tree>),
    /// A flow of its own; whether it never succeeds, and ends the one around it then.
    Inner(bool, Box<Tree>),
}

/// How an agent ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Well,
    Badly,
    /// So badly that its flow ends with it.
    WithTheFlow,
}

fn any_tree() -> impl Strategy<Value = Tree> {
    let ends = prop_oneof![
        8 => Just(Ends::Well),
        2 => Just(Ends::Badly),
        1 => Just(Ends::WithTheFlow),
    ];
    let leaf = (ends, 0_u16..300).prop_map(|(ends, delay)| Tree::Agent(ends, delay));
    leaf.prop_recursive(5, 24, 4, |inner| {
        let steps = prop::collection::vec(inner.clone(), 1..4);
        let boxed = inner.prop_map(Box::new);
        prop_oneof![
            3 => steps.clone().prop_map(Tree::Sequence),
            3 => steps.prop_map(Tree::Parallel),
            2 => (0_u32..4, 0_u32..3, boxed.clone())
                .prop_map(|(items, spare, body)| Tree::Each { items, spare, body }),
            1 => (1_u32..4, 1_u32..4, boxed.clone())
                .prop_map(|(holds_in, most, body)| Tree::Until { holds_in, most, body }),
            1 => (any::<bool>(), boxed.clone()).prop_map(|(holds, body)| Tree::When(holds, body)),
            2 => (any::<bool>(), boxed).prop_map(|(fails, body)| Tree::Inner(fails, body)),
        ]
    })
}

/// Numbers what it makes, so that every step has a name.
#[derive(Default)]
struct Maker {
    steps: u32,
}

/// How a text where a step is made says where that is.
#[derive(Clone)]
struct Where {
    text: String,
    /// Whether it says so by its round: then no other round may hide that.
    has_round: bool,
}

impl Maker {
    fn name(&mut self) -> String {
        self.steps += 1;
        format!("s{}", self.steps)
    }

    fn make(&mut self, tree: &Tree, at: &Where) -> Step {
        match tree {
            Tree::Agent(ends, delay) => self.agent(*ends, *delay, at),
            Tree::Sequence(steps) => {
                let steps = steps.iter().map(|step| self.make(step, at)).collect();
                Step::sequence(steps).expect("the tree can be walked").named(self.name())
            }
            Tree::Parallel(steps) => {
                Step::parallel(steps.iter().map(|step| self.make(step, at)).collect())
                    .expect("the tree can be walked")
            }
            Tree::Each { items, spare, body } => {
                let list: Vec<String> =
                    (0..*items).map(|item| format!("({} ~ '.{item}')", at.text)).collect();
                let list = Expression::parse(format!("[{}]", list.join(", ")))
                    .expect("the tree can be walked");
                let inside = Where { text: "item".to_owned(), has_round: false };
                let body = self.make(body, &inside);
                let most = NonZeroU32::new(items + spare).unwrap_or(NonZeroU32::MIN);
                Step::each(self.name(), list, most, body).expect("the tree can be walked")
            }
            Tree::Until { holds_in, most, body } => {
                // Of two rounds in each other a text sees the inner one alone.
                if at.has_round {
                    return self.make(body, at);
                }
                let text = format!("({} ~ '#' ~ round)", at.text);
                let body = self.make(body, &Where { text, has_round: true });
                let condition = Expression::parse(format!("round == {holds_in}"))
                    .expect("the tree can be walked");
                Step::until(
                    condition,
                    NonZeroU32::new(*most).expect("the tree can be walked"),
                    body,
                )
                .expect("the tree can be walked")
            }
            Tree::When(holds, body) => {
                let body = self.make(body, at);
                Step::when(
                    Expression::parse(holds.to_string()).expect("the tree can be walked"),
                    body,
                )
                .expect("the tree can be walked")
            }
            Tree::Inner(fails, body) => {
                let inside = Where { text: "inputs.at".to_owned(), has_round: false };
                let flow = flow(self.make(body, &inside), fails.then_some("false"));
                let on_error = if *fails { OnError::Stop } else { OnError::Continue };
                let passed = Wording::parse(format!("{{{{ {} }}}}", at.text))
                    .expect("the tree can be walked");
                let passed = vec![("at".into(), Passed::Words(passed))];
                Step::inner(self.name(), Arc::new(flow), passed, on_error)
                    .expect("the tree can be walked")
            }
        }
    }

    fn agent(&mut self, ends: Ends, delay: u16, at: &Where) -> Step {
        let name = self.name();
        let does = if ends == Ends::Well { "well" } else { "badly" };
        let prompt = format!("me|{{{{ {} }}}}~{name}|{delay}|{does}", at.text);
        let agent = AgentStep::new(
            name,
            "explore",
            Wording::parse(prompt).expect("the tree can be walked"),
        );
        let on_error = if ends == Ends::WithTheFlow { OnError::Stop } else { OnError::Continue };
        Step::Agent(AgentStep { on_error, ..agent })
    }
}

fn flow(step: Step, succeeds_if: Option<&str>) -> Flow {
    let default = Some("".into());
    let at = Input { name: "at".into(), default, is_json: false, description: "".into() };
    let success = succeeds_if.map(|condition| Success {
        condition: Expression::parse(condition).expect("the tree can be walked"),
        otherwise: None,
    });
    let named = ("test".into(), "".into());
    Flow::succeeding_if(success, named, vec![at], step).expect("the tree can be walked")
}

fn walk_of(tree: &Tree) -> Walk {
    let at = Where { text: "inputs.at".to_owned(), has_round: false };
    let flow = flow(Maker::default().make(tree, &at), None);
    let inputs: InputValues =
        flow.given(Vec::<(String, Supplied)>::new()).expect("the tree can be walked");
    Walk::new(Arc::new(flow), inputs)
}

type Tokens = BTreeSet<u64>;

/// The rules: who is asked, and with which tokens.
#[derive(Default)]
struct Rules {
    asked: BTreeMap<String, Tokens>,
    /// Those beside a step that ended its flow: whether they were still asked
    /// depends on who was first.
    perhaps: BTreeSet<String>,
}

/// Where a step is walked, by the rules.
#[derive(Clone)]
struct Place {
    path: String,
    first: u64,
    in_round: bool,
}

impl Rules {
    fn forks(tree: &Tree, in_round: bool) -> u64 {
        let all =
            |steps: &[Tree]| -> u64 { steps.iter().map(|step| Self::forks(step, in_round)).sum() };
        match tree {
            Tree::Agent(..) => 0,
            Tree::Sequence(steps) => all(steps),
            Tree::Parallel(steps) => all(steps) + steps.len() as u64,
            Tree::Each { items, spare, body } => {
                u64::from((items + spare).max(1)) * (1 + Self::forks(body, false))
            }
            Tree::Until { body, .. } if in_round => Self::forks(body, true),
            Tree::Until { most, body, .. } => u64::from(*most) * Self::forks(body, true),
            Tree::When(_, body) => Self::forks(body, in_round),
            Tree::Inner(_, body) => Self::forks(body, false),
        }
    }

    /// How many names the steps of a tree take.
    fn names(tree: &Tree) -> u32 {
        let all = |steps: &[Tree]| -> u32 { steps.iter().map(Self::names).sum() };
        match tree {
            Tree::Agent(..) => 1,
            Tree::Sequence(steps) => all(steps) + 1,
            Tree::Parallel(steps) => all(steps),
            Tree::Each { body, .. } | Tree::Inner(_, body) => Self::names(body) + 1,
            Tree::Until { body, .. } | Tree::When(_, body) => Self::names(body),
        }
    }

    /// Walks a tree whose names come behind `names`; tells whether the flow ends
    /// with it.
    fn walk(&mut self, tree: &Tree, on: &mut Tokens, place: &Place, names: u32) -> bool {
        let Place { path, first, in_round } = place;
        match tree {
            Tree::Agent(ends, _) => {
                let twice = self.asked.insert(format!("{path}~s{}", names + 1), on.clone());
                assert_eq!(twice, None, "the rules ask everybody once");
                *ends == Ends::WithTheFlow
            }
            Tree::Sequence(steps) => {
                let (mut place, mut names) = (place.clone(), names);
                for step in steps {
                    if self.walk(step, on, &place, names) {
                        return true;
                    }
                    place.first += Self::forks(step, *in_round);
                    names += Self::names(step);
                }
                false
            }
            Tree::Parallel(steps) => self.parallel(steps, on, place, names),
            Tree::Each { items, spare, body } => {
                let (mut joined, mut ends) = (on.clone(), false);
                let before: BTreeSet<String> = self.asked.keys().cloned().collect();
                let forks = Self::forks(body, false);
                for item in 0..u64::from(*items) {
                    let inside = first + u64::from((items + spare).max(1)) + item * forks;
                    let path = format!("{path}.{item}");
                    let place = Place { path, first: inside, in_round: false };
                    ends |= self.member(body, on, &mut joined, (first + item, &place, names));
                }
                *on = joined;
                self.beside(ends, &before);
                ends
            }
            Tree::Until { body, .. } if *in_round => self.walk(body, on, place, names),
            Tree::Until { holds_in, most, body } => {
                for round in 1..=*most.min(holds_in) {
                    let first = first + u64::from(round - 1) * Self::forks(body, true);
                    let path = format!("{path}#{round}");
                    if self.walk(body, on, &Place { path, first, in_round: true }, names) {
                        return true;
                    }
                }
                false
            }
            Tree::When(holds, body) => *holds && self.walk(body, on, place, names),
            Tree::Inner(fails, body) => {
                let place = Place { in_round: false, ..place.clone() };
                // What ends it is its own failure, and no more than that.
                self.walk(body, on, &place, names);
                *fails
            }
        }
    }

    fn parallel(&mut self, steps: &[Tree], on: &mut Tokens, place: &Place, names: u32) -> bool {
        let mut inside = place.first + steps.len() as u64;
        let (mut joined, mut ends, mut names) = (on.clone(), false, names);
        let before: BTreeSet<String> = self.asked.keys().cloned().collect();
        for (own, step) in (place.first..).zip(steps) {
            let place = Place { first: inside, ..place.clone() };
            ends |= self.member(step, on, &mut joined, (own, &place, names));
            inside += Self::forks(step, place.in_round);
            names += Self::names(step);
        }
        *on = joined;
        self.beside(ends, &before);
        ends
    }

    /// Takes note of those beside a step that ended its flow.
    fn beside(&mut self, ends: bool, before: &BTreeSet<String>) {
        let since = self.asked.keys().filter(|who| ends && !before.contains(*who));
        self.perhaps.extend(since.cloned());
    }

    /// Walks one of several trees side by side, unless it is left out.
    fn member(
        &mut self,
        tree: &Tree,
        on: &Tokens,
        joined: &mut Tokens,
        (own, place, names): (u64, &Place, u32),
    ) -> bool {
        match tree {
            Tree::When(false, _) => false,
            Tree::When(true, body) => self.member(body, on, joined, (own, place, names)),
            tree => {
                let mut inside = on.clone();
                inside.insert(own);
                let ends = self.walk(tree, &mut inside, place, names);
                joined.extend(inside);
                ends
            }
        }
    }
}

/// Says of itself what it was asked as, and keeps what it was told.
struct Echo {
    name: Arc<str>,
    heard: Mutex<Vec<(UnitId, String, String)>>,
}

impl Model for Echo {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn respond(&self, request: Request) -> BoxStream<'static, Result<Chunk, ModelError>> {
        let said = |message: &Message| match message {
            Message::User(prompt) => Some(prompt.text.to_string()),
            Message::Model(_) | Message::Output { .. } => None,
        };
        let all: Vec<String> = request.prefix.messages().filter_map(said).collect();
        let all = all.join("\n");
        let (_, own) = all.rsplit_once("me|").expect("agents are told who they are");
        let mut parts = own.split('|');
        let mut next = || parts.next().expect("agents are told what they do").to_owned();
        let (who, delay, does) = (next(), next(), next());
        let delay = Duration::from_millis(delay.parse().expect("a delay is a number"));
        self.heard.lock().expect("no test panics here").push((
            request.asker.unit,
            who.clone(),
            all.clone(),
        ));
        let answer = async move {
            tokio::time::sleep(delay).await;
            if does != "well" {
                return Err(ModelError::new(ModelErrorKind::Request, "refused"));
            }
            let reply = Reply { text: format!("word({who})"), ..Reply::default() };
            let (usage, stop) = (Usage::default(), StopReason::EndTurn);
            Ok(Chunk::Finished(Box::new(Answer { reply, usage, stop })))
        };
        stream::once(answer).boxed()
    }
}

/// Walks a tree, and tells what everybody was told.
fn play(
    tree: &Tree,
    cap: usize,
    signal: Option<Duration>,
) -> (Story, Vec<(UnitId, String, String)>) {
    let echo = Arc::new(Echo { name: "echo".into(), heard: Mutex::default() });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime can be made");
    let setup = Setup::on(Arc::clone(&echo) as _).walks(walk_of(tree)).cap(cap);
    let setup = match signal {
        Some(after) => setup.signal(after, Signal::Interrupt),
        None => setup,
    };
    let story = runtime.block_on(setup.run());
    let heard = std::mem::take(&mut *echo.heard.lock().expect("no test panics here"));
    (story, heard)
}

fn set(tokens: &Tokens) -> TokenSet {
    tokens.iter().copied().map(Token).collect()
}

/// The tokens of each unit, from the event that declared it.
fn tokens(story: &Story) -> BTreeMap<UnitId, TokenSet> {
    let queued = |event: &&Event| matches!(event.kind, EventKind::UnitQueued(_));
    let own = |event: &Event| (event.unit, event.branch.tokens.clone());
    story.events.iter().filter(queued).map(own).collect()
}

/// Every child of a unit has come back to it, once.
fn check_joins(story: &Story) {
    let mut out: BTreeMap<UnitId, u32> = BTreeMap::new();
    for event in &story.events {
        match &event.kind {
            EventKind::UnitQueued(_) => *out.entry(event.unit).or_default() += 1,
            EventKind::Joined { children } => {
                for child in children {
                    let left = out.get_mut(child).expect("only what was declared joins");
                    *left -= 1;
                }
            }
            _ => {}
        }
    }
    assert!(out.values().all(|left| *left == 0), "not home: {out:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn everybody_is_asked_once_with_the_tokens_of_the_rules_and_sees_by_them(
        tree in any_tree(),
        cap in 1_usize..9,
    ) {
        let (story, heard) = play(&tree, cap, None);
        check_invariants(&story);
        check_joins(&story);
        let mut rules = Rules::default();
        let mut on = Tokens::new();
        let place = Place { path: String::new(), first: 1, in_round: false };
        rules.walk(&tree, &mut on, &place, 0);
        let tokens = tokens(&story);
        let mut asked: Vec<(String, TokenSet)> =
            heard.iter().map(|(unit, who, _)| (who.clone(), tokens[unit].clone())).collect();
        asked.sort_by(|a, b| a.0.cmp(&b.0));
        let is_asked = |who: &String| asked.iter().any(|(asked, _)| asked == who);
        let expected: Vec<(String, TokenSet)> = rules
            .asked
            .iter()
            .filter(|(who, _)| !rules.perhaps.contains(*who) || is_asked(who))
            .map(|(who, tokens)| (who.clone(), set(tokens)))
            .collect();
        let end = &story.events.last().unwrap().branch.tokens;
        if rules.perhaps.is_empty() {
            prop_assert_eq!(asked, expected);
            prop_assert_eq!(end, &set(&on));
        } else {
            // Whoever was not asked has drawn no token inside.
            prop_assert_eq!(asked.len(), expected.len());
            for ((who, tokens), (expected, most)) in asked.iter().zip(&expected) {
                prop_assert_eq!(who, expected);
                prop_assert!(tokens.is_subset_of(most), "{}: {:?} in {:?}", who, tokens, most);
            }
            prop_assert!(end.is_subset_of(&set(&on)));
        }
        // What others had said by then, if the viewer has all their tokens.
        for (viewer, who, told) in &heard {
            let prompted = story.events.iter().position(|event| {
                event.unit == *viewer && matches!(event.kind, EventKind::Prompted(_))
            });
            let before = &story.events[..prompted.unwrap()];
            for (other, name, _) in heard.iter().filter(|(other, ..)| other != viewer) {
                let has_said = before.iter().any(|event| {
                    event.unit == *other && matches!(event.kind, EventKind::Replied(_))
                });
                let sees = has_said && tokens[other].is_subset_of(&tokens[viewer]);
                prop_assert_eq!(told.contains(&format!("word({name})")), sees, "{} of {}", who, name);
            }
        }
    }

    #[test]
    fn wherever_a_flow_is_cancelled_everything_declared_has_its_one_end(
        tree in any_tree(),
        cap in 1_usize..9,
        after in 0_u64..1_500,
    ) {
        let (story, _) = play(&tree, cap, Some(Duration::from_millis(after)));
        check_invariants(&story);
        check_joins(&story);
        prop_assert_eq!(&story.end.unfinished, &Vec::new());
    }
}
