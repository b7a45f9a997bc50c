//! What reviewers of one change share.

use crate::review_flow::{react, repository};
use crate::support::server::RecordedRequest;
use crate::support::talk::{Talk, serve};

/// Returns the number of leading bytes that two requests share.
fn shared(one: &RecordedRequest, other: &RecordedRequest) -> usize {
    let pairs = one.body.iter().zip(&other.body);
    pairs.take_while(|(one, other)| one == other).count()
}

/// A provider's cache serves what siblings begin with: the diff, and not the angle.
#[test]
fn the_reviewers_of_a_part_share_nine_tenths_of_their_requests() {
    let repository = repository();
    let server = serve(react);
    let asked = ["review", "-m", "m", "--config", "retry.most=0", "watch", "the", "locks"];
    repository.place.tine(asked).server(&server).run().exits(0);
    let requests = server.finish();
    let first = |request: &&RecordedRequest| {
        let talk = Talk::of(request);
        talk.turn() == 1 && talk.task().contains("\nReview ")
    };
    let reviewers: Vec<&RecordedRequest> = requests.iter().filter(first).collect();
    assert_eq!(reviewers.len(), 5);
    for (place, one) in reviewers.iter().enumerate() {
        for other in &reviewers[..place] {
            let longest = one.body.len().max(other.body.len());
            let shared = shared(one, other);
            assert!(shared * 10 >= longest * 9, "{shared} of {longest}");
        }
    }
    let talks = requests.iter().map(Talk::of).filter(|talk| talk.verifies() && talk.turn() == 1);
    let tasks: Vec<String> = talks.map(|talk| talk.task().to_owned()).collect();
    assert!(tasks.len() > 1);
    let rules = tasks[0].split("## The finding").next().expect("a first part");
    assert!(rules.len() > 1_000 && tasks.iter().all(|task| task.starts_with(rules)));
    let last = |task: &String| task.trim_end().lines().last().map(str::to_owned);
    let is_named = |task| last(task).is_some_and(|line| line.starts_with("Finding: "));
    assert!(tasks.iter().all(is_named), "{tasks:?}");
}
