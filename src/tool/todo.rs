//! The TodoWrite tool: a unit's list of what is to be done.
//!
//! The list lives in the conversation: a call carries all of it, and its
//! output repeats it. Nothing is kept elsewhere.

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;

use crate::message::{Output, ToolSchema};

use super::arguments;
use super::bound::fits;
use super::{Effect, Granted, Tool, ToolContext, ToolError};

/// Most items of a list. The whole list is sent with every change.
pub const ITEM_CAP: usize = 50;

/// Most characters of one text of an item, so that a full list fits an output.
pub const TEXT_CAP: usize = 250;

/// Takes the list.
#[derive(Debug, Clone, Copy)]
pub struct TodoWrite;

const PARAMETERS: &str = r#"{"type":"object","properties":{
    "todos":{"type":"array","description":"The whole list, in order.","items":{"type":"object","properties":{
    "content":{"type":"string","description":"What is to be done, as an order: Run the tests."},
    "status":{"type":"string","enum":["pending","in_progress","completed"]},
    "activeForm":{"type":"string","description":"The same while it is being done: Running the tests."}
    },"required":["content","status","activeForm"]}}
    },"required":["todos"]}"#;

impl Tool for TodoWrite {
    fn schema(&self) -> ToolSchema {
        let description = include_str!("../../prompts/tools/todo_write.md");
        arguments::schema("TodoWrite", description, PARAMETERS)
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn subject(&self, arguments: &Value) -> String {
        match arguments.get("todos").and_then(Value::as_array).map(Vec::len) {
            Some(1) => "1 item".to_owned(),
            Some(count) => format!("{count} items"),
            None => String::new(),
        }
    }

    fn run<'a>(
        &'a self,
        _context: &'a ToolContext,
        _call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move { Ok(Output::ok(render(&parse(arguments)?))) })
    }
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    todos: Value,
}

#[derive(Deserialize)]
struct RawItem {
    #[serde(default)]
    content: Value,
    #[serde(default)]
    status: Value,
    #[serde(default, rename = "activeForm")]
    active_form: Value,
}

struct Item {
    content: String,
    status: Status,
    active_form: String,
}

#[derive(Clone, Copy)]
enum Status {
    Pending,
    InProgress,
    Completed,
}

fn parse(arguments: Value) -> Result<Vec<Item>, ToolError> {
    let raw: Raw = arguments::parse(arguments)?;
    let Value::Array(items) = raw.todos else {
        return Err(arguments::wrong("todos", "an array of items"));
    };
    if items.len() > ITEM_CAP {
        return Err(arguments::wrong("todos", &format!("at most {ITEM_CAP} items")));
    }
    items.into_iter().enumerate().map(|(at, item)| parse_item(at, item)).collect()
}

fn parse_item(at: usize, item: Value) -> Result<Item, ToolError> {
    let name = |field: &str| format!("todos[{at}].{field}");
    let raw: RawItem = serde_json::from_value(item)
        .map_err(|_| arguments::wrong(&format!("todos[{at}]"), "an object"))?;
    let content = arguments::text(&name("content"), raw.content)?;
    // Left out now and then; the content says the same.
    let active_form = arguments::optional_text(&name("activeForm"), raw.active_form)?;
    let active_form = active_form.unwrap_or_else(|| content.clone());
    for (field, text) in [("content", &content), ("activeForm", &active_form)] {
        if !fits(text, TEXT_CAP) {
            let expected = format!("at most {TEXT_CAP} characters long");
            return Err(arguments::wrong(&name(field), &expected));
        }
    }
    let status = match raw.status.as_str() {
        Some("pending") => Status::Pending,
        Some("in_progress") => Status::InProgress,
        Some("completed") => Status::Completed,
        Some(_) | None => {
            let expected = "\"pending\", \"in_progress\" or \"completed\"";
            return Err(arguments::wrong(&name("status"), expected));
        }
    };
    Ok(Item { content, status, active_form })
}

fn render(items: &[Item]) -> String {
    if items.is_empty() {
        return "The list is empty.".to_owned();
    }
    let lines = items.iter().map(|item| match item.status {
        Status::Pending => format!("[ ] {}\n", item.content),
        Status::InProgress => format!("[>] {}\n", item.active_form),
        Status::Completed => format!("[x] {}\n", item.content),
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::OUTPUT_CAP;
    use crate::tool::testing::Place;

    fn item(content: &str, status: &str, active: &str) -> Value {
        json!({"content": content, "status": status, "activeForm": active})
    }

    #[track_caller]
    fn check(todos: Value, expected: Result<&str, &str>) {
        let rendered = parse(json!({"todos": todos})).map(|items| render(&items));
        let rendered = rendered.map_err(|error| error.to_string());
        assert_eq!(rendered, expected.map(str::to_owned).map_err(str::to_owned));
    }

    #[tokio::test]
    async fn the_list_is_repeated_with_a_mark_for_each_status() {
        let todos = json!([
            item("Read", "completed", "Reading"),
            item("Write", "in_progress", "Writing"),
            item("Test", "pending", "Testing"),
        ]);
        let text = Place::new().call(&TodoWrite, json!({"todos": todos})).await;
        assert_eq!(text.as_deref(), Ok("[x] Read\n[>] Writing\n[ ] Test\n"));
        assert_eq!(TodoWrite.subject(&json!({"todos": todos})), "3 items");
    }

    #[test]
    fn what_is_wrong_with_an_item_is_said_by_its_place() {
        check(json!([]), Ok("The list is empty."));
        check(json!([{"content": "a", "status": "in_progress"}]), Ok("[>] a\n"));
        check(json!("oops"), Err("Parameter \"todos\" must be an array of items."));
        check(json!([1]), Err("Parameter \"todos[0]\" must be an object."));
        let status =
            "Parameter \"todos[1].status\" must be \"pending\", \"in_progress\" or \"completed\".";
        check(json!([item("a", "pending", "a"), item("b", "done", "b")]), Err(status));
        let content = "Parameter \"todos[0].content\" must be a non-empty string.";
        check(json!([item("", "pending", "a")]), Err(content));
    }

    #[test]
    fn a_list_is_bounded_and_a_full_one_fits_an_output() {
        let long = "x".repeat(TEXT_CAP);
        let full = vec![item(&long, "pending", &long); ITEM_CAP];
        let rendered = render(&parse(json!({"todos": full})).unwrap());
        assert!(fits(&rendered, OUTPUT_CAP));
        let many = vec![item("a", "pending", "a"); ITEM_CAP + 1];
        check(json!(many), Err("Parameter \"todos\" must be at most 50 items."));
        let expected = "Parameter \"todos[0].content\" must be at most 250 characters long.";
        check(json!([item(&format!("{long}x"), "pending", "a")]), Err(expected));
    }
}
