//! What is learned from which words, and what a conversation becomes.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;
use crate::event::UnitId;
use crate::message::{
    Call, Head, Image, ImageKind, Message, Output, Prompt, Reply, Sealed, ToolSchema,
};
use crate::model::api::Kind;
use crate::model::served::{Served, ServedSettings};
use crate::model::{AdaptationOutcome, Asker, Model as _, Purpose, Request};

fn user(text: &str) -> Message {
    Message::User(text.into())
}

fn said(text: &str) -> Message {
    Message::Model(Arc::new(Reply { text: text.into(), ..Reply::default() }))
}

fn calls(ids: &[&str]) -> Message {
    let call =
        |id: &&str| Call { id: (*id).into(), tool: "Read".into(), arguments: "{}".to_owned() };
    let calls = ids.iter().map(call).collect();
    Message::Model(Arc::new(Reply { calls, ..Reply::default() }))
}

fn output(call: &str, text: &str) -> Message {
    Message::Output { call: call.into(), output: Arc::new(Output::ok(text)) }
}

fn image(bytes: &[u8]) -> Image {
    Image::new(ImageKind::Png, bytes)
}

fn prefix(messages: &[Message]) -> Prefix {
    let schema = |name: &str| ToolSchema {
        name: name.into(),
        description: "Does.".into(),
        parameters: RawValue::from_string(r#"{"type":"object"}"#.into()).unwrap(),
    };
    let tools = ["Read", "mcp__a__find", "mcp__a__put"].map(schema).to_vec();
    let mut prefix = Prefix::new(Arc::new(Head::new("Be brief.".into(), tools)));
    messages.iter().for_each(|message| prefix.push(message.clone()));
    prefix
}

/// A conversation with something of everything that servers refuse.
fn long_talk() -> Prefix {
    let sealed = Some(Sealed { by: "chat".into(), json: "{}".into() });
    let thought = Reply { text: "Hm.".into(), sealed, ..Reply::default() };
    let shown = Output { images: vec![image(b"old")], ..Output::ok("a.png") };
    prefix(&[
        user("go"),
        calls(&["functions.Read:0", "b"]),
        output("functions.Read:0", "one"),
        Message::Output { call: "b".into(), output: Arc::new(shown) },
        user("and?"),
        Message::Model(Arc::new(thought)),
        user(""),
        Message::User(Prompt::joined(["see".into(), image(b"new").into()])),
    ])
}

fn request(prefix: &Prefix) -> Request {
    let asker = Asker {
        unit: UnitId(0),
        agent: "main".into(),
        description: "".into(),
        purpose: Purpose::Turn,
        turn: 1,
        attempt: 1,
        is_afresh: true,
        forked_from: None,
    };
    Request { prefix: prefix.clone(), asker, text_schema: None }
}

fn model(api: Kind) -> (Served, Arc<LearnedAdaptations>) {
    let extra = json!({ "temperature": 0 }).as_object().cloned().unwrap();
    let learned = Arc::new(LearnedAdaptations::new(Adaptations::default(), None));
    let settings = ServedSettings {
        api,
        max_output_tokens: Some(9),
        effort: Some("low".into()),
        takes_images: true,
        extra_body: extra,
        learned: Arc::clone(&learned),
        ..ServedSettings::new("m", "m", "http://127.0.0.1:1")
    };
    (Served::new(settings).unwrap(), learned)
}

/// Refuses the long talk with these words and returns what is learned from it, by
/// name; contents without their hashes.
fn learned(api: Kind, answer: &Value) -> Vec<String> {
    let (model, learned) = model(api);
    let talk = request(&long_talk());
    let adapted = model.adapt(&talk, &RefusedRequest::new(answer));
    let known = learned.known();
    assert_eq!(
        matches!(adapted, Some(AdaptationOutcome::Now { .. })),
        !known.is_empty(),
        "{answer}"
    );
    let name = |adaptation: &Adaptation| match adaptation.is_a_setting() {
        true => adaptation.to_string(),
        false => "content".to_owned(),
    };
    known.iter().map(name).collect()
}

#[track_caller]
fn check(api: Kind, answer: &Value, expected: &str) {
    let learned = learned(api, answer);
    assert_eq!(learned.first().map_or("", String::as_str), expected, "{answer}: {learned:?}");
}

#[track_caller]
fn check_words(api: Kind, table: &[(&str, &str)]) {
    for (words, expected) in table {
        check(api, &json!({ "error": { "message": words } }), expected);
    }
}

#[test]
fn a_key_that_a_server_names_is_left_out() {
    check_words(
        Kind::Chat,
        &[
            ("Unrecognized request argument supplied: stream_options", "without:stream_options"),
            ("Unknown parameter: 'stream_options.include_usage'.", "without:stream_options"),
            ("body.stream_options: Extra inputs are not permitted", "without:stream_options"),
            ("unknown field \"stream_options\"", "without:stream_options"),
            ("json: unknown field `reasoning_effort`", "without:reasoning_effort"),
            ("Argument not supported on this model: reasoning_effort", "without:reasoning_effort"),
            ("property 'stream_options' is unsupported", "without:stream_options"),
            (
                "Invalid JSON payload received. Unknown name \"stream_options\": Cannot find field.",
                "without:stream_options",
            ),
            (
                "Unsupported parameter: 'max_tokens' is not supported with this model. \
                 Use 'max_completion_tokens' instead.",
                "other_limit_key",
            ),
            (
                "Additional properties are not allowed ('stream_options' was unexpected)",
                "without:stream_options",
            ),
            // Nothing that was sent is named.
            ("Unrecognized request argument supplied: logprobs", ""),
            ("max_tokens is too large: 9. This model supports at most 8", ""),
            // The user has asked for it.
            ("temperature is not supported with this model", ""),
            ("Unknown field: model", ""),
            ("messages: Extra inputs are not permitted", ""),
        ],
    );
    check_words(
        Kind::Responses,
        &[
            ("Unknown parameter: 'store'.", "without:store"),
            ("Unrecognized key: include", "without:include"),
            ("Unknown parameter: 'tools[0].strict'.", "without:strict"),
            ("unknown field \"prompt_cache_key\"", "without:prompt_cache_key"),
            (
                "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
                "without:reasoning",
            ),
            ("Unsupported parameter: 'max_output_tokens'", "without:max_output_tokens"),
            ("the store has no such item", ""),
        ],
    );
    check_words(
        Kind::Anthropic,
        &[
            ("thinking: Extra inputs are not permitted", "without:thinking"),
            ("output_config: Extra inputs are not permitted", "without:output_config"),
            (
                "messages.0.content.0.text.cache_control: Extra inputs are not permitted",
                "without:cache_control",
            ),
        ],
    );
}

#[test]
fn the_list_of_a_validator_is_read_whatever_holds_it() {
    let detail = json!([{
        "type": "extra_forbidden",
        "loc": ["body", "stream_options", "include_usage"],
        "msg": "Extra inputs are not permitted",
        "input": { "max_tokens": "'max_tokens' is unsupported" },
    }]);
    for answer in [
        json!({ "detail": detail }),
        json!({ "object": "error", "message": { "detail": detail }, "type": "invalid_request_error" }),
        json!({ "error": { "message": detail.to_string(), "code": 400 } }),
        json!({ "error": { "message": "Provider returned error", "code": 400, "metadata": {
            "raw": json!({ "detail": detail }).to_string() } } }),
    ] {
        check(Kind::Chat, &answer, "without:stream_options");
    }
    let text = json!("Error: unexpected keyword argument 'stream_options'");
    check(Kind::Chat, &text, "without:stream_options");
}

#[test]
fn words_about_messages_change_the_messages() {
    check_words(
        Kind::Chat,
        &[
            (
                "Jinja Exception: Tool call IDs should be alphanumeric strings with length 9!",
                "nine_character_call_ids",
            ),
            (
                "Tool call id was b but must be a-z, A-Z, 0-9, with a length of 9.",
                "nine_character_call_ids",
            ),
            ("messages[1].tool_calls[0].id: string does not match pattern", "short_call_ids"),
            (
                "After the optional system message, conversation roles must alternate \
                 user/assistant/user/assistant/...",
                "alternating_roles",
            ),
            ("Unexpected role 'user' after role 'tool'", "alternating_roles"),
            (
                "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
                "alternating_roles",
            ),
            (
                "messages: roles must alternate between \"user\" and \"assistant\", but found multiple \"user\" roles in a row",
                "alternating_roles",
            ),
            ("This model only supports single tool-calls at once!", "single_calls"),
            ("parallel tool calls are not supported by this model", "single_calls"),
            ("System role not supported", "no_system_role"),
            ("Developer instruction is not enabled for models/gemma-3-27b-it", "no_system_role"),
            (
                "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
                "no_system_role",
            ),
        ],
    );
}

#[test]
fn words_about_empty_messages_and_reasoning_change_the_messages() {
    check_words(
        Kind::Chat,
        &[
            ("text content blocks must be non-empty", "no_empty_messages"),
            ("messages.6: user messages must have non-empty content", "no_empty_messages"),
            (
                "Invalid request: the message at position 6 with role 'user' must not be empty",
                "no_empty_messages",
            ),
            (
                "Unable to submit request because it must include at least one parts field",
                "no_empty_messages",
            ),
            ("messages[1].content: invalid type: null, expected a string", "empty_content"),
            (
                "[{'loc': ('body', 'messages', 1, 'content'), 'msg': 'Input should be a valid string'}]",
                "empty_content",
            ),
            (
                "The `reasoning_content` in the thinking mode must be passed back to the API.",
                "reasoning_content",
            ),
            (
                "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
                "reasoning_content",
            ),
            ("Unknown role: role 'tool' is not one of user, assistant", "calls_as_text"),
            ("Your balance is empty", ""),
            ("The model does not exist", ""),
        ],
    );
}

#[test]
fn an_image_that_is_refused_is_left_out_alone_and_all_are_where_none_is_taken() {
    check_words(
        Kind::Chat,
        &[
            ("Could not process image", "content"),
            ("messages.3.content.1.image.source.base64: image exceeds 5 MB maximum", "content"),
            ("You uploaded an unsupported image. Please make sure your image is valid.", "content"),
            ("unsupported media type image/png", "content"),
            (
                "image input is not supported - hint: you may need to provide the mmproj",
                "no_images",
            ),
            ("This model does not support image input", "no_images"),
            ("No endpoints found that support image input", "no_images"),
            (
                "Failed to deserialize the JSON body: messages[1]: unknown variant `image_url`, expected `text`",
                "no_images",
            ),
            ("m is not a multimodal model", "no_images"),
        ],
    );
    let answer = json!({ "error": { "message": "Could not process image" } });
    assert_eq!(learned(Kind::Chat, &answer), ["content"], "only the new one");
}

#[test]
fn reasoning_that_is_refused_is_left_out_before_anything_else() {
    let talk = long_talk();
    for words in [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.5: `thinking` or `redacted_thinking` blocks in the latest assistant message \
         cannot be modified",
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "The encrypted content gAAA could not be verified.",
    ] {
        let (keys, extra) = (["thinking".to_owned()], serde_json::Map::new());
        let sent = SentRequest { keys: &keys, extra: &extra, prefix: &talk };
        let found = candidates(&RefusedRequest::new(&json!({ "error": words })), &sent);
        let sealed = Adaptation::WithoutContent(ContentId::new("{}"));
        assert_eq!(found, [vec![sealed], vec![Adaptation::Without("thinking".into())]], "{words}");
    }
}

#[test]
fn a_tool_whose_schema_is_refused_is_left_out() {
    check_words(
        Kind::Chat,
        &[
            (
                "Invalid schema for function 'mcp__a__find': array schema missing items",
                "without_tool:mcp__a__find",
            ),
            ("tools.2.custom.input_schema: JSON schema is invalid", "without_tool:mcp__a__put"),
            ("Invalid 'tools[1].function.parameters'", "without_tool:mcp__a__find"),
            ("Invalid 'tools[7].function.parameters'", ""),
        ],
    );
}

#[test]
fn refusals_that_no_adaptation_fixes_change_nothing() {
    let (model, learned) = model(Kind::Chat);
    let talk = request(&prefix(&[user("go")]));
    for words in ["bad request", "Conversation roles must alternate", "Could not process image"] {
        let refused = RefusedRequest::new(&json!({ "error": words }));
        assert_eq!(model.adapt(&talk, &refused), None, "{words}");
    }
    assert!(learned.known().is_empty());
    let refused = RefusedRequest::new(&json!({ "error": "m does not support tools" }));
    assert_eq!(model.adapt(&talk, &refused), None);
    assert!(model.advise(&talk, &refused).unwrap().contains("no_tools"));
    let refused = RefusedRequest::new(&json!({ "error": "Unsupported parameter: 'temperature'" }));
    assert!(model.advise(&talk, &refused).unwrap().contains("extra_body"));
}

#[test]
fn one_unit_learns_for_all_and_what_does_not_help_is_forgotten() {
    let (model, learned) = model(Kind::Chat);
    let talk = request(&long_talk());
    let refused = RefusedRequest::new(&json!({ "error": "unknown field \"stream_options\"" }));
    assert!(matches!(model.adapt(&talk, &refused), Some(AdaptationOutcome::Now { .. })));
    assert!(matches!(model.adapt(&talk, &refused), Some(AdaptationOutcome::Before { .. })));
    let without = Adaptations::from_iter([Adaptation::Without("stream_options".into())]);
    let again = RefusedRequest { said: "no".into(), adaptations: without.clone() };
    assert_eq!(model.adapt(&talk, &again), None);
    assert!(learned.known().is_empty());
    assert!(!learned.answered(&without), "there is no file");
    assert_eq!(*learned.known(), without);
    assert_eq!(model.adapt(&talk, &again), None);
    assert_eq!(*learned.known(), without);
}

/// A server of texts alone that names the type of a content and nothing else.
#[test]
fn a_guess_that_is_refused_with_the_same_words_gives_way_to_the_next() {
    let (model, learned) = model(Kind::Chat);
    let talk = request(&long_talk());
    let words = json!({ "error": "messages.1.content must be a string" });
    let mut seen = Vec::new();
    let refuse = || {
        let adaptations = (*learned.known()).clone();
        let refused = RefusedRequest { adaptations, ..RefusedRequest::new(&words) };
        matches!(model.adapt(&talk, &refused), Some(AdaptationOutcome::Now { .. }))
    };
    while refuse() {
        seen.push((*learned.known()).clone());
    }
    let of = |all: &[Adaptation]| all.iter().cloned().collect::<Adaptations>();
    assert_eq!(seen[0], of(&[Adaptation::EmptyContent]));
    assert_eq!(seen[1], of(&[Adaptation::NoImages]), "{seen:?}");
    // At last all of them, and nothing once that does not help.
    let all = seen.last().unwrap();
    assert!(all.has(&Adaptation::EmptyContent) && all.has(&Adaptation::NoImages), "{seen:?}");
    assert!(seen.len() <= 5 && learned.known().is_empty(), "{seen:?}");
}

#[test]
fn later_processes_begin_with_what_has_helped() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("state/adaptations.json");
    let open = || {
        LearnedAdaptations::new(
            Adaptations::default(),
            Some(AdaptationStore::new(&file).entry("a")),
        )
    };
    let first = open();
    let keep = [Adaptation::AlternatingRoles, Adaptation::WithoutContent(ContentId::new("x"))];
    first.learn(&RefusedRequest::new(&json!("no")), Adaptations::default(), &keep);
    assert!(!file.exists());
    let all = keep.iter().cloned().chain([Adaptation::NoImages]).collect();
    assert!(first.answered(&all));
    first.save();
    assert!(!first.answered(&all));
    assert_eq!(*open().known(), keep.iter().cloned().collect());
    let other = AdaptationStore::new(&file).entry("b");
    assert!(LearnedAdaptations::new(Adaptations::default(), Some(other)).known().is_empty());
    std::fs::write(&file, "[").unwrap();
    assert!(open().known().is_empty());
}

#[test]
fn what_was_configured_ends_with_its_configuration_and_what_others_have_kept_stays() {
    use Adaptation::{
        AlternatingRoles, CallsAsText, EmptyContent, NineCharacterCallIds, NoEmptyMessages,
    };
    let directory = tempfile::tempdir().unwrap();
    let store = AdaptationStore::new(&directory.path().join("adaptations.json"));
    let all = |all: &[Adaptation]| all.iter().cloned().collect::<Adaptations>();
    let open = |given: &[Adaptation]| LearnedAdaptations::new(all(given), Some(store.entry("a")));
    let answer = |model: &LearnedAdaptations, new: Adaptation| {
        assert!(model.answered(&model.known().with(new)));
        model.save();
    };
    let given = [CallsAsText, NineCharacterCallIds];
    assert!(!open(&given).answered(&all(&given)));
    answer(&open(&given), AlternatingRoles);
    assert_eq!(*open(&[]).known(), all(&[AlternatingRoles]));
    // It was learned before it was configured.
    answer(&open(&[AlternatingRoles]), EmptyContent);
    assert_eq!(*open(&[]).known(), all(&[AlternatingRoles, EmptyContent]));
    // Two of one name that have been opened with other settings.
    let (one, other) = (open(&[]), open(&[CallsAsText]));
    answer(&one, NoEmptyMessages);
    answer(&other, Adaptation::SingleCalls);
    let kept = [AlternatingRoles, EmptyContent, NoEmptyMessages, Adaptation::SingleCalls];
    assert_eq!(*open(&[]).known(), all(&kept));
    // It names all of them anew, and loses none.
    one.save();
    assert_eq!(*open(&[]).known(), all(&kept));
}

#[test]
fn a_refusal_takes_back_only_what_its_own_request_was_sent_with() {
    let words = "unknown field \"stream_options\"";
    let refused = |said: &str, sent: &[Adaptation]| RefusedRequest {
        said: said.into(),
        adaptations: sent.iter().cloned().collect(),
    };
    let (tried, other) = (Adaptation::Without("stream_options".into()), Adaptation::SingleCalls);
    for (said, sent, stays, goes_on) in [
        ("no", vec![], true, true),
        ("no", vec![other.clone()], true, true),
        (words, vec![], true, false),
        ("no", vec![tried.clone()], false, false),
        ("no", vec![tried.clone(), other], false, false),
        (words, vec![tried.clone()], false, false),
    ] {
        let learned = LearnedAdaptations::new(Adaptations::default(), None);
        let found = [tried.clone()];
        learned.learn(&refused(words, &[]), Adaptations::default(), &found);
        learned.withdraw(&refused(said, &sent));
        assert_eq!(learned.known().has(&tried), stays, "{said} {sent:?}");
        let untried = learned.untried(&refused(words, &found));
        assert_eq!(!untried.tried.is_empty(), goes_on, "{said} {sent:?}");
        assert!(!learned.answered(&found.iter().cloned().collect()), "there is no file");
        learned.withdraw(&refused(said, &sent));
        assert!(learned.known().has(&tried), "it has helped: {said} {sent:?}");
    }
    // One conversation has an image that is refused; the other one is refused for anything.
    let (model, learned) = model(Kind::Chat);
    let image = RefusedRequest::new(&json!({ "error": "Could not process image" }));
    assert!(matches!(
        model.adapt(&request(&long_talk()), &image),
        Some(AdaptationOutcome::Now { .. })
    ));
    let known = learned.known();
    let bad = RefusedRequest::new(&json!({ "error": "bad request" }));
    assert_eq!(model.adapt(&request(&prefix(&[user("go")])), &bad), None);
    assert_eq!(learned.known(), known);
}

#[test]
fn what_a_unit_is_about_to_try_is_not_taken_back() {
    let words = json!({ "error": "unknown field \"stream_options\"" });
    let tried = Adaptation::Without("stream_options".into());
    let talk = request(&prefix(&[user("go")]));
    let is_known = |learned: &LearnedAdaptations| learned.known().has(&tried);
    // Another unit has sent a request with it, and is refused for anything.
    let refuse = |model: &Served, learned: &LearnedAdaptations| {
        let bad = RefusedRequest::new(&json!({ "error": "bad request" }));
        let bad = RefusedRequest { adaptations: (*learned.known()).clone(), ..bad };
        assert_eq!(model.adapt(&talk, &bad), None);
    };
    let (model, learned) = model(Kind::Chat);
    let now = model.adapt(&talk, &RefusedRequest::new(&words));
    assert!(matches!(now, Some(AdaptationOutcome::Now { .. })));
    // A third one was refused at the same time.
    let before = model.adapt(&talk, &RefusedRequest::new(&words));
    assert!(matches!(before, Some(AdaptationOutcome::Before { .. })));
    for claim in [now, before] {
        refuse(&model, &learned);
        assert!(is_known(&learned), "{claim:?}");
        drop(claim);
    }
    refuse(&model, &learned);
    assert!(!is_known(&learned));
    // One that was answered with it needs no claim.
    let now = model.adapt(&talk, &RefusedRequest::new(&words));
    let known = learned.known();
    assert!(!learned.answered(&known), "there is no file");
    drop(now);
    refuse(&model, &learned);
    assert!(is_known(&learned));
}

#[test]
fn names_are_read_as_they_are_written() {
    for name in [
        "without:stream_options",
        "without_tool:mcp__a__find",
        "without_content:0123456789abcdef",
        "single_calls",
        "no_images",
    ] {
        assert_eq!(Adaptation::from_name(name).unwrap().to_string(), name);
        assert!(!Adaptation::from_name(name).unwrap().describe().is_empty());
    }
    for wrong in [
        "",
        "without:",
        "without:messages",
        "without:system",
        "without:instructions",
        "without_content:xyz",
        "Single_Calls",
        "images",
    ] {
        assert_eq!(Adaptation::from_name(wrong), None, "{wrong}");
    }
}

#[test]
fn mistrals_are_known_by_their_names() {
    let nine = Adaptations::from_iter([Adaptation::NineCharacterCallIds]);
    for name in
        ["mistral-large-latest", "mistralai/Devstral-Small-2507", "Codestral", "ministral-3:8b"]
    {
        assert_eq!(Adaptations::from_model_name(name), nine, "{name}");
    }
    for name in ["gpt-5", "qwen3", "llama-3.3-70b"] {
        assert!(Adaptations::from_model_name(name).is_empty(), "{name}");
    }
}

/// The messages of a conversation with these adaptations, a line for each.
fn adapted(messages: &[Message], adaptations: &[Adaptation]) -> Vec<String> {
    let adaptations: Adaptations = adaptations.iter().cloned().collect();
    let line = |message: &Message| match message {
        Message::User(prompt) => {
            format!("user: {}", prompt.text_with(|_| "(image)".to_owned()).replace('\n', "|"))
        }
        Message::Model(reply) => {
            let calls: Vec<&str> = reply.calls.iter().map(|call| &*call.id.0).collect();
            format!("model: {}{calls:?}", reply.text.replace('\n', "|"))
        }
        Message::Output { call, output } => format!("{call}: {}", output.text),
    };
    adaptations.prefix(&prefix(messages)).messages().map(line).collect()
}

#[test]
fn roles_take_turns_beside_calls_and_outputs() {
    let shown = Output { images: vec![image(b"a")], ..Output::ok("a.png") };
    let messages = [
        said("Hello."),
        user("one"),
        user("two"),
        calls(&["a"]),
        output("a", "A"),
        user("three"),
        calls(&["b", "c"]),
        Message::Output { call: "b".into(), output: Arc::new(shown) },
        output("c", "C"),
        said("four"),
        said("five"),
        calls(&["d"]),
        output("d", "D"),
    ];
    let expected = [
        "user: OK.",
        "model: Hello.[]",
        "user: one||two",
        "model: [\"a\"]",
        "a: A",
        "model: OK.[]",
        "user: three",
        "model: [\"b\", \"c\"]",
        "b: a.png",
        "c: C",
        "model: OK.[]",
        "user: [What the output of call `b` shows:]||(image)",
        "model: four||five[]",
        "user: OK.",
        "model: [\"d\"]",
        "d: D",
    ];
    assert_eq!(adapted(&messages, &[Adaptation::AlternatingRoles]), expected);
}

#[test]
fn calls_go_one_by_one_or_as_text() {
    let messages = [user("go"), calls(&["a", "b"]), output("a", "A"), output("b", "B"), user("on")];
    assert_eq!(
        adapted(&messages, &[Adaptation::SingleCalls]),
        ["user: go", "model: [\"a\"]", "a: A", "model: [\"b\"]", "b: B", "user: on"]
    );
    let text =
        "model: [You called the tool `Read` with {}]||[You called the tool `Read` with {}][]";
    let outputs = "user: [Output of the tool `Read`:]|A||[Output of the tool `Read`:]|B";
    assert_eq!(
        adapted(&messages, &[Adaptation::CallsAsText]),
        ["user: go", text, outputs, "user: on"]
    );
    let both = [Adaptation::CallsAsText, Adaptation::AlternatingRoles];
    let last = format!("{outputs}||on");
    assert_eq!(adapted(&messages, &both), ["user: go", text, &last]);
    let none = Adaptations::from_iter([Adaptation::NoTools]).prefix(&prefix(&messages));
    assert!(none.head.tools.is_empty());
}

#[test]
fn ids_notes_and_the_system_prompt_take_other_forms() {
    let messages =
        [user(""), calls(&["functions.Read:0"]), output("functions.Read:0", ""), said("")];
    let nine = crate::model::api::calls::nine_characters("functions.Read:0").into_owned();
    let all = [
        Adaptation::NineCharacterCallIds,
        Adaptation::NoEmptyMessages,
        Adaptation::TextBesideCalls,
        Adaptation::NoSystemRole,
    ];
    let note = "[This message is empty.]";
    assert_eq!(
        adapted(&messages, &all),
        [
            format!("user: Be brief.||{note}"),
            format!("model: OK.[{nine:?}]"),
            format!("{nine}: {note}"),
            format!("model: {note}[]"),
        ]
    );
}

#[test]
fn a_later_request_begins_with_the_earlier_one() {
    let all = [
        Adaptation::AlternatingRoles,
        Adaptation::SingleCalls,
        Adaptation::NineCharacterCallIds,
        Adaptation::NoSystemRole,
    ];
    let adaptations: Adaptations = all.into_iter().collect();
    let (model, learned) = model(Kind::Chat);
    assert!(!learned.answered(&adaptations), "there is no file");
    let mut talk = prefix(&[user("go"), calls(&["a", "b"]), output("a", "A"), output("b", "B")]);
    let before = model.body(&talk);
    talk.push(user("part one"));
    let fork = model.body(&talk);
    talk.push(said("done"));
    talk.push(user("on"));
    let next = model.body(&talk);
    let stem = |body: &[u8]| body[..body.len() - 2].to_vec();
    assert!(fork.starts_with(&stem(&before)) && next.starts_with(&stem(&fork)));
    assert!(!learned.known().is_empty());
}
