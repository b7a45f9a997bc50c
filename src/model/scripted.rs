//! The scripted model: plays a JSON file, so that a whole run can be tested
//! without a provider.
//!
//! Each unit finds its list of replies by its description, its agent type or
//! its being main; turn N gets reply N. Its summaries have lists of their own,
//! under the same keys with `SUMMARY_SUFFIX`. Every request is put through
//! [`check`] first, and what is wrong with it becomes the answer.
//!
//! The file, in short (`docs/scripted.md` has the whole):
//!
//! ```json
//! {"units": {
//!   "main": [
//!     {"text": "Two looks.", "calls": [{"name": "Read", "arguments": {"file_path": "a"}}]},
//!     {"text": "Done.", "expect": {"contains": ["fn main"]}}],
//!   "agent:explore": [{"text": "Found.", "delay_ms": 20, "repeat": true}],
//!   "*": [{"fault": {"error": {"status": 500, "message": "down"}}}]},
//!  "then": {"text": "Nothing more."}}
//! ```

mod memory;
mod script;

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};

use self::memory::Memory;
use self::script::{Fault, Script, ScriptReply};
use super::api::Options;
use super::chat::Chat;
use super::{
    Answer, Asker, Chunk, Facts, Model, ModelError, ModelErrorKind, Purpose, Request, check,
};
use crate::event::UnitId;
use crate::message::{Call, CallId, Cost, Message, Piece, Prefix, Reply, StopReason, Usage};
use crate::prompt;

pub use script::ScriptError;

/// What a key ends in whose replies are the summaries of a unit.
const SUMMARY_SUFFIX: &str = ":compact";

/// A model that plays a script.
#[derive(Debug)]
pub struct Scripted {
    name: Arc<str>,
    script: Script,
    facts: Facts,
    api: Chat,
    /// Requests of many units come at once.
    memory: Mutex<Memory>,
}

impl Scripted {
    /// Reads a script from a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or something in it is not allowed.
    pub fn open(name: impl Into<Arc<str>>, path: &Path) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path).map_err(|source| ScriptError::Read {
            file: path.display().to_string(),
            reason: source.to_string(),
        })?;
        Self::parse(name, &path.display().to_string(), &text)
    }

    /// Reads a script from a text. `file` is what errors call it.
    ///
    /// # Errors
    ///
    /// Something in it is not allowed.
    pub fn parse(name: impl Into<Arc<str>>, file: &str, text: &str) -> Result<Self, ScriptError> {
        let script = Script::parse(file, text)?;
        let takes_images = script.takes_images;
        let context_window = script.context_window.map_or(u64::MAX, NonZeroU64::get);
        Ok(Self {
            name: name.into(),
            script,
            facts: Facts { context_window, takes_images, ..Facts::UNBOUNDED },
            api: Chat::new(Options { takes_images, ..Options::new("scripted") })
                .expect("nothing extra is configured"),
            memory: Mutex::default(),
        })
    }

    /// Returns what is to happen for a request, in order.
    fn steps(&self, request: &Request) -> Result<VecDeque<Step>, ModelError> {
        let (asker, prefix) = (&request.asker, &request.prefix);
        let bytes = self.api.body(prefix);
        let violation = |violation: check::Violation| refuse(asker, &violation.to_string());
        check::check(&bytes).map_err(violation)?;
        self.memory
            .lock()
            .expect("nothing panics while it holds the lock")
            .take(asker, bytes)
            .map_err(violation)?;
        let reply = self.reply(asker)?;
        // What is to fail need not be right yet.
        if fault_of(reply, asker).is_none() {
            check_expectations(reply, asker, || request_text(prefix, self.facts.takes_images))?;
        }
        Ok(steps(reply, asker))
    }

    fn reply(&self, asker: &Asker) -> Result<&ScriptReply, ModelError> {
        let suffix = match asker.purpose {
            Purpose::Turn => "",
            Purpose::Summary => SUMMARY_SUFFIX,
        };
        let agent = format!("agent:{}", asker.agent);
        let keys = [
            (!asker.description.is_empty()).then_some(&*asker.description),
            Some(&*agent),
            (asker.unit == UnitId::MAIN).then_some("main"),
            Some("*"),
        ];
        let mut keys = keys.into_iter().flatten().map(|key| format!("{key}{suffix}"));
        let Some((key, replies)) =
            keys.find_map(|key| self.script.units.get(&key).map(|replies| (key, replies)))
        else {
            return self.script.then.as_ref().ok_or_else(|| {
                let own = format!("{}{suffix}", asker.description);
                refuse(
                    asker,
                    &format!(
                        "no key for it; one of `{own}`, `{agent}{suffix}` or `*{suffix}` would be"
                    ),
                )
            });
        };
        let position = usize::try_from(asker.turn).unwrap_or(usize::MAX).saturating_sub(1);
        replies
            .get(position)
            .or_else(|| replies.last().filter(|last| last.repeat))
            .or(self.script.then.as_ref())
            .ok_or_else(|| {
                refuse(asker, &format!("`{key}` has {} replies and no `repeat`", replies.len()))
            })
    }
}

impl Model for Scripted {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn body(&self, prefix: &Prefix) -> Vec<u8> {
        self.api.body(prefix)
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn respond(&self, request: Request) -> BoxStream<'static, Result<Chunk, ModelError>> {
        let steps = self.steps(&request).unwrap_or_else(|error| [Step::Fail(error)].into());
        stream::unfold(steps, play).boxed()
    }
}

/// What happens next in an answer.
#[derive(Debug)]
enum Step {
    Wait(Duration),
    Say(Chunk),
    Fail(ModelError),
    Hang,
    Panic,
}

async fn play(mut steps: VecDeque<Step>) -> Option<(Result<Chunk, ModelError>, VecDeque<Step>)> {
    loop {
        match steps.pop_front()? {
            Step::Wait(time) => tokio::time::sleep(time).await,
            Step::Say(chunk) => return Some((Ok(chunk), steps)),
            Step::Fail(error) => return Some((Err(error), steps)),
            Step::Hang => std::future::pending().await,
            Step::Panic => panic!("scripted panic"),
        }
    }
}

fn steps(reply: &ScriptReply, asker: &Asker) -> VecDeque<Step> {
    let mut steps = VecDeque::new();
    steps.extend(reply.delay.map(Step::Wait));
    let thinking = reply.pieces(&reply.thinking).map(|piece| Chunk::Thinking(piece.into()));
    let text = reply.pieces(&reply.text).map(|piece| Chunk::Text(piece.into()));
    for (position, chunk) in thinking.chain(text).enumerate() {
        if position > 0 {
            steps.extend(reply.piece_delay.map(Step::Wait));
        }
        steps.push_back(Step::Say(chunk));
    }
    steps.push_back(match (fault_of(reply, asker), &reply.fault) {
        (None, None) => Step::Say(Chunk::Finished(Box::new(answer(reply, asker)))),
        (Some(fault), _) => failing(fault, None),
        // The script has no other answer, however often it is asked.
        (None, Some(fault)) => failing(fault, Some(false)),
    });
    steps
}

/// Returns what goes wrong with this attempt, before the reply itself.
fn fault_of<'a>(reply: &'a ScriptReply, asker: &Asker) -> Option<&'a Fault> {
    let before = usize::try_from(asker.attempt).ok()?.checked_sub(1)?;
    reply.faults.get(before)
}

fn failing(fault: &Fault, should_retry: Option<bool>) -> Step {
    let error = match fault {
        Fault::Error { status, message, retry_after } => ModelError {
            status: Some(*status),
            retry_after: *retry_after,
            ..ModelError::new(
                ModelErrorKind::of_status(*status),
                format!("HTTP {status}: {message}"),
            )
        },
        Fault::TooLong => {
            ModelError::new(ModelErrorKind::Overflow, "the request is longer than the window")
        }
        Fault::Cut => ModelError::new(ModelErrorKind::Cut, "the answer broke off before its end"),
        Fault::Hang => return Step::Hang,
        Fault::Panic => return Step::Panic,
    };
    Step::Fail(ModelError { should_retry, ..error })
}

fn answer(reply: &ScriptReply, asker: &Asker) -> Answer {
    let calls: Vec<_> = reply
        .calls
        .iter()
        .enumerate()
        .map(|(position, call)| Call {
            id: call.id.as_ref().map_or_else(
                || CallId(format!("call_{}_{}_{position}", asker.unit.0, asker.turn).into()),
                |id| CallId(id.as_str().into()),
            ),
            tool: call.name.clone(),
            arguments: call.arguments.clone(),
        })
        .collect();
    let usual = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
    let (text, thinking) = (reply.text.clone(), reply.thinking.clone());
    Answer {
        reply: Reply { text, thinking, calls, sealed: None },
        usage: Usage {
            input: reply.usage.input,
            output: reply.usage.output,
            cache_read: reply.usage.cache_read,
            cache_creation: 0,
            cost: Cost { usd: reply.usage.cost, is_partial: false },
        },
        stop: reply.stop.unwrap_or(usual),
    }
}

fn check_expectations(
    reply: &ScriptReply,
    asker: &Asker,
    text: impl FnOnce() -> String,
) -> Result<(), ModelError> {
    if reply.expect.is_empty() {
        return Ok(());
    }
    let text = text();
    for wanted in &reply.expect.contains {
        if !text.contains(wanted.as_str()) {
            return Err(refuse(asker, &format!("the request does not contain `{wanted}`")));
        }
    }
    for unwanted in &reply.expect.lacks {
        if text.contains(unwanted.as_str()) {
            return Err(refuse(asker, &format!("the request contains `{unwanted}`")));
        }
    }
    Ok(())
}

/// Returns all that is said in a request, without its JSON: the system prompt,
/// a line `tool NAME` for each tool, and the messages with calls and outputs,
/// in which an image is a line `[image/png]`.
fn request_text(prefix: &Prefix, takes_images: bool) -> String {
    let mut text = prefix.head.system.clone();
    let mut add = |parts: &[&str]| {
        for part in parts {
            text.push_str(part);
        }
    };
    for tool in &prefix.head.tools {
        add(&["\ntool ", &tool.name]);
    }
    for message in prefix.messages() {
        match message {
            Message::User(prompt) => {
                for piece in prompt.pieces() {
                    match piece {
                        Piece::Text(text) => add(&["\n", text]),
                        Piece::Image(image) if takes_images => {
                            add(&["\n[", image.kind.media_type(), "]"]);
                        }
                        Piece::Image(_) => add(&["\n", prompt::unseen_image()]),
                    }
                }
            }
            Message::Model(reply) => {
                add(&["\n", &reply.text]);
                for call in &reply.calls {
                    add(&["\n", &call.tool, " ", &call.arguments]);
                }
            }
            Message::Output { call: _, output } => {
                add(&["\n", &output.text]);
                for image in output.images.iter().filter(|_| takes_images) {
                    add(&["\n[", image.kind.media_type(), "]"]);
                }
            }
        }
    }
    text
}

fn refuse(asker: &Asker, reason: &str) -> ModelError {
    let Asker { unit, description, purpose, turn, .. } = asker;
    let of = if description.is_empty() { String::new() } else { format!(" (`{description}`)") };
    let what = match purpose {
        Purpose::Turn => "turn",
        Purpose::Summary => "summary",
    };
    let message = format!("scripted: {unit}{of}, {what} {turn}: {reason}");
    ModelError::new(ModelErrorKind::Request, message)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::message::{Head, Output};

    fn model(script: &str) -> Scripted {
        Scripted::parse("scripted", "s.json", script).unwrap()
    }

    fn asker(turn: u32) -> Asker {
        let (unit, agent, description) = (UnitId::MAIN, "main".into(), "".into());
        let (purpose, is_afresh) = (Purpose::Turn, turn == 1);
        Asker { unit, agent, description, purpose, turn, attempt: 1, is_afresh, forked_from: None }
    }

    /// Asks for the summary with this number.
    fn summary(number: u32, asker: Asker) -> Asker {
        Asker { purpose: Purpose::Summary, turn: number, is_afresh: true, ..asker }
    }

    fn child(description: &str, agent: &str) -> Asker {
        let (agent, description) = (agent.into(), description.into());
        Asker { unit: UnitId(2), agent, description, ..asker(1) }
    }

    fn prefix(prompt: &str) -> Prefix {
        let mut prefix = Prefix::new(Arc::new(Head::new("Be brief.".into(), Vec::new())));
        prefix.push(Message::User(prompt.into()));
        prefix
    }

    async fn ask(
        model: &Scripted,
        asker: Asker,
        prefix: &Prefix,
    ) -> Vec<Result<Chunk, ModelError>> {
        let request = Request { prefix: prefix.clone(), asker, text_schema: None };
        model.respond(request).collect().await
    }

    async fn last(model: &Scripted, asker: Asker, prefix: &Prefix) -> Result<Answer, ModelError> {
        match ask(model, asker, prefix).await.pop().unwrap()? {
            Chunk::Finished(answer) => Ok(*answer),
            Chunk::Text(piece) | Chunk::Thinking(piece) | Chunk::SentTwice(piece) => {
                panic!("`{piece}` is no end")
            }
        }
    }

    async fn text(model: &Scripted, asker: Asker) -> Result<String, ModelError> {
        last(model, asker, &prefix("go")).await.map(|answer| answer.reply.text)
    }

    fn refused(message: &str) -> ModelError {
        ModelError::new(ModelErrorKind::Request, message)
    }

    #[tokio::test]
    async fn a_unit_is_found_by_description_then_agent_then_main_then_star() {
        let model = model(
            r#"{"units": {"*": [{"text": "star"}], "main": [{"text": "main"}],
                "agent:explore": [{"text": "agent"}], "look": [{"text": "description"}]}}"#,
        );
        let asked = async |asker| text(&model, asker).await.unwrap();
        assert_eq!(asked(child("look", "explore")).await, "description");
        assert_eq!(asked(child("other", "explore")).await, "agent");
        assert_eq!(asked(child("other", "reviewer")).await, "star");
        assert_eq!(asked(asker(1)).await, "main");
    }

    #[tokio::test]
    async fn turn_n_gets_reply_n_and_a_missing_one_is_named() {
        let model = model(
            r#"{"units": {"main": [{"text": "1"}, {"text": "2"}],
                "look": [{"text": "1", "repeat": true}]}}"#,
        );
        assert_eq!(text(&model, asker(1)).await.unwrap(), "1");
        assert_eq!(text(&model, asker(2)).await.unwrap(), "2");
        assert_eq!(
            text(&model, asker(3)).await,
            Err(refused("scripted: main, turn 3: `main` has 2 replies and no `repeat`"))
        );
        assert_eq!(
            text(&model, Asker { turn: 9, is_afresh: false, ..child("look", "a") }).await.unwrap(),
            "1"
        );
        assert_eq!(
            text(&model, child("smell", "a")).await,
            Err(refused(
                "scripted: agent-2 (`smell`), turn 1: no key for it; one of `smell`, `agent:a` \
                 or `*` would be"
            ))
        );
    }

    #[tokio::test]
    async fn summaries_have_lists_of_their_own() {
        let model = model(
            r#"{"units": {"main": [{"text": "turn"}], "main:compact": [{"text": "1"}, {"text": "2"}],
                "look:compact": [{"text": "look"}], "agent:explore:compact": [{"text": "agent"}]}}"#,
        );
        let asked = async |asker| text(&model, asker).await.unwrap();
        assert_eq!(asked(asker(1)).await, "turn");
        assert_eq!(asked(summary(1, asker(1))).await, "1");
        assert_eq!(asked(summary(2, asker(1))).await, "2");
        assert_eq!(asked(summary(1, child("look", "explore"))).await, "look");
        assert_eq!(asked(summary(1, child("other", "explore"))).await, "agent");
        assert_eq!(
            text(&model, summary(3, asker(1))).await,
            Err(refused("scripted: main, summary 3: `main:compact` has 2 replies and no `repeat`"))
        );
        assert_eq!(
            text(&model, summary(1, child("smell", "a"))).await,
            Err(refused(
                "scripted: agent-2 (`smell`), summary 1: no key for it; one of `smell:compact`, \
                 `agent:a:compact` or `*:compact` would be"
            ))
        );
    }

    #[test]
    fn a_window_is_as_large_as_the_script_says_or_without_end() {
        let window = |script: &str| model(script).facts().context_window;
        assert_eq!(window(r#"{"units": {}, "context_window": 4000}"#), 4_000);
        assert_eq!(window(r#"{"units": {}}"#), u64::MAX);
    }

    #[tokio::test]
    async fn then_answers_what_no_list_does() {
        let model = model(r#"{"units": {"main": [{"text": "1"}]}, "then": {"text": "done"}}"#);
        assert_eq!(text(&model, asker(1)).await.unwrap(), "1");
        assert_eq!(text(&model, asker(2)).await.unwrap(), "done");
        assert_eq!(text(&model, child("look", "a")).await.unwrap(), "done");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_comes_in_its_pieces_and_at_its_pace() {
        let model = model(
            r#"{"units": {"*": [{"thinking": "Hm", "text": "Grüße", "chunk": 3, "delay_ms": 100,
                "piece_delay_ms": 10, "usage": {"input": 7, "output": 2, "cache_read": 5},
                "calls": [{"name": "Read", "arguments": {"path": "a"}},
                    {"name": "Bash", "arguments": "{oops", "id": "x"}]}]}}"#,
        );
        let start = Instant::now();
        let call = |id: &str, tool: &str, arguments: &str| Call {
            id: id.into(),
            tool: tool.into(),
            arguments: arguments.into(),
        };
        let answer = Answer {
            reply: Reply {
                text: "Grüße".into(),
                thinking: "Hm".into(),
                calls: vec![
                    call("call_0_1_0", "Read", r#"{"path":"a"}"#),
                    call("x", "Bash", "{oops"),
                ],
                sealed: None,
            },
            usage: Usage { input: 7, output: 2, cache_read: 5, ..Usage::default() },
            stop: StopReason::ToolUse,
        };
        assert_eq!(
            ask(&model, asker(1), &prefix("go")).await,
            [
                Ok(Chunk::Thinking("Hm".into())),
                Ok(Chunk::Text("Grü".into())),
                Ok(Chunk::Text("ße".into())),
                Ok(Chunk::Finished(Box::new(answer))),
            ]
        );
        assert_eq!(start.elapsed(), Duration::from_millis(120));
    }

    #[tokio::test]
    async fn a_fault_comes_after_the_text() {
        let model = model(
            r#"{"units": {
                "error": [{"text": "a", "fault": {"error": {"status": 429, "message": "slow"}}}],
                "cut": [{"text": "a", "fault": "cut"}], "stop": [{"stop": "max_tokens"}]}}"#,
        );
        let asked = async |name| ask(&model, child(name, "a"), &prefix("go")).await;
        let after_text = |kind, message: &str, status| {
            let error = ModelError::new(kind, message);
            let error = ModelError { status, should_retry: Some(false), ..error };
            [Ok(Chunk::Text("a".into())), Err(error)]
        };
        let limited = after_text(ModelErrorKind::RateLimited, "HTTP 429: slow", Some(429));
        assert_eq!(asked("error").await, limited);
        let cut = after_text(ModelErrorKind::Cut, "the answer broke off before its end", None);
        assert_eq!(asked("cut").await, cut);
        let stopped = last(&model, child("stop", "a"), &prefix("go")).await.unwrap();
        assert_eq!(stopped.stop, StopReason::MaxTokens);
    }

    #[tokio::test]
    async fn faults_come_before_the_reply_one_for_each_attempt() {
        let model = model(
            r#"{"units": {"*": [{"text": "a", "faults": [
                {"error": {"status": 503, "message": "busy", "retry_after_ms": 1500}},
                "too_long"]}]}}"#,
        );
        let asked =
            async |attempt| last(&model, Asker { attempt, ..asker(1) }, &prefix("go")).await;
        let busy = ModelError::new(ModelErrorKind::Overloaded, "HTTP 503: busy");
        let retry_after = Some(Duration::from_millis(1_500));
        assert_eq!(asked(1).await, Err(ModelError { status: Some(503), retry_after, ..busy }));
        assert_eq!(asked(2).await.unwrap_err().kind, ModelErrorKind::Overflow);
        assert_eq!(asked(3).await.unwrap().reply.text, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_reply_never_ends() {
        let model = model(r#"{"units": {"*": [{"fault": "hang"}]}}"#);
        let day = Duration::from_secs(86_400);
        assert!(tokio::time::timeout(day, text(&model, asker(1))).await.is_err());
    }

    #[tokio::test]
    #[should_panic(expected = "scripted panic")]
    async fn a_panic_is_a_panic() {
        let model = model(r#"{"units": {"*": [{"fault": "panic"}]}}"#);
        // The panic comes first.
        let _ = text(&model, asker(1)).await;
    }

    #[tokio::test]
    async fn expectations_are_held_against_what_is_said_and_not_against_its_json() {
        let model = model(
            r#"{"units": {
                "main": [{"text": "ok", "expect": {"contains": ["a \"b\"\nc", "Be brief."]}}],
                "wants": [{"expect": {"contains": ["d"]}}],
                "lacks": [{"expect": {"lacks": ["Be brief"]}}]}}"#,
        );
        let said = prefix("a \"b\"\nc");
        assert_eq!(last(&model, asker(1), &said).await.unwrap().reply.text, "ok");
        assert_eq!(
            last(&model, child("wants", "a"), &said).await,
            Err(refused("scripted: agent-2 (`wants`), turn 1: the request does not contain `d`"))
        );
        assert_eq!(
            last(&model, child("lacks", "a"), &said).await,
            Err(refused("scripted: agent-2 (`lacks`), turn 1: the request contains `Be brief`"))
        );
    }

    #[tokio::test]
    async fn a_request_that_a_provider_would_refuse_is_refused() {
        let model = model(r#"{"units": {"*": [{"repeat": true}]}}"#);
        let mut prefix = prefix("go");
        prefix.push(Message::Output { call: "x".into(), output: Arc::new(Output::ok("y")) });
        assert_eq!(
            last(&model, asker(1), &prefix).await,
            Err(refused(
                "scripted: main, turn 1: message 2: the output for `x` answers no open call"
            ))
        );
    }

    #[tokio::test]
    async fn a_request_that_does_not_go_on_from_the_last_is_refused() {
        let model = model(r#"{"units": {"*": [{"repeat": true}]}}"#);
        last(&model, asker(1), &prefix("one")).await.unwrap();
        let error = last(&model, asker(2), &prefix("two")).await.unwrap_err();
        let start = "scripted: main, turn 2: byte 152 differs from the request before: ";
        assert!(error.message.starts_with(start), "{error}");
        assert!(error.message.contains(r#""content":"two"}]}"#), "{error}");
    }

    #[test]
    fn the_script_in_the_manual_can_be_played() {
        let page = include_str!("../../docs/scripted.md");
        let (_, rest) = page.split_once("```json\n").unwrap();
        let (script, _) = rest.split_once("```").unwrap();
        assert_eq!(Scripted::parse("scripted", "docs", script).map(|_| ()), Ok(()));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Scripted::open("scripted", Path::new("/nowhere/s.json")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot read script `/nowhere/s.json`: No such file or directory (os error 2)"
        );
    }
}
