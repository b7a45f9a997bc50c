//! What loading promises, over real files in a directory of their own.

use super::nearest::KEYS;
use super::*;
use crate::event::HookEvent;
use crate::hook::{self, Command, Footing, Handler, Hook, Matcher};
use crate::message::{Price, Usd};
use crate::model::adaptation::Adaptation;
use serde_json::{Map, json};
use std::collections::BTreeSet;
use std::num::{NonZeroU8, NonZeroU32, NonZeroUsize};

const EXAMPLE: &str = include_str!("../../config.example.toml");

/// Loads `file` and the flags; errors name the directory as `HOME`.
fn load(file: &str, flags: &[&str]) -> Result<Loaded, String> {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), file).unwrap();
    let environment = Environment::from_variables([("TINE_HOME", home.path())]);
    let flags: Vec<_> = flags.iter().map(|&flag| flag.to_owned()).collect();
    Config::load(&environment, None, None, &flags)
        .map_err(|error| error.to_string().replace(home.path().to_str().unwrap(), "HOME"))
}

fn loaded(file: &str, flags: &[&str]) -> Config {
    let loaded = load(file, flags).unwrap();
    assert_eq!(loaded.warnings, Vec::<String>::new());
    loaded.config
}

#[track_caller]
fn check_error(file: &str, flags: &[&str], expected: &str) {
    assert_eq!(load(file, flags), Err(expected.to_owned()));
}

/// The example with its commented keys made real. They have no space behind
/// the `#`; sentences do.
fn whole_example() -> String {
    let lines = EXAMPLE.lines().map(|line| match line.strip_prefix('#') {
        Some(key) if !key.starts_with(' ') => key,
        Some(_) | None => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_example_is_the_default() {
    assert_eq!(loaded(EXAMPLE, &[]), Config::default());
    assert_eq!(loaded("", &[]), Config::default());
    let nowhere = Config::load(&Environment::default(), None, None, &[]).unwrap();
    assert_eq!(nowhere.config, Config::default());
}

#[test]
fn the_example_shows_every_key_and_they_are_all_known() {
    let config = loaded(&whole_example(), &[]);
    let entry = ModelEntry {
        preset: Preset::from_name("dashscope"),
        api: Some(Api::Chat),
        base_url: Some("https://api.example.com/v1".to_owned()),
        key_env: Some("EXAMPLE_API_KEY".to_owned()),
        model: Some("qwen3-plus".to_owned()),
        context_window: Some(262_144),
        max_output_tokens: Some(8192),
        price: Some(Price {
            input: Usd(500_000_000),
            output: Usd(1_500_000_000),
            cache_read: Usd(50_000_000),
            cache_write: Usd(625_000_000),
        }),
        requests_per_minute: NonZeroU32::new(600),
        tokens_per_minute: NonZeroU32::new(1_000_000),
        max_in_flight: NonZeroUsize::new(16),
        headers_s: NonZeroU32::new(600),
        first_piece_s: NonZeroU32::new(600),
        idle_s: NonZeroU32::new(120),
        effort: Effort::new("low"),
        images: Some(true),
        headers: Headers([("X-Team".to_owned(), "tools".to_owned())].into()),
        adaptations: vec![Adaptation::Without("stream_options".into()), Adaptation::SingleCalls],
        extra_body: Map::from_iter([("top_k".to_owned(), json!(20))]),
    };
    let text = "check-command".into();
    let hook = Hook {
        on_failure: None,
        event: HookEvent::PreToolUse,
        matcher: Matcher::parse("Bash").unwrap(),
        handler: Handler::Command(Command { text, arguments: None, is_async: false }),
        note: None,
        limit: hook::LIMIT,
        footing: Footing::default(),
    };
    let expected = Config {
        model: Some("qwen".to_owned()),
        models: [("qwen".to_owned(), entry)].into(),
        hooks: vec![hook],
        executor: Executor { nats: nats(), ..Executor::default() },
        mcp: Mcp { servers: [("files".to_owned(), server())].into(), ..Mcp::default() },
        ..Config::default()
    };
    assert_eq!(config, expected);

    let table: toml::Table = whole_example().parse().unwrap();
    for key in KEYS {
        let name = if key.starts_with("mcp.") { "files" } else { "qwen" };
        let mut segments = key.split('.').map(|key| if key == "NAME" { name } else { key });
        let first = segments.next().and_then(|key| table.get(key));
        let value = segments.try_fold(first, |value, key| Some(value?.get(key)));
        assert!(value.flatten().is_some(), "`{key}` is not in the example");
    }
}

/// The way to workers of the example.
fn nats() -> Nats {
    let text = |text: &str| Some(text.to_owned());
    Nats {
        label: Some("gpu".to_owned()),
        credentials: text("~/.config/tine/nats.creds"),
        ca: text("/etc/tine/ca.pem"),
        certificate: text("/etc/tine/client.pem"),
        key: text("/etc/tine/client.key"),
        replicas: NonZeroU8::new(3),
        max_concurrent: NonZeroUsize::new(100),
        ..Nats::default()
    }
}

/// The server of the example, with both ways to reach one.
fn server() -> mcp::Entry {
    let text = |text: &str| Some(text.to_owned());
    let pair = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
    let arguments = ["-y", "@modelcontextprotocol/server-filesystem", "."];
    mcp::Entry {
        kind: text("stdio"),
        command: text("npx"),
        arguments: arguments.map(str::to_owned).into(),
        variables: pair("LOG_LEVEL", "warn"),
        directory: text("/srv/files"),
        url: text("https://mcp.example.com/mcp"),
        headers: pair("Authorization", "Bearer ${MCP_TOKEN}"),
        is_disabled: false,
    }
}

fn other_chat() -> Chat {
    Chat {
        editing: Editing::Vi,
        theme: Theme::Light,
        bell: Bell::Osc9,
        bell_after: Duration::ZERO,
        title: false,
        screen_reader: true,
    }
}

fn required_sandbox() -> Sandbox {
    Sandbox {
        mode: Insistence::Required,
        network: Some(NetworkAccess::Public),
        lists_hosts: false,
        write: vec!["~/.cargo".to_owned()],
    }
}

/// Flags that set much of what there is to something else.
const OTHER_FLAGS: [&str; 34] = [
    "agents.max_turns=7",
    "agents.timeout_s = 90",
    "agents.prime_ms=0",
    "agents.confirm_above=0",
    "agents.worktree=keep",
    "background.wait_s=5",
    "session.persist=false",
    "session.max_age_days=30",
    "session.compact_at=0.5",
    "permissions.deny=[\"Bash(rm *)\"]",
    "models.a.max_output_tokens=2",
    "models.a.extra_body.top_p=0.5",
    "permissions.mode=plan",
    "retry.most=2",
    "retry.base_ms=40",
    "sandbox={mode=\"required\", network=true, write=[\"~/.cargo\"]}",
    "chat.editing=vi",
    "chat.theme=light",
    "chat.bell=osc9",
    "chat.bell_after_s=0",
    "chat.title=false",
    "chat.screen_reader=true",
    "web.allow_hosts=[\"wiki.example.lan:8080\"]",
    "executor.kind=nats",
    "executor.nats.servers=[\"tls://box\", \"nats://ada:secret@box:4223\"]",
    "executor.nats.prefix=team",
    "executor.nats.label=gpu",
    "executor.nats.lease_s=600",
    "executor.nats.replicas=1",
    "executor.nats.max_concurrent=100",
    "mcp.startup_ms=70",
    "mcp.call_ms=80",
    "mcp.servers.a.command=x",
    "mcp.servers.a.enabled=false",
];

fn other_executor() -> Executor {
    Executor {
        kind: ExecutorKind::Nats,
        nats: Nats {
            servers: ["tls://box", "nats://ada:secret@box:4223"]
                .map(|it| NatsServer::parse(it).unwrap())
                .into(),
            prefix: "team".to_owned(),
            label: Some("gpu".to_owned()),
            lease: Duration::from_secs(600),
            replicas: NonZeroU8::new(1),
            max_concurrent: NonZeroUsize::new(100),
            ..Nats::default()
        },
    }
}

#[test]
fn a_flag_comes_over_the_file_and_the_file_over_the_default() {
    let file = "model = 'a'\nagents = { max_depth = 5, max_turns = 6 }\n\
                [models.a]\nbase_url = 'http://localhost/v1'\nmax_output_tokens = 1";
    let config = loaded(file, &OTHER_FLAGS);
    let entry = ModelEntry {
        base_url: Some("http://localhost/v1".to_owned()),
        max_output_tokens: Some(2),
        extra_body: Map::from_iter([("top_p".to_owned(), json!(0.5))]),
        ..ModelEntry::default()
    };
    let timeout = Some(Duration::from_secs(90));
    let expected = Config {
        model: Some("a".to_owned()),
        models: [("a".to_owned(), entry)].into(),
        agents: Agents {
            max_depth: 5,
            max_turns: 7,
            timeout,
            prime: Duration::ZERO,
            confirm_above: None,
            worktree: WorktreeEnd::Keep,
            ..Agents::default()
        },
        permissions: Permissions {
            mode: crate::guard::Mode::Plan,
            deny: vec![WrittenRule { text: "Bash(rm *)".to_owned(), source: Source::Flag }],
            ..Permissions::default()
        },
        session: Session {
            persist: false,
            max_age: Some(Duration::from_secs(30 * 24 * 60 * 60)),
            compact_at: WindowShare::new(0.5),
        },
        background: Background { wait: Duration::from_secs(5) },
        retry: Retry { most: 2, base: Duration::from_millis(40) },
        sandbox: required_sandbox(),
        chat: other_chat(),
        web: Web { allow_hosts: vec![Host::parse("wiki.example.lan:8080").unwrap()] },
        executor: other_executor(),
        hooks: Vec::new(),
        mcp: Mcp {
            startup: Duration::from_millis(70),
            call: Duration::from_millis(80),
            servers: [(
                "a".to_owned(),
                mcp::Entry {
                    command: Some("x".to_owned()),
                    is_disabled: true,
                    ..mcp::Entry::default()
                },
            )]
            .into(),
            of_project: BTreeSet::new(),
        },
    };
    assert_eq!(config, expected);
}

#[test]
fn a_bare_word_on_the_command_line_is_a_string() {
    let model = |flag| loaded("", &[flag]).model;
    assert_eq!(model("model=qwen3.5-plus"), Some("qwen3.5-plus".to_owned()));
    assert_eq!(model("model=scripted:a b=c"), Some("scripted:a b=c".to_owned()));
    assert_eq!(model("model=\"4\""), Some("4".to_owned()));
    assert_eq!(model("model=a\nagents.max_depth=9"), Some("a\nagents.max_depth=9".to_owned()));
    let quoted = loaded("", &["models.\"a.b\".base_url=http://localhost"]);
    assert_eq!(quoted.models["a.b"].base_url.as_deref(), Some("http://localhost"));
}

#[test]
fn too_few_and_too_many_at_once_become_possible_with_a_warning() {
    let concurrent = |asked: &str| {
        let Loaded { config, warnings } =
            load("", &[&format!("agents.max_concurrent={asked}")]).unwrap();
        (config.agents.max_concurrent.get(), warnings)
    };
    let warning = |text: &str| vec![text.to_owned()];
    assert_eq!(concurrent("1"), (1, vec![]));
    assert_eq!(concurrent("10000"), (10_000, vec![]));
    let zero = warning("`agents.max_concurrent` is 0; 1 is used instead");
    assert_eq!(concurrent("0"), (1, zero));
    let negative = warning("`agents.max_concurrent` is -3; 1 is used instead");
    assert_eq!(concurrent("-3"), (1, negative));
    let many = warning("`agents.max_concurrent` is 9000000000000000000; 10000 is used instead");
    assert_eq!(concurrent("9000000000000000000"), (10_000, many));
}

#[test]
fn a_conversation_is_compacted_at_a_share_or_never() {
    let at = |text: &str| loaded("", &[&format!("session.compact_at={text}")]).session.compact_at;
    assert_eq!(at("0.8"), Some(WindowShare::default()));
    assert_eq!(at("0.1"), WindowShare::new(0.1));
    assert_eq!((at("0"), at("0.0")), (None, None));
    for wrong in ["0.05", "0.96", "1", "80", "-0.5", "nan", "inf"] {
        check_error(
            "",
            &[&format!("session.compact_at={wrong}")],
            "`session.compact_at` cannot be used in `--config`\n\
             hint: it must be from 0.1 to 0.95, or 0 for never",
        );
    }
    check_error(
        "[session]\ncompact_at = true",
        &[],
        "`session.compact_at` is a boolean in HOME/config.toml, line 2\n\
         hint: it must be a number",
    );
    check_error(
        "",
        &["models.q.base_url=http://localhost", "models.q.context_window=0"],
        "`models.q.context_window` cannot be used in `--config`\n\
         hint: it must be from 1 to 4294967295",
    );
}

#[test]
fn a_word_that_is_no_choice_is_told_with_all_there_are() {
    let check = |flag: &str, names: &str| {
        let key = flag.split('=').next().unwrap_or_default();
        let expected =
            format!("`{key}` cannot be used in `--config`\nhint: it must be one of {names}");
        check_error("", &[flag], &expected);
    };
    check("chat.editing=nano", "emacs, vi");
    check("chat.theme=blue", "dark, light, plain");
    check("chat.bell=loud", "off, bell, osc9");
    check_error(
        "[chat]\nthem = 'dark'",
        &[],
        "unknown key `chat.them` in HOME/config.toml, line 2\n\
         hint: did you mean `chat.theme`?",
    );
}

#[test]
fn a_model_of_a_preset_needs_no_address() {
    let config = loaded("[models.fast]\npreset = 'groq'\nmodel = 'openai/gpt-oss-120b'", &[]);
    let entry = ModelEntry {
        preset: Preset::from_name("groq"),
        model: Some("openai/gpt-oss-120b".to_owned()),
        ..ModelEntry::default()
    };
    assert_eq!(config.models, [("fast".to_owned(), entry)].into());
}

#[test]
fn a_price_is_exact_and_comes_together_from_all_layers() {
    let file = "[models.q]\nbase_url = 'http://localhost'\nprice = { input = 3, output = 15 }";
    let price = |flags: &[&str]| loaded(file, flags).models["q"].price;
    let expected = Price {
        input: Usd(3_000_000_000),
        output: Usd(15_000_000_000),
        cache_read: Usd(3_000_000_000),
        cache_write: Usd(3_000_000_000),
    };
    assert_eq!(price(&[]), Some(expected));
    let flags = ["models.q.price.cache_read=0.1", "models.q.price.input=0.0000000014"];
    let expected =
        Price { input: Usd(1), cache_read: Usd(100_000_000), cache_write: Usd(1), ..expected };
    assert_eq!(price(&flags), Some(expected));
}

#[test]
fn what_a_model_cannot_be_is_refused_with_what_it_can() {
    let file = "[models.q]\n\
                preset = 'grok'\n\
                api = 'grpc'\n\
                price = { input = -1, outptu = 2 }\n\
                requests_per_minute = 0\n\
                max_in_flight = 2.5\n\
                effort = 'as hard as you can'\n\
                images = 'yes'";
    check_error(
        file,
        &["models.q.price.output=nan", "models.q.price.cache_read=1e300"],
        "`models.q.preset` cannot be used in HOME/config.toml, line 2\n\
         hint: it must be one of openai, anthropic, openrouter, deepseek, dashscope, groq, \
         ollama, lmstudio, llamacpp, vllm\n\
         error: `models.q.api` cannot be used in HOME/config.toml, line 3\n\
         hint: it must be one of chat, responses, anthropic\n\
         error: `models.q.price.input` cannot be used in HOME/config.toml, line 4\n\
         hint: it must be an amount of dollars, such as 0.25\n\
         error: unknown key `models.q.price.outptu` in HOME/config.toml, line 4\n\
         hint: did you mean `models.q.price.output`?\n\
         error: `models.q.requests_per_minute` cannot be used in HOME/config.toml, line 5\n\
         hint: it must be from 1 to 4294967295\n\
         error: `models.q.max_in_flight` is a number with a fraction in HOME/config.toml, line 6\n\
         hint: it must be a whole number\n\
         error: `models.q.effort` cannot be used in HOME/config.toml, line 7\n\
         hint: it must be one word such as low, medium or high\n\
         error: `models.q.images` is a string in HOME/config.toml, line 8\n\
         hint: it must be `true` or `false`\n\
         error: `models.q.price.output` cannot be used in `--config`\n\
         hint: it must be an amount of dollars, such as 0.25\n\
         error: `models.q.price.cache_read` cannot be used in `--config`\n\
         hint: it must be an amount of dollars, such as 0.25\n\
         error: `models.q.base_url` is missing\n\
         hint: set it, as in `base_url = \"http://localhost:11434/v1\"`, or set `preset`",
    );
    check_error(
        "",
        &["models.q.preset=groq", "models.q.price.output=2"],
        "`models.q.price.input` is missing\n\
         hint: a price has at least `input` and `output`, in dollars for a million tokens",
    );
}

#[test]
fn every_problem_is_reported_with_its_line_and_a_hint() {
    let file = "\n\
                [agent]\n\
                max_concurent = 4\n\
                [session]\n\
                persist = 'yes'\n\
                colour = true\n\
                [agents]\n\
                max_turns = 0\n\
                max_depth = 2.5\n\
                [models.offline]\n\
                [models.'my model']\n\
                headers = { 'a b' = 'c' }\n\
                extra_body.when = 2020-01-01\n\
                [permissions]\n\
                allow = ['Read', 1]";
    check_error(
        file,
        &["agents.max_turns=many", "maxdepth=1"],
        "unknown key `agent.max_concurent` in HOME/config.toml, line 3\n\
         hint: did you mean `agents.max_concurrent`?\n\
         error: `session.persist` is a string in HOME/config.toml, line 5\n\
         hint: it must be `true` or `false`\n\
         error: unknown key `session.colour` in HOME/config.toml, line 6\n\
         hint: `config.example.toml` shows every key\n\
         error: `agents.max_turns` cannot be used in HOME/config.toml, line 8\n\
         hint: it must be from 1 to 4294967295\n\
         error: `agents.max_depth` is a number with a fraction in HOME/config.toml, line 9\n\
         hint: it must be a whole number\n\
         error: `models.offline` cannot be used in HOME/config.toml, line 10\n\
         hint: choose another name: this one is built in\n\
         error: `models.\"my model\".headers.\"a b\"` cannot be used in HOME/config.toml, line 12\n\
         hint: a header's name and value are plain ASCII on one line\n\
         error: `models.\"my model\".extra_body.when` cannot be used in HOME/config.toml, line 13\n\
         hint: use only what JSON has: no dates, `inf` or `nan`\n\
         error: `permissions.allow` is an array in HOME/config.toml, line 15\n\
         hint: it must be an array of strings\n\
         error: `agents.max_turns` is a string in `--config`\n\
         hint: it must be a whole number\n\
         error: unknown key `maxdepth` in `--config`\n\
         hint: `config.example.toml` shows every key\n\
         error: `models.\"my model\".base_url` is missing\n\
         hint: set it, as in `base_url = \"http://localhost:11434/v1\"`, or set `preset`",
    );
}

#[test]
fn the_rules_of_all_layers_count_and_each_knows_its_own() {
    let file = "[permissions]\nallow = [\"Read\"]\nask = [\"Bash\"]\ndeny = [\"Edit(a)\"]\n";
    let flags = ["permissions.deny=[\"Edit(b)\"]", "permissions.ask=[]"];
    let Permissions { mode: _, allow, ask, deny } = loaded(file, &flags).permissions;
    let rule = |text: &str, source| WrittenRule { text: text.to_owned(), source };
    assert_eq!(allow, [rule("Read", Source::User)]);
    assert_eq!(ask, [rule("Bash", Source::User)]);
    assert_eq!(deny, [rule("Edit(a)", Source::User), rule("Edit(b)", Source::Flag)]);
}

#[test]
fn a_mode_or_a_rule_that_cannot_be_is_refused_with_its_line() {
    check_error(
        "[permissions]\nmode = \"zz\"\nallow = [\"Bash(git\"]",
        &[],
        "`permissions.mode` cannot be used in HOME/config.toml, line 2\n\
         hint: it must be one of plan, default, dontAsk, acceptEdits, bypassPermissions\n\
         error: `permissions.allow` cannot be used in HOME/config.toml, line 3\n\
         hint: `Bash(git` is not a rule such as `Bash(git *)`, `Edit(src/**)` or `Read`",
    );
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    let error = load("model = 'a'\n[agents\nmax_depth = 1", &[]).unwrap_err();
    assert!(error.starts_with("failed to parse HOME/config.toml, line 2: "), "{error}");
    let error = load("model = 'a'\nmodel = 'b'", &[]).unwrap_err();
    assert!(error.starts_with("failed to parse HOME/config.toml, line 2: "), "{error}");
    let error = load("", &["permissions.allow=[\"Read"]).unwrap_err();
    assert!(error.starts_with("failed to parse `--config`: "), "{error}");
}

#[test]
fn a_flag_that_is_no_pair_is_refused_without_its_value() {
    for flag in ["model", "=x", "a b=secret", "[agents]\nmax_depth=secret", "# model=secret"] {
        let key = flag.split('=').next().unwrap();
        let expected = format!(
            "`--config {key}` is no `KEY=VALUE`\nhint: write a key and its value, as in \
             `--config agents.max_concurrent=4`"
        );
        check_error("", &[flag], &expected);
    }
    check_error(
        "",
        &["model="],
        "`model` cannot be used in `--config`\nhint: it must not be empty",
    );
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_not_the_default() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("config.toml");
    let environment = Environment::from_variables([("TINE_HOME", home.path())]);
    let problem = || Config::load(&environment, None, None, &[]).unwrap_err().to_string();
    let expected = |why: &str| format!("failed to read {}: {why}", path.display());

    std::fs::write(&path, b"model = '\xff'").unwrap();
    assert_eq!(problem(), expected("stream did not contain valid UTF-8"));
    let cap = usize::try_from(FILE_CAP).unwrap();
    std::fs::write(&path, "#".repeat(cap + 1)).unwrap();
    assert_eq!(problem(), expected("it is longer than 1048576 bytes"));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(problem(), expected("Is a directory (os error 21)"));
}

#[test]
fn a_command_gets_no_variable_that_holds_a_key() {
    let flags = ["models.q.base_url=http://localhost", "models.q.key_env=Q_KEY"];
    let secret = loaded("", &flags).secret_variables();
    assert_eq!(
        secret,
        [
            "ANTHROPIC_API_KEY",
            "DASHSCOPE_API_KEY",
            "DEEPSEEK_API_KEY",
            "GROQ_API_KEY",
            "OPENAI_API_KEY",
            "OPENROUTER_API_KEY",
            "OTEL_EXPORTER_OTLP_HEADERS",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "Q_KEY"
        ]
    );
}

#[test]
fn hosts_near_by_are_the_users_alone_to_name() {
    let text = "[web]\nallow_hosts = ['127.0.0.1:80']\n";
    let project = ProjectSettings { path: "/w/.tine/config.toml".into(), text: text.to_owned() };
    let refused = Config::load(&Environment::default(), Some(&project), None, &[]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`web.allow_hosts` cannot be used in /w/.tine/config.toml, line 2\n\
         hint: only your own configuration may set it"
    );
    for wrong in ["[\"http://x\"]", "[\"*\"]", "[\"\"]"] {
        assert!(load("", &[&format!("web.allow_hosts={wrong}")]).is_err(), "{wrong}");
    }
}

#[test]
fn where_agents_run_is_only_the_users_to_say() {
    let project = ProjectSettings {
        path: "/w/.tine/config.toml".into(),
        text: "[executor]\nkind = \"nats\"\n".to_owned(),
    };
    let loaded = Config::load(&Environment::default(), Some(&project), None, &[]);
    assert_eq!(
        loaded.unwrap_err().to_string(),
        "`executor.kind` cannot be used in /w/.tine/config.toml, line 2\n\
         hint: only your own configuration may set it"
    );
}

#[test]
fn what_is_wrong_about_workers_is_said_without_what_is_secret() {
    let address = "an address looks like `nats://HOST:4222`, or `tls://HOST:4222` to insist on TLS";
    for (flag, key, hint) in [
        ("kind=moon", "kind", "it must be one of local, nats"),
        (
            "nats.servers=[]",
            "nats.servers",
            &*format!("it must be one address or several; {address}"),
        ),
        (
            "nats.servers=[\"http://ada:secret@box\"]",
            "nats.servers",
            &format!("it must be one address or several; {address}"),
        ),
        (
            "nats.prefix=a.b",
            "nats.prefix",
            "it must be of letters, digits, `-` and `_`, and at most 32",
        ),
        (
            "nats.label=any",
            "nats.label",
            "it must not be that: every worker takes agents that ask for none",
        ),
        ("nats.credentials=a.creds", "nats.credentials", "it must begin with `/` or `~/`"),
        ("nats.lease_s=0", "nats.lease_s", "it must be from 1 to 600"),
        ("nats.lease_s=601", "nats.lease_s", "it must be from 1 to 600"),
        ("nats.replicas=6", "nats.replicas", "it must be from 1 to 5"),
        ("nats.max_concurrent=0", "nats.max_concurrent", "it must be from 1 to 10000"),
    ] {
        let expected = format!("`executor.{key}` cannot be used in `--config`\nhint: {hint}");
        check_error("", &[&format!("executor.{flag}")], &expected);
    }
    check_error(
        "[executor.nats]\ncertificate = \"/a.pem\"\n",
        &[],
        "`executor.nats.key` is missing\nhint: a certificate of one's own has a key: set \
         `certificate` and `key`, or neither",
    );
    check_error(
        "[executor.nats]\nlease = 3\n",
        &[],
        "unknown key `executor.nats.lease` in HOME/config.toml, line 2\n\
         hint: did you mean `executor.nats.lease_s`?",
    );
}
