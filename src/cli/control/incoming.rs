//! What a client's lines say.
//!
//! A line is read into a value that can be acted on, or into what is wrong with
//! it.

mod answer;
mod content;

use serde_json::{Map, Value};

use super::files::FileWanted;
use super::rewinding::RewindWanted;
use super::settings::Settings;
use super::skim::{Skim, Skimmed};
use super::wire::LINE_CAP;
use super::wishes::Wishes;
use crate::config::Effort;
use crate::event::UnitId;
use crate::guard::Mode;
use crate::json_text;
use crate::mcp::file::SERVERS_CAP;
use crate::message::{CallId, Prompt, byte_size};

pub(super) use answer::Answer;

/// A line of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Incoming {
    /// A message for the model.
    User(Message),
    /// The client asks for something.
    Request { id: String, wanted: Wanted },
    /// The client answers a question.
    Answer(Answer),
    /// The client answers another request of ours, by its number.
    Called { id: u64, answer: Result<Value, String> },
    /// Nothing that asks for anything.
    Nothing,
}

/// A message for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// What it says; the error is why it cannot be taken.
    pub(super) prompt: Result<Prompt, String>,
    /// What the client calls it.
    pub(super) uuid: Option<String>,
    /// Whether it is to be answered; else it goes along with the next one.
    pub(super) is_query: bool,
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    Initialize(Box<Wishes>),
    /// With what waits, or without.
    Interrupt {
        cancel_queued: bool,
    },
    SetMode(Result<Mode, String>),
    /// Another model is to answer; `None` means the one of the start.
    SetModel(Result<Option<String>, String>),
    /// Models are to think as hard as this.
    SetEffort(Result<Effort, String>),
    /// These settings hold from now on.
    Settings(Result<Settings, String>),
    /// A unit is to stop.
    Stop(Result<UnitId, String>),
    /// The last turn is to go on, if it was cut off.
    Continue,
    /// What main waits for is to go on in the background, or what one call of
    /// it does.
    SetAside(Option<CallId>),
    /// A message that waits is not meant any more, by what the client calls it.
    Forget(String),
    /// The session is to have this name.
    Rename(String),
    /// To be told something.
    Look(Look),
    /// To be shown what a file holds.
    ReadFile(Result<FileWanted, String>),
    /// Files are to be as they were before a message.
    Rewind(Result<RewindWanted, String>),
    /// A server that the client carries says something by itself.
    ServerSays {
        server: String,
        message: Value,
    },
    /// These servers of tools are to be there, besides those of the start.
    SetServers(Result<Vec<String>, String>),
    /// Something that changes nothing here.
    Inert(String),
    /// Something that there is not, by its name.
    Other(String),
}

/// What a client may be told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Look {
    /// What fills main's context window, with what makes up its parts or
    /// without.
    Context { in_detail: bool },
    /// What can be typed as `/name`.
    Commands,
    /// The models that can be chosen.
    Models,
    /// The servers of tools.
    Servers,
    /// What the session has used.
    Cost,
    /// What is in force.
    Settings,
    /// What there would be of plugins, which there are none of.
    Plugins,
}

/// Requests that set what there is not, and so change nothing.
const INERT: [&str; 6] = [
    "set_max_thinking_tokens",
    "seed_read_state",
    "update_settings",
    "set_color",
    "set_has_subscribers",
    "reload_output_styles",
];

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
        let fields: Map<String, Value> = match json_text::parse_leniently(line) {
            Ok(fields) => fields,
            Err(error) => {
                let mut skim = Skim::default();
                skim.take(line);
                return Self::unreadable(&skim.end(), &format!("it is not a JSON object: {error}"));
            }
        };
        match fields.get("type").and_then(Value::as_str) {
            Some("user") => Ok(Self::User(message(&fields))),
            Some("control_request") => request(&fields),
            Some("control_response") => answer::read(&fields).map_err(bad),
            Some("control_cancel_request" | "keep_alive") => Ok(Self::Nothing),
            other => {
                let why = match other {
                    Some(other) => format!("its `type` `{}` is not known", short(other)),
                    None => "it has no `type`".to_owned(),
                };
                let uuid = fields.get("uuid").and_then(Value::as_str).map(short);
                Ok(Self::refused_message(&why, uuid))
            }
        }
    }

    /// Returns a message that is refused with a result: the client may wait for one.
    fn refused_message(why: &str, uuid: Option<String>) -> Self {
        let prompt = Err(format!(
            "a line of standard input cannot be read: {why}; a message is \
             {{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"…\"}}}} on one line"
        ));
        Self::User(Message { prompt, uuid, is_query: true })
    }

    /// Refuses a line that is too long.
    pub(super) fn of_long(line: &Skimmed) -> Result<Self, BadLine> {
        Self::unreadable(line, &format!("it is longer than {}", byte_size(LINE_CAP as u64)))
    }

    /// Refuses a line that could not be parsed further, so that the client does not wait for
    /// an answer.
    fn unreadable(line: &Skimmed, why: &str) -> Result<Self, BadLine> {
        let Skimmed { kind, uuid, request, answered, is_note } = line;
        match (kind.as_deref(), request, answered) {
            (Some("user"), _, _) => Ok(Self::User(Message {
                prompt: Err(format!("the message cannot be read: {why}")),
                uuid: uuid.as_deref().map(short),
                is_query: !is_note,
            })),
            (Some("control_request"), Some(id), _) => Err(BadLine {
                why: format!("the request cannot be read: {why}"),
                request: Some(id.clone()),
            }),
            (Some("control_response"), _, Some(id)) => {
                Ok(answer::unreadable(id, &format!("the client's answer cannot be read: {why}")))
            }
            (Some("control_request" | "control_response"), _, _) => {
                Err(BadLine { why: why.to_owned(), request: None })
            }
            _ => Ok(Self::refused_message(why, uuid.as_deref().map(short))),
        }
    }
}

/// Most characters that are quoted of what a client sent.
const QUOTE_CAP: usize = 60;

pub(super) fn short(text: &str) -> String {
    text.chars().take(QUOTE_CAP).collect()
}

fn message(fields: &Map<String, Value>) -> Message {
    Message {
        prompt: content::prompt(fields),
        uuid: fields.get("uuid").and_then(Value::as_str).map(short),
        is_query: fields.get("shouldQuery").and_then(Value::as_bool).unwrap_or(true),
    }
}

/// Longest name of a request, in bytes. Each reply that waits to be read holds
/// one; clients number theirs.
pub(super) const ID_CAP: usize = 1_000;

fn request(fields: &Map<String, Value>) -> Result<Incoming, BadLine> {
    let id = fields.get("request_id").and_then(Value::as_str).map(str::to_owned);
    let Some(id) = id else {
        return Err(BadLine { why: "a request has no `request_id`".to_owned(), request: None });
    };
    if id.len() > ID_CAP {
        let why = format!("a `request_id` is longer than {ID_CAP} bytes");
        return Err(BadLine { why, request: None });
    }
    let empty = Map::new();
    let request = fields.get("request").and_then(Value::as_object).unwrap_or(&empty);
    if !request.get("subtype").is_some_and(Value::is_string) {
        return Err(BadLine { why: "the request has no `subtype`".to_owned(), request: Some(id) });
    }
    Ok(Incoming::Request { id, wanted: wanted(request) })
}

fn wanted(request: &Map<String, Value>) -> Wanted {
    let text = |name: &str| request.get(name).and_then(Value::as_str).unwrap_or_default();
    match text("subtype") {
        "initialize" => Wanted::Initialize(Box::new(Wishes::read(request))),
        "interrupt" => {
            let cancel_queued = request.get("cancel_queued").and_then(Value::as_bool);
            Wanted::Interrupt { cancel_queued: cancel_queued.unwrap_or(false) }
        }
        "set_permission_mode" => Wanted::SetMode(mode(text("mode"))),
        "set_model" => Wanted::SetModel(model(request.get("model"))),
        "set_effort" => Wanted::SetEffort(effort(text("effort"))),
        "apply_flag_settings" => Wanted::Settings(Settings::read(request.get("settings"))),
        "stop_task" => Wanted::Stop(task(text("task_id"))),
        "continue_last_turn" => Wanted::Continue,
        "background_tasks" => {
            Wanted::SetAside(request.get("tool_use_id").and_then(Value::as_str).map(CallId::from))
        }
        "cancel_async_message" => Wanted::Forget(short(text("message_uuid"))),
        "rename_session" => Wanted::Rename(text("title").to_owned()),
        "get_context_usage" => {
            // Only one sort of clients can leave the details out.
            let in_detail = request.get("show_details").and_then(Value::as_bool).unwrap_or(true);
            Wanted::Look(Look::Context { in_detail })
        }
        "supported_commands" | "reload_skills" => Wanted::Look(Look::Commands),
        "get_available_models" | "list_models" => Wanted::Look(Look::Models),
        "mcp_status" | "mcp_server_status" => Wanted::Look(Look::Servers),
        "get_session_cost" | "get_usage" | "get_usage_info" => Wanted::Look(Look::Cost),
        "get_settings" => Wanted::Look(Look::Settings),
        "reload_plugins" => Wanted::Look(Look::Plugins),
        "read_file" => Wanted::ReadFile(FileWanted::read(request)),
        "rewind_files" => Wanted::Rewind(RewindWanted::read(request)),
        "mcp_set_servers" => Wanted::SetServers(names_in(request.get("servers"))),
        "mcp_message" => Wanted::ServerSays {
            server: text("server_name").to_owned(),
            message: request.get("message").cloned().unwrap_or_default(),
        },
        inert if INERT.contains(&inert) => Wanted::Inert(inert.to_owned()),
        other => Wanted::Other(short(other)),
    }
}

/// Returns the names in a map, if there are not more than an answer names.
fn names_in(servers: Option<&Value>) -> Result<Vec<String>, String> {
    let named = servers.and_then(Value::as_object).into_iter().flatten();
    let names: Vec<String> = named.map(|(name, _)| name.clone()).take(SERVERS_CAP + 1).collect();
    match names.len() > SERVERS_CAP || names.iter().any(|name| name.len() > ID_CAP) {
        true => Err(format!("at most {SERVERS_CAP} servers are named, of {ID_CAP} bytes each")),
        false => Ok(names),
    }
}

fn effort(level: &str) -> Result<Effort, String> {
    Effort::new(level).ok_or_else(|| format!("`{}`: {}", short(level), Effort::RULE))
}

/// Returns the name of a model; `None` if it means the one of the start.
fn model(name: Option<&Value>) -> Result<Option<String>, String> {
    match name {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) if name == "default" => Ok(None),
        Some(Value::String(name)) if !name.trim().is_empty() => Ok(Some(name.clone())),
        Some(_) => Err("a `model` has a name".to_owned()),
    }
}

fn task(name: &str) -> Result<UnitId, String> {
    let unit = UnitId::from_name(name).filter(|unit| *unit != UnitId::MAIN);
    unit.ok_or_else(|| format!("there is no task `{}`", short(name)))
}

fn mode(name: &str) -> Result<Mode, String> {
    Mode::from_name(name).ok_or_else(|| format!("there is no permission mode `{}`", short(name)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        let message = |text: &str| Message { prompt: Ok(text.into()), uuid: None, is_query: true };
        check(&user(&json!("hi")), Ok(Incoming::User(message("hi"))));
        let blocks = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        check(&user(&blocks), Ok(Incoming::User(message("a\n\nb"))));
        let mut note = user(&json!("note"));
        (note["uuid"], note["shouldQuery"]) = (json!("u-1"), json!(false));
        let expected = Message { uuid: Some("u-1".to_owned()), is_query: false, ..message("note") };
        check(&note, Ok(Incoming::User(expected)));
        for (content, why) in [
            (json!(" "), "the message is empty"),
            (json!([]), "the message is empty"),
            (json!(7), "the message has no `content`"),
            (
                json!([{"type": "document"}]),
                "a message may hold text and images, and this one holds a block `document`",
            ),
        ] {
            let mut bad = user(&content);
            bad["uuid"] = json!("u-1");
            let (prompt, uuid) = (Err(why.to_owned()), Some("u-1".to_owned()));
            check(&bad, Ok(Incoming::User(Message { prompt, uuid, is_query: true })));
        }
    }

    #[test]
    fn requests_are_known_by_their_subtype() {
        let request = |request: Value| json!({"type": "control_request", "request_id": "r", "request": request});
        for (asked, wanted) in [
            (json!({"subtype": "initialize", "hooks": null}), Wanted::Initialize(Box::default())),
            (json!({"subtype": "interrupt"}), Wanted::Interrupt { cancel_queued: false }),
            (
                json!({"subtype": "interrupt", "cancel_queued": true}),
                Wanted::Interrupt { cancel_queued: true },
            ),
            (
                json!({"subtype": "set_permission_mode", "mode": "plan"}),
                Wanted::SetMode(Ok(Mode::Plan)),
            ),
            (
                json!({"subtype": "set_permission_mode", "mode": "x"}),
                Wanted::SetMode(Err("there is no permission mode `x`".to_owned())),
            ),
            (
                json!({"subtype": "set_model", "model": "m"}),
                Wanted::SetModel(Ok(Some("m".to_owned()))),
            ),
            (json!({"subtype": "set_model", "model": "default"}), Wanted::SetModel(Ok(None))),
            (json!({"subtype": "set_model", "model": null}), Wanted::SetModel(Ok(None))),
            (
                json!({"subtype": "set_model", "model": " "}),
                Wanted::SetModel(Err("a `model` has a name".to_owned())),
            ),
            (json!({"subtype": "stop_task", "task_id": "agent-3"}), Wanted::Stop(Ok(UnitId(3)))),
            (
                json!({"subtype": "stop_task", "task_id": "main"}),
                Wanted::Stop(Err("there is no task `main`".to_owned())),
            ),
            (
                json!({"subtype": "apply_flag_settings", "settings": {"model": "m",
                    "permissions": {"defaultMode": "plan"}}}),
                Wanted::Settings(Settings::read(Some(
                    &json!({"model": "m", "permissions": {"defaultMode": "plan"}}),
                ))),
            ),
            (
                json!({"subtype": "get_context_usage"}),
                Wanted::Look(Look::Context { in_detail: true }),
            ),
            (
                json!({"subtype": "get_context_usage", "show_details": false}),
                Wanted::Look(Look::Context { in_detail: false }),
            ),
            (json!({"subtype": "set_color"}), Wanted::Inert("set_color".to_owned())),
            (
                json!({"subtype": "mcp_set_servers", "servers": {"a": {}}}),
                Wanted::SetServers(Ok(vec!["a".to_owned()])),
            ),
            (json!({"subtype": "dance"}), Wanted::Other("dance".to_owned())),
        ] {
            check(&request(asked), Ok(Incoming::Request { id: "r".to_owned(), wanted }));
        }
        let bad = Incoming::read(request(json!({})).to_string().as_bytes()).unwrap_err();
        assert_eq!(bad.request.as_deref(), Some("r"));
    }

    #[test]
    fn more_servers_than_an_answer_names_are_none() {
        let many: Map<String, Value> =
            (0..=SERVERS_CAP).map(|number| (number.to_string(), json!({}))).collect();
        let long = json!({"n".repeat(ID_CAP + 1): {}});
        for servers in [Value::Object(many), long] {
            let refused = names_in(Some(&servers)).unwrap_err();
            assert!(refused.starts_with("at most "), "{refused}");
        }
        assert_eq!(names_in(None), Ok(Vec::new()));
    }

    #[test]
    fn whoever_waits_for_an_answer_to_an_endless_line_learns_of_it() {
        let text = |text: &str| Some(text.to_owned());
        let line = |kind: &str| Skimmed { kind: text(kind), ..Skimmed::default() };
        let why = "it is longer than 25.1 MB";
        let message = Skimmed { uuid: text("u-1"), is_note: true, ..line("user") };
        let prompt = Err(format!("the message cannot be read: {why}"));
        let expected = Message { prompt, uuid: text("u-1"), is_query: false };
        assert_eq!(Incoming::of_long(&message), Ok(Incoming::User(expected)));
        let request = Skimmed { request: text("r-1"), ..line("control_request") };
        let bad = Incoming::of_long(&request).unwrap_err();
        let expected = format!("the request cannot be read: {why}");
        assert_eq!((bad.why, bad.request), (expected, text("r-1")));
        let response = Skimmed { answered: text("call-7"), ..line("control_response") };
        let answer = Err(format!("the client's answer cannot be read: {why}"));
        assert_eq!(Incoming::of_long(&response), Ok(Incoming::Called { id: 7, answer }));
        for nothing in [line("control_request"), line("control_response")] {
            let bad = Incoming::of_long(&nothing).unwrap_err();
            assert_eq!((&*bad.why, bad.request), (why, None));
        }
        for nothing in [line("dance"), Skimmed::default()] {
            assert_eq!(Incoming::of_long(&nothing), Ok(Incoming::refused_message(why, None)));
        }
    }

    #[test]
    fn what_is_no_line_of_the_protocol_says_why() {
        let refused_message = |why: &str, uuid: Option<&str>| {
            Ok(Incoming::refused_message(why, uuid.map(str::to_owned)))
        };
        let why =
            "it is not a JSON object: invalid type: sequence, expected a map at line 1 column 0";
        check(&json!([1]), refused_message(why, None));
        check(&json!({}), refused_message("it has no `type`", None));
        let dance = json!({"type": "dance", "uuid": "u-1"});
        check(&dance, refused_message("its `type` `dance` is not known", Some("u-1")));
        check(&json!({"type": "control_request"}), Err("a request has no `request_id`"));
        let endless = json!({"type": "control_request", "request_id": "r".repeat(ID_CAP + 1)});
        check(&endless, Err("a `request_id` is longer than 1000 bytes"));
        check(&json!({"type": "control_response"}), Err("a response has no `response`"));
        check(&json!({"type": "keep_alive"}), Ok(Incoming::Nothing));
    }

    #[test]
    fn what_can_be_understood_of_a_line_counts() {
        let heard = |line: &[u8]| match Incoming::read(line) {
            Ok(Incoming::User(Message { prompt: Ok(prompt), .. })) => prompt.text.to_string(),
            other => panic!("{other:?}"),
        };
        let line = |text: &str| user(&json!(text)).to_string();
        assert_eq!(heard(format!("\u{feff}{}\r", line("hi")).as_bytes()), "hi");
        assert_eq!(heard(line("X").replace('X', "a\\ud83db").as_bytes()), "a\u{fffd}b");
        let latin: Vec<u8> =
            line("cafX").bytes().map(|byte| if byte == b'X' { 0xe9 } else { byte }).collect();
        assert_eq!(heard(&latin), "caf\u{fffd}");
        // Even a truncated line may contain the id of its request.
        let broken = br#"{"type":"user","uuid":"u-1","message":{"role""#;
        match Incoming::read(broken) {
            Ok(Incoming::User(Message { prompt: Err(why), uuid, is_query: true })) => {
                assert_eq!(uuid.as_deref(), Some("u-1"));
                assert!(why.contains("it is not a JSON object: EOF"), "{why}");
            }
            other => panic!("{other:?}"),
        }
        let broken = br#"{"type":"control_request","request_id":"r-1","request":{"#;
        assert_eq!(Incoming::read(broken).unwrap_err().request.as_deref(), Some("r-1"));
    }
}
