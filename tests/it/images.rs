//! Images that models are shown: how long they stay, who sees them, and what
//! programs are told.

use std::sync::Arc;

use serde_json::{Value, json};
use tine::agent::{IMAGES_CAP, Opening};
use tine::event::{EventKind, Outcome, UnitId, UnitState};
use tine::message::{Image, ImageKind, Prompt};
use tine::model::check::check_continues;
use tine::model::scripted::Scripted;

use crate::support::inside::{Setup, Story};
use crate::support::server::{Reaction, RecordedRequest, Server};
use crate::support::tine::Place;
use crate::support::{anthropic, responses};

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

/// What a person asks with an image between two texts.
fn asking() -> Opening {
    let image = Image::new(ImageKind::Png, PNG);
    Opening::Prompt(Prompt::joined(["what is".into(), image.into(), "this?".into()]))
}

/// How a scripted model reads it.
const ASKED: &str = "what is\n[image/png]\nthis?";

#[tokio::test(start_paused = true)]
async fn a_fork_and_the_next_process_see_what_the_user_has_shown() {
    let fork = agent(json!({ "description": "look", "prompt": "Look closer." }));
    let story = setup(json!({
        "main": [
            { "calls": [fork], "expect": { "contains": [ASKED] } },
            { "text": "waiting", "repeat": true },
        ],
        "look": [answer("a red one", &[ASKED, "Look closer."], &[])],
    }));
    let story = story.opens(asking()).run().await;
    assert_eq!(story.states(), [UnitState::Completed]);
    let all = story.events.len();
    let more = setup(json!({ "main": [answer("still red", &[ASKED], &[])] }));
    let story = more.run_after(story, all).await;
    assert_eq!(story.end.outcome, done("still red"));
    let all = story.events.len();
    let unseen = ["what is\n[There is an image here. You cannot see it.]\nthis?"];
    let blind = Setup::new(json!({ "units": { "main": [answer("it was red", &unseen, &[])] } }));
    assert_eq!(blind.run_after(story, all).await.end.outcome, done("it was red"));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_summed_up_says_that_it_had_an_image() {
    let look = json!({ "name": "Glob", "arguments": { "pattern": "*" } });
    let gone = "[There was an image here. The summary says what was seen in it.]";
    let story = Setup::new(json!({
        "takes_images": true,
        "context_window": 10_000,
        "units": {
            "main": [
                { "calls": [look], "expect": { "contains": [ASKED] }, "usage": { "input": 9_900 } },
                answer("red", &["A red picture.", "what is", gone, "this?"], &[IMAGE]),
            ],
            "main:compact": [answer("A red picture.", &[ASKED, "Write a summary"], &[])],
        },
    }));
    assert_eq!(story.opens(asking()).run().await.end.outcome, done("red"));
}

#[tokio::test(start_paused = true)]
async fn a_message_with_more_images_than_there_is_room_for_does_not_enter_the_conversation() {
    let showing = |count: usize| {
        let image = || Prompt::from(Image::new(ImageKind::Png, PNG));
        let images = std::iter::repeat_with(image).take(count);
        Opening::Prompt(Prompt::joined(images.chain(["what is this?".into()])))
    };
    let full = setup(json!({ "main": [answer("red", &[IMAGE], &[])] }));
    let story = full.opens(showing(IMAGES_CAP)).run().await;
    assert_eq!(story.end.outcome, done("red"));
    let all = story.events.len();
    let refused = setup(json!({ "main": [{ "text": "never" }] })).opens(showing(1));
    let story = refused.run_after(story, all).await;
    let Outcome::Failed(failure) = &story.end.outcome else { panic!("{:?}", story.end) };
    let expected = "the message has 1 image of 116 bytes in base64, and the conversation has room \
                    for 0 of 19.9 MB: it holds at most 20, of 20.0 MB together; `/compact` makes room";
    assert_eq!(&*failure.message, expected);
    let prompts = |event: &&tine::event::Event| matches!(event.kind, EventKind::Prompted(_));
    assert_eq!(story.events.iter().filter(prompts).count(), 1);
}

/// An API, its answer `seen`, and the messages of a request.
type Api = (&'static str, fn() -> Reaction, &'static str);

const APIS: [Api; 3] = [
    ("chat", || Reaction::text_reply("seen"), "messages"),
    ("responses", || responses::Says::text("seen").reaction(), "input"),
    ("anthropic", || anthropic::text_reply("seen"), "messages"),
];

/// A place with a model of an API, which takes images or not.
fn place_of(server: &Server, api: &str, takes_images: bool) -> Place {
    let (place, url) = (Place::new(), server.base_url());
    place.configure(&format!(
        "[models.m]\napi = '{api}'\nbase_url = '{url}'\nkey_env = 'M_KEY'\nimages = {takes_images}\n"
    ));
    place
}

/// Says these messages to one process, each a list of blocks, and returns its
/// records.
fn says(place: &Place, flags: &[&str], messages: &[Value]) -> Vec<Value> {
    let line = |content: &Value| json!({"type": "user", "message": {"content": content}});
    let lines: Vec<String> = messages.iter().map(|content| line(content).to_string()).collect();
    let streamed = ["--input-format", "stream-json", "-o", "stream-json", "-m", "m"];
    let tine = place.tine(streamed.iter().chain(flags)).env("M_KEY", "sk-for-tests-only");
    let finished = tine.stdin(lines.join("\n")).run().exits(0);
    finished.stdout.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn image_block() -> Value {
    let data = &*Image::new(ImageKind::Png, PNG).base64;
    json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": data } })
}

/// The parts of the first user message of a request, in one form for all APIs.
fn parts(request: &RecordedRequest, messages: &str) -> Vec<String> {
    let body = request.json();
    let messages = body[messages].as_array().expect("a list of messages");
    let asked = messages.iter().find(|message| message["role"] == "user").expect("one was asked");
    let part = |part: &Value| match part["type"].as_str().expect("a part has a type") {
        "text" | "input_text" => {
            let text = part["text"].as_str().expect("a text");
            text.split_once("</environment>\n\n").map_or(text, |(_, asked)| asked).to_owned()
        }
        "image_url" => part["image_url"]["url"].as_str().expect("a text").to_owned(),
        "input_image" => part["image_url"].as_str().expect("a text").to_owned(),
        "image" => {
            let source = &part["source"];
            assert_eq!(source["type"], "base64");
            let [kind, data] =
                ["media_type", "data"].map(|key| source[key].as_str().expect("a text"));
            format!("data:{kind};base64,{data}")
        }
        other => panic!("{other}"),
    };
    asked["content"].as_array().expect("a list of parts").iter().map(part).collect()
}

#[test]
fn an_image_in_a_message_stands_between_its_texts_over_each_api_and_stays_there() {
    let image = Image::new(ImageKind::Png, PNG).data_url();
    for (api, seen, messages) in APIS {
        let server = Server::start(move |_| seen());
        let place = place_of(&server, api, true);
        let content = json!([text_block("what is"), image_block(), text_block("this?")]);
        let said = [content, json!("and now?")];
        let records = says(&place, &["--replay-user-messages"], &said);
        let repeated: Vec<&Value> =
            records.iter().filter(|record| record["isReplay"] == true).collect();
        assert_eq!(repeated.len(), 2, "{api}");
        assert_eq!(repeated[0]["message"]["content"], said[0], "{api}");
        assert_eq!(records.last().unwrap()["result"], "seen", "{api}");
        // The next process, and a copy of the session.
        for flags in [&["-c"][..], &["-c", "--fork-session"]] {
            let all = [&["-p", "and later?", "-m", "m"], flags].concat();
            place.tine(all).env("M_KEY", "sk-for-tests-only").run().exits(0);
        }
        let requests = server.finish();
        assert_eq!(requests.len(), 4, "{api}");
        for request in &requests {
            assert_eq!(parts(request, messages), ["what is", &image, "this?"], "{api}");
        }
        for pair in requests[..3].windows(2) {
            assert_eq!(check_continues(&pair[0].body, &pair[1].body), Ok(()), "{api}");
        }
        let session = place.tine(["sessions"]).run().exits(0).stdout;
        let session = session.split_whitespace().next().expect("the session is listed");
        let shown = place.tine(["session", "show", session]).run().exits(0).stdout;
        assert!(shown.contains("(image/png 87 bytes)") && !shown.contains("base64"), "{shown}");
    }
}

#[test]
fn a_message_may_be_an_image_alone_and_goes_along_with_the_next_one() {
    let server = Server::start(|_| Reaction::text_reply("seen"));
    let place = place_of(&server, "chat", true);
    let image = Image::new(ImageKind::Png, PNG).data_url();
    says(&place, &[], &[json!([image_block()])]);
    let note =
        json!({"type": "user", "shouldQuery": false, "message": {"content": [image_block()]}});
    let ask = json!({"type": "user", "message": {"content": "what is it?"}});
    let streamed = ["--input-format", "stream-json", "-o", "stream-json", "-m", "m"];
    let tine = place.tine(streamed).env("M_KEY", "sk-for-tests-only");
    tine.stdin(format!("{note}\n{ask}\n")).run().exits(0);
    let requests = server.finish();
    let asked: Vec<Vec<String>> =
        requests.iter().map(|request| parts(request, "messages")).collect();
    // Its facts stand before it.
    assert_eq!(asked[0].last(), Some(&image));
    assert_eq!(asked[1][asked[1].len() - 2..], [image, "what is it?".to_owned()]);
}

#[test]
fn what_cannot_be_shown_is_refused_and_the_next_message_is_answered() {
    let server = Server::start(|_| Reaction::text_reply("fine"));
    let check = |takes_images: bool, content: Value, why: &str| {
        let place = place_of(&server, "chat", takes_images);
        let before = server.count();
        let records = says(&place, &[], &[content, json!("go on")]);
        let results: Vec<&Value> =
            records.iter().filter(|record| record["type"] == "result").collect();
        assert_eq!(results.len(), 2, "{results:?}");
        assert_eq!(results[0]["is_error"], true);
        let said = results[0]["errors"].to_string();
        assert!(said.contains(why), "{said}");
        assert_eq!(results[1]["result"], "fine");
        assert_eq!(server.count(), before + 1, "what was refused was not sent");
    };
    check(false, json!([text_block("see"), image_block()]), "the model `m` takes no images");
    let source = json!({"type": "url", "url": "https://example.com/a.png"});
    check(true, json!([{ "type": "image", "source": source }]), "send it as `base64`");
    let source = json!({"type": "base64", "media_type": "image/png", "data": "%"});
    check(true, json!([{ "type": "image", "source": source }]), "no base64");
    let command = json!([text_block("/compact"), image_block()]);
    check(true, command, "images are for the conversation itself");
}

#[test]
fn a_message_whose_images_the_provider_refuses_is_taken_back_and_the_next_one_is_answered() {
    // Words that name the image have it left out; these say nothing of it.
    let server = Server::start(|request| match request.json().to_string().contains("image_url") {
        true => Reaction::json(400, &json!({ "error": { "message": "bad request" } })),
        false => Reaction::text_reply("fine"),
    });
    let place = place_of(&server, "chat", true);
    let shown = json!([text_block("see"), image_block()]);
    let records = says(&place, &[], &[json!("hello"), shown, json!("go on")]);
    let results: Vec<&Value> = records.iter().filter(|record| record["type"] == "result").collect();
    let said: Vec<bool> = results.iter().map(|result| result["is_error"] == true).collect();
    assert_eq!(said, [false, true, false], "{results:?}");
    let is_notice = |record: &&Value| record["subtype"] == "informational";
    let notice = records.iter().find(is_notice).expect("somebody says so").to_string();
    assert!(notice.contains("the message is not part of the conversation"), "{notice}");
    // Nor is it in the next process.
    let records = says(&place, &["--continue"], &[json!("and now?")]);
    assert_eq!(records.last().expect("a result")["result"], "fine");
}
