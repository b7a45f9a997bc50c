//! What a client's lines say.
//!
//! A line is read into a value that can be acted on, or into what is wrong with
//! it. An answer to a question becomes a verdict here: whatever of it cannot be
//! read, or is more than tine knows, allows nothing.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::event::{Lasting, QuestionId, Terms, Verdict};
use crate::guard::{Mode, Rule};
use crate::report::control::question_of;

/// A line of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Incoming {
    /// A message for the model; the error says why it cannot be one.
    User(Result<String, String>),
    /// The client asks for something.
    Request { id: String, wanted: Wanted },
    /// The client answers a question.
    Answer(Answer),
    /// Nothing that asks for anything.
    Nothing,
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    Initialize,
    Interrupt,
    SetMode(Result<Mode, String>),
    /// How servers of tools stand.
    Servers,
    /// Something that there is not, by its name.
    Other(String),
}

/// A client's answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) id: QuestionId,
    pub(super) verdict: Verdict,
    /// Whether the turn is to end as well.
    pub(super) ends_turn: bool,
    /// What of it had no effect, in words for people.
    pub(super) remarks: Vec<String>,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadLine {
    /// In words for people.
    pub(super) why: String,
    /// The request that it was meant to be, if that is known.
    pub(super) request: Option<String>,
}

impl Incoming {
    /// Reads a line.
    pub(super) fn read(line: &[u8]) -> Result<Self, BadLine> {
        let bad = |why: String| BadLine { why, request: None };
        let fields: Map<String, Value> = serde_json::from_slice(line)
            .map_err(|error| bad(format!("no JSON object: {error}")))?;
        match fields.get("type").and_then(Value::as_str) {
            Some("user") => Ok(Self::User(prompt(&fields))),
            Some("control_request") => request(&fields),
            Some("control_response") => response(&fields).map_err(bad),
            Some("control_cancel_request" | "keep_alive") => Ok(Self::Nothing),
            Some(other) => Err(bad(format!("`{}` is not known", short(other)))),
            None => Err(bad("it has no `type`".to_owned())),
        }
    }
}

/// Most characters that are quoted of what a client sent.
const QUOTE_CAP: usize = 60;

fn short(text: &str) -> String {
    text.chars().take(QUOTE_CAP).collect()
}

/// Returns the text of a message.
fn prompt(fields: &Map<String, Value>) -> Result<String, String> {
    let content = fields.get("message").and_then(|message| message.get("content"));
    let text = match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            blocks.iter().map(text_of).collect::<Result<Vec<_>, _>>()?.join("\n\n")
        }
        Some(_) | None => return Err("the message has no `content`".to_owned()),
    };
    match text.trim() {
        "" => Err("the message is empty".to_owned()),
        _ => Ok(text),
    }
}

fn text_of(block: &Value) -> Result<&str, String> {
    match (block.get("type").and_then(Value::as_str), block.get("text").and_then(Value::as_str)) {
        (Some("text"), Some(text)) => Ok(text),
        (kind, _) => {
            let kind = short(kind.unwrap_or("unknown"));
            Err(format!("a message may hold text only, and this one holds a block `{kind}`"))
        }
    }
}

/// Longest name of a request, in bytes. Each reply that waits to be read holds
/// one; clients number theirs.
const ID_CAP: usize = 1_000;

fn request(fields: &Map<String, Value>) -> Result<Incoming, BadLine> {
    let id = fields.get("request_id").and_then(Value::as_str).map(str::to_owned);
    let Some(id) = id else {
        return Err(BadLine { why: "a request has no `request_id`".to_owned(), request: None });
    };
    if id.len() > ID_CAP {
        let why = format!("a `request_id` is longer than {ID_CAP} bytes");
        return Err(BadLine { why, request: None });
    }
    let request = fields.get("request");
    let field = |name: &str| request.and_then(|request| request.get(name)).and_then(Value::as_str);
    let Some(subtype) = field("subtype") else {
        return Err(BadLine { why: "the request has no `subtype`".to_owned(), request: Some(id) });
    };
    let wanted = match subtype {
        "initialize" => Wanted::Initialize,
        "interrupt" => Wanted::Interrupt,
        "mcp_server_status" => Wanted::Servers,
        "set_permission_mode" => Wanted::SetMode(mode(field("mode").unwrap_or_default())),
        other => Wanted::Other(short(other)),
    };
    Ok(Incoming::Request { id, wanted })
}

fn mode(name: &str) -> Result<Mode, String> {
    Mode::from_name(name).ok_or_else(|| format!("there is no permission mode `{}`", short(name)))
}

fn response(fields: &Map<String, Value>) -> Result<Incoming, String> {
    let response = fields.get("response").and_then(Value::as_object);
    let response = response.ok_or("a response has no `response`")?;
    let id = response.get("request_id").and_then(Value::as_str);
    let id = id.ok_or("a response has no `request_id`")?;
    // One that answers nothing of ours says nothing.
    let Some(id) = question_of(id) else { return Ok(Incoming::Nothing) };
    let failed = response.get("subtype").and_then(Value::as_str) != Some("success");
    let error = response.get("error").and_then(Value::as_str);
    let decision = match response.get("response").and_then(Value::as_object) {
        Some(decision) if !failed => Decision::read(decision),
        Some(_) | None => Decision::no(error.unwrap_or("the client could not answer")),
    };
    let Decision { verdict, ends_turn, remarks } = decision;
    Ok(Incoming::Answer(Answer { id, verdict, ends_turn, remarks }))
}

/// What an answer decides.
struct Decision {
    verdict: Verdict,
    ends_turn: bool,
    remarks: Vec<String>,
}

impl Decision {
    fn no(why: &str) -> Self {
        let verdict = match why.trim() {
            "" => Verdict::No,
            why => Verdict::NoBecause(why.into()),
        };
        Self { verdict, ends_turn: false, remarks: Vec::new() }
    }

    fn read(decision: &Map<String, Value>) -> Self {
        let text = |name: &str| decision.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("behavior") {
            "allow" => Self::allow(decision),
            "deny" => {
                let ends_turn = decision.get("interrupt").and_then(Value::as_bool);
                Self { ends_turn: ends_turn.unwrap_or(false), ..Self::no(text("message")) }
            }
            _ => Self::no("the client's answer is neither `allow` nor `deny`"),
        }
    }

    fn allow(decision: &Map<String, Value>) -> Self {
        let arguments: Option<Arc<str>> = match decision.get("updatedInput") {
            None | Some(Value::Null) => None,
            Some(input @ Value::Object(_)) => Some(input.to_string().into()),
            Some(_) => return Self::no("the client's `updatedInput` is no object"),
        };
        let mut granted = Granted::default();
        let updates = decision.get("updatedPermissions").and_then(Value::as_array);
        updates.into_iter().flatten().for_each(|update| granted.take(update));
        let Granted { rules, lasting, remarks } = granted;
        let lasting = lasting.unwrap_or(Lasting::Once);
        let verdict = Verdict::YesWith(Arc::new(Terms { arguments, lasting, rules }));
        Self { verdict, ends_turn: false, remarks }
    }
}

/// What a client allows beyond the call.
#[derive(Default)]
struct Granted {
    rules: Vec<Arc<str>>,
    lasting: Option<Lasting>,
    remarks: Vec<String>,
}

impl Granted {
    fn take(&mut self, update: &Value) {
        let text = |name: &str| update.get(name).and_then(Value::as_str).unwrap_or_default();
        if (text("type"), text("behavior")) != ("addRules", "allow") {
            let what = format!("{} {}", text("type"), text("behavior"));
            let remark = format!("a client's permission update `{}` has no effect", short(&what));
            return self.remarks.push(remark);
        }
        let lasting = match text("destination") {
            "userSettings" => Lasting::Always,
            "session" => Lasting::Session,
            other => {
                let other = short(other);
                let remark = format!("a client's rules for `{other}` hold for this session only");
                self.remarks.push(remark);
                Lasting::Session
            }
        };
        if self.lasting.is_some_and(|before| before != lasting) {
            let remark = "of rules for the settings and rules for the session in one answer, all \
                          hold for this session only";
            self.remarks.push(remark.to_owned());
        }
        self.lasting = Some(self.lasting.map_or(lasting, |before| before.min(lasting)));
        let rules = update.get("rules").and_then(Value::as_array);
        rules.into_iter().flatten().for_each(|rule| self.add(rule));
    }

    fn add(&mut self, rule: &Value) {
        let text = |name: &str| rule.get(name).and_then(Value::as_str);
        let rule = match (text("toolName").unwrap_or_default(), text("ruleContent")) {
            (tool, Some(content)) => format!("{tool}({content})"),
            (tool, None) => tool.to_owned(),
        };
        match rule.parse::<Rule>() {
            Ok(_) => self.rules.push(rule.into()),
            Err(error) => {
                self.remarks.push(format!("a client's rule `{}`: {error}", short(&rule)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::Seq;

    #[track_caller]
    fn check(line: &Value, expected: Result<Incoming, &str>) {
        let read = Incoming::read(line.to_string().as_bytes()).map_err(|bad| bad.why);
        assert_eq!(read, expected.map_err(str::to_owned), "{line}");
    }

    fn user(content: &Value) -> Value {
        json!({"type": "user", "message": {"role": "user", "content": content}})
    }

    #[test]
    fn a_message_is_a_text_or_blocks_of_text() {
        check(&user(&json!("hi")), Ok(Incoming::User(Ok("hi".to_owned()))));
        let blocks = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        check(&user(&blocks), Ok(Incoming::User(Ok("a\n\nb".to_owned()))));
        for (content, why) in [
            (json!(" "), "the message is empty"),
            (json!([]), "the message is empty"),
            (json!(7), "the message has no `content`"),
            (
                json!([{"type": "image"}]),
                "a message may hold text only, and this one holds a block `image`",
            ),
        ] {
            check(&user(&content), Ok(Incoming::User(Err(why.to_owned()))));
        }
    }

    #[test]
    fn requests_are_known_by_their_subtype() {
        let request = |request: Value| json!({"type": "control_request", "request_id": "r", "request": request});
        for (asked, wanted) in [
            (json!({"subtype": "initialize", "hooks": null}), Wanted::Initialize),
            (json!({"subtype": "interrupt"}), Wanted::Interrupt),
            (
                json!({"subtype": "set_permission_mode", "mode": "plan"}),
                Wanted::SetMode(Ok(Mode::Plan)),
            ),
            (
                json!({"subtype": "set_permission_mode", "mode": "x"}),
                Wanted::SetMode(Err("there is no permission mode `x`".to_owned())),
            ),
            (json!({"subtype": "dance"}), Wanted::Other("dance".to_owned())),
        ] {
            check(&request(asked), Ok(Incoming::Request { id: "r".to_owned(), wanted }));
        }
        let bad = Incoming::read(request(json!({})).to_string().as_bytes()).unwrap_err();
        assert_eq!(bad.request.as_deref(), Some("r"));
    }

    #[test]
    fn what_is_no_line_of_the_protocol_says_why() {
        check(
            &json!([1]),
            Err("no JSON object: invalid type: sequence, expected a map at line 1 column 0"),
        );
        check(&json!({}), Err("it has no `type`"));
        check(&json!({"type": "dance"}), Err("`dance` is not known"));
        check(&json!({"type": "control_request"}), Err("a request has no `request_id`"));
        let endless = json!({"type": "control_request", "request_id": "r".repeat(ID_CAP + 1)});
        check(&endless, Err("a `request_id` is longer than 1000 bytes"));
        check(&json!({"type": "control_response"}), Err("a response has no `response`"));
        check(&json!({"type": "keep_alive"}), Ok(Incoming::Nothing));
    }

    fn answer(response: &Value) -> Answer {
        let response =
            json!({"subtype": "success", "request_id": "question-7", "response": response});
        let line = json!({"type": "control_response", "response": response});
        match Incoming::read(line.to_string().as_bytes()) {
            Ok(Incoming::Answer(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn yes_with(arguments: Option<&str>, lasting: Lasting, rules: &[&str]) -> Verdict {
        let rules = rules.iter().map(|rule| (*rule).into()).collect();
        Verdict::YesWith(Arc::new(Terms { arguments: arguments.map(Into::into), lasting, rules }))
    }

    #[test]
    fn an_answer_allows_what_it_says() {
        let plain = answer(&json!({"behavior": "allow", "updatedInput": {"command": "make"}}));
        let verdict = yes_with(Some(r#"{"command":"make"}"#), Lasting::Once, &[]);
        let id = QuestionId(Seq(7));
        assert_eq!(plain, Answer { id, verdict, ends_turn: false, remarks: Vec::new() });
        let rules = json!([{"toolName": "Bash", "ruleContent": "make *"}, {"toolName": "Read"}]);
        for (destination, lasting) in
            [("session", Lasting::Session), ("userSettings", Lasting::Always)]
        {
            let update = json!({"type": "addRules", "rules": rules, "behavior": "allow", "destination": destination});
            let answer = answer(&json!({"behavior": "allow", "updatedPermissions": [update]}));
            assert_eq!(answer.verdict, yes_with(None, lasting, &["Bash(make *)", "Read"]));
        }
    }

    #[test]
    fn what_an_answer_says_beyond_what_there_is_has_no_effect_and_is_told() {
        let update = |kind: &str, behavior: &str, destination: &str| {
            json!({"type": kind, "behavior": behavior, "destination": destination,
                "rules": [{"toolName": "Bash", "ruleContent": "ls"}, {"toolName": ""}]})
        };
        let updates = [
            update("addRules", "allow", "localSettings"),
            update("addRules", "deny", "session"),
            update("setMode", "", "session"),
        ];
        let answer = answer(&json!({"behavior": "allow", "updatedPermissions": updates}));
        assert_eq!(answer.verdict, yes_with(None, Lasting::Session, &["Bash(ls)"]));
        assert_eq!(answer.remarks.len(), 4, "{:?}", answer.remarks);
    }

    #[test]
    fn whatever_cannot_be_read_is_a_no() {
        let no = |why: &str| Verdict::NoBecause(why.into());
        let neither = no("the client's answer is neither `allow` nor `deny`");
        for (response, verdict) in [
            (json!({}), neither.clone()),
            (json!({"behavior": "perhaps"}), neither),
            (
                json!({"behavior": "allow", "updatedInput": 7}),
                no("the client's `updatedInput` is no object"),
            ),
            (json!(null), no("the client could not answer")),
            (json!({"behavior": "deny"}), Verdict::No),
            (json!({"behavior": "deny", "message": "use rg"}), no("use rg")),
        ] {
            assert_eq!(answer(&response).verdict, verdict, "{response}");
        }
        let stop = answer(&json!({"behavior": "deny", "message": "stop", "interrupt": true}));
        assert_eq!((stop.verdict, stop.ends_turn), (no("stop"), true));
        let error = json!({"subtype": "error", "request_id": "question-7", "error": "it broke"});
        let line = json!({"type": "control_response", "response": error}).to_string();
        let Ok(Incoming::Answer(answer)) = Incoming::read(line.as_bytes()) else {
            panic!("{line}")
        };
        assert_eq!(answer.verdict, no("it broke"));
    }

    #[test]
    fn a_reply_to_no_request_says_nothing() {
        let response = json!({"subtype": "success", "request_id": "r-1", "response": {}});
        check(&json!({"type": "control_response", "response": response}), Ok(Incoming::Nothing));
    }
}
