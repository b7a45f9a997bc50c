//! Hooks as settings write them: by moment, in groups that share a matcher.
//!
//! The shape is Claude Code's, in JSON and TOML alike. What cannot be done is an
//! error where it was written for tine. What was written for another harness
//! must not keep tine from running: there a hook that cannot be run says so, and
//! denies whatever it was to let through.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{Callback, Client, Command, Footing, Handler, Hook, LIMIT, Matcher, OnFailure};
use crate::event::HookEvent;

/// Most hooks of one moment. Each of them is a process, and all of a moment's
/// run at once.
pub const HOOKS_CAP: usize = 32;

/// The longest limit that a hook may have.
pub const LIMIT_CAP: Duration = Duration::from_secs(3_600);

/// What a hook may say and tine does not do.
const NOT_DONE: [&str; 3] = ["if", "once", "asyncRewake"];

/// Whose settings they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brought {
    /// They are written for tine.
    ForTine,
    /// They are written for another harness, which may know more moments, and
    /// more kinds of hooks.
    Along,
}

/// The hooks that settings hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    /// The hooks, in order.
    pub hooks: Vec<Hook>,
    /// The moments that tine does not have.
    pub unknown: Vec<String>,
}

/// Reads the value of `hooks`.
///
/// # Errors
///
/// What is wrong with it, and where.
pub fn parse(value: &Value, brought: Brought) -> Result<Parsed, String> {
    groups(value, brought, |event, group, key, hooks| {
        read_group(event, group, (key, brought), hooks)
    })
}

/// Reads the hooks of a program that drives us: each group of a moment names
/// callbacks that `client` reaches.
///
/// # Errors
///
/// What is wrong with them, and where.
pub fn parse_callbacks(value: &Value, client: &Arc<dyn Client>) -> Result<Parsed, String> {
    groups(value, Brought::Along, |event, group, key, hooks| {
        let group = object(group, key)?;
        let (matcher, limit) = (matcher(group, key)?, limit(group, key)?);
        let on_failure = read_on_failure(group, key)?;
        let key = format!("{key}.hookCallbackIds");
        let ids = group.get("hookCallbackIds").ok_or_else(|| format!("`{key}` is missing"))?;
        for id in array(ids, &key)? {
            let id = id.as_str().ok_or_else(|| format!("`{key}` must be strings"))?.into();
            let handler = Handler::Callback(Callback { id, client: Arc::clone(client) });
            let hook = hook(event, &matcher, handler, (limit, &key));
            hooks.push(Hook { on_failure, ..hook });
        }
        Ok(())
    })
}

/// Reads the groups of all moments.
fn groups(
    value: &Value,
    brought: Brought,
    read: impl Fn(HookEvent, &Value, &str, &mut Vec<Hook>) -> Result<(), String>,
) -> Result<Parsed, String> {
    let mut parsed = Parsed::default();
    for (name, groups) in object(value, "hooks")? {
        let key = format!("hooks.{name}");
        let Some(event) = HookEvent::from_name(name) else {
            match brought {
                Brought::Along => parsed.unknown.push(name.clone()),
                Brought::ForTine => return Err(format!("`{key}` is no moment; {}", moments())),
            }
            continue;
        };
        match (groups, brought) {
            (Value::Null, Brought::Along) => {}
            // One group in place of a list.
            (
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_),
                Brought::Along,
            ) => read(event, groups, &key, &mut parsed.hooks)?,
            (groups, Brought::Along | Brought::ForTine) => {
                for (number, group) in array(groups, &key)?.iter().enumerate() {
                    read(event, group, &format!("{key}[{number}]"), &mut parsed.hooks)?;
                }
            }
        }
        let count = parsed.hooks.iter().filter(|hook| hook.event == event).count();
        if count > HOOKS_CAP {
            return Err(format!("`{key}` has {count} hooks; there may be {HOOKS_CAP}"));
        }
    }
    Ok(parsed)
}

fn moments() -> String {
    let names: Vec<&str> = HookEvent::ALL.into_iter().map(HookEvent::as_str).collect();
    format!("there are: {}", names.join(", "))
}

fn read_group(
    event: HookEvent,
    group: &Value,
    (key, brought): (&str, Brought),
    hooks: &mut Vec<Hook>,
) -> Result<(), String> {
    let (matcher, listed) = match (read_list(group, key), brought) {
        (Ok(read), Brought::ForTine | Brought::Along) => read,
        (Err(why), Brought::ForTine) => return Err(why),
        // It is unknown which calls it was to guard, so it guards all.
        (Err(why), Brought::Along) => {
            let handler = Handler::NotDone { name: key.into(), why: why.into() };
            hooks.push(hook(event, &Matcher::Any, handler, (LIMIT, key)));
            return Ok(());
        }
    };
    let key = format!("{key}.hooks");
    for (number, listed) in listed.iter().enumerate() {
        let key = format!("{key}[{number}]");
        let read = object(listed, &key).and_then(|fields| {
            let handler = Handler::Command(command(fields, &key)?);
            Ok((handler, limit(fields, &key)?, read_on_failure(fields, &key)?))
        });
        let (handler, limit, on_failure) = match (read, brought) {
            (Ok(read), Brought::ForTine | Brought::Along) => read,
            (Err(why), Brought::ForTine) => return Err(why),
            (Err(why), Brought::Along) => {
                let text = listed.get("command").or(listed.get("type")).and_then(Value::as_str);
                let name = text.unwrap_or(&key).into();
                (Handler::NotDone { name, why: why.into() }, LIMIT, None)
            }
        };
        let hook = hook(event, &matcher, handler, (limit, &key));
        hooks.push(Hook { on_failure, ..hook });
    }
    Ok(())
}

/// Reads the matcher of a group and the list of its hooks.
fn read_list<'a>(group: &'a Value, key: &str) -> Result<(Matcher, &'a Vec<Value>), String> {
    let group = object(group, key)?;
    let matcher = matcher(group, key)?;
    let listed = group.get("hooks").ok_or(format!("`{key}` has no `hooks`"))?;
    Ok((matcher, array(listed, &format!("{key}.hooks"))?))
}

/// Makes a hook, whose limit is bounded, and says what is not as it is written.
fn hook(
    event: HookEvent,
    matcher: &Matcher,
    handler: Handler,
    (limit, key): (Duration, &str),
) -> Hook {
    let note = match &handler {
        Handler::NotDone { name: _, why } if event.is_gate() => {
            Some(format!("{why}; the hook denies everything that it guards"))
        }
        Handler::NotDone { name: _, why } => Some(format!("{why}; it is left out")),
        Handler::Command(_) | Handler::Callback(_) if limit > LIMIT_CAP => {
            Some(format!("the timeout of `{key}` is cut to {} s, the maximum", LIMIT_CAP.as_secs()))
        }
        Handler::Command(_) | Handler::Callback(_) => {
            let unmatched = matcher.unmatched_text().filter(|_| event.is_about_tools());
            unmatched.map(|text| format!("the matcher `{text}` of `{key}` matches no known tool"))
        }
    };
    let (limit, note) = (limit.min(LIMIT_CAP), note.map(Into::into));
    let (matcher, footing) = (matcher.clone(), Footing::default());
    Hook { event, matcher, handler, limit, on_failure: None, footing, note }
}

/// Reads `onFailure`.
fn read_on_failure(fields: &Map<String, Value>, key: &str) -> Result<Option<OnFailure>, String> {
    let Some(value) = fields.get("onFailure").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let known = value.as_str().and_then(OnFailure::from_name);
    known.map(Some).ok_or_else(|| {
        format!("unknown `{key}.onFailure` {value} (expected `\"block\"` or `\"warn\"`)")
    })
}

fn matcher(group: &Map<String, Value>, key: &str) -> Result<Matcher, String> {
    let Some(matcher) = group.get("matcher").filter(|matcher| !matcher.is_null()) else {
        return Ok(Matcher::Any);
    };
    let text = matcher.as_str().ok_or_else(|| format!("`{key}.matcher` must be a string"))?;
    Matcher::parse(text).map_err(|why| format!("`{key}.matcher` is no regular expression: {why}"))
}

fn command(fields: &Map<String, Value>, key: &str) -> Result<Command, String> {
    match fields.get("type").and_then(Value::as_str) {
        Some("command") => {}
        Some(other) => {
            return Err(format!("`{key}` has the type `{other}`, but tine only runs `command`"));
        }
        None => return Err(format!("`{key}` has no `type`; `command` is what tine runs")),
    }
    if let Some(name) = NOT_DONE.into_iter().find(|name| asks_for(fields.get(*name))) {
        return Err(format!("`{key}.{name}` is nothing that tine does"));
    }
    if let Some(shell) = fields.get("shell").filter(|shell| shell.as_str() != Some("bash")) {
        return Err(format!("`{key}.shell` is {shell}, but tine only has `bash`"));
    }
    let text = fields.get("command").and_then(Value::as_str).unwrap_or_default().trim();
    if text.is_empty() {
        return Err(format!("`{key}.command` must be a string that is not empty"));
    }
    let arguments = match fields.get("args") {
        None => None,
        Some(given) => {
            let texts = array(given, &format!("{key}.args"))?.iter();
            let texts = texts.map(|text| text.as_str().map(str::to_owned)).collect();
            Some(texts).filter(Option::is_some).ok_or(format!("`{key}.args` must be strings"))?
        }
    };
    let is_async = match fields.get("async") {
        None => false,
        Some(value) => value.as_bool().ok_or(format!("`{key}.async` must be true or false"))?,
    };
    Ok(Command { text: text.into(), arguments, is_async })
}

fn asks_for(value: Option<&Value>) -> bool {
    !matches!(value, None | Some(Value::Null | Value::Bool(false)))
}

fn limit(fields: &Map<String, Value>, key: &str) -> Result<Duration, String> {
    let Some(timeout) = fields.get("timeout").filter(|timeout| !timeout.is_null()) else {
        return Ok(LIMIT);
    };
    let limit = timeout.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    // More is bounded when the hook is made.
    limit
        .filter(|limit| !limit.is_zero())
        .ok_or_else(|| format!("`{key}.timeout` must be seconds, more than 0"))
}

fn object<'a>(value: &'a Value, key: &str) -> Result<&'a Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("`{key}` must be an object"))
}

fn array<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    value.as_array().ok_or_else(|| format!("`{key}` must be an array"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(hook: Value) -> Value {
        json!({ "PreToolUse": [{ "matcher": "Bash", "hooks": [hook] }] })
    }

    #[track_caller]
    fn refused(value: &Value, expected: &str) {
        assert_eq!(parse(value, Brought::ForTine).unwrap_err(), expected);
    }

    #[test]
    fn hooks_are_read_in_their_order() {
        let value = json!({ "PreToolUse": [
            { "matcher": "Bash|Edit", "hooks": [
                { "type": "command", "command": "a", "timeout": 1.5 },
                { "type": "command", "command": "b", "args": ["x y"], "async": true,
                  "statusMessage": "looking", "if": null, "once": false },
            ] },
            { "hooks": [] },
        ] });
        let parsed = parse(&value, Brought::ForTine).unwrap();
        let hook = |command, limit| Hook {
            event: HookEvent::PreToolUse,
            matcher: Matcher::parse("Bash|Edit").unwrap(),
            handler: Handler::Command(command),
            limit,
            on_failure: None,
            footing: Footing::default(),
            note: None,
        };
        let a = Command { text: "a".into(), arguments: None, is_async: false };
        let arguments = Some(vec!["x y".to_owned()]);
        let b = Command { text: "b".into(), arguments, is_async: true };
        let hooks = vec![hook(a, Duration::from_millis(1_500)), hook(b, LIMIT)];
        assert_eq!(parsed, Parsed { hooks, unknown: Vec::new() });
    }

    #[test]
    fn what_cannot_be_done_is_said_and_where_it_stands() {
        let key = "`hooks.PreToolUse[0].hooks[0]";
        for (hook, expected) in [
            (
                json!({ "type": "prompt", "prompt": "safe?" }),
                format!("{key}` has the type `prompt`, but tine only runs `command`"),
            ),
            (
                json!({ "command": "a" }),
                format!("{key}` has no `type`; `command` is what tine runs"),
            ),
            (
                json!({ "type": "command" }),
                format!("{key}.command` must be a string that is not empty"),
            ),
            (
                json!({ "type": "command", "command": "a", "if": "Bash(git *)" }),
                format!("{key}.if` is nothing that tine does"),
            ),
            (
                json!({ "type": "command", "command": "a", "shell": "powershell" }),
                format!("{key}.shell` is \"powershell\", but tine only has `bash`"),
            ),
            (
                json!({ "type": "command", "command": "a", "timeout": 0 }),
                format!("{key}.timeout` must be seconds, more than 0"),
            ),
            (
                json!({ "type": "command", "command": "a", "args": [1] }),
                format!("{key}.args` must be strings"),
            ),
            (
                json!({ "type": "command", "command": "a", "onFailure": "deny" }),
                format!("unknown {key}.onFailure` \"deny\" (expected `\"block\"` or `\"warn\"`)"),
            ),
            (json!("a"), format!("{key}` must be an object")),
        ] {
            refused(&one(hook), &expected);
        }
        refused(&json!([]), "`hooks` must be an object");
        refused(&json!({ "Stop": {} }), "`hooks.Stop` must be an array");
        refused(&json!({ "Stop": [{}] }), "`hooks.Stop[0]` has no `hooks`");
    }

    #[test]
    fn a_limit_that_is_too_long_is_bounded_and_said_to_be() {
        let hook = json!({ "type": "command", "command": "a", "timeout": 7_200 });
        for brought in [Brought::ForTine, Brought::Along] {
            let hooks = parse(&one(hook.clone()), brought).unwrap().hooks;
            assert_eq!(hooks[0].limit, LIMIT_CAP);
            let note =
                "the timeout of `hooks.PreToolUse[0].hooks[0]` is cut to 3600 s, the maximum";
            assert_eq!(hooks[0].note.as_deref(), Some(note));
        }
    }

    #[test]
    fn what_another_harness_does_and_tine_does_not_fails_alone() {
        let hooks = json!([
            { "type": "prompt", "prompt": "safe?" },
            { "type": "command", "command": "a", "once": true },
            { "type": "command", "command": "b" },
        ]);
        let value = json!({ "PreToolUse": [{ "matcher": "Bash", "hooks": hooks }], "Stop": [{ "hooks": hooks }] });
        let parsed = parse(&value, Brought::Along).unwrap();
        let told: Vec<(&str, &str)> = parsed
            .hooks
            .iter()
            .map(|hook| (&**hook.handler.name(), hook.note.as_deref().unwrap_or_default()))
            .collect();
        let prompt = |moment: &str| {
            format!(
                "`hooks.{moment}[0].hooks[0]` has the type `prompt`, but tine only runs `command`"
            )
        };
        let once =
            |moment: &str| format!("`hooks.{moment}[0].hooks[1].once` is nothing that tine does");
        let denied = |why: String| format!("{why}; the hook denies everything that it guards");
        let left_out = |why: String| format!("{why}; it is left out");
        assert_eq!(
            told,
            [
                ("prompt", &*denied(prompt("PreToolUse"))),
                ("a", &*denied(once("PreToolUse"))),
                ("b", ""),
                ("prompt", &*left_out(prompt("Stop"))),
                ("a", &*left_out(once("Stop"))),
                ("b", ""),
            ]
        );
    }

    #[test]
    fn a_matcher_that_is_no_pattern_is_said_to_be_none() {
        let value = json!({ "PreToolUse": [{ "matcher": "mcp__(", "hooks": [] }] });
        let error = parse(&value, Brought::ForTine).unwrap_err();
        assert!(error.starts_with("`hooks.PreToolUse[0].matcher` is no regular expression: "));
    }

    #[test]
    fn a_group_of_another_harness_that_cannot_be_read_fails_alone_and_guards_everything() {
        let good = json!({ "matcher": "Bash", "hooks": [{ "type": "command", "command": "a" }] });
        for (bad, expected) in [
            (json!({ "matcher": "*.py", "hooks": [] }), "`hooks.PreToolUse[1].matcher` is no "),
            (json!({ "matcher": "mcp__(", "hooks": [] }), "`hooks.PreToolUse[1].matcher` is no "),
            (json!({ "matcher": 7, "hooks": [] }), "`hooks.PreToolUse[1].matcher` must be a "),
            (json!({ "matcher": "Bash" }), "`hooks.PreToolUse[1]` has no `hooks`"),
            (json!({ "hooks": {} }), "`hooks.PreToolUse[1].hooks` must be an array"),
            (json!({ "hooks": null }), "`hooks.PreToolUse[1].hooks` must be an array"),
            (json!("guard.sh"), "`hooks.PreToolUse[1]` must be an object"),
        ] {
            let value = json!({ "PreToolUse": [good, bad, good] });
            let hooks = parse(&value, Brought::Along).unwrap().hooks;
            assert_eq!(hooks.len(), 3, "{bad}");
            assert_eq!((&hooks[1].matcher, hooks[1].event), (&Matcher::Any, HookEvent::PreToolUse));
            let Handler::NotDone { name: _, why } = &hooks[1].handler else { panic!("{bad}") };
            assert!(why.starts_with(expected), "{why}");
            let note = hooks[1].note.as_deref().unwrap_or_default();
            assert!(note.ends_with("; the hook denies everything that it guards"), "{note}");
            assert!(parse(&value, Brought::ForTine).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_group_in_place_of_a_list_of_groups_is_read() {
        let group = json!({ "matcher": "Bash", "hooks": [{ "type": "command", "command": "a" }] });
        let hooks = |value: Value| parse(&json!({ "PreToolUse": value }), Brought::Along);
        let parsed = hooks(group).unwrap().hooks;
        assert_eq!(&**parsed[0].handler.name(), "a");
        for bad in [json!({ "Bash": [] }), json!("guard.sh"), json!(true)] {
            let parsed = hooks(bad).unwrap().hooks;
            assert!(matches!(parsed[0].handler, Handler::NotDone { .. }), "{parsed:?}");
        }
        assert_eq!(hooks(Value::Null).unwrap().hooks, []);
    }

    #[test]
    fn a_moment_is_known_in_any_case_and_a_matcher_of_no_tool_is_named() {
        let group = |matcher: &str| {
            json!([{ "matcher": matcher, "hooks": [
            { "type": "command", "command": "a" }] }])
        };
        for moment in ["preToolUse", "pre_tool_use", "PRE-TOOL-USE", " PreToolUse"] {
            let value = json!({ moment: group("Bsh") });
            let Parsed { hooks, unknown } = parse(&value, Brought::ForTine).unwrap();
            assert_eq!((hooks[0].event, &unknown[..]), (HookEvent::PreToolUse, &[][..]));
            let note =
                format!("the matcher `Bsh` of `hooks.{moment}[0].hooks[0]` matches no known tool");
            assert_eq!(hooks[0].note.as_deref(), Some(&*note));
        }
        let value = json!({ "SessionStart": group("startup"), "PostToolUse": group("Bash") });
        let hooks = parse(&value, Brought::ForTine).unwrap().hooks;
        assert!(hooks.iter().all(|hook| hook.note.is_none()), "{hooks:?}");
    }

    #[test]
    fn moments_of_other_harnesses_are_named_and_ours_are_known() {
        let value = json!({ "WorktreeCreate": [], "Stop": [] });
        let parsed = parse(&value, Brought::Along).unwrap();
        assert_eq!(parsed.unknown, ["WorktreeCreate"]);
        let error = parse(&value, Brought::ForTine).unwrap_err();
        assert!(error.starts_with("`hooks.WorktreeCreate` is no moment; there are: PreToolUse, "));
    }

    #[test]
    fn a_moment_has_no_more_hooks_than_can_run_at_once() {
        let hook = json!({ "type": "command", "command": "a" });
        let many = json!({ "Stop": [{ "hooks": vec![hook; HOOKS_CAP + 1] }] });
        refused(&many, "`hooks.Stop` has 33 hooks; there may be 32");
        assert!(HOOKS_CAP <= super::super::RUNNING_CAP as usize);
    }
}
