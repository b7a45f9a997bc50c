//! The AskUserQuestion tool: what only the user can decide.
//!
//! Where nobody can be asked the model is told to decide itself, and the call
//! counts as refused: whoever reads the result sees what would have been asked.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::event::{Choice, Entry, Field, Form, Takes};
use crate::line::Told;
use crate::message::{Output, ToolSchema};

use super::arguments::{self, SUBJECT_CAP};
use super::bound::{first_characters, fits};
use super::person::{self, Said};
use super::{Effect, Granted, Tool, ToolContext, ToolError};

/// Most questions of a call. They are asked one after the other.
pub const QUESTION_CAP: usize = 4;

/// Fewest and most options of a question: it is a choice, and each has a row.
pub const OPTIONS: (usize, usize) = (2, 4);

/// Most characters of a question.
pub const TEXT_CAP: usize = 1_000;

/// Most characters of a label, and of a header.
pub const LABEL_CAP: usize = 100;

/// Most characters of what an option means.
pub const DESCRIPTION_CAP: usize = 400;

/// Takes questions.
#[derive(Debug, Clone, Copy)]
pub struct AskUserQuestion;

const PARAMETERS: &str = r#"{"type":"object","properties":{
    "questions":{"type":"array","minItems":1,"maxItems":4,"items":{"type":"object","properties":{
    "question":{"type":"string"},
    "header":{"type":"string","description":"The same in a word or two."},
    "options":{"type":"array","minItems":2,"maxItems":4,"items":{"type":"object","properties":{
    "label":{"type":"string","description":"One to five words."},
    "description":{"type":"string","description":"What follows from it."}
    },"required":["label","description"]}},
    "multiSelect":{"type":"boolean","description":"Whether several may be picked."}
    },"required":["question","header","options","multiSelect"]}}
    },"required":["questions"]}"#;

impl Tool for AskUserQuestion {
    fn schema(&self) -> ToolSchema {
        let description = include_str!("../../prompts/tools/ask_user_question.md");
        arguments::schema("AskUserQuestion", description, PARAMETERS)
    }

    fn effect(&self) -> Effect {
        Effect::Asks
    }

    fn subject(&self, arguments: &Value) -> String {
        let questions = arguments.get("questions").and_then(Value::as_array);
        let first = questions.and_then(|it| it.first()?.get("question")?.as_str());
        let line = first.unwrap_or_default().trim_start().lines().next().unwrap_or_default();
        match first_characters(line, SUBJECT_CAP) {
            (whole, 0) => whole.to_owned(),
            (start, _) => format!("{start}…"),
        }
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let form = Arc::new(parse(call, arguments)?);
            let began = Instant::now();
            match person::ask(context, Arc::clone(&form)).await {
                Said::Answers(given) => Ok(Output::ok(answered(&form, &given))),
                Said::Declined(why) => Ok(Output::ok(declined(why.as_deref()))),
                Said::NobodyToAsk => Ok(unasked(context, &form).await),
                Said::Cancelled => Err(ToolError::Cancelled { after: began.elapsed() }),
            }
        })
    }
}

/// Tells that nobody was asked.
async fn unasked(context: &ToolContext, form: &Form) -> Output {
    let denied = Told::Denied {
        call: form.call.clone(),
        tool: Arc::clone(&form.tool),
        arguments: Arc::clone(&form.arguments),
        reason: "nobody can be asked".into(),
    };
    context.line.tell(denied).await;
    Output::ok(include_str!("../../prompts/nobody_to_ask.md").trim_end().to_owned())
}

/// Returns what was said, each below its question.
fn answered(form: &Form, given: &[Entry]) -> String {
    let said = |(field, given): (&Field, &Entry)| {
        let said = field.said(given).unwrap_or_else(|| "(nothing)".to_owned());
        format!("{}\n> {}", field.text, said.replace('\n', "\n> "))
    };
    let answers: Vec<String> = form.fields.iter().zip(given).map(said).collect();
    let template = include_str!("../../prompts/answered.md").trim_end();
    template.replace("{answers}", &answers.join("\n\n"))
}

fn declined(why: Option<&str>) -> String {
    let why = why.map(|why| format!(", and says: {why}")).unwrap_or_default();
    include_str!("../../prompts/unanswered.md").trim_end().replace("{why}", &why)
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    questions: Value,
}

#[derive(Deserialize)]
struct RawQuestion {
    #[serde(default)]
    question: Value,
    #[serde(default)]
    header: Value,
    #[serde(default)]
    options: Value,
    #[serde(default, rename = "multiSelect")]
    multi_select: Value,
}

#[derive(Deserialize)]
struct RawOption {
    #[serde(default)]
    label: Value,
    #[serde(default)]
    description: Value,
}

fn parse(call: &Granted, arguments: Value) -> Result<Form, ToolError> {
    let written = arguments.to_string();
    let raw: Raw = arguments::parse(arguments)?;
    let questions = listed("questions", raw.questions, (1, QUESTION_CAP))?;
    let fields = questions.into_iter().enumerate().map(|(at, question)| field(at, question));
    let fields = fields.collect::<Result<Vec<Field>, _>>()?;
    for (at, field) in fields.iter().enumerate() {
        if fields[..at].iter().any(|before| before.name == field.name) {
            let name = format!("questions[{at}].question");
            return Err(arguments::wrong(&name, "another question than those before it"));
        }
    }
    Ok(Form {
        call: call.id.clone(),
        tool: "AskUserQuestion".into(),
        server: None,
        arguments: written.into(),
        message: "".into(),
        fields,
    })
}

fn field(at: usize, question: Value) -> Result<Field, ToolError> {
    let name = |field: &str| format!("questions[{at}].{field}");
    let raw: RawQuestion = serde_json::from_value(question)
        .map_err(|_| arguments::wrong(&format!("questions[{at}]"), "an object"))?;
    let text: Arc<str> = short(&name("question"), raw.question, TEXT_CAP)?.into();
    // Only the display is the poorer without it.
    let header = optional(&name("header"), raw.header, LABEL_CAP)?;
    let several = arguments::flag(&name("multiSelect"), &raw.multi_select, false)?;
    let options = listed(&name("options"), raw.options, OPTIONS)?;
    let option = |(number, option)| offered(&name(&format!("options[{number}]")), option);
    let options = options.into_iter().enumerate().map(option).collect::<Result<Vec<_>, _>>()?;
    Ok(Field {
        name: Arc::clone(&text),
        header: header.into(),
        text,
        takes: Takes::Options { options, several, own_words: true },
        may_be_empty: false,
    })
}

fn offered(name: &str, option: Value) -> Result<Choice, ToolError> {
    // Some models write the labels alone.
    let raw = if option.is_string() {
        RawOption { label: option, description: Value::Null }
    } else {
        serde_json::from_value(option).map_err(|_| arguments::wrong(name, "an object"))?
    };
    let label = short(&format!("{name}.label"), raw.label, LABEL_CAP)?;
    let description = optional(&format!("{name}.description"), raw.description, DESCRIPTION_CAP)?;
    Ok(Choice { label: label.into(), description: description.into() })
}

fn listed(
    name: &str,
    value: Value,
    (least, most): (usize, usize),
) -> Result<Vec<Value>, ToolError> {
    let items = match value {
        Value::Array(items) => Some(items).filter(|items| (least..=most).contains(&items.len())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            None
        }
    };
    items.ok_or_else(|| arguments::wrong(name, &format!("an array of {least} to {most}")))
}

fn short(name: &str, value: Value, cap: usize) -> Result<String, ToolError> {
    let text = arguments::text(name, value)?;
    checked(name, text, cap)
}

fn optional(name: &str, value: Value, cap: usize) -> Result<String, ToolError> {
    let text = arguments::optional_text(name, value)?.unwrap_or_default();
    checked(name, text, cap)
}

fn checked(name: &str, text: String, cap: usize) -> Result<String, ToolError> {
    match fits(&text, cap) {
        true => Ok(text),
        false => Err(arguments::wrong(name, &format!("at most {cap} characters long"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::Confinement;
    use crate::guard::CommandBounds;

    fn granted() -> Granted {
        let (confinement, bounds) = (Confinement::NONE, CommandBounds::NONE);
        Granted { id: "call_1".into(), confinement, script: None, places: Vec::new(), bounds }
    }

    fn question(text: &str, labels: &[&str]) -> Value {
        let option = |label: &&str| json!({"label": label, "description": "d"});
        let options: Vec<Value> = labels.iter().map(option).collect();
        json!({"question": text, "header": "h", "options": options, "multiSelect": false})
    }

    #[track_caller]
    fn check(questions: Value, expected: Result<usize, &str>) {
        let parsed = parse(&granted(), json!({"questions": questions}));
        let parsed = parsed.map(|form| form.fields.len()).map_err(|error| error.to_string());
        assert_eq!(parsed, expected.map_err(|what| format!("Parameter \"{what}.")));
    }

    #[test]
    fn what_is_wrong_with_a_question_is_said_by_its_place() {
        let good = || question("Which?", &["a", "b"]);
        check(json!([good()]), Ok(1));
        check(json!([good(), question("How?", &["a", "b", "c", "d"])]), Ok(2));
        check(json!([{"question": "Which?", "options": ["a", "b"]}]), Ok(1));
        let count = "questions\" must be an array of 1 to 4";
        check(json!([]), Err(count));
        check(json!("oops"), Err(count));
        check(json!([good(), good(), good(), good(), good()]), Err(count));
        check(json!([1]), Err("questions[0]\" must be an object"));
        let options = "questions[0].options\" must be an array of 2 to 4";
        check(json!([question("Which?", &["a"])]), Err(options));
        check(json!([question("Which?", &["a", "b", "c", "d", "e"])]), Err(options));
        check(json!([question("", &["a", "b"])]), {
            Err("questions[0].question\" must be a non-empty string")
        });
        check(json!([question("Which?", &["a", ""])]), {
            Err("questions[0].options[1].label\" must be a non-empty string")
        });
        check(json!([question(&"x".repeat(TEXT_CAP + 1), &["a", "b"])]), {
            Err("questions[0].question\" must be at most 1000 characters long")
        });
        check(json!([good(), good()]), {
            Err("questions[1].question\" must be another question than those before it")
        });
    }

    #[test]
    fn answers_stand_below_their_questions() {
        let questions = json!([question("Which?", &["a", "b"]), question("How?", &["c", "d"])]);
        let form = parse(&granted(), json!({"questions": questions})).unwrap();
        let given = [Entry::Picked(vec![1]), Entry::Words("as before\nor not".into())];
        assert_eq!(
            answered(&form, &given),
            "The user has answered:\n\nWhich?\n> b\n\nHow?\n> as before\n> or not"
        );
        assert_eq!(
            declined(Some("later")),
            "The user does not want to answer, and says: later. Go on with your best judgement, \
             and do not ask the same again."
        );
    }
}
