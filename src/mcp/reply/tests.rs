//! Texts of servers, and how they are parsed.

use rmcp::model::{CustomRequest, ServerNotification};

use super::*;

/// Requests 1 to 3 of which 3 is open still.
fn requests() -> OpenRequests {
    let mut open = OpenRequests::default();
    for number in 1..=3 {
        send(&mut open, number);
    }
    open.remove(&RequestId::Number(1));
    open.remove(&RequestId::Number(2));
    open
}

fn send(open: &mut OpenRequests, number: i64) {
    let request = ClientRequest::CustomRequest(CustomRequest::new("tools/call", None));
    open.add(&JsonRpcRequest::new(RequestId::Number(number), request));
}

/// Returns what a text says, in short: `3 = RESULT`, `3 ! WORDS` for the error of a request.
fn said(text: &str) -> Vec<String> {
    let short = |said: ServerMessage| match said {
        ServerMessage::Message(message) => match *message {
            JsonRpcMessage::Response(response) => {
                format!("{} = {}", response.id, serde_json::to_value(&response.result).unwrap())
            }
            JsonRpcMessage::Error(error) => {
                format!("{} ! {}", error.id.unwrap(), error.error.message)
            }
            JsonRpcMessage::Request(request) => format!("asks {}", request.id),
            JsonRpcMessage::Notification(told) => {
                let is_progress =
                    matches!(told.notification, ServerNotification::ProgressNotification(_));
                if is_progress { "reports progress".to_owned() } else { "notifies".to_owned() }
            }
        },
        ServerMessage::Stray(why) => format!("? {why}"),
        ServerMessage::BadRequest { id, why: _ } => format!("asks wrongly {id}"),
        ServerMessage::Ignored => "nothing".to_owned(),
        ServerMessage::NotJsonRpc => "noise".to_owned(),
    };
    parse_messages(text, &requests()).into_iter().map(short).collect()
}

#[test]
fn a_result_is_read_in_whatever_way_a_server_writes_the_reply() {
    for text in [
        r#"{"jsonrpc":"2.0","id":3,"result":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","id":3,"result":{"a":1},"error":null}"#,
        r#"{"jsonrpc":"2.0","id":3,"result":{"a":1},"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":3,"result":{"a":1},"error":""}"#,
        r#"{"jsonrpc":"2.0","id":3,"result":{"a":1},"error":false}"#,
        r#"{"jsonrpc":"2.0","id":3,"result":{"a":1},"error":{"code":0,"message":"OK"}}"#,
        r#"{"id":3,"result":{"a":1}}"#,
        r#"{"jsonrpc":"1.0","id":3,"result":{"a":1}}"#,
        r#"{"jsonrpc":2.0,"id":3,"result":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","id":"3","result":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","id":3.0,"result":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","result":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":null,"params":null,"result":{"a":1}}"#,
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"a\":1}}",
        r#"[{"jsonrpc":"2.0","id":3,"result":{"a":1}}]"#,
        r#"INFO: called {"jsonrpc":"2.0","id":3,"result":{"a":1}}"#,
    ] {
        assert_eq!(said(text), [r#"3 = {"a":1}"#], "{text}");
    }
    for (text, result) in [
        (r#"{"jsonrpc":"2.0","id":3,"result":null}"#, "{}"),
        (r#"{"jsonrpc":"2.0","id":3,"result":"text"}"#, r#""text""#),
        (
            r#"{"jsonrpc":"2.0","id":3,"result":{"a":"x\ud800y\udc00"}}"#,
            "{\"a\":\"x\u{fffd}y\u{fffd}\"}",
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"result":{"a":"\ud83d\ude00\ud83d"}}"#,
            "{\"a\":\"😀\u{fffd}\"}",
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"result":{"a":NaN,"b":-Infinity,"c":"NaN \"x"}}"#,
            r#"{"a":null,"b":null,"c":"NaN \"x"}"#,
        ),
        (r#"{'jsonrpc"#, ""),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"a\":\"one\ttwo\u{1}\"}}",
            "{\"a\":\"one\\ttwo\\u0001\"}",
        ),
        (r#"{"jsonrpc":"2.0","id":3,"result":{"a":"C:\Users\x"}}"#, "{\"a\":\"C:\\\\Users\\\\x\"}"),
        (
            r#"{"jsonrpc":"2.0","id":3,"result":{"a":True,"b":None,"c":1e-7}}"#,
            r#"{"a":true,"b":null,"c":1e-7}"#,
        ),
    ] {
        let expected = match result {
            "" => "noise".to_owned(),
            result => format!("3 = {result}"),
        };
        assert_eq!(said(text), [expected], "{text}");
    }
}

#[test]
fn an_error_of_any_form_ends_its_call_with_its_words() {
    for (error, words) in [
        (r#"{"code":-1,"message":"no"}"#, "no"),
        (r#"{"message":"no"}"#, "no"),
        (r#"{"code":null,"message":"no"}"#, "no"),
        (r#"{"code":"-32000","message":"no"}"#, "no"),
        (r#"{"code":1.5,"message":"no"}"#, "no"),
        (r#"{"code":99999999999,"message":"no"}"#, "no"),
        (r#"{"code":0,"message":"no"}"#, "no"),
        (r#""no""#, "no"),
        (r#"{"error":"no"}"#, "no"),
        (r#"{"code":-1,"message":null,"detail":"no"}"#, "no"),
        (r#"{"message":{"text":"no"}}"#, r#"{"text":"no"}"#),
        (r#"["no"]"#, r#"its error has no message: ["no"]"#),
        ("true", "its error has no message: true"),
        (r#"{"code":-5}"#, r#"its error has no message: {"code":-5}"#),
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":3,"error":{error}}}"#);
        assert_eq!(said(&text), [format!("3 ! {words}")], "{text}");
        let text = format!(r#"{{"jsonrpc":"2.0","id":3,"result":null,"error":{error}}}"#);
        assert_eq!(said(&text).len(), 1, "{text}");
    }
    let both = r#"{"jsonrpc":"2.0","id":3,"result":{"a":1},"error":{"code":-1,"message":"no"}}"#;
    assert_eq!(said(both), [r#"3 ! no (the reply also has a result: {"a":1})"#]);
}

#[test]
fn a_reply_that_cannot_be_read_ends_its_call_with_the_reason() {
    for (text, words) in [
        (
            r#"{"jsonrpc":"2.0","id":3}"#,
            r#"its reply has neither `result` nor `error`: {"jsonrpc":"2.0","id":3}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"content":[]}"#,
            r#"its reply has neither `result` nor `error`: {"jsonrpc":"2.0","id":3,"content":[]}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"error":null}"#,
            r#"its reply has neither `result` nor `error`: {"jsonrpc":"2.0","id":3}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"ty"#,
            r#"its reply is not valid JSON: {"jsonrpc":"2.0","id":3,"result":{"content":[{"ty"#,
        ),
        (
            r#"{"id": "3", "result": <xml/>}"#,
            r#"its reply is not valid JSON: {"id": "3", "result": <xml/>}"#,
        ),
    ] {
        assert_eq!(said(text), [format!("3 ! {words}")], "{text}");
    }
    let deep =
        format!(r#"{{"jsonrpc":"2.0","id":3,"result":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    assert!(said(&deep)[0].starts_with("3 ! its reply is not valid JSON: "));
}

/// Request 3 is open.
#[test]
fn an_id_within_a_result_is_not_the_id_of_a_reply_that_is_cut_off() {
    let why = "its reply is not valid JSON: ";
    for text in [
        r#"{"result":{"id":3,"content":[{"ty"#,
        r#"{"jsonrpc":"2.0","result":{"content":[{"id":3,"te"#,
        r#"{ "error" : {"data":{"id":3},"mess"#,
        r#"{"jsonrpc":"2.0","result":{"text":"{\"id\":3,","a":[{"id":3}"#,
        r#"{"result":[{"id":3}],"type":"id","x":3"#,
        r#"{"jsonrpc":"2.0","result":{},"id":3"#,
    ] {
        assert_eq!(said(text), [format!("? {why}{text}")], "{text}");
    }
    for text in [
        r#"{"result":{"id":7,"content":[]},"id":3,"more":{"ty"#,
        r#"[{"jsonrpc":"2.0","id" : 3, "result":{"id":7"#,
        r#"{"result":{"items":[{"id":7},{"id":8}],"text":"} \" {"},"id":"3","jsonrpc":"2."#,
        r#"[info] {"jsonrpc":"2.0","id":3,"result":{"id":7,"#,
    ] {
        assert_eq!(said(text), [format!("3 ! {why}{text}")], "{text}");
    }
    assert_eq!(said(r#"{"level":"info","result":{"id":3,"ty"#), ["noise"]);
}

#[test]
fn what_answers_no_open_request_is_passed_over_or_told_as_stray() {
    for (text, expected) in [
        // Late, or for the second time.
        (r#"{"jsonrpc":"2.0","id":2,"result":{}}"#, "nothing"),
        (r#"{"jsonrpc":"2.0","id":"1","error":{"code":1,"message":"late"}}"#, "nothing"),
        (r#"{"jsonrpc":"2.0","id":2,"result":{"cut"#, "nothing"),
        // Without a method, or unknown.
        (r#"{"jsonrpc":"2.0"}"#, "nothing"),
        (r#"{"jsonrpc":"2.0","params":{}}"#, "nothing"),
        (r#"{"jsonrpc":"2.0","method":"notifications/odd"}"#, "notifies"),
        (r#"{"method":"notifications/message","params":{"level":"info","data":1}}"#, "notifies"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"notifications/odd"}"#, "notifies"),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
            "reports progress",
        ),
        // Requests.
        (r#"{"id":1,"method":"ping"}"#, "asks 1"),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, "asks wrongly {}"),
        // Replies without an id, or with one that was never sent.
        (
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
            "? Parse error",
        ),
        (
            r#"{"jsonrpc":"2.0","result":{"a":1}}"#,
            r#"? its reply has no id: {"jsonrpc":"2.0","result":{"a":1}}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":77,"result":1}"#,
            r#"? its reply has the id `77`, which matches no request: {"jsonrpc":"2.0","id":77,"result":1}"#,
        ),
        // Not of the protocol.
        ("listening on 3000", "noise"),
        ("{}", "noise"),
        ("7", "noise"),
        ("null", "noise"),
        ("[]", "noise"),
        (r#"{"level":"info","message":"started"}"#, "noise"),
        (r#"{"level":"info","id":3,"message":"about a result"}"#, "noise"),
    ] {
        assert_eq!(said(text), [expected], "{text}");
    }
}

#[test]
fn several_messages_of_one_text_are_all_read() {
    let (result, told) =
        (r#"{"id":3,"result":1}"#, r#"{"jsonrpc":"2.0","method":"notifications/odd"}"#);
    let expected = ["notifies", "3 = 1"];
    assert_eq!(said(&format!("[{told},{result}]")), expected);
    assert_eq!(said(&format!("{told}{result}")), expected);
    assert_eq!(said(&format!("{told} {result}")), expected);
}

#[test]
fn replies_without_an_id_end_the_requests_that_they_can_only_mean() {
    let ids = |errors: Vec<ServerJsonRpcMessage>| {
        let ids = errors.into_iter().map(|error| error.into_error().unwrap());
        ids.map(|(error, id)| format!("{} {}", id.unwrap(), error.message)).collect::<Vec<_>>()
    };
    let mut open = requests();
    assert!(ids(open.resolve_strays()).is_empty());
    open.add_stray("no".to_owned());
    assert_eq!(ids(open.resolve_strays()), ["3 no"]);
    // Of two open ones it is not known which, until one of them is answered.
    for number in 4..=5 {
        send(&mut open, number);
    }
    open.add_stray("broken".to_owned());
    assert!(ids(open.resolve_strays()).is_empty());
    send(&mut open, 6);
    open.remove(&RequestId::Number(4));
    assert_eq!(ids(open.resolve_strays()), ["5 broken"]);
    assert!(ids(open.resolve_strays()).is_empty());
    // Without an open one nothing is to be ended.
    open.remove(&RequestId::Number(6));
    open.add_stray("late".to_owned());
    send(&mut open, 7);
    assert!(ids(open.resolve_strays()).is_empty());
}

#[test]
fn a_handshake_is_read_also_without_what_the_protocol_wants_there() {
    let mut open = OpenRequests::default();
    let ping = ClientRequest::PingRequest(rmcp::model::PingRequest::default());
    open.add(&JsonRpcRequest::new(RequestId::Number(0), ping));
    for result in [
        json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "a", "version": "1"}}),
        json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": true, "logging": null}, "serverInfo": {"name": "a", "version": 1}}),
        json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": null}, "instructions": 7}),
        json!({"protocolVersion": "2025-06-18", "capabilities": [], "serverInfo": null}),
    ] {
        let text = json!({"id": 0, "result": result}).to_string();
        let said = parse_messages(&text, &open).remove(0);
        let ServerMessage::Message(message) = said else { panic!("{text}") };
        let (result, _) = message.into_response().expect("it is a response");
        assert!(matches!(result, ServerResult::InitializeResult(_)), "{text}: {result:?}");
    }
}
