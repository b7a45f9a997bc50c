//! Errors that have to name the real cause.

use crate::support::play::Case;
use crate::support::repository::Repository;
use crate::support::tine::git_that;

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
        let note = format!("note: `{name}` goes to the server of `OPENAI_BASE_URL`");
        assert!(finished.stderr.contains(&note), "{}", finished.stderr);
        let bodies = case.bodies();
        assert_eq!((bodies.len(), bodies[0]["model"].as_str()), (1, Some(name)));
    }
}

#[test]
fn a_name_that_was_taken_for_a_preset_says_how_to_write_it() {
    let case = Case::open("model-name-like-a-preset");
    let finished = case.place.tine(["-m", "qwen:7b", "-p", "go"]).run().exits(52);
    let expected = "error: model `qwen:7b` has no key\nhint: set `DASHSCOPE_API_KEY`; the name selects \
                    the preset `dashscope`; for Ollama's model `qwen:7b` write `ollama:qwen:7b`\n";
    assert_eq!(finished.stderr, expected);
}

#[test]
fn a_repository_of_another_user_is_told_with_the_command_that_helps() {
    let case = Case::open("foreign-repository").in_git();
    let work = case.place.work().display().to_string();
    // Without a second user, its words.
    let says = format!(
        "printf '%s\\n' \"fatal: detected dubious ownership in repository at '{work}'\" \
         'To add an exception for this directory, call:' '' \
         '\tgit config --global --add safe.directory {work}' >&2; exit 128"
    );
    let path = git_that(&case.place, "rev-parse --show-toplevel", &says);
    let command = format!("git config --global --add safe.directory {work}");
    let said = case.tine(&["review", "-m", "offline"]).env("PATH", &path).run().exits(42);
    assert!(said.stderr.contains("detected dubious ownership in repository at"), "{}", said.stderr);
    assert_eq!(said.stderr.matches(&command).count(), 2, "{}", said.stderr);
    assert!(said.stderr.contains("\nhint: `git config"), "{}", said.stderr);
    assert!(said.stderr.contains("run tine as its owner"), "{}", said.stderr);
}

#[test]
fn every_error_of_git_names_a_way_out() {
    type Break = fn(&Repository);
    let file =
        |repository: &Repository, name: &str| repository.place.work().join(".git").join(name);
    let breaks: [(&str, Break, &str, &str); 5] = [
        (
            "index",
            |it| std::fs::write(it.place.work().join(".git/index"), "junk").unwrap(),
            "index file",
            "`mv .git/index .git/index.bad && git reset`",
        ),
        (
            "format",
            |it| drop(it.git(&["config", "core.repositoryFormatVersion", "9"])),
            "Expected git repo version <= 1, found 9",
            "install a newer git",
        ),
        (
            "config",
            |it| std::fs::write(it.place.work().join(".git/config"), "[core\n").unwrap(),
            "bad config line 1",
            "fix that configuration",
        ),
        (
            "HEAD",
            |it| std::fs::write(it.place.work().join(".git/HEAD"), "junk").unwrap(),
            "git does not recognize ",
            "git symbolic-ref HEAD",
        ),
        (
            "objects",
            |it| std::fs::remove_dir_all(it.place.work().join(".git/objects")).unwrap(),
            "",
            "hint: ",
        ),
    ];
    for (what, breaks, told, way_out) in breaks {
        let repository = Repository::new();
        repository.write("a.rs", "fn main() {}\n");
        repository.commit("Begin");
        repository.write("a.rs", "fn main() { }\n");
        assert!(file(&repository, "HEAD").exists());
        breaks(&repository);
        let said = repository.place.tine(["review", "-m", "offline"]).run().exits(42).stderr;
        assert!(said.contains(told) && said.contains(way_out), "{what}: {said}");
    }
}
