//! Forks, joins and visibility: the laws on any tree, and the fixture's tables.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn set(tokens: &[u64]) -> TokenSet {
    tokens.iter().copied().map(Token).collect()
}

#[test]
fn a_fork_sees_its_parent_and_its_parent_does_not_see_it_before_the_join() {
    let parent = Branch::root();
    let child = parent.fork(Token(1), "a");
    assert!(parent.is_visible_to(&child));
    assert!(!child.is_visible_to(&parent));
    assert!(child.is_visible_to(&parent.join([&child.tokens])));
}

#[test]
fn a_join_keeps_the_path() {
    let child = Branch::root().fork(Token(1), "a");
    let joined = child.join([&child.fork(Token(2), "b").tokens]);
    assert_eq!(joined.path.as_str(), "main.a");
}

// Any tree of forks and joins.

/// What happens next in a tree. The numbers pick one of the strands that can do
/// it.
#[derive(Debug, Clone, Copy)]
enum Step {
    Fork(prop::sample::Index),
    /// A child comes home; whether its siblings have does not matter.
    Join(prop::sample::Index),
}

#[derive(Debug)]
struct Strand {
    branch: Branch,
    parent: Option<usize>,
    is_joined: bool,
}

/// A run as the dispatcher keeps it: one counter, and strands that fork and join
/// until they are joined themselves.
#[derive(Debug)]
struct Tree {
    tokens: Tokens,
    strands: Vec<Strand>,
    /// Siblings of which neither had been joined when the later one was forked.
    side_by_side: Vec<(usize, usize)>,
}

impl Tree {
    fn new() -> Self {
        let root = Strand { branch: Branch::root(), parent: None, is_joined: false };
        Self { tokens: Tokens::default(), strands: vec![root], side_by_side: Vec::new() }
    }

    fn open(&self) -> Vec<usize> {
        (0..self.strands.len()).filter(|&index| !self.strands[index].is_joined).collect()
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Fork(which) => self.fork(*which.get(&self.open())),
            Step::Join(which) => {
                let has_open_parent = |index: &usize| {
                    let parent = self.strands[*index].parent;
                    parent.is_some_and(|parent| !self.strands[parent].is_joined)
                };
                let children: Vec<usize> =
                    self.open().into_iter().filter(has_open_parent).collect();
                if !children.is_empty() {
                    self.join(*which.get(&children));
                }
            }
        }
    }

    fn fork(&mut self, parent: usize) {
        let child = self.strands.len();
        let open = self.open();
        let siblings = open.iter().filter(|&&other| self.strands[other].parent == Some(parent));
        self.side_by_side.extend(siblings.map(|&sibling| (sibling, child)));
        let branch = self.strands[parent].branch.fork(self.tokens.draw(), "child");
        self.strands.push(Strand { branch, parent: Some(parent), is_joined: false });
    }

    fn join(&mut self, child: usize) {
        let parent = self.strands[child].parent.expect("only children are joined");
        let joined = self.strands[parent].branch.join([&self.strands[child].branch.tokens]);
        self.strands[parent].branch = joined;
        self.strands[child].is_joined = true;
    }

    fn sees(&self, viewer: usize, event: usize) -> bool {
        self.strands[event].branch.is_visible_to(&self.strands[viewer].branch)
    }
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => any::<prop::sample::Index>().prop_map(Step::Fork),
        2 => any::<prop::sample::Index>().prop_map(Step::Join),
    ];
    prop::collection::vec(step, 0..40)
}

proptest! {
    #[test]
    fn siblings_side_by_side_never_see_each_other(steps in any_steps()) {
        let mut tree = Tree::new();
        for step in steps {
            tree.take(step);
            for &(earlier, later) in &tree.side_by_side {
                prop_assert!(!tree.sees(earlier, later), "{earlier} sees {later}: {tree:?}");
                prop_assert!(!tree.sees(later, earlier), "{later} sees {earlier}: {tree:?}");
            }
        }
    }

    #[test]
    fn no_fork_is_equal_to_a_strand_that_is_there(steps in any_steps()) {
        let mut tree = Tree::new();
        for step in steps {
            let before = tree.strands.len();
            tree.take(step);
            for new in &tree.strands[before..] {
                let mut others = tree.strands[..before].iter();
                prop_assert!(others.all(|other| other.branch.tokens != new.branch.tokens));
            }
        }
    }

    #[test]
    fn a_parent_sees_a_child_from_the_join_on_and_not_before(steps in any_steps()) {
        let mut tree = Tree::new();
        for step in steps {
            tree.take(step);
            for (child, strand) in tree.strands.iter().enumerate() {
                if let Some(parent) = strand.parent {
                    prop_assert_eq!(tree.sees(parent, child), strand.is_joined, "{:?}", tree);
                }
            }
        }
    }

    #[test]
    fn a_child_sees_what_its_parent_had_seen_when_it_was_forked(steps in any_steps()) {
        let mut tree = Tree::new();
        let mut inherited: Vec<(Branch, usize)> = Vec::new();
        for step in steps {
            let before: Vec<Branch> =
                tree.strands.iter().map(|strand| strand.branch.clone()).collect();
            tree.take(step);
            if tree.strands.len() > before.len() {
                let parent = tree.strands[before.len()].parent.unwrap();
                inherited.push((before[parent].clone(), before.len()));
            }
            for (seen, child) in &inherited {
                prop_assert!(seen.is_visible_to(&tree.strands[*child].branch));
            }
        }
    }

    #[test]
    fn the_order_in_which_children_are_joined_does_not_matter(
        children in prop::collection::vec(prop::collection::vec(1_u64..40, 0..6), 0..6),
        own in prop::collection::vec(1_u64..40, 0..6),
    ) {
        let parent = Branch { tokens: set(&own), ..Branch::root() };
        let children: Vec<TokenSet> = children.iter().map(|tokens| set(tokens)).collect();
        let at_once = parent.join(&children);
        let one_by_one = children.iter().rev().fold(parent, |joined, child| joined.join([child]));
        prop_assert_eq!(&at_once, &one_by_one);
        prop_assert_eq!(at_once.join(&children), one_by_one);
    }
}

// The fixture's tables.

fn fixture(name: &str) -> Value {
    let mut fixtures: Value =
        serde_json::from_str(include_str!("../../tests/fixtures/fixtures.json")).unwrap();
    fixtures[name].take()
}

fn set_of(tokens: &Value) -> TokenSet {
    tokens.as_array().unwrap().iter().map(|token| Token(token.as_u64().unwrap())).collect()
}

#[test]
fn every_pair_of_the_fixture_gives_its_visibility() {
    let rows = fixture("can_see");
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 13);
    for row in rows {
        let visible = set_of(&row["event"]).is_subset_of(&set_of(&row["self"]));
        assert_eq!(Some(visible), row["visible"].as_bool(), "{row}");
    }
}

/// An architecture walked by hand, as the runtime walks a flow.
#[derive(Default)]
struct Walk {
    tokens: Tokens,
    /// The strand that each named unit ran on.
    ran: BTreeMap<String, Branch>,
}

impl Walk {
    /// Forks all members in declared order, before any of them runs.
    fn fork<const N: usize>(&mut self, parent: &Branch, names: [&str; N]) -> [Branch; N] {
        names.map(|name| parent.fork(self.tokens.draw(), name))
    }

    fn run(&mut self, name: &str, branch: &Branch) {
        self.ran.insert(name.to_owned(), branch.clone());
    }

    /// Runs units side by side and returns the parent after them.
    fn parallel<const N: usize>(&mut self, parent: &Branch, names: [&str; N]) -> Branch {
        let members = self.fork(parent, names);
        for (name, member) in names.iter().zip(&members) {
            self.run(name, member);
        }
        joined(parent, &members)
    }

    fn check_tokens(&self, expected: &Value) {
        let expected: BTreeMap<String, String> = expected
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, tokens)| (name.clone(), set_of(tokens).to_string()))
            .collect();
        let tokens: BTreeMap<String, String> = self
            .ran
            .iter()
            .map(|(name, branch)| (name.clone(), branch.tokens.to_string()))
            .collect();
        assert_eq!(tokens, expected);
    }

    /// Holds that a viewer sees those of the table and nobody else.
    fn check_sees(&self, expected: &Value) {
        for (viewer, expected) in expected.as_object().unwrap() {
            let others = self.ran.iter().filter(|(name, _)| *name != viewer);
            let seen: Vec<&str> = others
                .filter(|(_, branch)| branch.is_visible_to(&self.ran[viewer]))
                .map(|(name, _)| name.as_str())
                .collect();
            let mut expected: Vec<&str> =
                expected.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
            expected.sort_unstable();
            assert_eq!(seen, expected, "{viewer}");
        }
    }
}

fn joined(parent: &Branch, children: &[Branch]) -> Branch {
    parent.join(children.iter().map(|child| &child.tokens))
}

#[test]
fn a_sequence_of_parallels_gives_each_group_the_ones_before_it() {
    let table = fixture("sequence_of_parallels");
    let mut walk = Walk::default();
    let parent = walk.parallel(&Branch::root(), ["Alice", "Bob", "Charlie"]);
    let parent = walk.parallel(&parent, ["David", "Eve", "Frank"]);
    let parent = walk.parallel(&parent, ["Grace", "Henry", "Iris"]);
    walk.check_tokens(&table["tokens"]);
    walk.check_sees(&table["sees"]);
    assert_eq!(parent.tokens, set_of(&table["final_parent"]));
}

#[test]
fn nested_parallels_keep_each_group_to_itself_until_the_last_reducer() {
    let table = fixture("nested_parallels");
    let mut walk = Walk::default();
    let root = Branch::root();
    let [first, second] = walk.fork(&root, ["first", "second"]);
    let first = walk.parallel(&first, ["Alice", "Bob", "Charlie"]);
    let second = walk.parallel(&second, ["David", "Eve", "Frank"]);
    walk.run("Reducer1", &first);
    walk.run("Reducer2", &second);
    walk.run("Final_Reducer", &joined(&root, &[first, second]));
    walk.check_tokens(&table["tokens"]);
    walk.check_sees(&table["sees"]);
    // What a join with the children's first branches would give.
    let wrong = set_of(&table["must_not"]["Final_Reducer_tokens"]);
    assert_ne!(walk.ran["Final_Reducer"].tokens, wrong);
}

#[test]
fn three_pairs_grow_by_two_tokens_each() {
    let table = fixture("three_pairs");
    let mut walk = Walk::default();
    let parent = walk.parallel(&Branch::root(), ["A", "B"]);
    let parent = walk.parallel(&parent, ["C", "D"]);
    let parent = walk.parallel(&parent, ["E", "F"]);
    walk.check_tokens(&table["tokens"]);
    assert_eq!(parent.tokens, set_of(&table["final_parent"]));
}

/// Holds that the fixture still asks for what the test by that name proves.
#[track_caller]
fn check_hazard(name: &str, must_be: &str) -> Value {
    let rows = fixture("token_hazards");
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(row["must_be"], must_be);
    row.clone()
}

#[test]
fn every_hazard_of_the_fixture_has_its_test() {
    let rows = fixture("token_hazards");
    let names: Vec<&str> =
        rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    let tested =
        ["foreign reset", "resume", "loop growth", "unjoined background child", "failed slot"];
    assert_eq!(names, tested);
}

#[test]
fn hazard_foreign_reset() {
    let row = check_hazard("foreign reset", "new tokens >2, disjoint from siblings");
    let (mut first, root) = (Tokens::default(), Branch::root());
    let earlier = [root.fork(first.draw(), "a"), root.fork(first.draw(), "b")];
    let mut second = Tokens::default();
    assert_eq!(root.fork(second.draw(), "a"), earlier[0], "another invocation begins anew");
    let new = [earlier[0].fork(first.draw(), "c"), earlier[0].fork(first.draw(), "d")];
    assert_eq!(new.each_ref().map(|branch| branch.tokens.to_string()), ["1,3", "1,4"]);
    for branch in &new {
        assert!(branch.tokens.largest() > Some(Token(2)));
        let bad = row["bad_example"].as_array().unwrap();
        assert!(bad.iter().all(|tokens| set_of(tokens) != branch.tokens));
    }
    assert!(!new[0].is_visible_to(&new[1]) && !new[1].is_visible_to(&new[0]));
}

#[test]
fn hazard_resume() {
    check_hazard("resume", "first new token is 9");
    let log = ["", "1,3-5", "2,6-8", "1-7"].map(|text| text.parse::<TokenSet>().unwrap());
    let largest = log.iter().filter_map(TokenSet::largest).max().unwrap();
    assert_eq!(Tokens::after(largest).draw(), Token(9));
}

#[test]
fn hazard_loop_growth() {
    let must_be = "<=2 ranges on any event; 2999 ranges stored in total (vs 2000000 ints)";
    check_hazard("loop growth", must_be);
    let (mut tokens, mut parent) = (Tokens::default(), Branch::root());
    // Counted are the branches of the 2,000 children, once each. The parent's
    // are left out, as they are in the two million integers.
    let (mut ranges, mut integers) = (0, 0);
    for _ in 0..1_000 {
        let children = [parent.fork(tokens.draw(), "a"), parent.fork(tokens.draw(), "b")];
        for child in &children {
            assert!(child.tokens.range_count() <= 2);
            ranges += child.tokens.range_count();
            integers += (1..=2_000).filter(|&token| child.tokens.contains(Token(token))).count();
        }
        parent = joined(&parent, &children);
        assert_eq!(parent.tokens.range_count(), 1);
    }
    assert_eq!((ranges, integers), (2_999, 2_000_000));
}

#[test]
fn hazard_unjoined_background_child() {
    let must_be = "not visible to the parent before join, visible after";
    check_hazard("unjoined background child", must_be);
    let (mut tokens, parent) = (Tokens::default(), Branch::root());
    let child = parent.fork(tokens.draw(), "background");
    assert_eq!(child.tokens, set(&[1]));
    // The parent keeps running and joins others meanwhile.
    let other = parent.fork(tokens.draw(), "other");
    let parent = parent.join([&other.tokens]);
    assert!(!child.is_visible_to(&parent));
    assert!(child.is_visible_to(&parent.join([&child.tokens])));
}

#[test]
fn hazard_failed_slot() {
    check_hazard("failed slot", "parent=[1,2,3]");
    // Nothing tells a join how its children ended, so it cannot leave one out.
    let slots = [set(&[1]), set(&[2]), set(&[3])];
    assert_eq!(Branch::root().join(&slots).tokens, set(&[1, 2, 3]));
}
