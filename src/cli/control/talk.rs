//! Where a conversation with a client stands, and what a line of it sets off.
//!
//! A synchronous state machine: it waits for nothing, so no request of a client
//! waits for a run, which may itself wait for the client's next line.

use std::collections::VecDeque;

use super::incoming::{Answer, BadLine, Incoming, Wanted};
use super::wire::Heard;
use crate::guard::Mode;
use crate::report::control::{Introduction, Reply};
use crate::run::FromUser;

/// Most messages that wait for their turn.
const MESSAGES_CAP: usize = 100;

/// Most bytes of all messages that wait.
const MESSAGES_BYTES_CAP: usize = 64 * 1024 * 1024;

/// What a line sets off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Answer a request.
    Reply { id: String, reply: Reply },
    /// Tell the run.
    Tell(FromUser),
    /// End the turn.
    EndTurn,
    /// From now on this mode holds.
    SetMode(Mode),
    /// From the next message on this model answers, or the configured one; the
    /// request is replied to.
    SetModel { id: String, name: Option<String> },
    /// A message is not taken, and why.
    Refuse(String),
    /// Tell people.
    Say(String),
}

/// Where a conversation stands.
pub(super) struct Talk {
    introduction: Introduction,
    /// Messages that wait, oldest first; in place of one that cannot be a
    /// prompt, why not.
    waiting: VecDeque<Result<String, String>>,
}

impl Talk {
    pub(super) fn new(introduction: Introduction) -> Self {
        Self { introduction, waiting: VecDeque::new() }
    }

    /// Returns the next message.
    pub(super) fn next_message(&mut self) -> Option<Result<String, String>> {
        self.waiting.pop_front()
    }

    /// Tells whether one waits.
    pub(super) fn has_message(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes a line. `is_busy` is whether a message is being answered.
    pub(super) fn hear(&mut self, heard: &Heard, is_busy: bool) -> Vec<Step> {
        let line = match heard {
            Heard::Line(line) if line.trim_ascii().is_empty() => return Vec::new(),
            Heard::Line(line) => line,
            Heard::TooLong => return vec![Step::Say("a line is too long; it is left out".into())],
        };
        match Incoming::read(line) {
            Ok(Incoming::User(message)) => self.message(message).into_iter().collect(),
            Ok(Incoming::Request { id, wanted }) => self.request(id, wanted, is_busy),
            Ok(Incoming::Answer(answer)) => answered(answer),
            Ok(Incoming::Nothing) => Vec::new(),
            Err(BadLine { why, request: Some(id) }) => {
                vec![Step::Reply { id, reply: Reply::Refused(why) }]
            }
            Err(BadLine { why, request: None }) => {
                vec![Step::Say(format!("a line is left out: {why}"))]
            }
        }
    }

    fn message(&mut self, message: Result<String, String>) -> Option<Step> {
        let bytes = |message: &Result<String, String>| message.as_ref().map_or(0, String::len);
        let waiting: usize = self.waiting.iter().map(bytes).sum();
        if self.waiting.len() >= MESSAGES_CAP || waiting + bytes(&message) > MESSAGES_BYTES_CAP {
            return Some(Step::Refuse("too many messages wait for their turn".to_owned()));
        }
        self.waiting.push_back(message);
        None
    }

    fn request(&self, id: String, wanted: Wanted, is_busy: bool) -> Vec<Step> {
        let reply = match wanted {
            Wanted::Initialize => Reply::Initialized(Box::new(self.introduction.clone())),
            Wanted::Interrupt => {
                let ends = is_busy.then_some(Step::EndTurn);
                let reply = Step::Reply { id, reply: Reply::Interrupted };
                return ends.into_iter().chain([reply]).collect();
            }
            Wanted::SetMode(Ok(mode)) => {
                let reply = Step::Reply { id, reply: Reply::ModeIs(mode.as_str()) };
                return vec![Step::SetMode(mode), reply];
            }
            Wanted::SetMode(Err(why)) => Reply::Refused(why),
            Wanted::SetModel(name) => return vec![Step::SetModel { id, name }],
            Wanted::Stop(Ok(unit)) => {
                let reply = Step::Reply { id, reply: Reply::Done };
                return vec![Step::Tell(FromUser::Stop(unit)), reply];
            }
            Wanted::Stop(Err(why)) => Reply::Refused(why),
            Wanted::Other(name) => Reply::Refused(format!("`{name}` is not supported")),
        };
        vec![Step::Reply { id, reply }]
    }
}

fn answered(answer: Answer) -> Vec<Step> {
    let Answer { id, verdict, ends_turn, remarks } = answer;
    let answer = Step::Tell(FromUser::Answered { id, verdict });
    let ends = ends_turn.then_some(Step::EndTurn);
    remarks.into_iter().map(Step::Say).chain([answer]).chain(ends).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::event::{QuestionId, Seq, SessionId, UnitId, Verdict};

    fn talk() -> Talk {
        Talk::new(introduction())
    }

    fn introduction() -> Introduction {
        let session = SessionId("s-1".into());
        Introduction { session, commands: Vec::new(), agents: Vec::new(), models: Vec::new() }
    }

    fn hear(talk: &mut Talk, line: &Value) -> Vec<Step> {
        talk.hear(&Heard::Line(line.to_string().into_bytes()), false)
    }

    fn hear_at_work(talk: &mut Talk, line: &Value) -> Vec<Step> {
        talk.hear(&Heard::Line(line.to_string().into_bytes()), true)
    }

    fn user(text: &str) -> Value {
        json!({"type": "user", "message": {"role": "user", "content": text}})
    }

    fn request(request: &Value) -> Value {
        json!({"type": "control_request", "request_id": "r", "request": request})
    }

    fn replied(reply: Reply) -> Step {
        Step::Reply { id: "r".to_owned(), reply }
    }

    #[test]
    fn messages_wait_for_their_turn_in_order() {
        let mut talk = talk();
        assert_eq!(talk.next_message(), None);
        assert_eq!(hear(&mut talk, &user("a")), []);
        assert_eq!(hear(&mut talk, &user("b")), []);
        assert_eq!(talk.next_message(), Some(Ok("a".to_owned())));
        assert!(talk.has_message());
        assert_eq!(talk.next_message(), Some(Ok("b".to_owned())));
        assert!(!talk.has_message());
    }

    #[test]
    fn messages_past_the_bound_are_refused() {
        let mut talk = talk();
        for _ in 0..MESSAGES_CAP {
            assert_eq!(hear(&mut talk, &user("a")), []);
        }
        let refused = Step::Refuse("too many messages wait for their turn".to_owned());
        assert_eq!(hear(&mut talk, &user("a")), [refused]);
    }

    #[test]
    fn every_request_is_answered_at_once_whether_or_not_a_message_is() {
        let mut talk = talk();
        let initialize = request(&json!({"subtype": "initialize"}));
        let interrupt = request(&json!({"subtype": "interrupt"}));
        let plan = request(&json!({"subtype": "set_permission_mode", "mode": "plan"}));
        let introduced = [replied(Reply::Initialized(Box::new(introduction())))];
        assert_eq!(hear(&mut talk, &initialize), introduced);
        assert_eq!(hear(&mut talk, &interrupt), [replied(Reply::Interrupted)]);
        let mode = [Step::SetMode(Mode::Plan), replied(Reply::ModeIs("plan"))];
        assert_eq!(hear(&mut talk, &plan), mode);
        assert_eq!(hear_at_work(&mut talk, &initialize), introduced);
        let ends = [Step::EndTurn, replied(Reply::Interrupted)];
        assert_eq!(hear_at_work(&mut talk, &interrupt), ends);
        assert_eq!(hear_at_work(&mut talk, &plan), mode);
        let model = |name: &Value| request(&json!({"subtype": "set_model", "model": name}));
        for (name, wanted) in
            [(json!("m"), Some("m".to_owned())), (json!("default"), None), (json!(null), None)]
        {
            let step = Step::SetModel { id: "r".to_owned(), name: wanted };
            assert_eq!(hear_at_work(&mut talk, &model(&name)), [step]);
        }
        let stop = |task: &str| request(&json!({"subtype": "stop_task", "task_id": task}));
        let stops = [Step::Tell(FromUser::Stop(UnitId(3))), replied(Reply::Done)];
        assert_eq!(hear_at_work(&mut talk, &stop("agent-3")), stops);
        for task in ["main", "agent-x", ""] {
            let refused = replied(Reply::Refused(format!("there is no task `{task}`")));
            assert_eq!(hear_at_work(&mut talk, &stop(task)), [refused]);
        }
        let other = request(&json!({"subtype": "dance"}));
        let refused = replied(Reply::Refused("`dance` is not supported".to_owned()));
        assert_eq!(hear(&mut talk, &other), [refused]);
        let none = replied(Reply::Refused("the request has no `subtype`".to_owned()));
        assert_eq!(hear(&mut talk, &request(&json!({}))), [none]);
    }

    #[test]
    fn a_no_that_interrupts_answers_first_and_then_ends_the_turn() {
        let deny = json!({"behavior": "deny", "message": "stop", "interrupt": true});
        let response = json!({"subtype": "success", "request_id": "question-7", "response": deny});
        let line = json!({"type": "control_response", "response": response});
        let verdict = Verdict::NoBecause("stop".into());
        let answer = FromUser::Answered { id: QuestionId(Seq(7)), verdict };
        let expected = [Step::Tell(answer), Step::EndTurn];
        assert_eq!(hear(&mut talk(), &line), expected);
    }

    #[test]
    fn what_cannot_be_read_is_told_and_ends_nothing() {
        let mut talk = talk();
        for line in ["{", "[]", "{\"type\":\"dance\"}"] {
            let steps = talk.hear(&Heard::Line(line.into()), false);
            assert!(matches!(&steps[..], [Step::Say(_)]), "{line}: {steps:?}");
        }
        assert!(matches!(&talk.hear(&Heard::TooLong, false)[..], [Step::Say(_)]));
        assert_eq!(talk.hear(&Heard::Line("  ".into()), false), []);
    }
}
