//! Where a conversation with a client stands, and what a line of it sets off.
//!
//! A synchronous state machine: it waits for nothing, so no request of a client
//! waits for a run, which may itself wait for the client's next line.

use std::collections::VecDeque;

use serde_json::Value;

use super::files::FileWanted;
use super::incoming::{Answer, BadLine, Incoming, Look, Message, Wanted};
use super::rewinding::RewindWanted;
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

/// Most bytes of what goes along with the next message. With the longest line
/// it is still less than all messages may have, so one can always be sent.
const NOTES_BYTES_CAP: usize = 32 * 1024 * 1024;

/// Most messages that are not taken whose names are kept, of sixty characters at
/// most. The refusals of further ones name no message.
const NAMED_CAP: usize = 10_000;

/// Why a message is not taken that comes behind so many.
const TOO_MANY: &str = "too many messages wait for their turn";

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
    /// Files are as they were before a message.
    Rewind(RewindWanted),
    /// A server that it carries hears from it.
    ServerSays { server: String, message: Value },
}

/// A message that is to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query {
    /// What goes along with it, in front.
    pub(super) notes: Vec<Prompt>,
    /// What it says; the error is why it cannot be a prompt.
    pub(super) prompt: Result<Prompt, String>,
    /// What the client calls it.
    pub(super) uuid: Option<String>,
}

/// Where a conversation stands.
#[derive(Default)]
pub(super) struct Talk {
    /// Messages that wait, oldest first.
    waiting: VecDeque<Query>,
    /// What goes along with the next message that is to be answered.
    along: Vec<Prompt>,
    /// Why something that was to go along is not there. The next message is
    /// refused with that: a model would not know what it is asked about.
    missing: Option<String>,
    /// The messages behind those that wait, which are not taken. Each has its
    /// own refusal, in its turn.
    refused: VecDeque<Option<String>>,
    /// How many more there are, without their names.
    refused_unnamed: u64,
}

fn bytes_of(prompts: &[Prompt]) -> usize {
    prompts.iter().map(Prompt::bytes).sum()
}

impl Query {
    fn bytes(&self) -> usize {
        bytes_of(&self.notes) + self.prompt.as_ref().map_or(0, Prompt::bytes)
    }
}

impl Talk {
    /// Returns the next message.
    pub(super) fn next_message(&mut self) -> Option<Query> {
        if let Some(query) = self.waiting.pop_front() {
            return Some(query);
        }
        let uuid = match self.refused.pop_front() {
            Some(uuid) => uuid,
            None => {
                self.refused_unnamed = self.refused_unnamed.checked_sub(1)?;
                None
            }
        };
        Some(Query { notes: Vec::new(), prompt: Err(TOO_MANY.to_owned()), uuid })
    }

    /// Tells whether one waits.
    pub(super) fn has_message(&self) -> bool {
        !self.waiting.is_empty() || self.has_refused()
    }

    fn has_refused(&self) -> bool {
        !self.refused.is_empty() || self.refused_unnamed > 0
    }

    /// Has what went along with a message that is not asked go along with the
    /// next one.
    pub(super) fn put_back(&mut self, notes: Vec<Prompt>) {
        self.put_back_behind(0, notes);
    }

    /// The same for a message that waited behind so many others.
    fn put_back_behind(&mut self, others: usize, notes: Vec<Prompt>) {
        let next = self.waiting.iter_mut().skip(others).find(|query| query.prompt.is_ok());
        let along = next.map_or(&mut self.along, |query| &mut query.notes);
        along.splice(..0, notes);
        while bytes_of(along) > NOTES_BYTES_CAP {
            along.remove(0);
            self.missing = Some("it is too much".to_owned());
        }
    }

    /// Takes a line. `is_busy` is whether a message is being answered.
    pub(super) fn hear(&mut self, heard: &Heard, is_busy: bool) -> Vec<Step> {
        let line = match heard {
            Heard::Line(line) if is_blank(line) => return Vec::new(),
            Heard::Line(line) => line,
            Heard::TooLong(line) => return self.take(Incoming::of_long(line), is_busy),
        };
        self.take(Incoming::read(line), is_busy)
    }

    fn take(&mut self, read: Result<Incoming, BadLine>, is_busy: bool) -> Vec<Step> {
        match read {
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

    fn message(&mut self, message: Message) {
        let Message { prompt, uuid, is_query } = message;
        let bytes = prompt.as_ref().map_or(0, Prompt::bytes) + bytes_of(&self.along);
        if !is_query {
            let is_full = self.along.len() >= MESSAGES_CAP || bytes > NOTES_BYTES_CAP;
            // It has no result of its own. Behind a message that is not taken
            // nothing is: all keep their order.
            let why = match prompt {
                Err(why) => Some(why),
                Ok(_) if is_full || self.has_refused() => Some(TOO_MANY.to_owned()),
                Ok(prompt) => {
                    self.along.push(prompt);
                    None
                }
            };
            self.missing = self.missing.take().or(why);
            return;
        }
        let waiting: usize = self.waiting.iter().map(Query::bytes).sum();
        let is_full = self.waiting.len() >= MESSAGES_CAP || waiting + bytes > MESSAGES_BYTES_CAP;
        if is_full || self.has_refused() {
            return self.refuse(uuid);
        }
        let prompt = prompt.and_then(|prompt| match self.missing.take() {
            None => Ok(prompt),
            Some(why) => Err(format!("what was to go along with the message is missing: {why}")),
        });
        let notes = if prompt.is_ok() { std::mem::take(&mut self.along) } else { Vec::new() };
        self.waiting.push_back(Query { notes, prompt, uuid });
    }

    /// Does not take a message.
    fn refuse(&mut self, uuid: Option<String>) {
        // They keep their order.
        match self.refused.len() < NAMED_CAP && self.refused_unnamed == 0 {
            true => self.refused.push_back(uuid),
            false => self.refused_unnamed += 1,
        }
    }

    /// Forgets a message that waits, if there is one of this name.
    fn forget(&mut self, uuid: &str) -> bool {
        let is_it = |name: &Option<String>| name.as_deref() == Some(uuid);
        if let Some(at) = self.waiting.iter().position(|query| is_it(&query.uuid)) {
            let forgotten = self.waiting.remove(at);
            forgotten.into_iter().for_each(|query| self.put_back_behind(at, query.notes));
            return true;
        }
        let at = self.refused.iter().position(is_it);
        at.and_then(|at| self.refused.remove(at)).is_some()
    }

    /// Forgets all messages that wait, and returns what the client calls them.
    fn forget_all(&mut self) -> Vec<String> {
        let waiting = std::mem::take(&mut self.waiting);
        let refused = std::mem::take(&mut self.refused);
        self.refused_unnamed = 0;
        let (notes, names): (Vec<_>, Vec<_>) =
            waiting.into_iter().map(|query| (query.notes, query.uuid)).unzip();
        self.put_back(notes.concat());
        names.into_iter().chain(refused).flatten().collect()
    }

    /// Returns what is said of messages that wait while a turn is ended.
    fn interrupted(&mut self, cancel_queued: bool) -> Reply {
        let cancelled = cancel_queued.then(|| self.forget_all());
        let queued = self.waiting.iter().map(|query| &query.uuid).chain(&self.refused);
        let still_queued = queued.flatten().cloned().collect();
        Reply::Interrupted { still_queued, cancelled }
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
            Wanted::Rewind(Ok(to)) => return vec![Step::Do { id, deed: Deed::Rewind(to) }],
            Wanted::ServerSays { server, message } => {
                return vec![Step::Do { id, deed: Deed::ServerSays { server, message } }];
            }
            Wanted::Settings(Ok(settings)) => {
                return vec![Step::Do { id, deed: Deed::Settings(settings) }];
            }
            Wanted::Interrupt { cancel_queued } => {
                steps.extend(is_busy.then_some(Step::EndTurn));
                self.interrupted(cancel_queued)
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
            | Wanted::Rewind(Err(why))
            | Wanted::SetServers(Err(why))
            | Wanted::SetEffort(Err(why)) => Reply::Refused(why),
            Wanted::SetServers(Ok(refused)) => Reply::ServersSet { refused },
            Wanted::Other(name) => Reply::Refused(format!("`{name}` is not supported")),
        };
        steps.push(Step::Reply { id, reply });
        steps
    }
}

/// Returns whether a line is empty but for white space and a byte order mark.
fn is_blank(line: &[u8]) -> bool {
    line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii().is_empty()
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
    use crate::cli::control::skim::Skimmed;
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
        let refused = || refusal("too many messages wait for their turn", None);
        assert_eq!(rest, [refused(), refused()]);
        assert!(!talk.has_message());
    }

    fn refusal(why: &str, uuid: Option<&str>) -> Query {
        let uuid = uuid.map(str::to_owned);
        Query { notes: Vec::new(), prompt: Err(why.to_owned()), uuid }
    }

    fn note(text: &str) -> Value {
        json!({"type": "user", "shouldQuery": false, "message": {"content": text}})
    }

    fn named(uuid: &str) -> Value {
        json!({"type": "user", "uuid": uuid, "message": {"content": uuid}})
    }

    #[test]
    fn a_message_that_is_not_taken_keeps_its_name_and_can_be_forgotten() {
        let mut talk = talk();
        (0..MESSAGES_CAP).for_each(|_| drop(hear(&mut talk, &user("a"))));
        hear(&mut talk, &named("u-1"));
        hear(&mut talk, &named("u-2"));
        let interrupt = request(&json!({"subtype": "interrupt"}));
        let still_queued = vec!["u-1".to_owned(), "u-2".to_owned()];
        let expected = [replied(Reply::Interrupted { still_queued, cancelled: None })];
        assert_eq!(hear(&mut talk, &interrupt), expected);
        let forget = request(&json!({"subtype": "cancel_async_message", "message_uuid": "u-1"}));
        assert_eq!(hear(&mut talk, &forget), [replied(Reply::Forgot(true))]);
        assert_eq!(hear(&mut talk, &forget), [replied(Reply::Forgot(false))]);
        (0..MESSAGES_CAP).for_each(|_| drop(talk.next_message()));
        assert_eq!(talk.next_message(), Some(refusal(TOO_MANY, Some("u-2"))));
        assert_eq!(talk.next_message(), None);
    }

    #[test]
    fn the_names_of_those_that_are_not_taken_are_bounded_and_none_is_lost() {
        let mut talk = talk();
        (0..MESSAGES_CAP + NAMED_CAP + 2).for_each(|_| drop(hear(&mut talk, &named("u"))));
        let uuids: Vec<_> = std::iter::from_fn(|| talk.next_message()).map(|it| it.uuid).collect();
        assert_eq!(uuids.len(), MESSAGES_CAP + NAMED_CAP + 2);
        assert_eq!(uuids.iter().filter(|uuid| uuid.is_none()).count(), 2);
    }

    fn next(talk: &mut Talk) -> Option<String> {
        let Query { notes, prompt, uuid: _ } = talk.next_message()?;
        Some(Prompt::joined(notes.into_iter().chain([prompt.unwrap()])).text.to_string())
    }

    #[test]
    fn what_is_no_query_goes_along_with_the_next_one() {
        let mut talk = talk();
        hear(&mut talk, &note("one"));
        hear(&mut talk, &note("two"));
        assert!(!talk.has_message());
        hear(&mut talk, &user("three"));
        hear(&mut talk, &user("four"));
        assert_eq!(next(&mut talk).as_deref(), Some("one\n\ntwo\n\nthree"));
        assert_eq!(next(&mut talk).as_deref(), Some("four"));
    }

    #[test]
    fn what_goes_along_with_a_message_that_is_not_asked_goes_along_with_the_next() {
        let mut talk = talk();
        hear(&mut talk, &note("one"));
        hear(&mut talk, &named("u-1"));
        hear(&mut talk, &note("two"));
        hear(&mut talk, &user("three"));
        let forget = request(&json!({"subtype": "cancel_async_message", "message_uuid": "u-1"}));
        assert_eq!(hear(&mut talk, &forget), [replied(Reply::Forgot(true))]);
        let query = talk.next_message().unwrap();
        assert_eq!(query.notes, ["one", "two"].map(Prompt::from));
        talk.put_back(query.notes);
        // One that cannot be taken takes nothing along.
        hear(&mut talk, &json!({"type": "user", "uuid": "u-2", "message": {"content": " "}}));
        hear(&mut talk, &user("four"));
        assert_eq!(talk.next_message(), Some(refusal("the message is empty", Some("u-2"))));
        assert_eq!(next(&mut talk).as_deref(), Some("one\n\ntwo\n\nfour"));
    }

    #[test]
    fn what_cannot_go_along_has_no_result_and_refuses_the_next_message() {
        let mut talk = talk();
        hear(&mut talk, &note("kept"));
        hear(&mut talk, &note(" "));
        assert!(!talk.has_message());
        hear(&mut talk, &named("u-1"));
        hear(&mut talk, &user("again"));
        let why = "what was to go along with the message is missing: the message is empty";
        assert_eq!(talk.next_message(), Some(refusal(why, Some("u-1"))));
        assert_eq!(next(&mut talk).as_deref(), Some("kept\n\nagain"));
        // Too many of them refuse one message, and not each one from then on.
        (0..=MESSAGES_CAP).for_each(|_| drop(hear(&mut talk, &note("n"))));
        assert!(!talk.has_message());
        hear(&mut talk, &user("a"));
        hear(&mut talk, &user("b"));
        let why = format!("what was to go along with the message is missing: {TOO_MANY}");
        assert_eq!(talk.next_message(), Some(refusal(&why, None)));
        assert_eq!(talk.next_message().map(|query| query.notes.len()), Some(MESSAGES_CAP));
    }

    #[test]
    fn what_waits_is_named_at_an_interrupt_and_can_be_forgotten() {
        let mut talk = talk();
        hear(&mut talk, &named("u-1"));
        hear(&mut talk, &named("u-2"));
        let forget =
            |uuid: &str| request(&json!({"subtype": "cancel_async_message", "message_uuid": uuid}));
        assert_eq!(hear(&mut talk, &forget("u-1")), [replied(Reply::Forgot(true))]);
        assert_eq!(hear(&mut talk, &forget("u-1")), [replied(Reply::Forgot(false))]);
        let interrupt = request(&json!({"subtype": "interrupt"}));
        let still_queued = vec!["u-2".to_owned()];
        let expected =
            [Step::EndTurn, replied(Reply::Interrupted { still_queued, cancelled: None })];
        assert_eq!(hear_at_work(&mut talk, &interrupt), expected);
        assert_eq!(next(&mut talk).as_deref(), Some("u-2"));
        hear(&mut talk, &named("u-3"));
        hear(&mut talk, &named("u-4"));
        let interrupt = request(&json!({"subtype": "interrupt", "cancel_queued": true}));
        let (still_queued, cancelled) =
            (Vec::new(), Some(vec!["u-3".to_owned(), "u-4".to_owned()]));
        let expected = [Step::EndTurn, replied(Reply::Interrupted { still_queued, cancelled })];
        assert_eq!(hear_at_work(&mut talk, &interrupt), expected);
        assert_eq!(next(&mut talk), None);
    }

    #[test]
    fn every_request_has_its_answer_or_its_deed_at_once() {
        let mut talk = talk();
        let interrupted =
            || replied(Reply::Interrupted { still_queued: Vec::new(), cancelled: None });
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
    fn an_unreadable_line_gets_a_result_in_order_and_the_run_continues() {
        let mut talk = talk();
        let lines = ["{", "[]", "7", "nonsense", "{\"type\":\"dance\"}", "{}"];
        let lines = lines.map(|line| Heard::Line(line.into()));
        for heard in lines.into_iter().chain([Heard::TooLong(Skimmed::default())]) {
            assert_eq!(talk.hear(&heard, false), []);
            let query = talk.next_message().expect("it waits for its turn");
            assert!(query.prompt.is_err(), "{heard:?}: {query:?}");
        }
        for line in ["  ", "\r", "\u{feff}", "\u{feff}\r"] {
            assert_eq!(talk.hear(&Heard::Line(line.into()), false), []);
            assert_eq!(talk.next_message(), None, "{line:?}");
        }
        let request = Heard::Line("{\"type\":\"control_request\"}".into());
        assert!(matches!(&talk.hear(&request, false)[..], [Step::Say(_)]));
    }
}
