//! Tests of how a change is split.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::diff;
use crate::review::testing::{adds, change, plan};
use crate::review::{Plan, Why};

const EFFORTS: [Effort; 3] = Effort::ALL;

/// What each territory is: its title and the bytes of its diff.
fn titles(plan: &Plan) -> Vec<&str> {
    plan.territories.iter().map(|territory| &*territory.title).collect()
}

/// Checks what is true of every plan.
#[track_caller]
fn check(text: &str, effort: Effort) -> Plan {
    let plan = plan(text, effort);
    assert_eq!(plan, self::plan(text, effort), "the same change has the same plan");
    assert!(plan.territories.len() <= most(effort));
    let mut places: Vec<usize> = plan.territories.iter().flat_map(|it| it.places.clone()).collect();
    let count = places.len();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), count, "no hunk is in two territories");
    let left_out: usize = plan.files.iter().map(|file| file.left_out).sum();
    assert_eq!(count + left_out, plan.hunks.len(), "each hunk is in one, or told");
    for territory in &plan.territories {
        assert!(territory.diff.len() <= TERRITORY_CAP + 4_096, "{}", territory.diff.len());
        // What it holds is what its diff says.
        let lines: usize = diff::parse(&territory.diff)
            .iter()
            .map(|file| file.added().count() + file.removed().count())
            .sum();
        let expected: usize = territory.places.iter().map(|at| plan.hunks[*at].changed.len()).sum();
        assert_eq!(lines, expected, "{}", territory.id);
    }
    plan
}

/// A new file of so many bytes.
fn file(path: &str, bytes: usize) -> String {
    let line = "let it = one_line_of_code_of_fifty_bytes_in_all(1);";
    adds(path, &vec![line; bytes / 52])
}

#[test]
fn small_files_stand_together_beside_their_neighbours() {
    let names = ["src/b/x.rs", "src/a/y.rs", "docs/z.md", "src/a/x.rs"];
    let text: String = names.map(|name| file(name, 14_000)).concat();
    let plan = check(&text, Effort::Medium);
    assert_eq!(titles(&plan), ["2 files", "2 files in src"]);
    assert_eq!(*plan.territories[0].files, ["docs/z.md", "src/a/x.rs"].map(Arc::from));
    assert_eq!(titles(&check(&text, Effort::Low)), ["4 files"]);
}

#[test]
fn a_large_file_is_split_at_hunk_borders_and_a_large_hunk_between_lines() {
    let hunk = |start: usize| {
        let lines = "+another line of forty bytes in this hunk\n".repeat(300);
        format!("@@ -{start},1 +{start},301 @@\n{lines} end\n")
    };
    let head = "diff --git a/big.rs b/big.rs\n--- a/big.rs\n+++ b/big.rs\n";
    let text = format!("{head}{}", (0..6).map(|at| hunk(1 + at * 1_000)).collect::<String>());
    let plan = check(&text, Effort::High);
    assert_eq!(plan.hunks.len(), 6);
    assert_eq!(titles(&plan), ["big.rs, in part"; 6]);
    assert!(plan.territories.iter().all(|it| it.diff.contains(head)), "each part names its file");

    let plan = check(&file("one.rs", 100_000), Effort::High);
    assert!(plan.hunks.len() >= 5 && plan.territories.len() >= 5, "{}", plan.hunks.len());
    assert_eq!(plan.hunks[0].id.to_string().split_once('-').unwrap().0, "one.rs:1");
}

#[test]
fn five_hundred_files_and_more_than_a_megabyte_fit_at_any_effort() {
    let many: String = (0..500)
        .map(|number| file(&format!("src/m{:02}/f{number}.rs", number / 20), 700))
        .collect();
    let large: String = (0..40).map(|number| file(&format!("src/f{number}.rs"), 30_000)).collect();
    assert!(large.len() > 1_000_000);
    for effort in EFFORTS {
        for text in [&many, &large] {
            let plan = check(text, effort);
            assert!(plan.aside.is_empty(), "{effort:?}: {:?}", plan.aside.first());
            let files: BTreeSet<_> = plan.territories.iter().flat_map(|it| &it.files).collect();
            assert_eq!(files.len(), plan.files.len());
        }
    }
}

#[test]
fn what_is_too_large_for_an_effort_is_told_and_stays_a_hunk_of_the_plan() {
    let text: String = (0..100).map(|number| file(&format!("f{number:02}.rs"), 30_000)).collect();
    let plan = check(&text, Effort::Low);
    assert_eq!(plan.territories.len(), most(Effort::Low));
    assert!(!plan.aside.is_empty() && plan.aside.iter().all(|it| it.why == Why::TooMuch));
    assert!(check(&text, Effort::High).aside.is_empty());
}

#[test]
fn a_file_that_is_too_large_keeps_no_small_one_out() {
    let mut text = file("a_large.rs", 3_000_000);
    text.extend((0..200).map(|number| file(&format!("src/f{number:03}.rs"), 3_000)));
    let plan = check(&text, Effort::Low);
    let [aside] = &plan.aside[..] else { panic!("{:?}", plan.aside) };
    assert_eq!((&*aside.path, aside.why), ("a_large.rs", Why::TooMuch));
    let first: Vec<_> = plan.territories[0].files.iter().take(2).map(|path| &**path).collect();
    assert_eq!(first, ["src/f000.rs", "src/f001.rs"], "neighbours stand together");
    let last = plan.territories.last().map(|it| &*it.title);
    assert_eq!(last, Some("a_large.rs, in part"), "and it has what room is left");
}

#[test]
fn what_no_territory_has_room_for_keeps_no_small_file_out_either() {
    // One of them fills more than half of a territory, so each has one for itself.
    let mut text: String =
        (0..30).map(|number| file(&format!("a{number:02}.rs"), 90_000)).collect();
    text.push_str(&file("z.rs", 1_000));
    let plan = check(&text, Effort::Low);
    let files = |territory: &Territory| territory.files.iter().map(|it| it.to_string()).collect();
    let given: Vec<Vec<String>> = plan.territories.iter().map(files).collect();
    let mut expected: Vec<Vec<String>> = (0..8).map(|at| vec![format!("a{at:02}.rs")]).collect();
    expected[7].push("z.rs".to_owned());
    assert_eq!(given, expected);
    let left_out: Vec<String> = plan.aside.iter().map(|it| it.path.to_string()).collect();
    assert_eq!(left_out, (8..30).map(|at| format!("a{at:02}.rs")).collect::<Vec<_>>());
}

#[test]
fn files_without_hunks_are_in_a_territory_too() {
    let text = "diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n";
    let plan = check(text, Effort::Low);
    assert_eq!(plan.territories[0].diff, format!("# a change\n{text}"));
    assert!(plan.hunks.is_empty() && !plan.territories[0].is_code);
}

#[test]
fn an_item_of_the_flow_has_all_that_a_prompt_names() {
    let text = adds("a.rs", &["</file>"]).replace("a/a.rs b/a.rs", "\"a/a\\n.rs\" \"b/a\\n.rs\"");
    let plan = check(&text.replace("b/a.rs\n", "\"b/a\\n.rs\"\n"), Effort::Low);
    let item = &plan.inputs()["territories"][0];
    assert_eq!(item["id"], "t1");
    assert_eq!(item["title"], "a\\x0a.rs");
    assert_eq!(item["hunks"][0], "a\n.rs:1-1");
    assert_eq!(item["tag"], "file_");
    assert_eq!(item["diff"], plan.territories[0].diff);
    assert_eq!(plan.inputs()["angles"], json!(["correctness", "security"]));
}

#[test]
fn below_the_top_the_diff_says_where_its_names_begin() {
    let change = change(&adds("sub/a.rs", &["x"]));
    let plan = Plan::of(&change, Path::new("/w/sub"), Effort::Low);
    assert!(
        plan.territories[0].diff.starts_with("# a change\n# File names are relative to /w\ndiff ")
    );
    for name in ["sub/a.rs", "a.rs", "./a.rs", "/w/sub/a.rs", "b/sub/a.rs"] {
        assert_eq!(plan.known(name), Some("sub/a.rs"), "{name}");
    }
    assert_eq!(plan.known("other.rs"), None);
}

#[test]
fn the_change_also_knows_what_is_set_aside_and_what_a_file_was_called() {
    let text = "diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n";
    let mut change = change(&(text.to_owned() + &adds("Cargo.lock", &["x"])));
    let inside = crate::git::ApartKind::Repository;
    change.apart = vec![crate::git::Apart { path: "inside".to_owned(), kind: inside }];
    let plan = Plan::of(&change, Path::new("/w"), Effort::Low);
    let known = ["new", "old", "Cargo.lock", "inside"].map(|name| plan.known(name));
    assert_eq!(known, [Some("new"), Some("new"), Some("Cargo.lock"), None]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn every_hunk_of_any_change_is_in_exactly_one_territory_or_told(
        sizes in proptest::collection::vec(0_usize..60_000, 1..60),
        effort in 0_usize..3,
    ) {
        let files = sizes.iter().enumerate();
        let text: String = files.map(|(at, size)| file(&format!("d{}/f{at}.rs", at % 7), size + 52)).collect();
        check(&text, EFFORTS[effort]);
    }
}
