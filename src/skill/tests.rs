//! How skills are found and read.

use super::*;

fn load(skills: &[PathBuf], commands: &[PathBuf]) -> (Skills, Vec<Problem>) {
    Skills::load(&Places { skills, commands, ..Places::default() }, |_, _| true)
}

fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    directory
}

#[test]
fn the_bundled_review_is_always_there() {
    let (skills, problems) = load(&[], &[]);
    assert_eq!(problems, []);
    let review = skills.find("Review").unwrap();
    assert!(review.change && review.user_invocable && !review.disable_model_invocation);
    let hint = "[--uncommitted | --base BRANCH | --commit SHA] [--effort low|medium|high] [what to look for]";
    assert_eq!(review.argument_hint, hint);
    let sections: Vec<_> = review.body.lines().filter_map(|l| l.strip_prefix("### ")).collect();
    assert_eq!(sections, ["correctness", "security", "tests", "performance", "clarity"]);
}

#[test]
fn the_bundled_init_is_for_people_alone() {
    let (skills, _) = load(&[], &[]);
    let init = skills.find("init").unwrap();
    assert!(init.user_invocable && init.disable_model_invocation && !init.change);
    assert_eq!(
        skills.for_models().map(|skill| &*skill.name).collect::<Vec<_>>(),
        ["review", "explain", "fix", "test", "migrate"]
    );
}

#[test]
fn every_key_is_read() {
    let text = "---\nname: tidy\ndescription: Tidies.\nargument-hint: [file]\nuser-invocable: false\n\
                disable-model-invocation: true\nallowed-tools: Read, Bash(git *)\nlicense: MIT\n\
                compatibility: any\narguments: [file, how]\nmodel: small\ncontext: fork\nagent: explore\n\
                background: true\nversion: 3\n\
                metadata:\n  other: 1\n  tine-context: change\n---\nDo it.\n";
    let files = directory(&[("a/SKILL.md", text), ("b/README.md", ""), ("c.md", "")]);
    let (skills, problems) = load(&[files.path().to_owned()], &[]);
    assert_eq!(problems, []);
    assert_eq!(
        skills.iter().next(),
        Some(&Skill {
            name: "tidy".to_owned(),
            description: "Tidies.".to_owned(),
            argument_hint: "[file]".to_owned(),
            arguments: vec!["file".to_owned(), "how".to_owned()],
            disable_model_invocation: true,
            user_invocable: false,
            allowed_tools: vec!["Read".to_owned(), "Bash(git *)".to_owned()],
            followed: Arc::new(Followed {
                skill: "tidy".to_owned(),
                leave: ["Read", "Bash(git *)"].map(of_skill).into(),
                model: Some("small".into()),
            }),
            context: Context::Fork { agent: "explore".to_owned(), is_background: true },
            body: "Do it.".to_owned(),
            source: Source::File(files.path().join("a/SKILL.md")),
            files: &[],
            change: true,
            hides: Vec::new(),
        })
    );
}

fn of_skill(rule: &str) -> Sourced {
    Sourced { rule: rule.parse().unwrap(), source: crate::guard::Source::Skill }
}

#[test]
fn what_a_skill_allows_counts_only_where_it_is_trusted() {
    let text =
        "---\ndescription: d\nallowed-tools: Bash(${CLAUDE_SKILL_DIR}/x.sh *), Fly, Read\n---\n";
    let files = directory(&[("a/SKILL.md", text), ("b/SKILL.md", &format!("{text}b"))]);
    let skills = [files.path().to_owned()];
    let places = Places { skills: &skills, ..Places::default() };
    let (skills, problems) = Skills::load(&places, |_, text| text.ends_with('b'));
    assert_eq!(problems, []);
    let leave = |name| skills.find(name).unwrap().followed.leave.clone();
    assert!(leave("a").is_empty());
    let script = format!("Bash({}/b/x.sh *)", files.path().display());
    assert_eq!(*leave("b"), [of_skill(&script), of_skill("Read")]);
    assert_eq!(powers(text, Path::new("x")).len(), 3);
}

#[test]
fn a_file_that_is_found_by_two_paths_is_one() {
    let files = directory(&[("one/a/SKILL.md", "---\ndescription: d\n---\n")]);
    let two = files.path().join("two");
    std::os::unix::fs::symlink(files.path().join("one"), &two).unwrap();
    let (skills, problems) = load(&[files.path().join("one"), two], &[]);
    assert_eq!((skills.iter().count(), problems), (7, vec![]));
}

#[test]
fn a_command_below_a_directory_has_its_name_in_front() {
    let files = directory(&[
        ("deploy.md", "top"),
        ("ops/deploy.md", "---\nmodel: small\nallowed-tools: Read\n---\nbelow"),
        ("ops/db/lift.md", "deep"),
    ]);
    let (skills, problems) = load(&[], &[files.path().to_owned()]);
    assert_eq!(problems, []);
    let body = |name| skills.find(name).map(|skill| &*skill.body);
    assert_eq!((body("deploy"), body("ops:deploy")), (Some("top"), Some("below")));
    assert_eq!((body("ops:db:lift"), body("lift")), (Some("deep"), Some("deep")));
    assert_eq!((body(""), body("ops")), (None, None));
    let followed = &skills.find("OPS:deploy").unwrap().followed;
    assert_eq!((followed.model.as_deref(), followed.leave.len()), (Some("small"), 1));
}

#[test]
fn the_first_of_a_name_wins_and_a_file_hides_the_bundled_one() {
    let skill = |body| format!("---\ndescription: d\n---\n{body}");
    let files = directory(&[
        ("one/a/SKILL.md", &skill("first")),
        ("two/a/SKILL.md", &skill("second")),
        ("two/review/SKILL.md", &skill("mine")),
    ]);
    let path = |name: &str| files.path().join(name);
    let (skills, problems) = load(&[path("none"), path("one"), path("two")], &[]);
    let names: Vec<_> = skills.iter().map(|skill| (&*skill.name, &*skill.body)).collect();
    assert_eq!(names[..2], [("a", "first"), ("review", "mine")]);
    let message = format!("the skill `a` is in {} already", path("one/a/SKILL.md").display());
    let hidden = "the skill `review` takes the place of the bundled one".to_owned();
    let expected = [("two/a", message), ("two/review", hidden)];
    assert_eq!(
        problems,
        expected.map(|(name, message)| Problem::new(path(name).join("SKILL.md"), message))
    );
}

#[test]
fn commands_are_for_people_and_give_way_to_skills() {
    let files = directory(&[
        ("skills/mend/SKILL.md", "---\ndescription: d\n---\nfrom the skill"),
        ("commands/mend.md", "from the command"),
        ("commands/deploy.md", "# Deploy to $ARGUMENTS\nNow."),
        ("commands/ask.md", "---\ndescription: Asks.\nargument-hint: [whom]\n---\nAsk."),
        ("commands/empty.md", "\n"),
        ("commands/notes.txt", "no command"),
    ]);
    let path = |name: &str| files.path().join(name);
    let (skills, problems) = load(&[path("skills")], &[path("commands")]);
    let found = |name| {
        let skill = skills.find(name).unwrap();
        (&*skill.description, &*skill.argument_hint, skill.disable_model_invocation)
    };
    assert_eq!(found("deploy"), ("Deploy to $ARGUMENTS", "", true));
    assert_eq!(found("ask"), ("Asks.", "[whom]", true));
    assert_eq!(skills.find("mend").unwrap().body, "from the skill");
    assert!(skills.find("notes").is_none());
    let problems: Vec<_> = problems.iter().map(|problem| &*problem.message).collect();
    assert_eq!(problems[0], "line 1: the command `empty` says nothing");
    assert!(problems[1].starts_with("the skill `mend` is in"), "{problems:?}");
    assert_eq!(problems.len(), 2);
}

#[test]
fn a_broken_skill_is_a_problem_and_the_others_load() {
    let files = directory(&[
        ("a/SKILL.md", "no front matter"),
        ("b/SKILL.md", "---\ndescription: d\nmetadata: {tine-context: moon}\n---\n"),
        ("c/SKILL.md", "---\ndescription: d\n---\n"),
    ]);
    let (skills, problems) = load(&[files.path().to_owned()], &[]);
    assert_eq!(
        skills.iter().map(|skill| &*skill.name).collect::<Vec<_>>(),
        ["c", "review", "init", "explain", "fix", "test", "migrate"]
    );
    assert_eq!(problems[0].message, "line 1: the skill `a` needs a `description:`");
    assert!(problems[1].message.contains("moon"), "{}", problems[1].message);
    assert_eq!(problems.len(), 2);
}

#[test]
fn no_link_of_a_repository_leads_out_of_it() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    let (repo, home) = (root.join("repo"), root.join("home"));
    let text = "---\nname: secret\ndescription: d\n---\nthe key\n";
    for file in ["key.md", "outside/SKILL.md", "outside/a.md", "repo/shared/b.md", "home/own.md"] {
        let file = root.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let link = |target: &str, name: &str| {
        let name = root.join(name);
        std::fs::create_dir_all(name.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, name).unwrap();
    };
    let leads_out = [
        ("../../../key.md", "repo/.claude/commands/fix.md"),
        ("/nowhere/../etc/passwd", "repo/.claude/commands/gone.md"),
        ("../../../../key.md", "repo/.claude/commands/deep/fix.md"),
        ("../../.claude/commands/fix.md", "repo/.tine/commands/twice.md"),
        ("../../../outside", "repo/.claude/skills/whole"),
        ("../../../../key.md", "repo/.claude/skills/one/SKILL.md"),
        ("../../outside", "repo/.agents/commands"),
        ("../../outside", "repo/.agents/skills"),
    ];
    leads_out.iter().for_each(|(target, name)| link(target, name));
    // What stays in the repository is followed, and so is what the user has.
    link("../../shared/b.md", "repo/.claude/commands/inner.md");
    link("../../key.md", "home/commands/mine.md");
    let at = |kind: &str| -> Vec<PathBuf> {
        let repo = [".tine", ".agents", ".claude"].map(|owner| repo.join(owner).join(kind));
        repo.into_iter().chain([home.join(kind)]).collect()
    };
    let (skills, commands) = (at("skills"), at("commands"));
    let load = |bounds| {
        let places = Places { skills: &skills, commands: &commands, home: None, bounds };
        let (skills, problems) = Skills::load(&places, |_, _| false);
        let is_of_file = |skill: &&Skill| skill.source != Source::BuiltIn;
        let names: Vec<String> =
            skills.iter().filter(is_of_file).map(|skill| skill.name.clone()).collect();
        (names, problems)
    };
    let (names, problems) = load(Some(&*repo));
    assert_eq!(names, ["inner", "mine"], "{problems:?}");
    let told = |name: &str| {
        let is_told = |problem: &Problem| problem.path.starts_with(root.join(name));
        problems.iter().any(|problem| is_told(problem) && problem.message.contains("leads out"))
    };
    for (target, name) in leads_out {
        assert!(told(name) || target.starts_with("/nowhere"), "{name}: {problems:?}");
    }
    assert!(load(None).0.len() > 2, "the attack is alive");
}
