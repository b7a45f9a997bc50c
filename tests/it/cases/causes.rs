//! Errors that have to name the real cause.

use crate::support::play::Case;

#[test]
fn a_model_of_the_server_in_the_environment_is_asked_of_that_server() {
    for (name, variables) in [
        ("qwen:7b", &[][..]),
        ("qwen:7b", &[("DASHSCOPE_API_KEY", "sk-other")]),
        ("deepseek:latest", &[("OLLAMA_HOST", "127.0.0.1:1")]),
    ] {
        let case = Case::open("model-name-like-a-preset");
        let tine = case.tine(&["-m", name, "-p", "go"]);
        let tine = variables.iter().fold(tine, |tine, (name, value)| tine.env(name, value));
        let finished = tine.run().exits(0);
        assert_eq!(finished.stdout, "OK\n");
        let note = format!("note: `{name}` is asked of the server of `OPENAI_BASE_URL`");
        assert!(finished.stderr.contains(&note), "{}", finished.stderr);
        let bodies = case.bodies();
        assert_eq!((bodies.len(), bodies[0]["model"].as_str()), (1, Some(name)));
    }
}

#[test]
fn a_name_that_was_taken_for_a_preset_says_how_to_write_it() {
    let case = Case::open("model-name-like-a-preset");
    let finished = case.place.tine(["-m", "qwen:7b", "-p", "go"]).run().exits(52);
    let expected = "error: model `qwen:7b` has no key\nhint: set `DASHSCOPE_API_KEY`; its beginning \
                    was taken for the preset `dashscope`: a model `qwen:7b` of Ollama is \
                    `ollama:qwen:7b`\n";
    assert_eq!(finished.stderr, expected);
}
