//! Images that models are shown: how long they stay, who sees them, and what
//! programs are told.

use std::sync::Arc;

use serde_json::{Value, json};
use tine::agent::IMAGES_CAP;
use tine::event::{EventKind, Outcome, UnitId, UnitState};
use tine::message::{Image, ImageKind};
use tine::model::scripted::Scripted;

use crate::support::inside::{Setup, Story};
use crate::support::tine::Place;

const PNG: &[u8] = include_bytes!("../fixtures/pictures/colour.png");

/// What the Read tool says of it, and what stands in a request for the image.
const SHOWN: &str = "colour.png: image/png, 5 x 3 pixels, 87 bytes";
const IMAGE: &str = "[image/png]";

fn read_line(line: usize) -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/pictures/colour.png");
    json!({ "name": "Read", "arguments": { "file_path": path, "offset": line } })
}

fn read() -> Value {
    read_line(1)
}

fn agent(arguments: Value) -> Value {
    json!({ "name": "Agent", "arguments": arguments })
}

/// A reply that comes if the request holds these texts and none of those.
fn answer(text: &str, contains: &[&str], lacks: &[&str]) -> Value {
    json!({ "text": text, "expect": { "contains": contains, "lacks": lacks } })
}

fn setup(units: Value) -> Setup {
    Setup::new(json!({ "takes_images": true, "units": units }))
}

fn done(text: &str) -> Outcome {
    Outcome::Done { text: text.into() }
}

/// The images that a unit was shown, and how many outputs were errors.
fn shown(story: &Story, unit: UnitId) -> (Vec<Image>, usize) {
    let of_unit = story.events.iter().filter(|event| event.unit == unit);
    let outputs = of_unit.filter_map(|event| match &event.kind {
        EventKind::ToolFinished { output, .. } => Some(output),
        _ => None,
    });
    let outputs: Vec<_> = outputs.collect();
    let images = outputs.iter().flat_map(|output| output.images.clone()).collect();
    (images, outputs.iter().filter(|output| output.is_error).count())
}

#[tokio::test(start_paused = true)]
async fn an_image_stays_in_the_conversation_also_when_that_is_gone_on_with() {
    let story = setup(json!({ "main": [
        { "calls": [read()] },
        { "calls": [{ "name": "Glob", "arguments": { "pattern": "*" } }], "expect": { "contains": [SHOWN, IMAGE] } },
        answer("red", &[IMAGE], &[]),
    ] }));
    let story = story.run().await;
    assert_eq!(story.end.outcome, done("red"));
    assert_eq!(shown(&story, UnitId::MAIN), (vec![Image::new(ImageKind::Png, PNG)], 0));
    let all = story.events.len();
    let more = setup(json!({ "main": [answer("still red", &["red", IMAGE], &[])] }));
    assert_eq!(more.run_after(story, all).await.end.outcome, done("still red"));
}

#[tokio::test(start_paused = true)]
async fn a_session_goes_on_with_a_model_that_takes_no_images() {
    let story = setup(json!({ "main": [{ "calls": [read()] }, { "text": "red" }] })).run().await;
    let all = story.events.len();
    let blind = Setup::new(json!({ "units": { "main": [
        { "calls": [read()], "expect": { "contains": [SHOWN], "lacks": [IMAGE] } },
        answer("I cannot see it", &["your model takes no images"], &[IMAGE]),
    ] } }));
    let story = blind.run_after(story, all).await;
    assert_eq!(story.end.outcome, done("I cannot see it"));
    assert_eq!(shown(&story, UnitId::MAIN), (vec![Image::new(ImageKind::Png, PNG)], 1));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_takes_the_place_of_another_sees_for_itself() {
    let overloaded =
        json!({ "fault": { "error": { "status": 529, "message": "busy" } }, "repeat": true });
    let blind = json!({ "units": { "main": [
        {},
        { "calls": [read()], "expect": { "contains": [SHOWN], "lacks": [IMAGE] } },
        answer("I cannot see it", &["your model takes no images"], &[IMAGE]),
    ] } });
    let blind = Scripted::parse("blind", "blind", &blind.to_string()).unwrap();
    let story = setup(json!({ "main": [{ "calls": [read()] }, overloaded] }));
    let story = Setup { fallbacks: vec![Arc::new(blind)], ..story }.run().await;
    assert_eq!(story.end.outcome, done("I cannot see it"));
}

#[tokio::test(start_paused = true)]
async fn a_fork_sees_what_its_parent_was_shown() {
    let fork = agent(json!({ "description": "look", "prompt": "Look closer." }));
    let story = setup(json!({
        "main": [
            { "calls": [read()] },
            { "calls": [fork] },
            { "text": "waiting", "repeat": true },
        ],
        "look": [answer("a red one", &[SHOWN, IMAGE, "Look closer."], &[])],
    }));
    // The scripted model checks that it begins with its parent's bytes.
    let story = story.run().await;
    assert_eq!(story.states(), [UnitState::Completed]);
    assert_eq!(story.end.outcome.state(), UnitState::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_shown_images_of_its_own_and_gives_back_text() {
    let task = json!({ "description": "look", "prompt": "Look.", "subagent_type": "explore" });
    let story = setup(json!({
        "main": [{ "calls": [agent(task)] }, answer("all seen", &["a red one"], &[IMAGE])],
        "look": [{ "calls": [read()] }, answer("a red one", &[IMAGE], &[])],
    }));
    let story = story.run().await;
    assert_eq!(story.end.outcome, done("all seen"));
    assert_eq!(shown(&story, UnitId(1)).0.len(), 1);
    assert_eq!(shown(&story, UnitId::MAIN).0.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_summed_up_takes_its_images_with_it() {
    let story = Setup::new(json!({
        "takes_images": true,
        "context_window": 1_000,
        "units": {
            "main": [
                { "calls": [read()], "usage": { "input": 100 } },
                { "calls": [read()], "expect": { "contains": ["A red picture."], "lacks": [IMAGE] },
                  "usage": { "input": 100 } },
                // It was looked at again.
                answer("red", &["A red picture.", IMAGE], &[]),
            ],
            // Nobody has counted the image: it alone makes it due.
            "main:compact": [answer("A red picture.", &[IMAGE, "Write a summary"], &[])],
        },
    }));
    let story = story.run().await;
    assert_eq!(story.end.outcome, done("red"));
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_is_full_of_images_takes_no_more() {
    let calls = |lines: std::ops::RangeInclusive<usize>| lines.map(read_line).collect::<Vec<_>>();
    let left_out = "[The image is left out: a conversation holds at most 20 images, of 20.0 MB in \
                    base64 together, and this one is full.";
    let story = setup(json!({ "main": [
        { "calls": calls(1..=IMAGES_CAP - 1) },
        { "calls": calls(IMAGES_CAP..=IMAGES_CAP + 2), "expect": { "lacks": [left_out] } },
        answer("enough", &[left_out], &[]),
    ] }));
    let story = story.run().await;
    assert_eq!(story.end.outcome, done("enough"));
    let (images, errors) = shown(&story, UnitId::MAIN);
    assert_eq!((images.len(), errors), (IMAGES_CAP, 2));
}

#[test]
fn programs_are_given_the_image_and_people_its_name() {
    let place = Place::new();
    place.write("colour.png", PNG);
    let script = json!({ "takes_images": true, "units": { "main": [
        { "calls": [{ "name": "Read", "arguments": { "file_path": "colour.png" } }] },
        answer("red", &[SHOWN, IMAGE], &[]),
    ] } });
    place.write("script.json", script.to_string());
    let arguments = ["-p", "go", "-m", "scripted:script.json"];
    let streamed = [&arguments[..], &["-o", "stream-json"]].concat();
    let records = place.tine(streamed).run().exits(0).records();
    let data = &*Image::new(ImageKind::Png, PNG).base64;
    let source = json!({ "type": "base64", "media_type": "image/png", "data": data });
    let content = json!([{ "type": "text", "text": SHOWN }, { "type": "image", "source": source }]);
    let outputs: Vec<&Value> = records.0.iter().filter(|record| record["type"] == "user").collect();
    let [output] = outputs[..] else { panic!("one call, one output") };
    assert_eq!(output["message"]["content"][0]["content"], content);

    let plain = place.tine(arguments).run().exits(0);
    assert_eq!(plain.stdout, "red\n");
    assert_eq!(plain.stderr, "Read colour.png\nRead shows image/png 87 bytes\n");
    let listed = place.tine(["sessions"]).run().exits(0).stdout;
    let session = listed.split_whitespace().next().expect("the session is listed");
    let text = place.tine(["session", "show", session]).run().exits(0).stdout;
    assert!(text.contains("(image/png 87 bytes)") && !text.contains(data), "{text}");
}
