//! What a packet promises: the same at the other end, or a sentence.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::*;
use crate::config::WindowShare;
use crate::front_matter::Source;
use crate::model::retry;
use crate::skill::Places;

/// A workspace with one of everything, and a home.
fn found(top: &Path, home: &Path) -> (Definitions, Skills) {
    let write = |path: PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        top.join("agents/a.md"),
        "---\nname: a\ndescription: d\ntools: Read, Bash\ndisallowedTools: Write, Bash(git push \
         *)\npermissionMode: plan\nmodel: m\nmaxTurns: 3\nisolation: worktree\nskills: s\n\
         background: true\ncolor: pink\n---\nLook.\n",
    );
    write(
        top.join("skills/s/SKILL.md"),
        "---\ndescription: d\nallowed-tools: Bash(git *), Edit(~/x/**)\nmodel: m\ncontext: fork\n\
         agent: a\nbackground: true\narguments: [one]\nargument-hint: '[one]'\n---\nDo $one in \
         ${TINE_SKILL_DIR}.\n",
    );
    write(home.join("skills/h/SKILL.md"), "---\ndescription: d\n---\nIn ${TINE_SKILL_DIR}.\n");
    let (definitions, _) = Definitions::load(&[top.join("agents")], None, |_, _| true);
    let places = [top.join("skills"), home.join("skills")];
    let places =
        Places { skills: &places, home: Some(Path::new("/home/ada")), ..Places::default() };
    let (skills, _) = Skills::load(&places, |_, _| true);
    (definitions, skills)
}

fn packet(top: &Path, home: &Path) -> Packet {
    let (definitions, skills) = found(top, home);
    Packet {
        version: "1.2.3".to_owned(),
        session: SessionId("01987a4e-7f3c-7000-8000-000000000001".into()),
        root: top.join("deep/down"),
        definitions,
        skills,
        instructions: "Be brief.\n".to_owned(),
        limits: Limits {
            max_turns: 7,
            timeout: Some(Duration::from_secs(60)),
            max_depth: 2,
            confirm_above: NonZeroUsize::new(32),
            background_wait: Duration::from_secs(600),
            prime: Duration::from_millis(3_000),
            needs_price: true,
            compact_at: Some(WindowShare::default()),
            retries: retry::Policy::default(),
        },
        bounds: Bounds::default(),
        workspace: Some(Bundles {
            commit: "c0".to_owned(),
            base: "ba5e".to_owned(),
            name: "project".into(),
            below: "deep/down".into(),
            bundles: vec!["1".to_owned(), "2".to_owned()],
        }),
        model: "deepseek:m".to_owned(),
        effort: Effort::new("low"),
        fallbacks: vec!["other".to_owned()],
        is_money_limited: true,
    }
}

#[test]
fn it_is_the_same_at_the_other_end() {
    let (top, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let packet = packet(top.path(), home.path());
    let again = Packet::decode(&packet.encode()).unwrap();
    assert_eq!(again.definitions, packet.definitions);
    assert_eq!(again.skills, packet.skills);
    assert_eq!(again.workspace, packet.workspace);
    assert_eq!(again.encode(), packet.encode());
    let least = Packet {
        workspace: None,
        effort: None,
        fallbacks: Vec::new(),
        limits: Limits { timeout: None, confirm_above: None, compact_at: None, ..packet.limits },
        ..packet
    };
    assert_eq!(Packet::decode(&least.encode()).unwrap().encode(), least.encode());
}

#[test]
fn a_skill_of_the_workspace_is_in_the_copy_and_any_other_is_its_text() {
    let (top, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let packet = packet(top.path(), home.path());
    let skills = packet.skills_in(Path::new("/w/1/project/deep/down"));
    let filled = |name: &str| skills.find(name).unwrap().filled("it");
    assert!(filled("s").contains("Do it in /w/1/project/skills/s."), "{}", filled("s"));
    assert!(filled("h").contains("In ${TINE_SKILL_DIR}."), "{}", filled("h"));
    assert_eq!(skills.find("h").unwrap().source, Source::Given);
    assert_eq!(skills.find("review").unwrap().source, Source::BuiltIn);
    assert!(!skills.find("explain").unwrap().files.is_empty());
    assert_eq!(skills.iter().count(), packet.skills.iter().count());
    // Where the copy is not laid out so, only the working directory is known.
    assert_eq!(packet.tops(Path::new("/w/1")), (&*packet.root, Path::new("/w/1")));
}

#[track_caller]
fn check(text: &str, why: &str) {
    let error = Packet::decode(text.as_bytes()).unwrap_err().to_string();
    let expected = format!("what the run has sent to its workers cannot be used: {why}");
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn what_cannot_be_used_is_said_in_a_sentence() {
    let (top, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let text = String::from_utf8(packet(top.path(), home.path()).encode()).unwrap();
    check("", "EOF while parsing");
    check("{}", "missing field `form`");
    check(
        &text.replacen("\"form\":1", "\"form\":2,\"new\":0", 1),
        "it is of form 2, and this tine reads form 1; run the same version of tine everywhere",
    );
    check(&text.replacen("\"form\":1", "\"form\":1,\"new\":0", 1), "unknown field `new`");
    check(&text.replace("01987a4e", "../../.."), "`../../..-7f3c-7000-8000-000000000001` is no");
    check(&text.replace("\"plan\"", "\"flan\""), "the agent `a`: there is no mode `flan`");
    check(&text.replace("\"pink\"", "\"mauve\""), "the agent `a`: there is no colour `mauve`");
    check(&text.replace("Bash(git push *)", "Sing"), "the agent `a`: what a unit may do cannot be");
    check(&text.replace("Bash(git *)", "Sing"), "the skill `s`: what a unit may do cannot be read");
    check(&text.replace("\"explain\"", "\"sing\""), "no skill `sing` comes with tine");
    check(&text.replace("\"compact_at\":800", "\"compact_at\":1"), "1 thousandths of a context");
    check(&text.replace("\"low\"", "\"\""), "`` is no effort");
    assert!(Packet::decode(&vec![b' '; PACKET_CAP + 1]).is_err());
}
