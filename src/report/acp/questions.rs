//! Questions that an editor puts to a person, and what its answers mean.

use agent_client_protocol::v1::schema;
use schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    ToolCallContent, ToolCallUpdate,
};

use crate::event::{Choice, Field, Question, QuestionId, UnitId, Verdict};
use crate::report::words;

/// A question, and all that an editor needs to put it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Names it.
    pub id: QuestionId,
    /// Who asks.
    pub unit: UnitId,
    /// What people call it; `None` if it is main.
    pub name: Option<String>,
    /// What is asked.
    pub question: Question,
    /// The call that it is about.
    pub call: ToolCallUpdate,
}

/// What of a question is asked at once.
#[derive(Debug, Clone, Copy)]
pub enum Ask<'a> {
    /// Whether a call may run, or a batch start.
    Leave,
    /// One field of a form, whose options there are to pick from.
    Field(&'a Field),
}

const ONCE: &str = "allow_once";
const SESSION: &str = "allow_session";
const ALWAYS: &str = "allow_always";
const REJECT: &str = "reject_once";
const NEVER: &str = "reject_always";

/// What stands before the number of an option of a form.
const PICK: &str = "pick_";

/// What a person has chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// An answer.
    Verdict(Verdict),
    /// No, and to all like it for the rest of the session.
    Never,
    /// This option of a field, counted from 0.
    Picked(u32),
    /// Nothing: the turn is being cancelled.
    Cancelled,
}

/// Returns the request that asks a person.
#[must_use]
pub fn permission(
    session: &schema::SessionId,
    asked: &Asked,
    ask: Ask<'_>,
) -> RequestPermissionRequest {
    let Asked { name, question, call, .. } = asked;
    let mut call = call.clone();
    let who = name.as_ref().map(|name| format!("the agent “{name}” asks: ")).unwrap_or_default();
    let (words, options) = match ask {
        Ask::Leave => (words::question(question), leave(question)),
        Ask::Field(field) => {
            let text = match field.options().iter().all(|option| option.description.is_empty()) {
                true => field.text.to_string(),
                false => format!("{}\n\n{}", field.text, described(field.options())),
            };
            call.fields.title = Some(field.text.to_string());
            (text, picks(field))
        }
    };
    let mut content = call.fields.content.take().unwrap_or_default();
    content.push(ToolCallContent::from(format!("{who}{words}")));
    if let (Some(name), Some(title)) = (name, &call.fields.title)
        && !title.starts_with(name.as_str())
    {
        call.fields.title = Some(format!("{name}: {title}"));
    }
    call.fields.content = Some(content);
    RequestPermissionRequest::new(session.clone(), call, options)
}

fn leave(question: &Question) -> Vec<PermissionOption> {
    let option = |id: &'static str, name: String, kind| PermissionOption::new(id, name, kind);
    let mut options = vec![option(ONCE, "Allow".to_owned(), PermissionOptionKind::AllowOnce)];
    let rules = match question {
        Question::Call(asked) => asked.rules.join(", "),
        Question::Batch { slots: _ } | Question::Form(_) => String::new(),
    };
    if !rules.is_empty() {
        let rules = words::short_line(&rules, RULES_CAP);
        let allow = PermissionOptionKind::AllowAlways;
        options.push(option(SESSION, format!("Allow {rules} in this session"), allow));
        options.push(option(ALWAYS, format!("Always allow {rules}"), allow));
    }
    options.push(option(REJECT, "Reject".to_owned(), PermissionOptionKind::RejectOnce));
    if !rules.is_empty() {
        let name = "Reject all like it in this session".to_owned();
        options.push(option(NEVER, name, PermissionOptionKind::RejectAlways));
    }
    options
}

/// Most characters of the rules on a button.
const RULES_CAP: usize = 80;

fn picks(field: &Field) -> Vec<PermissionOption> {
    let pick = |(number, offered): (usize, &Choice)| {
        let id = format!("{PICK}{number}");
        PermissionOption::new(id, offered.label.to_string(), PermissionOptionKind::AllowOnce)
    };
    let none = PermissionOption::new(REJECT, "None of them", PermissionOptionKind::RejectOnce);
    field.options().iter().enumerate().map(pick).chain([none]).collect()
}

fn described(options: &[Choice]) -> String {
    let line = |Choice { label, description }: &Choice| format!("- {label}: {description}");
    options.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns what an answer of an editor means. One that was not offered is a no.
#[must_use]
pub fn chosen(outcome: &RequestPermissionOutcome) -> Chosen {
    let RequestPermissionOutcome::Selected(selected) = outcome else { return Chosen::Cancelled };
    match &*selected.option_id.0 {
        ONCE => Chosen::Verdict(Verdict::Yes),
        SESSION => Chosen::Verdict(Verdict::ForSession),
        ALWAYS => Chosen::Verdict(Verdict::Always),
        NEVER => Chosen::Never,
        other => match other.strip_prefix(PICK).and_then(|number| number.parse().ok()) {
            Some(number) => Chosen::Picked(number),
            None => Chosen::Verdict(Verdict::No),
        },
    }
}
