//! Recordings, written and read back without a server.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};
use tempfile::TempDir;
use tokio::time::Instant;

use super::canonical::Volatile;
use super::file::End;
use super::manifest::Manifest;
use super::recording::Tape;
use super::replaying::{Beginning, Pace, Player};
use super::*;

/// A recording that is being made, and where.
struct Place {
    directory: TempDir,
    recorder: Arc<Recorder>,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let volatile = Volatile::default().path(Path::new("/here"), "{cwd}");
        let recorder = Recorder::create(directory.path(), volatile).unwrap();
        Self { directory, recorder }
    }

    fn ask(&self, prompt: &str) -> Tape {
        self.recorder.begin("m", "chat", "/chat/completions", &body(prompt))
    }

    /// Replays it in another working directory.
    fn player(&self, pace: Pace) -> Arc<Player> {
        let volatile = Volatile::default().path(Path::new("/there"), "{cwd}");
        Player::open(self.directory.path(), volatile, pace).unwrap()
    }
}

fn body(prompt: &str) -> Vec<u8> {
    format!(r#"{{"model":"m","messages":["{prompt}"]}}"#).into_bytes()
}

/// Takes an answer down from its first byte to its last.
fn answer(mut tape: Tape, text: &str) {
    begin(&mut tape);
    tape.piece(text.as_bytes());
    tape.end(End::Whole);
}

fn begin(tape: &mut Tape) {
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", HeaderValue::from_static("7"));
    headers.insert("set-cookie", HeaderValue::from_static("track=me"));
    headers.insert("x-request-id", HeaderValue::from_static("r-1"));
    tape.answered(200, &headers);
}

/// Returns the answer to a prompt, or why there is none.
async fn asked(player: &Arc<Player>, prompt: &str) -> Result<String, String> {
    match replayed(player, &body(prompt)).await {
        Ok(Some(mut response)) => {
            let mut text = Vec::new();
            while let Ok(Some(piece)) = response.chunk().await {
                text.extend_from_slice(&piece);
            }
            Ok(String::from_utf8(text).unwrap())
        }
        Ok(None) => Err("silence".to_owned()),
        Err(error) => Err(error.message),
    }
}

fn unused(place: &Place, files: &str) -> String {
    let directory = place.directory.path().display();
    format!("exchanges in `{directory}` were not asked for: {files}")
}

#[tokio::test]
async fn equal_requests_get_their_answers_in_the_order_recorded() {
    let place = Place::new();
    for (prompt, text) in [("a /here/x", "1"), ("b", "2"), ("a /here/x", "3")] {
        answer(place.ask(prompt), text);
    }
    let player = place.player(Pace::AtOnce);
    assert_eq!(asked(&player, "a /there/x").await.as_deref(), Ok("1"));
    assert_eq!(player.remarks(), [format!("2 of 3 {}", unused(&place, "0002.json, 0003.json"))]);
    assert_eq!(asked(&player, "a /there/x").await.as_deref(), Ok("3"));
    assert_eq!(asked(&player, "b").await.as_deref(), Ok("2"));
    assert_eq!(player.remarks(), [""; 0]);
}

#[tokio::test]
async fn a_request_that_was_not_recorded_is_told_what_it_is_most_like() {
    let place = Place::new();
    for prompt in ["one", "two", "two and more", "one"] {
        answer(place.ask(prompt), "x");
    }
    let player = place.player(Pace::AtOnce);
    let error = player.answer(&body("two an")).map(drop).unwrap_err();
    assert_eq!((error.kind, error.should_retry), (ModelErrorKind::Request, Some(false)));
    insta::assert_snapshot!(error.message, @r#"this request was not recorded: it parts from `0003.json` at byte 32, where `{"model":"m","messages":["two and more"]}` became `{"model":"m","messages":["two an"]}`"#);
    let long = "ä".repeat(1000);
    let error = asked(&player, &format!("two{long}")).await.unwrap_err();
    assert!(error.chars().count() < 250 && !error.contains('\u{fffd}'), "{error}");
    for _ in 0..2 {
        asked(&player, "one").await.unwrap();
    }
    let error = asked(&player, "one").await.unwrap_err();
    assert_eq!(error, "this request was answered 2 times already, last with `0004.json`");
    asked(&player, "two").await.unwrap();
    let error = asked(&player, "two").await.unwrap_err();
    assert_eq!(error, "this request was answered already, with `0002.json`");
    asked(&player, "two and more").await.unwrap();
    let error = asked(&player, "three").await.unwrap_err();
    let directory = place.directory.path().display();
    let all = format!("this request was not recorded: all 4 in `{directory}` are used");
    assert_eq!(error, all);
    let [remark] = &player.remarks()[..] else { panic!("one remark") };
    let first = "5 requests were not recorded; the first: this request was not recorded: it parts";
    assert!(remark.starts_with(first), "{remark}");
}

#[tokio::test(start_paused = true)]
async fn pieces_come_when_they_came_or_at_once() {
    let place = Place::new();
    let mut tape = place.ask("a");
    begin(&mut tape);
    for (after, text) in [(5_000, "one "), (20_000, "two "), (0, "three")] {
        tokio::time::advance(Duration::from_millis(after)).await;
        tape.piece(text.as_bytes());
    }
    drop(tape);
    for (pace, seconds) in [(Pace::AtOnce, 0), (Pace::Recorded, 25)] {
        let begun = Instant::now();
        let player = place.player(pace);
        assert_eq!(asked(&player, "a").await.as_deref(), Ok("one two three"));
        assert_eq!(begun.elapsed(), Duration::from_secs(seconds));
    }
}

#[tokio::test]
async fn of_headers_what_matters_is_kept_and_a_floor_only_at_the_pace_recorded() {
    let place = Place::new();
    answer(place.ask("a"), "x");
    for (pace, expected) in
        [(Pace::AtOnce, &["x-request-id"][..]), (Pace::Recorded, &["retry-after", "x-request-id"])]
    {
        let playing = place.player(pace).answer(&body("a")).unwrap();
        let Beginning::Answer { status, headers, body: _ } = playing.begin().await else {
            panic!("it was answered");
        };
        assert_eq!(status, 200);
        assert_eq!(headers.keys().map(|name| name.as_str()).collect::<Vec<_>>(), expected);
    }
}

/// Of two requests the second was made before the first had its answer.
fn overlapping() -> Place {
    let place = Place::new();
    let first = place.ask("first");
    let second = place.ask("second");
    answer(second, "2");
    answer(first, "1");
    place
}

#[tokio::test(start_paused = true)]
async fn an_answer_ends_when_all_was_asked_and_answered_that_had_been_then() {
    let player = overlapping().player(Pace::AtOnce);
    let begun = Instant::now();
    let first = tokio::spawn({
        let player = Arc::clone(&player);
        async move { (asked(&player, "first").await, Instant::now()) }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!first.is_finished());
    assert_eq!(asked(&player, "second").await.as_deref(), Ok("2"));
    let (answer, at) = first.await.unwrap();
    assert_eq!((answer.as_deref(), at - begun), (Ok("1"), Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn an_order_that_cannot_be_kept_is_given_up_once() {
    let player = overlapping().player(Pace::AtOnce);
    let begun = Instant::now();
    assert_eq!(asked(&player, "first").await.as_deref(), Ok("1"));
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
    assert_eq!(asked(&player, "second").await.as_deref(), Ok("2"));
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
}

#[test]
fn nothing_is_written_over() {
    let place = Place::new();
    let directory = place.directory.path();
    // A second process that records there too.
    let second = Recorder::create(directory, Volatile::default()).unwrap();
    answer(place.ask("a"), "1");
    let taken = Recorder::create(directory, Volatile::default()).map(drop).unwrap_err();
    assert!(taken.to_string().ends_with("holds a recording already"), "{taken}");
    answer(second.begin("m", "chat", "/x", &body("b")), "2");
    let trouble = second.trouble().expect("something was lost");
    assert!(trouble.starts_with("1 exchange could not be recorded in `"), "{trouble}");
    assert_eq!(place.recorder.trouble(), None);
    let text = fs::read_to_string(directory.join("0001.json")).unwrap();
    assert!(text.contains("\"text\": \"1\""), "{text}");
}

#[test]
fn an_answer_that_never_ends_is_kept_up_to_the_cap() {
    let place = Place::new();
    let mut tape = place.ask("a");
    begin(&mut tape);
    for _ in 0..20 {
        tape.piece(&vec![b'x'; 1 << 20]);
    }
    drop(tape);
    let size = fs::metadata(place.directory.path().join("0001.json")).unwrap().len();
    assert!((16 << 20..17 << 20).contains(&size), "{size}");
}

#[test]
fn files_are_taken_in_the_order_of_their_numbers_and_others_are_passed_over() {
    let place = tempfile::tempdir().unwrap();
    for name in ["10000.json", "0002.json", "9999.json", "notes.json", "0001.txt", "recording.json"]
    {
        fs::write(place.path().join(name), "").unwrap();
    }
    assert_eq!(exchanges_in(place.path()).unwrap(), ["0002.json", "9999.json", "10000.json"]);
    fs::write(place.path().join(MANIFEST), Manifest::default().to_text()).unwrap();
    let error = Player::open(place.path(), Volatile::default(), Pace::AtOnce);
    let error = error.map(drop).unwrap_err().to_string();
    assert!(error.contains("0002.json` is no part of a recording: EOF"), "{error}");
}
