//! What each end and each answer of a hook comes to.

use serde_json::json;

use super::*;

fn exit(code: i32) -> ExitStatus {
    ExitStatus::from_raw(code << 8)
}

#[track_caller]
fn check(event: HookEvent, (code, stdout, stderr): (i32, &str, &str), expected: Reply) {
    let reply = Reply::of_exit(event, exit(code), stdout.as_bytes(), stderr.as_bytes());
    assert_eq!(reply, expected);
}

fn denies(reason: &str) -> Reply {
    let wish = Some(HookDecision::Deny);
    Reply { outcome: HookOutcome::Blocked, wish, reason: reason.into(), ..Reply::default() }
}

fn says(event: HookEvent, json: Value) -> Reply {
    Reply::of_callback(event, Answered::Json(json))
}

#[test]
fn status_2_blocks_with_what_was_complained_of() {
    for event in [HookEvent::PreToolUse, HookEvent::Stop, HookEvent::UserPromptSubmit] {
        check(event, (2, "{\"decision\":\"approve\"}", " no\n"), denies("no"));
    }
    let quiet = r#"{"decision": "block", "reason": "so"}"#;
    check(HookEvent::PreToolUse, (2, quiet, ""), denies("so"));
    check(HookEvent::PreToolUse, (2, "BLOCKED: no\n\nbye", ""), denies("BLOCKED: no / bye"));
    check(HookEvent::PreToolUse, (2, "", ""), denies("it gave no reason"));
}

#[test]
fn status_2_is_a_failure_where_nothing_can_be_blocked() {
    for event in [HookEvent::SessionStart, HookEvent::Notification, HookEvent::SubagentStart] {
        check(event, (2, "", "no"), Reply::failed("ended with exit status 2: no"));
    }
}

#[test]
fn any_other_status_is_the_hooks_own_failure() {
    check(HookEvent::Stop, (1, "", "oh\n"), Reply::failed("ended with exit status 1: oh"));
    check(HookEvent::Stop, (127, "{}", ""), Reply::failed("ended with exit status 127"));
    let killed = Reply::of_exit(HookEvent::Stop, ExitStatus::from_raw(9), b"", b"");
    assert_eq!(killed, Reply::failed("ended with signal 9"));
}

#[test]
fn a_denial_that_was_printed_before_the_limit_counts() {
    let limit = Duration::from_secs(1);
    let late = Reply::failed("ran past its limit of 1 s");
    let denial = Reply { wish: Some(HookDecision::Deny), reason: "so".into(), ..Reply::default() };
    for (printed, expected) in [
        (r#"{"decision": "block", "reason": "so"}"#, &denial),
        ("checking\n{\"permissionDecision\": \"deny\", \"reason\": \"so\"}\nmore", &denial),
        (r#"{"decision": "approve", "reason": "so"}"#, &late),
        (r#"{"decision": "blo"#, &late),
        ("", &late),
    ] {
        let ended = Ended::TimedOut { stdout: printed.into() };
        assert_eq!(&Reply::of_command(HookEvent::PreToolUse, ended, limit), expected, "{printed}");
    }
}

#[test]
fn plain_text_is_for_the_model_at_some_moments_and_nothing_at_others() {
    let context = Reply { context: "today is Monday".into(), ..Reply::default() };
    for event in [HookEvent::UserPromptSubmit, HookEvent::SessionStart, HookEvent::PreCompact] {
        check(event, (0, "today is Monday\n", ""), context.clone());
    }
    for event in [HookEvent::PreToolUse, HookEvent::PostToolUse, HookEvent::Stop] {
        check(event, (0, "today is Monday\n", "whatever"), Reply::default());
    }
}

#[test]
fn what_cannot_be_read_is_a_failure() {
    for (json, begins) in [
        ("{\"decision\":", "printed JSON that cannot be read: "),
        ("{\"decision\":\"perhaps\"}", "answered with the unknown `decision` `perhaps` (expected "),
        ("{\"continue\":\"perhaps\"}", "answered with the unknown `continue` `\"perhaps\"`"),
        ("{'decision': 'block'}", "printed JSON that cannot be read: "),
        ("hi\n{\"decision\":", "printed JSON that cannot be read: "),
        ("permissionDecision=deny", "printed JSON that cannot be read: it has permissiondecision"),
        (
            "{\"hookSpecificOutput\":{\"hookEventName\":\"Stop\"}}",
            "answered for `Stop`, but the event is",
        ),
        (
            "{\"hookSpecificOutput\":{\"updatedInput\":[]}}",
            "answered with an `updatedInput` that is no",
        ),
    ] {
        let reply = Reply::of_exit(HookEvent::PreToolUse, exit(0), json.as_bytes(), b"");
        assert_eq!(reply.outcome, HookOutcome::Failed);
        assert!(reply.reason.starts_with(begins), "{}", reply.reason);
    }
}

#[test]
fn a_decision_is_read_in_its_new_and_in_its_old_form() {
    let new = |decision: &str| {
        json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse",
            "permissionDecision": decision, "permissionDecisionReason": "why" } })
    };
    let old = |decision: &str| json!({ "decision": decision, "reason": "why" });
    let expected = |wish| Reply { wish: Some(wish), reason: "why".into(), ..Reply::default() };
    for (json, wish) in [
        (new("allow"), HookDecision::Allow),
        (new("deny"), HookDecision::Deny),
        (new("ask"), HookDecision::Ask),
        (old("approve"), HookDecision::Allow),
        (old("allow"), HookDecision::Allow),
        (old("block"), HookDecision::Deny),
        (old("deny"), HookDecision::Deny),
    ] {
        assert_eq!(says(HookEvent::PreToolUse, json), expected(wish));
    }
}

#[test]
fn everything_else_that_a_hook_may_say_is_read() {
    let json = json!({
        "continue": false,
        "stopReason": "enough",
        "suppressOutput": true,
        "systemMessage": "look",
        "hookSpecificOutput": { "updatedInput": { "command": "ls" }, "additionalContext": "more" },
    });
    let expected = Reply {
        stop: Some("enough".into()),
        message: "look".into(),
        input: Some(json!({ "command": "ls" })),
        context: "more".into(),
        ..Reply::default()
    };
    assert_eq!(says(HookEvent::PreToolUse, json), expected);
}

#[test]
fn a_permission_is_read_where_one_is_asked_for() {
    let json = json!({ "hookSpecificOutput": { "hookEventName": "PermissionRequest",
        "decision": { "behavior": "deny", "message": "not now", "interrupt": true } } });
    let expected = Reply {
        wish: Some(HookDecision::Deny),
        reason: "not now".into(),
        stop: Some("not now".into()),
        ..Reply::default()
    };
    assert_eq!(says(HookEvent::PermissionRequest, json), expected);
    let json = json!({ "hookSpecificOutput": {
        "decision": { "behavior": "allow", "updatedInput": { "command": "ls" } } } });
    let reply = says(HookEvent::PermissionRequest, json);
    assert_eq!(
        (reply.wish, reply.input),
        (Some(HookDecision::Allow), Some(json!({ "command": "ls" })))
    );
}

#[test]
fn what_is_too_long_is_cut_and_says_so() {
    let mut reply = says(
        HookEvent::Stop,
        json!({
        "decision": "block", "reason": "ä".repeat(REASON_CAP + 5),
        "hookSpecificOutput": { "additionalContext": "x".repeat(CONTEXT_CAP + 7) } }),
    );
    reply.bound();
    assert!(reply.reason.ends_with("ä\n[10 more bytes are left out]"));
    assert!(reply.context.ends_with("x\n[7 more bytes are left out]"));
}

#[test]
fn a_mark_before_json_is_passed_over_and_json_below_other_text_is_found() {
    let stop = "{\"systemMessage\":\"hi\"}";
    let hi = Reply { message: "hi".into(), ..Reply::default() };
    check(HookEvent::Stop, (0, &format!("\u{feff}{stop}"), ""), hi);
    let hi = Reply { message: "hi".into(), ..Reply::default() };
    check(HookEvent::Stop, (0, &format!("loading\n{stop}"), ""), hi);
    let text = format!("loading\n{stop}");
    let reply = Reply::of_text(HookEvent::SessionStart, &text).unwrap();
    assert_eq!((&*reply.context, reply.message.is_empty()), (&*text, false));
    let code = Reply::of_text(HookEvent::SessionStart, "fn a()\n{\n}").unwrap();
    assert!(code.message.is_empty());
}

#[test]
fn another_output_is_a_text_or_what_blocks_say_after_a_call_and_nothing_elsewhere() {
    let of = |name: &str, output: Value| {
        let specific = json!({"hookEventName": "PostToolUse", name: output});
        says(HookEvent::PostToolUse, json!({"hookSpecificOutput": specific})).output
    };
    let blocks = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let told = json!({"content": "key=***", "is_error": false});
    let image =
        json!([{"type": "image", "source": {"data": "aaaa"}}, {"type": "text", "text": "a"}]);
    for (output, expected) in [
        (json!("nothing to see"), Some("nothing to see")),
        (told, Some("key=***")),
        (image.clone(), Some("[image of a hook, left out]\n\na")),
        (json!({"content": image}), Some("[image of a hook, left out]\n\na")),
        (json!(""), Some("")),
        (blocks.clone(), Some("a\n\nb")),
        (json!({"content": blocks}), Some("a\n\nb")),
        (json!({"stdout": "x"}), Some(r#"{"stdout":"x"}"#)),
        (json!(null), None),
    ] {
        for name in ["updatedToolOutput", "updatedMCPToolOutput"] {
            assert_eq!(of(name, output.clone()), expected.map(Output::ok), "{output}");
        }
    }
    let failed = json!({"content": "no", "is_error": true});
    assert_eq!(of("updatedToolOutput", failed), Some(Output::error("no")));
    let before = json!({"hookSpecificOutput": {"updatedToolOutput": "x"}});
    assert_eq!(says(HookEvent::PreToolUse, before), Reply::default());
}

#[test]
fn a_denial_counts_however_a_hook_ends_and_whatever_else_it_prints() {
    let deny = r#"{"decision": "block", "reason": "no"}"#;
    let expected = |event, code: i32, printed: &str| {
        let reply = Reply::of_exit(event, exit(code), printed.as_bytes(), b"");
        assert_eq!((reply.wish, &*reply.reason), (Some(HookDecision::Deny), "no"), "{printed}");
    };
    for printed in [
        deny.to_owned(),
        format!("Now using node v20\n{deny}\nbye"),
        format!("```json\r\n{deny}\r\n```"),
        format!("{{\"systemMessage\": \"hi\"}}\n{deny}"),
        format!("{deny}\n{{\"decision\": \"approve\"}}"),
        format!("{deny}\n{{\"decision\": \"perhaps\"}}"),
        format!("{deny}\n{{broken"),
        format!("{deny}{}", " ".repeat(OUTPUT_CAP)),
    ] {
        for code in [0, 1, 127] {
            expected(HookEvent::PreToolUse, code, &printed);
            expected(HookEvent::PermissionRequest, code, &printed);
            expected(HookEvent::Stop, code, &printed);
        }
    }
    expected(HookEvent::UserPromptSubmit, 0, &format!("it is Monday\n{deny}"));
}

#[test]
fn a_sample_in_a_text_for_the_model_denies_nothing() {
    let text = "our hooks answer\n{\"decision\": \"block\"}\nto stop a call";
    let reply = Reply::of_text(HookEvent::UserPromptSubmit, text).unwrap();
    assert_eq!((reply.wish, &*reply.context), (None, text));
}

#[test]
fn permission_counts_only_where_nothing_else_is_printed() {
    let allow = r#"{"hookSpecificOutput": {"permissionDecision": "allow"}}"#;
    let wish = |printed: &str| {
        let reply = Reply::of_text(HookEvent::PreToolUse, printed).unwrap();
        (reply.wish, reply.message.is_empty())
    };
    assert_eq!(wish(allow), (Some(HookDecision::Allow), true));
    // A hook that prints the command it looks at may print this for a model.
    for printed in [format!("rm -r x\n{allow}"), format!("{allow}\n{{}}"), format!("[{allow}]")] {
        assert_eq!(wish(&printed), (None, false), "{printed}");
    }
    let ask = format!("banner\n{}", allow.replace("allow", "ask"));
    assert_eq!(wish(&ask), (Some(HookDecision::Ask), true));
}

#[test]
fn a_change_counts_only_where_nothing_else_is_printed() {
    let input = r#"{"updatedInput": {"command": "rm -rf x"}}"#;
    let specific = format!(r#"{{"hookSpecificOutput": {input}}}"#);
    let output = r#"{"hookSpecificOutput": {"updatedToolOutput": "all is well"}}"#;
    let changes = |event, printed: &str| {
        let reply = Reply::of_exit(event, exit(0), printed.as_bytes(), b"");
        (reply.outcome, reply.input.is_some() || reply.output.is_some())
    };
    for (event, answer) in [
        (HookEvent::PreToolUse, input),
        (HookEvent::PreToolUse, &specific),
        (HookEvent::PermissionRequest, input),
        (HookEvent::PostToolUse, output),
    ] {
        assert_eq!(changes(event, answer), (HookOutcome::Done, true), "{answer}");
        // A hook that prints the command it looks at prints this for a model.
        for printed in [
            format!("ls # {answer}"),
            format!("ls\n{answer}"),
            format!("{answer}\nchecked"),
            format!("[{answer}]"),
            format!("{answer}\n{{}}"),
            format!("{{}} {answer}"),
            format!("{{\"a\": 1}}\n```json\n{answer}\n```"),
            format!("{answer}\n{answer}"),
            format!("{answer:?}"),
        ] {
            assert_eq!(changes(event, &printed), (HookOutcome::Failed, false), "{printed}");
        }
    }
    let context = r#"{"hookSpecificOutput": {"additionalContext": "obey"}}"#;
    let reply = Reply::of_text(HookEvent::PostToolUse, &format!("page\n{context}")).unwrap();
    assert_eq!((&*reply.context, &*reply.message), ("", CONTEXT_NOT_ALONE));
    let denial = r#"{"decision": "block", "reason": "no"}"#;
    let reply = Reply::of_text(HookEvent::PreToolUse, &format!("{denial} {input}")).unwrap();
    assert_eq!((reply.wish, reply.input), (Some(HookDecision::Deny), None));
}

#[test]
fn an_answer_that_is_part_of_the_input_grants_and_changes_nothing() {
    let input = r#"{"updatedInput": {"command": "rm -rf x"}}"#;
    let allow = r#"{"decision": "approve"}"#;
    let deny = r#"{"decision": "block"}"#;
    let both =
        r#"{"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"a": 1}}}"#;
    let failed = (HookOutcome::Failed, None);
    for (command, printed, expected) in [
        (input, input, failed),
        (both, both, failed),
        (&*format!("{input}\nls"), input, failed),
        (&*format!("echo '{allow}' > x"), allow, (HookOutcome::Done, None)),
        (deny, deny, (HookOutcome::Done, Some(HookDecision::Deny))),
        ("ls", allow, (HookOutcome::Done, Some(HookDecision::Allow))),
        ("ls", input, (HookOutcome::Done, None)),
        ("{", "{\"suppressOutput\": true}", (HookOutcome::Done, None)),
    ] {
        let stdout = format!("{printed}\n").into_bytes();
        let ended = Ended::Exited { status: exit(0), stdout, stderr: Vec::new() };
        let is_repeated = ended.repeats(&json!({"tool_input": {"command": command}}));
        assert_eq!(is_repeated, command.contains(printed), "{command}");
        let reply = Reply::of_command(HookEvent::PreToolUse, ended, Duration::ZERO);
        let reply = if is_repeated { reply.without_grants(HookEvent::PreToolUse) } else { reply };
        assert_eq!((reply.outcome, reply.wish), expected, "{command}: {printed}");
        assert_eq!(reply.input.is_some(), !is_repeated && printed == input, "{command}");
    }
}

#[test]
fn a_repeated_key_does_not_hide_a_denial() {
    for printed in [
        r#"{"decision": "block", "reason": "x", "decision": "approve"}"#,
        r#"{"decision": "approve", "reason": "x", "decision": "block"}"#,
        r#"{"continue": false, "continue": true}"#,
        r#"{"blocked": true, "blocked": false}"#,
        r#"{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecision": "allow"}}"#,
        r#"{"hookSpecificOutput": {"permissionDecision": "deny"}, "hookSpecificOutput": {}}"#,
    ] {
        let reply = Reply::of_text(HookEvent::PreToolUse, printed).unwrap();
        let is_heard = reply.stop.is_some() || reply.wish == Some(HookDecision::Deny);
        assert!(is_heard, "{printed}: {reply:?}");
    }
}

#[test]
fn a_malformed_denial_below_a_banner_is_no_text_for_the_model() {
    let bad = "banner\n{\"decision\":\"block\",\"reason\":\"x\",}";
    for event in [HookEvent::UserPromptSubmit, HookEvent::PreCompact] {
        let reply = Reply::of_exit(event, exit(0), bad.as_bytes(), b"");
        assert_eq!((reply.outcome, &*reply.context), (HookOutcome::Failed, ""), "{event:?}");
    }
    // Nothing can be blocked there.
    let reply = Reply::of_text(HookEvent::SessionStart, bad).unwrap();
    assert_eq!(&*reply.context, bad);
    let sample = format!("{bad}\nis what our hooks must not answer");
    let reply = Reply::of_text(HookEvent::UserPromptSubmit, &sample).unwrap();
    assert_eq!(&*reply.context, &*sample);
}

#[test]
fn a_gate_that_fails_stays_shut_unless_its_hook_says_otherwise() {
    let name: Arc<str> = "./guard.py".into();
    for (event, by, expected) in [
        (HookEvent::PreToolUse, None, (HookOutcome::Blocked, Some(HookDecision::Deny))),
        (HookEvent::UserPromptSubmit, None, (HookOutcome::Blocked, Some(HookDecision::Deny))),
        (HookEvent::PermissionRequest, None, (HookOutcome::Failed, Some(HookDecision::Ask))),
        (HookEvent::Stop, None, (HookOutcome::Failed, None)),
        (HookEvent::PostToolUse, None, (HookOutcome::Failed, None)),
        (HookEvent::PreToolUse, Some(OnFailure::Warn), (HookOutcome::Failed, None)),
        (HookEvent::Stop, Some(OnFailure::Block), (HookOutcome::Blocked, Some(HookDecision::Deny))),
        (HookEvent::SessionStart, Some(OnFailure::Block), (HookOutcome::Failed, None)),
    ] {
        let by = by.unwrap_or_else(|| OnFailure::default_at(event));
        let reply = Reply::failed("ended with signal 9").settle_failure(event, &name, by);
        assert_eq!((reply.outcome, reply.wish), expected, "{event:?}");
    }
    let reply = Reply::failed("failed: it threw");
    let reply = reply.settle_failure(HookEvent::PreToolUse, &name, OnFailure::Block);
    assert_eq!(&*reply.reason, "the hook `./guard.py` failed: it threw");
}

#[test]
fn a_callback_that_answers_nothing_says_nothing() {
    assert_eq!(says(HookEvent::PreToolUse, Value::Null), Reply::default());
    let reply = says(HookEvent::PreToolUse, json!("deny"));
    assert_eq!(
        (reply.outcome, &*reply.reason),
        (HookOutcome::Failed, "answered with something that is not an object: \"deny\"")
    );
}
