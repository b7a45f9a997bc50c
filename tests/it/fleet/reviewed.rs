//! Reviews whose reviewers workers run.

use serde_json::{Value, json};

use super::{Side, both, logged};
use crate::support::repository::Repository;

/// Reviews a change, and returns what is said and how the reviewers ended.
#[track_caller]
fn reviewed(side: &mut Side, flags: &[&str]) -> (String, Vec<Value>) {
    side.work(&[3, 2], None);
    let repository = Repository::new();
    repository.write("src/f.rs", "fn f() {\n    x();\n}\n");
    repository.commit("Begin");
    repository.write("src/f.rs", "fn f() {\n    // TODO\n    x.unwrap();\n}\n");
    let place = &repository.place;
    let finished = side.tine(place, &[&["review"], flags].concat()).run().exits(0);
    assert_eq!(repository.git(&["status", "--porcelain"]), "M src/f.rs");
    let mut ended: Vec<Value> = logged(place, "unit_ended")
        .iter()
        .map(|line| {
            let body = &line["body"];
            json!([line["path"], body["outcome"]["state"], body["text"], body["turns"]])
        })
        .collect();
    ended.sort_by_key(Value::to_string);
    (finished.stdout, ended)
}

#[test]
fn a_review_reports_the_same_wherever_its_reviewers_run() {
    both(|side| {
        let (report, ended) = reviewed(side, &[]);
        assert!(report.contains("- [medium] src/f.rs:3: `unwrap`"), "{report}");
        assert_eq!(ended.len(), 5, "one for each angle: {ended:#?}");
        (report, ended)
    });
}
