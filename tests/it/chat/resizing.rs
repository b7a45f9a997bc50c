//! Windows that get another size in the middle of things, on terminals that
//! break their rows anew and on those that cut them.

use super::{
    LARGE, MIDDLE, SMALL, at_usual_size, batch, chat_of, footer, open_gate, rests, rows_with, sit,
};
use crate::support::screen::{Reflow, Screen, Size};
use crate::support::server::{Gate, Reaction};
use crate::support::talk::serve;

const ANSWER: &str = "# Sums\n\nThe total was too small for two reasons, both of which are told \
    below in a paragraph that is wider than any window here is.\n\n- it took `b` away\n- it never \
    looked at the third column of the table, which has the numbers\n\nThen\n";

/// Tells whether what is shown was drawn for so many columns.
fn is_drawn_for(screen: &Screen, columns: u16) -> bool {
    footer(screen).starts_with(if columns < 60 { "Esc ends" } else { "m  default" })
}

/// Works on an answer and a batch while the window gets other sizes.
fn play(name: &str, reflow: Reflow) {
    at_usual_size(name, |scene| {
        let gates = [Gate::closed(), Gate::closed()];
        let held = gates.clone();
        let calling = Reaction::call_reply(&batch(&["correctness", "security"]));
        let server = serve(move |talk| match (talk.task(), talk.turn()) {
            ("go", 1) => Reaction::text_reply(ANSWER),
            ("go", 2) => calling.clone(),
            ("go", _) => Reaction::in_steps([("All is do", &open_gate()), ("ne.", &held[1])]),
            _ => Reaction::in_steps([("I lo", &open_gate()), ("ok.", &held[0])]),
        });
        let tine = chat_of(&scene.place, &server, &[]);
        let tine = if reflow == Reflow::Yes { tine.env("TMUX", "1") } else { tine };
        let mut sitting = sit(tine, MIDDLE);
        sitting.keys("go\r");
        sitting.wait_until(|screen| rests(screen) && rows_with(screen, "Then") == 1);
        sitting.keys("and now work on it\r");
        sitting.wait_until(|screen| rows_with(screen, "writing") == 2);
        sitting.keys("a draft that is longer than the narrow window");
        sitting.wait_for("narrow window");
        let narrow = Size { columns: SMALL.columns, rows: MIDDLE.rows };
        for (size, shows) in [
            (narrow, "narrower"),
            (MIDDLE, "as wide as before"),
            (SMALL, "narrower and lower"),
            (LARGE, "wider and higher"),
        ] {
            sitting.resize(size, reflow);
            // What is drawn for the size before has the same words in other rows.
            sitting.wait_until(|screen| is_drawn_for(screen, size.columns));
            scene.size = size;
            scene.picture(shows, &sitting);
        }
        gates[0].open();
        sitting.wait_until(|screen| rows_with(screen, "All is do") == 1);
        sitting.resize(MIDDLE, reflow);
        sitting.keys("!");
        sitting.wait_for("narrow window!");
        gates[1].open();
        sitting.wait_until(|screen| {
            rows_with(screen, "All is done.") == 1 && footer(screen).contains("/help")
        });
        scene.size = MIDDLE;
        scene.picture("the answer went on", &sitting);
        let all = sitting.screen.text();
        for once in ["# Sums", "The total was too small", "> go", "All is done."] {
            let once = once.trim_start_matches("# ");
            assert_eq!(all.matches(once).count(), 1, "{once}:\n{all}");
        }
    });
}

#[test]
fn a_terminal_that_breaks_its_rows_anew_shows_everything_once() {
    play("resized-broken-anew", Reflow::Yes);
}

#[test]
fn a_terminal_that_cuts_its_rows_shows_everything_once() {
    play("resized-cut", Reflow::No);
}
