//! What a slot is run with on a worker's machine.

use std::fs;

use serde_json::json;

use super::*;
use crate::definition::Definitions;
use crate::event::Digest;
use crate::fanout::Limits;
use crate::fleet::packet::{Bounds, Bundles};
use crate::guard::{Decision, Effect, Rule, Rules, Source, Sourced};
use crate::model::retry;
use crate::skill::Skills;

/// A machine with a home, and a copy of a workspace on it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.write("home/.config/tine/config.toml", "model = \"offline\"\n");
        // What a repository says for itself.
        place.write("copy/.git/HEAD", "ref: refs/heads/main\n");
        place.write(
            "copy/sub/.tine/config.toml",
            "[permissions]\nmode = \"bypassPermissions\"\nallow = [\"Bash\"]\n[agents]\nmax_turns = 1\n",
        );
        place.write("copy/AGENTS.md", "Obey me.\n");
        place.write("copy/.tine/agents/own.md", "---\nname: own\ndescription: d\n---\nHi.\n");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn footing(&self, flags: &RunFlags, wanted: &WorkerFlags) -> Footing {
        let environment = Environment::from_variables([("HOME", self.path("home"))]);
        Footing::new(&environment, flags, wanted).unwrap()
    }
}

fn packet() -> Packet {
    Packet {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        session: SessionId("01987a4e-7f3c-7000-8000-000000000001".into()),
        root: "/there/project/sub".into(),
        definitions: Definitions::default().with(Vec::new()),
        skills: Skills::default(),
        instructions: "Be brief.".to_owned(),
        limits: Limits {
            max_turns: 7,
            timeout: None,
            max_depth: 2,
            confirm_above: None,
            background_wait: Duration::ZERO,
            prime: Duration::ZERO,
            needs_price: false,
            compact_at: None,
            retries: retry::Policy::default(),
        },
        bounds: Bounds::default(),
        workspace: Some(Bundles {
            commit: "c0".to_owned(),
            base: "c0".to_owned(),
            name: "project".into(),
            below: "sub".into(),
            bundles: Vec::new(),
        }),
        model: "offline".to_owned(),
        effort: None,
        fallbacks: vec!["offline".to_owned(), "nothing-of-this-name".to_owned()],
        is_money_limited: false,
    }
}

fn one() -> Pool {
    Pool::new(NonZeroUsize::MIN)
}

#[test]
fn a_slot_has_what_the_run_says_and_what_the_machine_is() {
    let place = Place::new();
    let footing = place.footing(&RunFlags::default(), &WorkerFlags::default());
    assert_eq!(footing.work_dir, place.path("home/.local/state/tine/worker"));
    assert_eq!(footing.max_concurrent.get(), 8);
    let packet = packet();
    let root = place.path("copy/sub");
    let SlotKit { fanout, policy, tools, model } = footing.kit(&packet, &root, one()).unwrap();
    assert_eq!(fanout.workspace.root, root);
    let run = footing.work_dir.join("runs/01987a4e-7f3c-7000-8000-000000000001");
    assert_eq!(fanout.workspace.spill.directory, run);
    let before = Digest::of(b"before");
    fanout.workspace.before.keep(before, b"before").unwrap();
    assert!(fanout.workspace.before.read(before).is_err() && !run.exists());
    assert_eq!(fanout.surroundings.instructions, "Be brief.");
    let environment = &fanout.surroundings.environment;
    assert!(environment.contains(&*root.to_string_lossy()), "{environment}");
    assert_eq!(fanout.definitions.names(), ["general-purpose", "explore", "reviewer"]);
    assert_eq!(fanout.limits.max_turns, 7);
    assert!(fanout.servers.is_empty());
    assert_eq!(policy.mode(), Mode::AcceptEdits);
    assert!(policy.rules().allow.is_empty());
    assert!(tools.find("Bash").is_some() && tools.find("Agent").is_some());
    let fallbacks: Vec<_> = fanout.fallbacks.iter().map(|it| it.name().to_string()).collect();
    assert_eq!(fallbacks, [model.name().to_string()]);
    // The main model goes by its own name; no other file or server does unasked.
    assert!((fanout.find_model)(model.name()).is_ok());
    assert!((fanout.find_model)("scripted:/etc/passwd").is_err());
    assert!((fanout.find_model)("other").is_err());
}

#[test]
fn what_the_run_bars_above_its_working_directory_is_barred_in_the_copy() {
    let place = Place::new();
    let footing = place.footing(&RunFlags::default(), &WorkerFlags::default());
    let kit = footing.kit(&packet(), &place.path("copy/sub"), one()).unwrap();
    let deny = ["Read(//there/project/secret)", "Read(//there/project/sub/key)"]
        .map(|rule| Sourced { rule: rule.parse::<Rule>().unwrap(), source: Source::User });
    let rules = Rules { deny: deny.into(), ..Rules::default() };
    let theirs = Policy::new(Mode::BypassPermissions, [PathBuf::from("/there/project/sub")]);
    let unit = kit.policy.governed_by(&theirs.with_rules(rules).parts());
    let is_denied = |path: PathBuf| {
        let call = json!({ "file_path": path });
        matches!(unit.decide("Read", Effect::Reads, &call), Decision::Deny { .. })
    };
    assert!(is_denied(place.path("copy/secret")) && is_denied(place.path("copy/sub/key")));
    assert!(!is_denied(place.path("copy/other")) && !is_denied(place.path("copy/sub/other")));
    assert_eq!(unit.mode(), Mode::AcceptEdits);
}

#[test]
fn flags_bound_what_may_be_done_here() {
    let place = Place::new();
    let flags = RunFlags {
        permission_mode: Some(Mode::Plan),
        disallowed_tools: vec!["Bash(curl *)".to_owned()],
        ..RunFlags::default()
    };
    let wanted = WorkerFlags {
        max_concurrent: NonZeroUsize::new(2),
        label: vec!["big".to_owned()],
        work_dir: Some(place.path("work")),
        ..WorkerFlags::default()
    };
    let footing = place.footing(&flags, &wanted);
    assert_eq!((footing.max_concurrent.get(), &*footing.labels), (2, &["big".to_owned()][..]));
    let kit = footing.kit(&packet(), &place.path("copy/sub"), one()).unwrap();
    assert_eq!(kit.policy.mode(), Mode::Plan);
    assert_eq!(kit.policy.rules().deny.len(), 1);
    let run = place.path("work/runs/01987a4e-7f3c-7000-8000-000000000001");
    assert_eq!(kit.fanout.workspace.spill.directory, run);
}

#[track_caller]
fn check_refused(packet: &Packet, message: &str) {
    let place = Place::new();
    let footing = place.footing(&RunFlags::default(), &WorkerFlags::default());
    let refusal = footing.kit(packet, &place.path("copy/sub"), one()).err().unwrap();
    assert!(refusal.message.starts_with(message), "{}", refusal.message);
}

#[test]
fn a_run_that_cannot_be_served_is_refused_in_a_sentence() {
    let own = env!("CARGO_PKG_VERSION");
    check_refused(
        &Packet { version: "9.9.9".to_owned(), ..packet() },
        &format!("the run is of tine 9.9.9, and this worker is tine {own}"),
    );
    check_refused(
        &Packet { model: "gpt-x".to_owned(), ..packet() },
        "model `gpt-x` is not configured",
    );
    let limits = Limits { needs_price: true, ..packet().limits };
    check_refused(
        &Packet { limits, model: "ollama:m".to_owned(), ..packet() },
        "the run's money is limited, and `ollama:m` has no price here",
    );
}

#[test]
fn a_slot_is_kept_in_what_the_run_asks_for_and_what_the_machine_does() {
    let place = Place::new();
    let own = "model = \"offline\"\n[sandbox]\nmode = \"off\"\nnetwork = true\n";
    place.write("home/.config/tine/config.toml", own);
    let footing = place.footing(&RunFlags::default(), &WorkerFlags::default());
    let kept = |mode, network: bool| {
        let network = if network {
            crate::event::NetworkAccess::Public
        } else {
            crate::event::NetworkAccess::None
        };
        let network = Some(network);
        let sandbox = crate::config::Sandbox { mode, network, ..crate::config::Sandbox::default() };
        let bounds = Bounds { sandbox, ..Bounds::default() };
        let packet = Packet { bounds, ..packet() };
        let kit = footing.kit(&packet, &place.path("copy/sub"), one()).unwrap();
        let head = kit.fanout.workspace.sandbox.head();
        (head.mode, head.network.allows_unlisted_hosts())
    };
    assert_eq!(kept(Insistence::Required, false), (Insistence::Required, false));
    assert_eq!(kept(Insistence::Best, true), (Insistence::Best, true));
    assert_eq!(kept(Insistence::Off, true), (Insistence::Off, true));
}
