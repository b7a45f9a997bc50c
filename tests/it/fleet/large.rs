//! What is larger than a message of the server: a task, and what an agent answers.

use serde_json::Value;

use super::{Side, both};
use crate::support::server::Reaction;
use crate::support::talk::{Talk, serve};
use crate::support::tine::Place;

/// How long a text is that fits into no message: three times what the server takes.
const LENGTH: usize = 3 * 1024 * 1024;

/// A long text that says of each of its parts where it stands.
fn long() -> String {
    (0..LENGTH / 8).map(|number| format!("{number:07} ")).collect()
}

/// Maps one row with this value, and returns what the agent was asked and what its line
/// of the output says.
fn mapped(side: &mut Side, value: &str, answer: &str) -> (String, Value) {
    let answer = Reaction::text_reply(answer);
    let model = serve(move |_| answer.clone());
    side.work(&[1], Some(&model));
    let place = Place::new();
    place.write("p.md", "Look at {{ path }}");
    place.write("items.csv", format!("path\n{value}\n"));
    let fixed = ["map", "--prompt", "p.md", "--input", "items.csv", "-m", "m"];
    let arguments = [&fixed[..], &["--output", "out.jsonl"]].concat();
    side.tine(&place, &arguments).server(&model).run().exits(0);
    let [request] = &model.finish()[..] else { panic!("it is asked once") };
    let line = place.read("out.jsonl").expect("it was written");
    let mut line: Value = serde_json::from_str(&line).expect("it is one line");
    let task = Talk::of(request).task().to_owned();
    (task, line["result"].take())
}

#[test]
fn a_task_that_fits_into_no_message_is_given_whole() {
    let value = long();
    both(|side| {
        let (task, result) = mapped(side, &value, "short");
        assert_eq!(result, "short");
        assert!(task.contains(&value), "{} bytes", task.len());
        task
    });
}

#[test]
fn an_answer_that_fits_into_no_message_comes_whole() {
    let answer = long();
    both(|side| {
        let (_task, result) = mapped(side, "r0", &answer);
        assert!(result == *answer, "{} bytes", result.to_string().len());
        result
    });
}
