//! The chat on a pseudo-terminal: scenes that are played at several sizes, and
//! pictures of the screen that are compared with those that are kept.
//!
//! A scene stands still wherever a picture is taken: the model waits at a gate,
//! and nothing in a picture hangs on a timer.

/// Batches: their rows, and what keys do to them.
mod batches;
/// Ends of every sort: what is left on the terminal and on disk.
mod leaving;
/// Others that have the terminal for a while.
mod lending;
/// Questions, and who has the keys meanwhile.
mod questions;
/// Windows of another size.
mod resizing;
/// Sessions: resumed, changed, taken back.
mod sessions;
/// Answers while they are written.
mod streaming;
/// What is typed, pasted, looked for and edited.
mod typing;

use std::thread;

use serde_json::{Value, json};

use crate::support::picture::last_rows;
use crate::support::screen::{Screen, Size};
use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::serve;
use crate::support::terminal::Sitting;
use crate::support::tine::{Place, Tine};

const MIDDLE: Size = Size { columns: 80, rows: 24 };
const LARGE: Size = Size { columns: 120, rows: 40 };
const SMALL: Size = Size { columns: 40, rows: 15 };

/// What a few keys send.
const ESC: &str = "\u{1b}";
const ALT_UP: &str = "\u{1b}[1;3A";
const UP: &str = "\u{1b}[A";
const DOWN: &str = "\u{1b}[B";
const CTRL_B: &str = "\u{2}";
const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const CTRL_G: &str = "\u{7}";
const CTRL_L: &str = "\u{c}";
const CTRL_O: &str = "\u{f}";
const CTRL_R: &str = "\u{12}";
const CTRL_Z: &str = "\u{1a}";

/// The binary as a chat with a model of this server.
fn chat_of(place: &Place, server: &Server, flags: &[&str]) -> Tine {
    let flags = ["-m", "m", "--config", "retry.most=0"].iter().chain(flags);
    place.tine(flags).server(server).env("HOME", &place.root().to_string_lossy())
}

/// Starts a chat and waits until it is ready.
fn chat(place: &Place, server: &Server, (size, flags): (Size, &[&str])) -> Sitting {
    sit(chat_of(place, server, flags), size)
}

fn sit(tine: Tine, size: Size) -> Sitting {
    let mut sitting = Sitting::start(tine, size);
    sitting.wait_until(|screen| footer(screen).contains("/help"));
    sitting
}

/// Returns the last row that is not empty.
fn footer(screen: &Screen) -> String {
    screen.shown().into_iter().rfind(|row| !row.is_empty()).unwrap_or_default()
}

/// Tells whether nothing is under way, and all that was said is where it stays:
/// then a blank row is above the line.
fn rests(screen: &Screen) -> bool {
    let rows = screen.shown();
    let last = rows.iter().rposition(|row| !row.is_empty()).unwrap_or(0);
    rows[last].ends_with("  /help") && last > 1 && rows[last - 2].is_empty()
}

/// Returns how many rows on the screen have this text.
fn rows_with(screen: &Screen, text: &str) -> usize {
    screen.shown().iter().filter(|row| row.contains(text)).count()
}

/// What a scene is played with.
struct Scene {
    size: Size,
    place: Place,
    pictures: String,
}

impl Scene {
    fn new(size: Size) -> Self {
        Self { size, place: Place::new(), pictures: String::new() }
    }

    /// Starts a chat with these flags.
    fn chat(&self, server: &Server, flags: &[&str]) -> Sitting {
        chat(&self.place, server, (self.size, flags))
    }

    /// Keeps the screen as it is, below a line that says what it shows.
    fn picture(&mut self, shows: &str, sitting: &Sitting) {
        let Size { columns, rows } = self.size;
        let picture = last_rows(&sitting.screen);
        let picture: String = picture.lines().map(|row| settled(row) + "\n").collect();
        self.pictures += &format!("{columns}x{rows}: {shows}\n{picture}\n");
    }
}

/// Returns a row in which parts of a session's id are masked: its beginning,
/// and the end that did not fit into the row before. How long a call took is
/// told only of slow ones, so it is left out.
fn settled(row: &str) -> String {
    for lines in ["line", "lines"] {
        let slow = format!(" {lines}  #s");
        if row.contains(&slow) {
            return row.replace(&slow, &format!(" {lines}    "));
        }
    }
    let is_id = |text: &str| text.chars().all(|c| c.is_ascii_hexdigit());
    if let Some((end, rest)) = row.split_once(';')
        && end.len() == 5
        && is_id(&end[1..])
    {
        return format!("|####;{rest}");
    }
    let is_beginning = |word: &&str| word.len() == 8 && is_id(word);
    match row.split(' ').find(is_beginning) {
        Some(id) => row.replace(id, "########"),
        None => row.to_owned(),
    }
}

/// Plays a scene at every size and compares its pictures.
#[track_caller]
fn at_every_size(name: &str, play: impl Fn(&mut Scene) + Sync) {
    at(name, &[MIDDLE, LARGE, SMALL], play);
}

/// Plays a scene at the usual size and compares its pictures.
#[track_caller]
fn at_usual_size(name: &str, play: impl Fn(&mut Scene) + Sync) {
    at(name, &[MIDDLE], play);
}

#[track_caller]
fn at(name: &str, sizes: &[Size], play: impl Fn(&mut Scene) + Sync) {
    let played = |size: Size| {
        let mut scene = Scene::new(size);
        play(&mut scene);
        scene.pictures
    };
    let pictures: String = thread::scope(|scope| {
        let playing: Vec<_> = sizes.iter().map(|&size| scope.spawn(move || played(size))).collect();
        playing
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("chat/screens");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, pictures));
}

/// A task of a batch: an agent that is asked its own name.
fn task(name: &str) -> Value {
    json!({ "description": name, "prompt": name, "subagent_type": "general-purpose" })
}

/// A call that has these agents work side by side.
fn batch(names: &[&str]) -> Vec<(&'static str, Value)> {
    let tasks: Vec<Value> = names.iter().map(|name| task(name)).collect();
    vec![("Agent", json!({ "tasks": tasks }))]
}

/// A model that says one thing to whatever it is asked.
fn says(text: &'static str) -> Server {
    serve(move |_| Reaction::text_reply(text))
}

/// A gate that is open.
fn open_gate() -> Gate {
    let gate = Gate::closed();
    gate.open();
    gate
}

#[test]
fn a_chat_starts_with_a_line_to_type_into() {
    at_every_size("start", |scene| {
        let server = says("Hello.");
        let mut sitting = scene.chat(&server, &[]);
        scene.picture("it has started", &sitting);
        sitting.keys("hello there\r");
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "Hello.") == 1);
        scene.picture("it has answered", &sitting);
    });
}

#[test]
fn without_colours_the_words_are_the_same() {
    let text = "# Head\n\nSome `code` and **weight**.\n\n```rust\nlet a = 1;\n```\n";
    let [coloured, plain] = [None, Some("NO_COLOR")].map(|variable| {
        let (place, server) = (Place::new(), says(text));
        let tine = chat_of(&place, &server, &[]);
        let tine = variable.iter().fold(tine, |tine, name| tine.env(name, "1"));
        let mut sitting = sit(tine, MIDDLE);
        sitting.keys("go\r");
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "let a = 1;") == 1);
        let has_colours =
            sitting.screen.look("Head").is_some_and(|look| look != Default::default());
        (sitting.snapshot(), has_colours)
    });
    assert_eq!((coloured.1, plain.1), (true, false));
    assert_eq!(coloured.0, plain.0);
}
