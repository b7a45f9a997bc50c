//! Hooks asked side by side, within their limits, put together in their order.

use std::path::Path;
use std::sync::Mutex;

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::Barrier;

use super::*;
use crate::event::{HookDecision, UnitId};

fn setting() -> Setting {
    Setting {
        session: SessionId("s-1".into()),
        transcript: None,
        shell: "sh".into(),
        variables: vec![("PATH".into(), "/usr/bin:/bin".into())],
        search: crate::guard::SearchPath::default(),
        has_people: false,
    }
}

fn who() -> Who<'static> {
    let cwd = Path::new("/");
    Who { unit: UnitId(3), agent: "explore", mode: "default", cwd }
}

fn stop() -> Occasion<'static> {
    Occasion::Stop { is_held: false, answer: "done" }
}

fn hook(handler: Handler) -> Hook {
    let (event, matcher, footing) = (HookEvent::Stop, Matcher::Any, Footing::default());
    Hook { event, matcher, handler, limit: LIMIT, on_failure: None, footing, note: None }
}

fn shell(text: &str) -> Hook {
    let text = text.into();
    hook(Handler::Command(Command { text, arguments: None, is_async: false }))
}

/// Answers by name, after all that are to be asked have been.
struct Answers {
    together: Barrier,
    asked: Mutex<Vec<String>>,
}

impl Answers {
    fn hooks(answers: &Arc<Self>, names: &[&str]) -> Vec<Hook> {
        let callback = |name: &&str| {
            let client = Arc::clone(answers) as Arc<dyn Client>;
            hook(Handler::Callback(Callback { id: (*name).into(), client }))
        };
        names.iter().map(callback).collect()
    }

    fn new(together: usize) -> Arc<Self> {
        Arc::new(Self { together: Barrier::new(together), asked: Mutex::default() })
    }
}

impl Client for Answers {
    fn ask<'a>(
        &'a self,
        callback: &'a str,
        _: &'a Value,
        _: Option<&'a CallId>,
    ) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(callback.to_owned());
            if callback == "hangs" {
                std::future::pending::<()>().await;
            }
            self.together.wait().await;
            match callback.split_once(' ') {
                Some((decision, reason)) => Ok(json!({ "decision": decision, "reason": reason })),
                None => Err("there is no such callback".to_owned()),
            }
        })
    }
}

async fn ask(hooks: Vec<Hook>) -> Heard {
    Hooks::new(hooks, setting()).ask(&stop(), &who(), &CancellationToken::new()).await
}

#[tokio::test(start_paused = true)]
async fn all_of_a_moment_are_asked_at_once_and_the_harshest_wish_counts() {
    let names = ["ask a", "allow b", "deny c", "deny d"];
    let heard = ask(Answers::hooks(&Answers::new(names.len()), &names)).await;
    assert_eq!(heard.effect.wish, Wish::Deny("c\nd".into()));
    let ran: Vec<&str> = heard.ran.iter().map(|ran| &*ran.hook).collect();
    assert_eq!(ran, names);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_is_configured_twice_is_asked_once() {
    let answers = Answers::new(1);
    ask(Answers::hooks(&answers, &["deny a", "deny a"])).await;
    assert_eq!(*answers.asked.lock().unwrap(), ["deny a"]);
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_hangs_or_fails_is_its_own_failure() {
    let heard = ask(Answers::hooks(&Answers::new(1), &["hangs", "wrong"])).await;
    let ran: Vec<_> =
        heard.ran.iter().map(|ran| (ran.outcome, &*ran.reason, ran.took_ms)).collect();
    let expected = [
        (HookOutcome::Failed, "ran past its limit of 60 s", 60_000),
        (HookOutcome::Failed, "failed: there is no such callback", 0),
    ];
    assert_eq!(ran, expected);
    assert_eq!(heard.effect, Effect::default());
}

#[tokio::test(start_paused = true)]
async fn a_cancel_withdraws_what_was_asked() {
    let cancel = CancellationToken::new();
    let hooks = Hooks::new(Answers::hooks(&Answers::new(1), &["hangs"]), setting());
    let occasion = stop();
    let who = who();
    let (heard, ()) = tokio::join!(hooks.ask(&occasion, &who, &cancel), async {
        tokio::task::yield_now().await;
        cancel.cancel();
    });
    assert_eq!(heard.ran[0].outcome, HookOutcome::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn no_more_hooks_run_at_once_than_there_may() {
    let answers = Answers::new(1);
    let hooks = Hooks::new(Answers::hooks(&answers, &["hangs"]), setting());
    let (cancel, occasion, who) = (CancellationToken::new(), stop(), who());
    let asking = join_all((0..100).map(|_| hooks.ask(&occasion, &who, &cancel)));
    let (heard, ()) = tokio::join!(asking, async {
        // Each place is taken for as long as a hook may take.
        tokio::time::sleep(LIMIT / 2).await;
        assert_eq!(answers.asked.lock().unwrap().len(), RUNNING_CAP as usize);
    });
    // A wait for a place counts towards the limit.
    let ran = heard.iter().flat_map(|heard| &heard.ran);
    assert!(ran.clone().all(|ran| ran.took_ms == 60_000), "{heard:?}");
    let unasked = ran.filter(|ran| &*ran.reason != "ran past its limit of 60 s");
    assert_eq!(unasked.count(), 100 - RUNNING_CAP as usize);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_others_have_crowded_out_is_shut() {
    let answers = Answers::new(1);
    let hooks = Answers::hooks(&answers, &["hangs"]).into_iter();
    let gates = hooks.map(|hook| Hook { event: HookEvent::PreToolUse, ..hook }).collect();
    let hooks = Hooks::new(gates, setting());
    let (cancel, who, arguments) = (CancellationToken::new(), who(), json!({}));
    let call = CallId::from("c");
    let facts = CallFacts { id: &call, tool: "Read", arguments: &arguments };
    let occasion = Occasion::PreToolUse(facts);
    let heard = join_all((0..=RUNNING_CAP).map(|_| hooks.ask(&occasion, &who, &cancel))).await;
    let denied = heard.iter().filter(|heard| match &heard.effect.wish {
        Wish::Deny(why) => why.contains("others took all places"),
        Wish::Nothing | Wish::Allow | Wish::Ask(_) => false,
    });
    assert_eq!(denied.count(), 1, "{heard:?}");
}

#[tokio::test]
async fn a_command_is_told_what_happens_and_says_what_it_wants() {
    let check = "grep -q '\"agent_id\":\"agent-3\"' && echo '{\"systemMessage\":\"found\"}'";
    let heard = ask(vec![shell(check)]).await;
    assert_eq!(&*heard.ran[0].message, "found", "{:?}", heard.ran);
    assert_eq!(heard.ran[0].exit_code, Some(0));
}

#[tokio::test]
async fn commands_run_side_by_side() {
    let place = tempfile::tempdir().unwrap();
    let fifo = place.path().join("meet");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // Each end of a pipe waits for the other one.
    let fifo = fifo.display();
    let heard = ask(vec![
        shell(&format!("read word < {fifo}; echo $word >&2; exit 2")),
        shell(&format!("echo met > {fifo}")),
    ]);
    assert_eq!(heard.await.effect.wish, Wish::Deny("met".into()));
}

#[tokio::test]
async fn a_command_that_hangs_floods_dies_or_does_not_listen_harms_nobody() {
    let hangs =
        Hook { limit: Duration::from_millis(50), ..shell("trap '' TERM; sleep 1000 & wait") };
    let mut nobody = shell("none");
    nobody.handler = Handler::Command(Command {
        text: "/nowhere/at-all".into(),
        arguments: Some(Vec::new()),
        is_async: false,
    });
    let hooks = vec![
        hangs,
        shell("yes | head -c 2000000"),
        shell("kill -9 $$"),
        shell("exec <&-; echo deaf >&2; exit 2"),
        nobody,
    ];
    let long = "x".repeat(1024 * 1024);
    let occasion = Occasion::Stop { is_held: true, answer: &long };
    let hooks = Hooks::new(hooks, setting());
    let heard = hooks.ask(&occasion, &who(), &CancellationToken::new()).await;
    let ran: Vec<_> = heard.ran.iter().map(|ran| (&*ran.reason, ran.decision)).collect();
    let expected = [
        ("ran past its limit of 0.05 s", None),
        ("printed more than 1048576 bytes", None),
        ("ended with signal 9", None),
        ("deaf", Some(HookDecision::Deny)),
        (
            "could not be run: No such file or directory (os error 2); `/nowhere/at-all` does not \
             exist: fix the path or `PATH` (it ran in `/`)",
            None,
        ),
    ];
    assert_eq!(ran, expected);
}

#[tokio::test]
async fn a_command_that_nobody_waits_for_runs_all_the_same() {
    let place = tempfile::tempdir().unwrap();
    let fifo = place.path().join("done");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let text = format!("echo '{{\"decision\":\"block\"}}'; echo ran > {}", fifo.display());
    // For as long as the hooks are there; then it would be ended.
    let hooks = Hooks::new(vec![unawaited(&text)], setting());
    let heard = hooks.ask(&stop(), &who(), &CancellationToken::new()).await;
    assert_eq!((heard.ran[0].outcome, heard.effect), (HookOutcome::Started, Effect::default()));
    let said = tokio::task::spawn_blocking(move || std::fs::read_to_string(fifo)).await.unwrap();
    assert_eq!(said.unwrap(), "ran\n");
}

fn unawaited(text: &str) -> Hook {
    let text = text.into();
    hook(Handler::Command(Command { text, arguments: None, is_async: true }))
}

#[tokio::test]
async fn hooks_that_nobody_waits_for_hold_up_no_other_and_are_told_of_when_they_are_ended() {
    let event = HookEvent::Stop;
    let mut hooks: Vec<Hook> =
        (0..=UNAWAITED_CAP).map(|number| unawaited(&format!("exec sleep 1000.{number}"))).collect();
    hooks.push(shell("echo no >&2; exit 2"));
    let hooks = Hooks::new(hooks, setting());
    let heard = hooks.ask(&stop(), &who(), &CancellationToken::new()).await;
    assert_eq!(heard.effect.wish, Wish::Deny("no".into()));
    let refused: Vec<_> =
        heard.ran.iter().filter(|ran| ran.outcome == HookOutcome::Failed).collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(&*refused[0].reason, "was not run: 32 that nobody waits for run already");
    let ended = hooks.finish(Duration::ZERO).await;
    assert_eq!(ended.len(), UNAWAITED_CAP);
    assert!(ended.iter().all(|ran| ran.event == event && ran.outcome == HookOutcome::Failed));
    assert_eq!(&*ended[0].reason, "still ran when the run had ended, and was ended");
}

#[tokio::test]
async fn a_hook_that_blocks_blocks_however_much_it_prints() {
    let heard = ask(vec![shell("head -c 3000000 /dev/zero; echo why >&2; exit 2")]).await;
    assert_eq!(heard.effect.wish, Wish::Deny("why".into()));
}

/// Never has an answer.
struct Mute;

impl Client for Mute {
    fn ask<'a>(
        &'a self,
        _: &'a str,
        _: &'a Value,
        _: Option<&'a CallId>,
    ) -> BoxFuture<'a, Result<Value, String>> {
        Box::pin(async { Err("it threw".to_owned()) })
    }
}

#[tokio::test]
async fn a_callback_that_must_answer_says_no_by_saying_nothing() {
    let client: Arc<dyn Client> = Arc::new(Mute);
    for (on_failure, expected) in [("block", HookOutcome::Blocked), ("warn", HookOutcome::Failed)] {
        let group = json!({ "hookCallbackIds": ["h"], "timeout": 5, "onFailure": on_failure });
        let parsed = parse_callbacks(&json!({ "Stop": [group] }), &client).unwrap();
        let heard = ask(parsed.hooks).await;
        assert_eq!(heard.ran[0].outcome, expected);
        let denies =
            matches!(&heard.effect.wish, Wish::Deny(why) if why.ends_with("failed: it threw"));
        assert_eq!(denies, on_failure == "block", "{:?}", heard.effect);
    }
}

#[test]
fn callbacks_are_read_by_moment_and_what_is_no_moment_of_ours_is_named() {
    let client: Arc<dyn Client> = Arc::new(Mute);
    let value = json!({
        "Stop": [{ "hookCallbackIds": ["a", "b"], "matcher": null }],
        "TeammateIdle": [{ "hookCallbackIds": ["c"] }],
    });
    let Parsed { hooks, unknown } = parse_callbacks(&value, &client).unwrap();
    assert_eq!(hooks.iter().map(|hook| &**hook.handler.name()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(hooks.iter().all(|hook| hook.limit == LIMIT && hook.matcher == Matcher::Any));
    assert_eq!(unknown, ["TeammateIdle"]);
    for wrong in
        [json!([]), json!({ "Stop": [{}] }), json!({ "Stop": [{ "hookCallbackIds": [7] }] })]
    {
        assert!(parse_callbacks(&wrong, &client).is_err(), "{wrong}");
    }
}
