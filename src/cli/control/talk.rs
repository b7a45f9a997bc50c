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
    /// Answer how servers of tools stand.
    TellServers { id: String },
    /// Tell the run.
    Tell(FromUser),
    /// From the next message on this mode holds.
    SetMode(Mode),
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
    is_running: bool,
}

impl Talk {
    pub(super) fn new(introduction: Introduction) -> Self {
        Self { introduction, waiting: VecDeque::new(), is_running: false }
    }

    /// Returns the next message, if none is being answered. It is, then, until
    /// [`Talk::answered`].
    pub(super) fn next_message(&mut self) -> Option<Result<String, String>> {
        if self.is_running {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.is_running = true;
        Some(next)
    }

    /// A message has its result.
    pub(super) fn answered(&mut self) {
        self.is_running = false;
    }

    /// Takes a line.
    pub(super) fn hear(&mut self, heard: &Heard) -> Vec<Step> {
        let line = match heard {
            Heard::Line(line) if line.trim_ascii().is_empty() => return Vec::new(),
            Heard::Line(line) => line,
            Heard::TooLong => return vec![Step::Say("a line is too long; it is left out".into())],
        };
        match Incoming::read(line) {
            Ok(Incoming::User(message)) => self.message(message).into_iter().collect(),
            Ok(Incoming::Request { id, wanted }) => self.request(id, wanted),
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

    fn request(&self, id: String, wanted: Wanted) -> Vec<Step> {
        let reply = match wanted {
            Wanted::Initialize => Reply::Initialized(Box::new(self.introduction.clone())),
            Wanted::Interrupt => {
                let ends = self.is_running.then_some(Step::Tell(FromUser::EndTurn));
                let reply = Step::Reply { id, reply: Reply::Interrupted };
                return ends.into_iter().chain([reply]).collect();
            }
            Wanted::SetMode(Ok(mode)) => {
                let reply = Step::Reply { id, reply: Reply::ModeIs(mode.as_str()) };
                return vec![Step::SetMode(mode), reply];
            }
            Wanted::Servers => return vec![Step::TellServers { id }],
            Wanted::SetMode(Err(why)) => Reply::Refused(why),
            Wanted::Other(name) => Reply::Refused(format!("`{name}` is not supported")),
        };
        vec![Step::Reply { id, reply }]
    }
}

fn answered(answer: Answer) -> Vec<Step> {
    let Answer { id, verdict, ends_turn, remarks } = answer;
    let answer = Step::Tell(FromUser::Answered { id, verdict });
    let ends = ends_turn.then_some(Step::Tell(FromUser::EndTurn));
    remarks.into_iter().map(Step::Say).chain([answer]).chain(ends).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::event::{QuestionId, Seq, SessionId, Verdict};

    fn talk() -> Talk {
        Talk::new(introduction())
    }

    fn introduction() -> Introduction {
        let session = SessionId("s-1".into());
        Introduction { session, commands: Vec::new(), agents: Vec::new(), models: Vec::new() }
    }

    fn hear(talk: &mut Talk, line: &Value) -> Vec<Step> {
        talk.hear(&Heard::Line(line.to_string().into_bytes()))
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
        assert_eq!(talk.next_message(), None);
        talk.answered();
        assert_eq!(talk.next_message(), Some(Ok("b".to_owned())));
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
        hear(&mut talk, &user("a"));
        assert!(talk.next_message().is_some());
        assert_eq!(hear(&mut talk, &initialize), introduced);
        let ends = [Step::Tell(FromUser::EndTurn), replied(Reply::Interrupted)];
        assert_eq!(hear(&mut talk, &interrupt), ends);
        // It holds from the next message on.
        let mode = [Step::SetMode(Mode::Plan), replied(Reply::ModeIs("plan"))];
        assert_eq!(hear(&mut talk, &plan), mode);
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
        let expected = [Step::Tell(answer), Step::Tell(FromUser::EndTurn)];
        assert_eq!(hear(&mut talk(), &line), expected);
    }

    #[test]
    fn what_cannot_be_read_is_told_and_ends_nothing() {
        let mut talk = talk();
        for line in ["{", "[]", "{\"type\":\"dance\"}"] {
            let steps = talk.hear(&Heard::Line(line.into()));
            assert!(matches!(&steps[..], [Step::Say(_)]), "{line}: {steps:?}");
        }
        assert!(matches!(&talk.hear(&Heard::TooLong)[..], [Step::Say(_)]));
        assert_eq!(talk.hear(&Heard::Line("  ".into())), []);
    }
}
