//! The same call over and over, or the same few turns: when a model is told, and when its
//! unit ends.
//!
//! It counts and decides; which calls are counted is in `calls`, and which turns are a
//! `cycle` in there. The count is in no log: it starts anew where a session is resumed
//! and where a unit is continued by another.

mod cycle;

use std::collections::HashMap;

use serde_json::Value;

use crate::message::Output;
use crate::prompt;

use cycle::{Cycles, limits};

/// From so many in a row on, the model is told below the call's output.
pub(super) const TOLD_AT: u32 = 3;

/// After so many in a row the unit ends.
pub(super) const ENDS_AT: u32 = 5;

/// What makes two calls the same. Only a hash, since arguments and outputs may
/// be long and those of two turns are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl Key {
    /// Takes the tool's own name, the arguments as the model wrote them, and
    /// what the tool gave: not the output as it is cut for the model, which
    /// names a file that each call has for itself.
    ///
    /// A command whose long output is in such a file already is the same as no
    /// other.
    pub(super) fn new(tool: &str, arguments: &str, output: &Output) -> Self {
        let Output { text, is_error, images } = output;
        let mut hasher = blake3::Hasher::new();
        let images = images.iter().map(|image| &*image.base64);
        for part in [tool, &canonical(arguments), text].into_iter().chain(images) {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        hasher.update(&[u8::from(*is_error)]);
        Self(*hasher.finalize().as_bytes())
    }
}

/// Returns arguments without the white space between tokens and with their keys
/// in order; what is not valid JSON stays as it is.
fn canonical(arguments: &str) -> String {
    if arguments.trim().is_empty() {
        return "{}".to_owned();
    }
    match serde_json::from_str::<Value>(arguments) {
        Ok(mut value) => {
            // Maps keep the order in which they were read.
            value.sort_all_objects();
            value.to_string()
        }
        Err(_) => arguments.to_owned(),
    }
}

/// What is done about a call that was made before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// Not often enough to speak of it.
    Unremarkable,
    /// The model is told.
    Told(RepeatCount),
    /// The model was told and went on: the unit ends.
    Ends(RepeatCount),
}

/// How often something was repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RepeatCount {
    /// How many times it came in a row.
    times: u32,
    /// How many turns it has; 1 for a call that is repeated alone.
    turns: usize,
}

impl RepeatCount {
    /// Returns what the model is told.
    pub(super) fn notice(self, tool: &str) -> String {
        let Self { times, turns } = self;
        match turns {
            ..=1 => prompt::repeated(tool, times, ENDS_AT),
            _ => prompt::repeated_turns(turns, times, limits(turns).1),
        }
    }

    /// Returns why the unit ends.
    pub(super) fn message(self, tool: &str) -> String {
        let Self { times, turns } = self;
        match turns {
            ..=1 => format!(
                "made the same call of {tool} {times} times in a row, always with the same output"
            ),
            _ => format!(
                "repeated the same {turns} turns {times} times in a row, always with the same calls \
                 and outputs"
            ),
        }
    }
}

/// The calls of this turn and of the one before, and how often each came in a
/// row.
///
/// A call is in a row with the same calls of its own turn and of the turn
/// before. So a turn of A and B that comes again and again is a loop of both.
/// A turn without the call, or a message to the unit, and the count starts anew. A, B, A, B
/// in turns of their own is a cycle. No unit ends before its
/// model could read that it would: five times in one answer is not the end.
#[derive(Debug, Default)]
pub(super) struct Loops {
    turn: u32,
    runs: HashMap<Key, Run>,
    cycles: Cycles,
}

/// A call that was made at least once in the last turn but one at the latest.
#[derive(Debug, Clone, Copy)]
struct Run {
    times: u32,
    /// The turn that had it last.
    last: u32,
    /// The turn in which the model was told first.
    told: Option<u32>,
}

impl Loops {
    /// Begins a turn: forgets what the turn before did not have.
    pub(super) fn begin(&mut self, turn: u32) {
        self.cycles.begin(self.turn.saturating_add(1) == turn);
        self.turn = turn;
        self.runs.retain(|_, run| run.last.saturating_add(1) >= turn);
    }

    /// Forgets all there was: somebody has spoken to the unit, and what it does
    /// next is done for another reason.
    pub(super) fn forget(&mut self) {
        self.runs.clear();
        self.cycles.forget();
    }

    /// Takes note of a call that has its output.
    pub(super) fn note(&mut self, key: Key) -> Repeat {
        match (self.note_call(key), self.cycles.note(key)) {
            (ends @ Repeat::Ends(_), _) | (_, ends @ Repeat::Ends(_)) => ends,
            (Repeat::Unremarkable, in_cycle) => in_cycle,
            (told @ Repeat::Told(_), _) => told,
        }
    }

    fn note_call(&mut self, key: Key) -> Repeat {
        let turn = self.turn;
        let run = self.runs.entry(key).or_insert(Run { times: 0, last: turn, told: None });
        run.times = run.times.saturating_add(1);
        run.last = turn;
        let times = run.times;
        let repetition = RepeatCount { times, turns: 1 };
        match run.told {
            Some(told) if times >= ENDS_AT && told < turn => Repeat::Ends(repetition),
            Some(_) | None if times >= TOLD_AT => {
                run.told.get_or_insert(turn);
                Repeat::Told(repetition)
            }
            Some(_) | None => Repeat::Unremarkable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Image, ImageKind};

    /// Plays turns of calls, a letter each, and says of each call whether the
    /// model is told (`!`), the unit ends (`#`) or neither (`.`). A `|` stands
    /// for a message from outside.
    fn course(turns: &str) -> String {
        let mut loops = Loops::default();
        let sign = |loops: &mut Loops, call: char| {
            let output = Output::ok("the same");
            match loops.note(Key::new(&call.to_string(), "{}", &output)) {
                Repeat::Unremarkable => '.',
                Repeat::Told(_) => '!',
                Repeat::Ends(_) => '#',
            }
        };
        let mut turn = 0;
        let turns = turns.split(' ').map(|calls| {
            if calls == "|" {
                loops.forget();
                return "|".to_owned();
            }
            turn += 1;
            // `-` is a turn whose answer is the unit's last word for now: no
            // calls are run.
            if calls == "-" {
                return "-".to_owned();
            }
            loops.begin(turn);
            calls.chars().map(|call| sign(&mut loops, call)).collect()
        });
        turns.collect::<Vec<String>>().join(" ")
    }

    #[track_caller]
    fn check(turns: &str, expected: &str) {
        assert_eq!(course(turns), expected, "{turns}");
    }

    #[test]
    fn the_third_and_the_fourth_are_told_and_the_fifth_is_the_end() {
        check("a a a a a a", ". . ! ! # #");
        check("a a b a a a", ". . . . . !");
        check("a b c d e f", ". . . . . .");
    }

    #[test]
    fn a_turn_of_several_calls_that_comes_again_is_a_loop_of_each() {
        check("ab ab ab ab ab", ".. .. !! !! ##");
        check("ab ba ab ba ab", ".. .. !! !! ##");
        check("ab ac ab ac ab", ".. .. !. !. #.");
    }

    /// Returns after how many calls the model is told first, and after how many its unit
    /// ends, if the turns come again for ever.
    fn round_and_round(turns: &str) -> (usize, usize) {
        let course = course(&format!("{turns} ").repeat(40));
        let signs: String = course.chars().filter(|sign| *sign != ' ').collect();
        let at = |sign| signs.find(sign).map_or(0, |at| at + 1);
        (at('!'), at('#'))
    }

    #[test]
    fn turns_that_come_again_in_their_order_are_a_loop() {
        check("a b a b a b a b a b", ". . . . . ! ! ! ! #");
        for (turns, expected) in [
            ("a b", (6, 10)),
            ("a b c", (9, 12)),
            ("a a b", (9, 12)),
            ("a b c d", (8, 12)),
            ("a b a c", (8, 12)),
            ("ab c", (9, 15)),
            ("a b c d e", (10, 15)),
            ("a b c d e f g h", (16, 24)),
            ("a b c d e f g h i", (0, 0)),
        ] {
            assert_eq!(round_and_round(turns), expected, "{turns}");
        }
        // How it came there does not matter.
        check("x y a b a b a b a b a b", ". . . . . . . ! ! ! ! #");
    }

    #[test]
    fn turns_that_differ_once_in_a_while_are_no_loop() {
        for turns in [
            "a b a c a d a e a f a g a h a i a j",
            "a b a b c a b a b d a b a b e a b a b f",
            "a b a b | a b a b | a b a b",
            "a b a b - a b a b - a b a b",
            "ab c ad c ae c af c ag c ah c",
            "a b c d e f a b c d e",
        ] {
            let course = course(turns);
            assert!(!course.contains(['!', '#']), "{turns}: {course}");
        }
    }

    #[test]
    fn the_same_call_in_one_answer_counts_but_ends_nothing_that_was_not_told() {
        check("aaa", "..!");
        check("aaaaaaa b", "..!!!!! .");
        check("aaaaaaa a", "..!!!!! #");
        check("aa aa aa", ".. !! ##");
        check("a aaaa a", ". .!!! #");
    }

    #[test]
    fn a_message_and_a_turn_without_the_call_start_the_count_anew() {
        check("a a a a | a a a", ". . ! ! | . . !");
        check("a a a a - a a a", ". . ! ! - . . !");
    }

    #[test]
    fn only_what_two_turns_had_is_held() {
        let mut loops = Loops::default();
        for turn in 1..100 {
            loops.begin(turn);
            for call in 0..3 {
                loops.note(Key::new("Read", &format!("{turn} {call}"), &Output::default()));
            }
            assert!(loops.runs.len() <= 6);
            assert!(loops.cycles.held() <= 28, "{}", loops.cycles.held());
        }
    }

    #[test]
    fn calls_are_the_same_if_tool_arguments_and_output_are() {
        let key = |tool, arguments, text: &str| Key::new(tool, arguments, &Output::ok(text));
        let one = key("Read", r#"{"a":1,"b":{"c":[1,2],"d":null}}"#, "x");
        assert_eq!(one, key("Read", "{ \"b\": {\"d\":null,\n\"c\":[1, 2]}, \"a\":1 }", "x"));
        assert_eq!(key("Read", "", "x"), key("Read", " {} ", "x"));
        for other in [
            key("Grep", r#"{"a":1,"b":{"c":[1,2],"d":null}}"#, "x"),
            key("Read", r#"{"a":1,"b":{"c":[2,1],"d":null}}"#, "x"),
            key("Read", r#"{"a":1,"b":{"c":[1,2],"d":null}}"#, "y"),
            key("Read", r#"{"a":1,"b":{"c":[1,2],"d":null}}x"#, ""),
        ] {
            assert_ne!(one, other);
        }
        // What is not valid JSON is compared as it is.
        assert_eq!(key("Read", "{oops", "x"), key("Read", "{oops", "x"));
        assert_ne!(key("Read", "{oops", "x"), key("Read", "{ oops", "x"));
    }

    #[test]
    fn an_error_and_an_image_are_part_of_an_output() {
        let image = |base64: &str| Image { kind: ImageKind::Png, base64: base64.into() };
        let shows = |images: Vec<Image>| Output { images, ..Output::ok("x") };
        let key = |output: &Output| Key::new("Read", "{}", output);
        let keys =
            [Output::ok("x"), Output::error("x"), shows(vec![image("a")]), shows(vec![image("b")])];
        for (place, output) in keys.iter().enumerate() {
            assert!(keys[place + 1..].iter().all(|other| key(other) != key(output)), "{output:?}");
        }
    }
}
