//! Where a conversation with a client stands, and what a line of it sets off.
//!
//! A synchronous state machine: it waits for nothing, so no request of a client
//! waits for a run, which may itself wait for the client's next line.

use std::collections::VecDeque;

use serde_json::Value;

use super::files::FileWanted;
use super::incoming::{Answer, BadLine, Incoming, Look, Message, Wanted};
use super::settings::Settings;
use super::wire::Heard;
use super::wishes::Wishes;
use crate::config::Effort;
use crate::event::UnitId;
use crate::guard::Mode;
use crate::message::{CallId, Prompt};
use crate::report::control::Reply;
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
    /// Do what a request asks for, and answer it.
    Do { id: String, deed: Deed },
    /// A request of ours has this answer.
    Called { id: u64, answer: Result<Value, String> },
    /// Tell the run.
    Tell(FromUser),
    /// End the turn.
    EndTurn,
    /// From now on this mode holds.
    SetMode(Mode),
    /// Tell people.
    Say(String),
}

/// What a request asks for that takes more than what is known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    /// The run is to be like this, and the client is introduced to it.
    Initialize(Box<Wishes>),
    /// From the next message on this model answers, or the one of the start.
    SetModel(Option<String>),
    /// From the next message on models think as hard as this.
    SetEffort(Effort),
    /// These settings hold from now on.
    Settings(Settings),
    /// A unit is to stop.
    Stop(UnitId),
    /// What main waits for goes on in the background, or what one call of it
    /// does.
    SetAside(Option<CallId>),
    /// The session has this name from now on.
    Rename(String),
    /// The client is told something.
    Look(Look),
    /// The client is shown what a file holds.
    ReadFile(FileWanted),
    /// A server that it carries hears from it.
    ServerSays { server: String, message: Value },
}

/// Where a conversation stands.
#[derive(Default)]
pub(super) struct Talk {
    /// Messages that wait, oldest first; in place of one that cannot be a
    /// prompt, why not.
    waiting: VecDeque<Result<Message, String>>,
    /// What goes along with the next message that is to be answered.
    along: Vec<Prompt>,
    /// How many messages behind those that wait are not taken. Each has its own
    /// refusal, in its turn.
    refused: u64,
}

impl Talk {
    /// Returns the next message.
    pub(super) fn next_message(&mut self) -> Option<Result<Message, String>> {
        let refused = || Err("too many messages wait for their turn".to_owned());
        self.waiting.pop_front().or_else(|| {
            self.refused = self.refused.checked_sub(1)?;
            Some(refused())
        })
    }

    /// Tells whether one waits.
    pub(super) fn has_message(&self) -> bool {
        !self.waiting.is_empty() || self.refused > 0
    }

    /// Takes a line. `is_busy` is whether a message is being answered.
    pub(super) fn hear(&mut self, heard: &Heard, is_busy: bool) -> Vec<Step> {
        let line = match heard {
            Heard::Line(line) if line.trim_ascii().is_empty() => return Vec::new(),
            Heard::Line(line) => line,
            Heard::TooLong => return vec![Step::Say("a line is too long; it is left out".into())],
        };
        match Incoming::read(line) {
            Ok(Incoming::User(message)) => {
                self.message(message);
                Vec::new()
            }
            Ok(Incoming::Request { id, wanted }) => self.request(id, wanted, is_busy),
            Ok(Incoming::Answer(answer)) => answered(answer),
            Ok(Incoming::Called { id, answer }) => vec![Step::Called { id, answer }],
            Ok(Incoming::Nothing) => Vec::new(),
            Err(BadLine { why, request: Some(id) }) => {
                vec![Step::Reply { id, reply: Reply::Refused(why) }]
            }
            Err(BadLine { why, request: None }) => {
                vec![Step::Say(format!("a line is left out: {why}"))]
            }
        }
    }

    fn message(&mut self, message: Result<Message, String>) {
        let bytes = |message: &Result<Message, String>| message.as_ref().map_or(0, Message::bytes);
        let along: usize = self.along.iter().map(Prompt::bytes).sum();
        let waiting: usize = self.waiting.iter().map(bytes).sum();
        let is_full = self.waiting.len() + self.along.len() >= MESSAGES_CAP;
        // Behind one that is not taken none is: they keep their order.
        if self.refused > 0 || is_full || along + waiting + bytes(&message) > MESSAGES_BYTES_CAP {
            self.refused += 1;
            return;
        }
        self.waiting.push_back(match message {
            Ok(Message { prompt, is_query: false, uuid: _ }) => {
                self.along.push(prompt);
                return;
            }
            Ok(message) => {
                self.along.push(message.prompt);
                let prompt = Prompt::joined(std::mem::take(&mut self.along));
                Ok(Message { prompt, ..message })
            }
            Err(why) => Err(why),
        });
    }

    /// Forgets a message that waits, if there is one of this name.
    fn forget(&mut self, uuid: &str) -> bool {
        let before = self.waiting.len();
        let is_it = |message: &Message| message.uuid.as_deref() == Some(uuid);
        self.waiting.retain(|message| !message.as_ref().is_ok_and(is_it));
        self.waiting.len() < before
    }

    fn request(&mut self, id: String, wanted: Wanted, is_busy: bool) -> Vec<Step> {
        let mut steps = Vec::new();
        let reply = match wanted {
            Wanted::Initialize(wishes) => {
                return vec![Step::Do { id, deed: Deed::Initialize(wishes) }];
            }
            Wanted::SetModel(Ok(name)) => {
                return vec![Step::Do { id, deed: Deed::SetModel(name) }];
            }
            Wanted::SetEffort(Ok(level)) => {
                return vec![Step::Do { id, deed: Deed::SetEffort(level) }];
            }
            Wanted::Rename(name) => return vec![Step::Do { id, deed: Deed::Rename(name) }],
            Wanted::Look(what) => return vec![Step::Do { id, deed: Deed::Look(what) }],
            Wanted::ReadFile(Ok(file)) => {
                return vec![Step::Do { id, deed: Deed::ReadFile(file) }];
            }
            Wanted::ServerSays { server, message } => {
                return vec![Step::Do { id, deed: Deed::ServerSays { server, message } }];
            }
            Wanted::Settings(Ok(settings)) => {
                return vec![Step::Do { id, deed: Deed::Settings(settings) }];
            }
            Wanted::Interrupt => {
                steps.extend(is_busy.then_some(Step::EndTurn));
                let queued = self.waiting.iter().flatten();
                let still_queued = queued.filter_map(|message| message.uuid.clone());
                Reply::Interrupted { still_queued: still_queued.collect() }
            }
            Wanted::SetMode(Ok(mode)) => {
                steps.push(Step::SetMode(mode));
                Reply::ModeIs(mode.as_str())
            }
            Wanted::Stop(Ok(unit)) => return vec![Step::Do { id, deed: Deed::Stop(unit) }],
            Wanted::SetAside(call) => return vec![Step::Do { id, deed: Deed::SetAside(call) }],
            Wanted::Forget(uuid) => Reply::Forgot(self.forget(&uuid)),
            Wanted::Inert(name) => {
                steps.push(Step::Say(format!("`{name}` changes nothing here")));
                Reply::Done
            }
            Wanted::Continue => Reply::NotContinued,
            Wanted::SetMode(Err(why))
            | Wanted::SetModel(Err(why))
            | Wanted::Settings(Err(why))
            | Wanted::Stop(Err(why))
            | Wanted::ReadFile(Err(why))
            | Wanted::SetEffort(Err(why)) => Reply::Refused(why),
            Wanted::SetServers(refused) => Reply::ServersSet { refused },
            Wanted::Other(name) => Reply::Refused(format!("`{name}` is not supported")),
        };
        steps.push(Step::Reply { id, reply });
        steps
    }
}

fn answered(answer: Answer) -> Vec<Step> {
    let Answer { id, verdict, ends_turn, mode, remarks } = answer;
    let answer = match ends_turn {
        true => FromUser::AnsweredLast { id, verdict },
        false => FromUser::Answered { id, verdict },
    };
    let mode = mode.map(Step::SetMode);
    remarks.into_iter().map(Step::Say).chain(mode).chain([Step::Tell(answer)]).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::event::{QuestionId, Seq, Verdict};

    fn talk() -> Talk {
        Talk::default()
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
        assert_eq!(next(&mut talk).as_deref(), Some("a"));
        assert!(talk.has_message());
        assert_eq!(next(&mut talk).as_deref(), Some("b"));
        assert!(!talk.has_message());
    }

    #[test]
    fn messages_past_the_bound_are_refused() {
        let mut talk = talk();
        for _ in 0..MESSAGES_CAP {
            assert_eq!(hear(&mut talk, &user("a")), []);
        }
        assert_eq!(hear(&mut talk, &user("b")), []);
        assert_eq!(next(&mut talk).as_deref(), Some("a"));
        assert_eq!(hear(&mut talk, &user("c")), []);
        let rest: Vec<_> =
            std::iter::from_fn(|| talk.next_message()).skip(MESSAGES_CAP - 1).collect();
        let refused = Err("too many messages wait for their turn".to_owned());
        assert_eq!(rest, [refused.clone(), refused]);
        assert!(!talk.has_message());
    }

    fn next(talk: &mut Talk) -> Option<String> {
        Some(talk.next_message()?.unwrap().prompt.text.to_string())
    }

    #[test]
    fn what_is_no_query_goes_along_with_the_next_one() {
        let mut talk = talk();
        let note = |text: &str| json!({"type": "user", "shouldQuery": false, "message": {"content": text}});
        hear(&mut talk, &note("one"));
        hear(&mut talk, &note("two"));
        assert!(!talk.has_message());
        hear(&mut talk, &user("three"));
        hear(&mut talk, &user("four"));
        assert_eq!(next(&mut talk).as_deref(), Some("one\n\ntwo\n\nthree"));
        assert_eq!(next(&mut talk).as_deref(), Some("four"));
    }

    #[test]
    fn what_waits_is_named_at_an_interrupt_and_can_be_forgotten() {
        let mut talk = talk();
        let named =
            |uuid: &str| json!({"type": "user", "uuid": uuid, "message": {"content": uuid}});
        hear(&mut talk, &named("u-1"));
        hear(&mut talk, &named("u-2"));
        let forget =
            |uuid: &str| request(&json!({"subtype": "cancel_async_message", "message_uuid": uuid}));
        assert_eq!(hear(&mut talk, &forget("u-1")), [replied(Reply::Forgot(true))]);
        assert_eq!(hear(&mut talk, &forget("u-1")), [replied(Reply::Forgot(false))]);
        let interrupt = request(&json!({"subtype": "interrupt"}));
        let still_queued = vec!["u-2".to_owned()];
        let expected = [Step::EndTurn, replied(Reply::Interrupted { still_queued })];
        assert_eq!(hear_at_work(&mut talk, &interrupt), expected);
        assert_eq!(next(&mut talk).as_deref(), Some("u-2"));
    }

    #[test]
    fn every_request_has_its_answer_or_its_deed_at_once() {
        let mut talk = talk();
        let interrupted = || replied(Reply::Interrupted { still_queued: Vec::new() });
        let deed = |deed: Deed| Step::Do { id: "r".to_owned(), deed };
        for (asked, expected) in [
            (json!({"subtype": "initialize"}), vec![deed(Deed::Initialize(Box::default()))]),
            (json!({"subtype": "interrupt"}), vec![interrupted()]),
            (
                json!({"subtype": "set_permission_mode", "mode": "plan"}),
                vec![Step::SetMode(Mode::Plan), replied(Reply::ModeIs("plan"))],
            ),
            (
                json!({"subtype": "set_permission_mode", "mode": "x"}),
                vec![replied(Reply::Refused("there is no permission mode `x`".to_owned()))],
            ),
            (
                json!({"subtype": "apply_flag_settings", "settings": {}}),
                vec![deed(Deed::Settings(Settings::default()))],
            ),
            (
                json!({"subtype": "stop_task", "task_id": "agent-3"}),
                vec![deed(Deed::Stop(UnitId(3)))],
            ),
            (json!({"subtype": "background_tasks"}), vec![deed(Deed::SetAside(None))]),
            (json!({"subtype": "mcp_status"}), vec![deed(Deed::Look(Look::Servers))]),
            (
                json!({"subtype": "set_color"}),
                vec![
                    Step::Say("`set_color` changes nothing here".to_owned()),
                    replied(Reply::Done),
                ],
            ),
            (
                json!({"subtype": "dance"}),
                vec![replied(Reply::Refused("`dance` is not supported".to_owned()))],
            ),
            (json!({}), vec![replied(Reply::Refused("the request has no `subtype`".to_owned()))]),
        ] {
            assert_eq!(hear(&mut talk, &request(&asked)), expected, "{asked}");
        }
        let interrupt = request(&json!({"subtype": "interrupt"}));
        assert_eq!(hear_at_work(&mut talk, &interrupt), [Step::EndTurn, interrupted()]);
    }

    #[test]
    fn a_no_that_interrupts_answers_and_ends_the_turn_in_one() {
        let deny = json!({"behavior": "deny", "message": "stop", "interrupt": true});
        let response = json!({"subtype": "success", "request_id": "question-7", "response": deny});
        let line = json!({"type": "control_response", "response": response});
        let verdict = Verdict::NoBecause("stop".into());
        let answer = FromUser::AnsweredLast { id: QuestionId(Seq(7)), verdict };
        assert_eq!(hear(&mut talk(), &line), [Step::Tell(answer)]);
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
