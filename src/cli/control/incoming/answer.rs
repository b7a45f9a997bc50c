//! What a client answers to a question.
//!
//! It becomes a verdict here: whatever of it cannot be read, or is more than
//! tine knows, allows nothing.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Incoming, short};
use crate::event::{Lasting, QuestionId, Terms, Verdict};
use crate::guard::{Mode, Rule};
use crate::report::control::{call_of, question_of};

/// A client's answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::control) struct Answer {
    pub(in crate::cli::control) id: QuestionId,
    pub(in crate::cli::control) verdict: Verdict,
    /// Whether the turn is to end as well.
    pub(in crate::cli::control) ends_turn: bool,
    /// The mode that holds from now on, if another one does.
    pub(in crate::cli::control) mode: Option<Mode>,
    /// What of it had no effect, in words for people.
    pub(in crate::cli::control) remarks: Vec<String>,
}

/// Reads a response to one of our requests.
pub(super) fn read(fields: &Map<String, Value>) -> Result<Incoming, String> {
    let response = fields.get("response").and_then(Value::as_object);
    let response = response.ok_or("a response has no `response`")?;
    let id = response.get("request_id").and_then(Value::as_str);
    let id = id.ok_or("a response has no `request_id`")?;
    let failed = response.get("subtype").and_then(Value::as_str) != Some("success");
    let error = response.get("error").and_then(Value::as_str);
    if let Some(id) = call_of(id) {
        let answer = match failed {
            false => Ok(response.get("response").cloned().unwrap_or_default()),
            true => Err(error.unwrap_or("the client could not answer").to_owned()),
        };
        return Ok(Incoming::Called { id, answer });
    }
    // One that answers nothing of ours says nothing.
    let Some(id) = question_of(id) else { return Ok(Incoming::Nothing) };
    let decision = match response.get("response").and_then(Value::as_object) {
        Some(decision) if !failed => Decision::read(decision),
        Some(_) | None => Decision::no(error.unwrap_or("the client could not answer")),
    };
    let Decision { verdict, ends_turn, mode, remarks } = decision;
    Ok(Incoming::Answer(Answer { id, verdict, ends_turn, mode, remarks }))
}

/// Returns what an answer to a request of ours comes to that cannot be read.
pub(super) fn unreadable(id: &str, why: &str) -> Incoming {
    let response = json!({ "subtype": "error", "request_id": id, "error": why });
    let fields = Map::from_iter([("response".to_owned(), response)]);
    read(&fields).expect("it names its request")
}

/// What an answer decides.
struct Decision {
    verdict: Verdict,
    ends_turn: bool,
    mode: Option<Mode>,
    remarks: Vec<String>,
}

impl Decision {
    fn no(why: &str) -> Self {
        let verdict = match why.trim() {
            "" => Verdict::No,
            why => Verdict::NoBecause(why.into()),
        };
        Self { verdict, ends_turn: false, mode: None, remarks: Vec::new() }
    }

    fn read(decision: &Map<String, Value>) -> Self {
        let text = |name: &str| decision.get(name).and_then(Value::as_str).unwrap_or_default();
        // To a server's question there is another word.
        match text("action") {
            "accept" => return Self::given(decision),
            "decline" | "cancel" => return Self::no(""),
            _ => {}
        }
        match text("behavior") {
            "allow" => Self::allow(decision),
            "deny" => {
                let ends_turn = decision.get("interrupt").and_then(Value::as_bool);
                Self { ends_turn: ends_turn.unwrap_or(false), ..Self::no(text("message")) }
            }
            _ => Self::no("the client's answer is neither `allow` nor `deny`"),
        }
    }

    /// What a server is told.
    fn given(decision: &Map<String, Value>) -> Self {
        let content = decision.get("content").cloned().unwrap_or_default();
        let arguments = json!({ "answers": content }).to_string();
        let (lasting, rules) = (Lasting::Once, Vec::new());
        let terms = Terms { arguments: Some(arguments.into()), lasting, rules };
        let verdict = Verdict::YesWith(Arc::new(terms));
        Self { verdict, ends_turn: false, mode: None, remarks: Vec::new() }
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
        let Granted { rules, lasting, mode, remarks } = granted;
        let lasting = lasting.unwrap_or(Lasting::Once);
        let verdict = Verdict::YesWith(Arc::new(Terms { arguments, lasting, rules }));
        Self { verdict, ends_turn: false, mode, remarks }
    }
}

/// What a client allows beyond the call.
#[derive(Default)]
struct Granted {
    rules: Vec<Arc<str>>,
    lasting: Option<Lasting>,
    mode: Option<Mode>,
    remarks: Vec<String>,
}

impl Granted {
    fn take(&mut self, update: &Value) {
        let text = |name: &str| update.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("type") == "setMode"
            && let Some(mode) = Mode::from_name(text("mode"))
        {
            self.mode = Some(mode);
            return;
        }
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
    use super::*;
    use crate::event::Seq;

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
        assert_eq!(
            plain,
            Answer { id, verdict, ends_turn: false, mode: None, remarks: Vec::new() }
        );
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
        let line = json!({"type": "control_response", "response": response}).to_string();
        assert_eq!(Incoming::read(line.as_bytes()), Ok(Incoming::Nothing));
    }
}
