//! What an entry, its preset and the environment come to together.

use super::*;
use crate::config::{EffortKey, OutputLimitKey, ReasoningBack, UsageInStream};
use crate::message::Usd;
use secrecy::ExposeSecret;

fn ready(entry: &ModelEntry, variables: &[(&str, &str)]) -> Result<ServerModel, ModelChoiceError> {
    let environment = Environment::from_variables(variables.iter().copied());
    settle("q", entry, &environment)?.ready()
}

/// Checks API, address, key and its source.
#[track_caller]
fn check(entry: &ModelEntry, variables: &[(&str, &str)], expected: Result<&str, ModelChoiceError>) {
    let shown = ready(entry, variables).map(|server| {
        let ServerModel { api, base_url, key, key_source, .. } = server;
        let key = key.as_ref().map_or("-", |key| key.expose_secret());
        format!("{} {base_url} {key} {}", api.as_str(), key_source.as_str())
    });
    assert_eq!(shown, expected.map(str::to_owned));
}

fn at(base_url: &str, key_env: Option<&str>) -> ModelEntry {
    let (base_url, key_env) = (Some(base_url.to_owned()), key_env.map(str::to_owned));
    ModelEntry { base_url, key_env, ..ModelEntry::default() }
}

fn of(preset: &str) -> ModelEntry {
    let preset = Preset::from_name(preset).expect("the test names a preset");
    ModelEntry { preset: Some(preset), ..ModelEntry::default() }
}

fn no_key(variable: &str) -> Result<&'static str, ModelChoiceError> {
    Err(ModelChoiceError::MissingKey { name: "q".to_owned(), variable: variable.to_owned() })
}

const OPENAI: (&str, &str) = ("OPENAI_API_KEY", "sk-1");
const GROQ: (&str, &str) = ("GROQ_API_KEY", "sk-2");

#[test]
fn a_configured_model_has_the_key_of_its_own_variable_only() {
    let remote = at("https://api.example.com/v1", Some("Q_KEY"));
    let both = [OPENAI, ("Q_KEY", "sk-3")];
    check(&remote, &both, Ok("chat https://api.example.com/v1 sk-3 Q_KEY"));
    check(&remote, &[OPENAI], no_key("Q_KEY"));
    let keyless = at("https://api.example.com/v1", None);
    check(&keyless, &[OPENAI], Ok("chat https://api.example.com/v1 - none"));
    // OpenAI's own address, but no preset: the key is named or not sent.
    let openai = at("https://api.openai.com/v1", None);
    check(&openai, &[OPENAI], Ok("chat https://api.openai.com/v1 - none"));
}

#[test]
fn a_server_on_this_machine_needs_no_key() {
    for host in ["localhost:8080", "127.0.0.1", "127.8.8.8", "[::1]:80", "a.localhost"] {
        let url = format!("http://{host}/v1");
        check(&at(&url, Some("Q_KEY")), &[], Ok(&format!("chat {url} - none")));
    }
    for host in ["localhost.example.com", "128.0.0.1", "127.0.0.1.example.com"] {
        check(&at(&format!("http://{host}/v1"), Some("Q_KEY")), &[], no_key("Q_KEY"));
    }
}

#[test]
fn a_preset_has_its_own_address_key_and_api() {
    check(&of("openai"), &[OPENAI], Ok("responses https://api.openai.com/v1 sk-1 OPENAI_API_KEY"));
    check(
        &of("groq"),
        &[OPENAI, GROQ],
        Ok("chat https://api.groq.com/openai/v1 sk-2 GROQ_API_KEY"),
    );
    check(&of("groq"), &[OPENAI], no_key("GROQ_API_KEY"));
    let claude = [("ANTHROPIC_API_KEY", "sk-4")];
    let expected = "anthropic https://api.anthropic.com/v1 sk-4 ANTHROPIC_API_KEY";
    check(&of("anthropic"), &claude, Ok(expected));
    for (name, port) in [("ollama", 11434), ("lmstudio", 1234), ("llamacpp", 8080), ("vllm", 8000)]
    {
        check(&of(name), &[OPENAI], Ok(&format!("chat http://127.0.0.1:{port}/v1 - none")));
    }
}

#[test]
fn explicit_keys_win_over_a_preset() {
    let entry =
        ModelEntry { api: Some(Api::Responses), key_env: Some("MY_KEY".to_owned()), ..of("groq") };
    let variables = [GROQ, ("MY_KEY", "sk-5")];
    check(&entry, &variables, Ok("responses https://api.groq.com/openai/v1 sk-5 MY_KEY"));
    check(&entry, &[GROQ], no_key("MY_KEY"));
}

#[test]
fn a_presets_key_goes_to_no_other_server() {
    let elsewhere = |url: &str| ModelEntry { base_url: Some(url.to_owned()), ..of("groq") };
    for url in [
        "https://api.groq.com.example.com/openai/v1",
        "https://proxy.example.com/api.groq.com",
        "http://api.groq.com/openai/v1",
        "https://api.groq.com:8443/openai/v1",
    ] {
        check(&elsewhere(url), &[GROQ], Ok(&format!("chat {url} - none")));
    }
    let same = "https://api.groq.com/openai/v2";
    check(&elsewhere(same), &[GROQ], Ok(&format!("chat {same} sk-2 GROQ_API_KEY")));
}

#[test]
fn the_environment_moves_a_preset_and_its_key_with_it() {
    let url = ("OPENAI_BASE_URL", "http://box:8000/v1//");
    check(&of("openai"), &[OPENAI, url], Ok("chat http://box:8000/v1 sk-1 OPENAI_API_KEY"));
    check(&of("openai"), &[url], Ok("chat http://box:8000/v1 - none"));
    let entry = ModelEntry { api: Some(Api::Responses), ..of("openai") };
    check(&entry, &[url], Ok("responses http://box:8000/v1 - none"));
    // What is configured stays where it is.
    let entry = ModelEntry { base_url: Some("http://here/v1".to_owned()), ..of("openai") };
    check(&entry, &[OPENAI, url], Ok("responses http://here/v1 - none"));
    // And OpenAI's own address is OpenAI, however it is said.
    let same = ("OPENAI_BASE_URL", "https://api.openai.com/v1/");
    let expected = Ok("responses https://api.openai.com/v1 sk-1 OPENAI_API_KEY");
    check(&of("openai"), &[OPENAI, same], expected);
    check(&of("openai"), &[same], no_key("OPENAI_API_KEY"));
    check(&of("ollama"), &[("OLLAMA_HOST", "box")], Ok("chat http://box:11434/v1 - none"));
}

#[test]
fn an_address_of_anthropics_api_is_right_with_and_without_its_version() {
    for url in ["https://box/a", "https://box/a/", "https://box/a/v1", "https://box/a/v1/"] {
        let variables = [("ANTHROPIC_BASE_URL", url), ("ANTHROPIC_API_KEY", "sk-4")];
        let expected = Ok("anthropic https://box/a/v1 sk-4 ANTHROPIC_API_KEY");
        check(&of("anthropic"), &variables, expected);
        let entry = ModelEntry { api: Some(Api::Anthropic), ..at(url, None) };
        check(&entry, &[], Ok("anthropic https://box/a/v1 - none"));
    }
    let queried = at("https://box/a/?version=2", None);
    let queried = ModelEntry { api: Some(Api::Anthropic), ..queried };
    check(&queried, &[], Ok("anthropic https://box/a/v1?version=2 - none"));
}

#[test]
fn quirks_go_with_the_server_and_not_with_the_name() {
    let quirks = |entry: &ModelEntry, variables: &[(&str, &str)]| {
        let key = ["OPENAI", "DEEPSEEK", "OPENROUTER"].map(|name| format!("{name}_API_KEY"));
        let keys = key.iter().map(|name| (name.as_str(), "k"));
        let variables: Vec<_> = variables.iter().copied().chain(keys).collect();
        ready(entry, &variables).unwrap().quirks
    };
    let deepseek = Quirks { reasoning: ReasoningBack::WithCalls, ..Quirks::NONE };
    assert_eq!(quirks(&of("deepseek"), &[]), deepseek);
    assert_eq!(quirks(&at("https://api.deepseek.com/v1", None), &[]), deepseek);
    let moved = [("OPENAI_BASE_URL", "https://api.deepseek.com")];
    assert_eq!(quirks(&of("openai"), &moved), deepseek);
    assert_eq!(quirks(&at("https://proxy.example.com", None), &[]), Quirks::NONE);
    let behind_a_proxy =
        ModelEntry { base_url: Some("https://proxy.example.com/v1".to_owned()), ..of("deepseek") };
    assert_eq!(quirks(&behind_a_proxy, &[]), deepseek);
    let openai = quirks(&of("openai"), &[]);
    assert_eq!(openai.output_limit, OutputLimitKey::MaxCompletionTokens);
    let unknown = [("OPENAI_BASE_URL", "http://box:8000/v1")];
    assert_eq!(quirks(&of("openai"), &unknown), Quirks::NONE);
    let router = quirks(&of("openrouter"), &[]);
    assert_eq!((router.effort, router.usage), (EffortKey::Reasoning, UsageInStream::Always));
}

#[test]
fn a_model_is_known_where_its_provider_serves_it() {
    let known = |entry: &ModelEntry, model: &str| {
        let entry = ModelEntry { model: Some(model.to_owned()), ..entry.clone() };
        let keys = [("ANTHROPIC_API_KEY", "k"), ("DEEPSEEK_API_KEY", "k")];
        let ServerModel { context_window, longest_answer, max_output_tokens, images, .. } =
            ready(&entry, &keys).unwrap();
        assert_eq!(max_output_tokens, None);
        (context_window, longest_answer, images)
    };
    let opus = "claude-opus-5-5";
    assert_eq!(known(&of("anthropic"), opus), (Some(1_000_000), Some(128_000), true));
    assert_eq!(known(&at("https://proxy.example.com", None), opus), (None, None, false));
    assert_eq!(known(&of("ollama"), "deepseek-flash"), (None, None, false));
    let pro = (Some(1_000_000), Some(384_000), false);
    assert_eq!(known(&of("deepseek"), "deepseek-v4-pro"), pro);
    let told = ModelEntry { context_window: Some(9), images: Some(false), ..of("anthropic") };
    assert_eq!(known(&told, opus), (Some(9), Some(128_000), false));
}

#[test]
fn ollama_host_is_read_as_ollama_reads_it() {
    for (host, url) in [
        ("localhost", "http://localhost:11434/v1"),
        ("box:80", "http://box:80/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:99", "http://127.0.0.1:99/v1"),
        (":99", "http://127.0.0.1:99/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ("http://box", "http://box/v1"),
        ("https://box:99/", "https://box:99/v1"),
        ("https://box/path/", "https://box/path/v1"),
    ] {
        assert_eq!(ollama_url(host), url);
    }
}

#[test]
fn a_server_that_is_near_has_an_hour_to_begin_and_is_asked_once() {
    for (url, expected) in [
        ("http://127.0.0.1:8080/v1", AnswerTimeouts::NEAR),
        ("http://[::1]/v1", AnswerTimeouts::NEAR),
        ("http://192.168.1.7/v1", AnswerTimeouts::NEAR),
        ("http://10.0.0.1/v1", AnswerTimeouts::NEAR),
        ("http://172.16.0.1/v1", AnswerTimeouts::NEAR),
        ("http://169.254.3.4/v1", AnswerTimeouts::NEAR),
        ("http://[fd00::1]/v1", AnswerTimeouts::NEAR),
        ("http://box:8000/v1", AnswerTimeouts::NEAR),
        ("http://gpu.lan/v1", AnswerTimeouts::NEAR),
        ("http://host.docker.internal:1234/v1", AnswerTimeouts::NEAR),
        ("https://api.example.com/v1", AnswerTimeouts::HOSTED),
        ("http://8.8.8.8/v1", AnswerTimeouts::HOSTED),
        ("http://172.32.0.1/v1", AnswerTimeouts::HOSTED),
    ] {
        assert_eq!(ready(&at(url, None), &[]).unwrap().timeouts, expected, "{url}");
    }
}

#[test]
fn a_server_of_ones_own_has_ten_minutes_wherever_it_runs() {
    let hosted = ["openai", "anthropic", "openrouter", "deepseek", "dashscope", "groq"];
    let keys = ["OPENAI", "ANTHROPIC", "OPENROUTER", "DEEPSEEK", "DASHSCOPE", "GROQ"]
        .map(|name| format!("{name}_API_KEY"));
    let keys: Vec<_> = keys.iter().map(|name| (name.as_str(), "sk-1")).collect();
    for preset in hosted {
        let timeouts = ready(&of(preset), &keys).unwrap().timeouts;
        assert_eq!(timeouts, AnswerTimeouts::HOSTED, "{preset}");
    }
    for preset in ["ollama", "lmstudio", "llamacpp", "vllm"] {
        let timeouts = |entry: &ModelEntry| ready(entry, &[]).unwrap().timeouts;
        assert_eq!(timeouts(&of(preset)), AnswerTimeouts::NEAR, "{preset}");
        let base_url = Some("https://gpu.example.com/v1".to_owned());
        let elsewhere = ModelEntry { base_url, ..of(preset) };
        assert_eq!(timeouts(&elsewhere), AnswerTimeouts::OWN, "{preset}");
    }
}

#[test]
fn each_timeout_is_as_the_entry_says() {
    let seconds = |seconds| (NonZeroU32::new(seconds), Duration::from_secs(seconds.into()));
    let ((headers_s, headers), (idle_s, idle)) = (seconds(20), seconds(7));
    let entry = ModelEntry { headers_s, idle_s, ..at("http://box/v1", None) };
    let expected = AnswerTimeouts { headers, idle, ..AnswerTimeouts::NEAR };
    assert_eq!(ready(&entry, &[]).unwrap().timeouts, expected);
    let entry = ModelEntry { headers_s, ..at("https://api.example.com/v1", None) };
    let expected = AnswerTimeouts { headers, second_request: None, ..AnswerTimeouts::HOSTED };
    assert_eq!(ready(&entry, &[]).unwrap().timeouts, expected);
    let (first_piece_s, first_piece) = seconds(900);
    let entry = ModelEntry { first_piece_s, ..at("https://api.example.com/v1", None) };
    let expected = AnswerTimeouts { first_piece, ..AnswerTimeouts::HOSTED };
    assert_eq!(ready(&entry, &[]).unwrap().timeouts, expected);
}

#[test]
fn an_address_that_is_no_web_address_is_named() {
    let bad = |source_name: &str, url: &str| {
        let (source_name, url) = (source_name.to_owned(), url.to_owned());
        Err(ModelChoiceError::BadUrl { source_name, url })
    };
    for url in ["", "nonsense", "ftp://box/v1", "file:///etc/passwd", "http://"] {
        check(&at(url, None), &[], bad("models.q.base_url", url));
    }
    let variable = [("OPENAI_BASE_URL", "box:80")];
    check(&of("openai"), &variable, bad("OPENAI_BASE_URL", "box:80"));
}

#[test]
fn what_an_entry_says_is_passed_on_and_no_secret_is_shown() {
    let price = Price { input: Usd(1), output: Usd(2), cache_read: Usd(3), cache_write: Usd(4) };
    let entry = ModelEntry {
        model: Some("qwen-3".to_owned()),
        context_window: Some(9),
        max_output_tokens: Some(7),
        price: Some(price),
        requests_per_minute: NonZeroU32::new(60),
        tokens_per_minute: NonZeroU32::new(1_000),
        max_in_flight: NonZeroUsize::new(4),
        effort: Effort::new("low"),
        images: Some(true),
        headers: Headers([("X-Team".to_owned(), "secret-team".to_owned())].into()),
        extra_body: Map::from_iter([("top_k".to_owned(), 5.into())]),
        ..at("https://box/v1", Some("Q_KEY"))
    };
    let server = ready(&entry, &[("Q_KEY", "secret-key")]).unwrap();
    let debug = format!("{server:?}");
    assert!(debug.contains("X-Team") && !debug.contains("secret-"), "{debug}");
    assert_eq!(server.key.map(|key| key.expose_secret().to_owned()).unwrap(), "secret-key");
    assert_eq!((&*server.name, &*server.model), ("q", "qwen-3"));
    assert_eq!((server.context_window, server.max_output_tokens), (Some(9), Some(7)));
    assert_eq!((server.price, server.effort), (Some(price), Effort::new("low")));
    let gate = (server.requests_per_minute, server.tokens_per_minute, server.max_in_flight);
    assert_eq!(gate, (NonZeroU32::new(60), NonZeroU32::new(1_000), NonZeroUsize::new(4)));
    assert!(server.images);
    assert_eq!(server.headers.0["X-Team"], "secret-team");
    assert_eq!(server.extra_body["top_k"], 5);
}
