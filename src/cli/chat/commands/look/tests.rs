//! What the commands show that only look.

use std::sync::Arc;

use insta::assert_snapshot;

use super::*;
use crate::cli::chat::commands::testing::{Place, asked};
use crate::config::{Config, ModelEntry, Permissions, WrittenRule};
use crate::definition::Definitions;
use crate::event::{CallQuestion, Confinement, Lasting, Question, QuestionId, Seq, Terms, Verdict};
use crate::git::tests::Repo;
use crate::guard::Source;
use crate::skill::Places;

fn plain(rows: &[Row]) -> String {
    rows.iter().map(|row| row.plain() + "\n").collect()
}

#[test]
fn help_lists_keys_commands_and_skills() {
    let (skills, _) = Skills::load(&Places::default(), |_, _| false);
    assert_snapshot!(plain(&help(&skills, 80)), @"
    keys
    Enter        send, also while it works   Ctrl-D       leave, from an empty line
    Alt-Enter    new line, as Ctrl-J does    Esc          end the turn
    Tab          complete /command, @file    Ctrl-C       the same; twice: end all
    Up, Down     lines, then older messages  Ctrl-B       agents go on beside you
    Ctrl-R       find an older message       Alt-Up       take back what waits
    Ctrl-G       write it in your editor     1-9, Down    pick an agent
    !COMMAND     run a line of the shell       Enter      follow it
    Ctrl-O       open the last call            x, r       stop it, run it again
    Ctrl-L       an empty screen               Esc        back to the line

    commands
    /help                   keys and commands
    /model [NAME]           another model from the next message on
    /models                 models that can be chosen
    /agents                 types of agents
    /tasks                  what is at work and what has ended
    /fork DIRECTIVE         go on from here in the background
    /compact [HINT]         sum the conversation up
    /usage                  what was used
    /context                what fills the context window
    /permissions [MODE]     rules in force, or another mode
    /diff                   what has changed in the repository
    /undo [FLAGS]           put files back as they were
    /rewind                 go back to an earlier turn
    /resume [SESSION]       go on with another session
    /rename NAME            name this session
    /export [FILE]          write the session down as Markdown
    /skills                 skills, which are typed as `/name`
    /mcp                    servers of tools
    /clear                  begin a new session
    /theme [NAME]           colours
    /quit                   leave

    skills
    /review [--uncommitte…  Reviews a change with five reviewers at once (correctne…
    /init [what it should…  Writes AGENTS.md, the file that tells agents how to wor…
    /explain [what to exp…  Explains a codebase or a part of it. Explorers read its…
    /fix WHAT IS WRONG      Fixes a bug. It is reproduced first, mended in a worktr…
    /test [files, a branc…  Writes the tests that a change lacks, one agent for eac…
    /migrate WHAT TO CHAN…  Makes the same mechanical change in many files, one age…
    ");
}

#[test]
fn help_fits_a_usual_terminal_and_is_read_on_a_narrow_one() {
    let (skills, _) = Skills::load(&Places::default(), |_, _| false);
    for columns in [80, 120] {
        for row in help(&skills, columns) {
            assert!(row.columns() <= usize::from(columns), "{}", row.plain());
        }
    }
    let narrow = help(&skills, 40);
    let some: Vec<Row> = narrow.into_iter().filter(|row| row.plain().contains('m')).collect();
    assert_snapshot!(plain(&some[..8]), @"
    Tab          complete /command, @file
    Up, Down     lines, then older messages
    Ctrl-R       find an older message
    Ctrl-L       an empty screen
    Ctrl-D       leave, from an empty line
    Ctrl-C       the same; twice: end all
    commands
    /help  keys and commands
    ");
}

#[test]
fn a_skill_that_a_command_hides_is_not_offered() {
    let mut place = Place::new();
    let directory = place.home.path().join("skills");
    std::fs::create_dir_all(directory.join("diff")).unwrap();
    let text = "---\ndescription: Tells them apart.\nargument-hint: ONE TWO\n---\nDo it.";
    std::fs::write(directory.join("diff/SKILL.md"), text).unwrap();
    let directories = [directory.canonicalize().unwrap()];
    let places = Places { skills: &directories, ..Places::default() };
    place.kit.skills = Arc::new(Skills::load(&places, |_, _| false).0);
    assert!(!plain(&help(&place.kit.skills, 80)).contains("apart"));
    assert_snapshot!(place.shown(&skills(&place.kit)), @"
    /diff ONE TWO  (hidden by the command of its name; HOME/skills/diff/SKILL.md)
      Tells them apart.
    /review [--uncommitted | --base BRANCH | --commit SHA] [--effort low|medium|high] [what to look for]  (built in)
      Reviews a change with five reviewers at once (correctness, security, tests, performance, clarity) and merges what they find into one report. Use it when the user asks for a review of uncommitted work, a branch or a commit.
    /init [what it should say besides]  (for you alone; built in)
      Writes AGENTS.md, the file that tells agents how to work in this repository, from what the repository itself shows.
    /explain [what to explain]  (built in)
      Explains a codebase or a part of it. Explorers read its areas side by side, and one map says how they hang together. Use it when the user asks how this repository works, where something happens, or what a newcomer should read.
    /fix WHAT IS WRONG  (built in)
      Fixes a bug. It is reproduced first, mended in a worktree of its own, and tried by somebody else before it counts. Use it when the user reports a bug, a failing test or an error message.
    /test [files, a branch, or what to test]  (built in)
      Writes the tests that a change lacks, one agent for each changed file, each in a worktree of its own. Use it when the user asks for tests of uncommitted work, a branch or some files.
    /migrate WHAT TO CHANGE  (built in)
      Makes the same mechanical change in many files, one agent for each file, each in a worktree of its own. Use it for renamed interfaces, replaced libraries and new conventions that touch more than a few files.
    ");
}

#[test]
fn models_are_listed_with_what_they_lack() {
    let entry = |url: &str, model: &str| ModelEntry {
        base_url: Some(url.to_owned()),
        model: Some(model.to_owned()),
        ..ModelEntry::default()
    };
    let models = [("fast", entry("http://box/v1", "qwen3-coder")), ("odd", entry("box:80", "m"))];
    let models = models.map(|(name, entry)| (name.to_owned(), entry)).into();
    let place = Place::with(Config { models, ..Config::default() });
    assert_snapshot!(plain(&super::models(&place.kit)), @"
    answers now: offline

    models, as `/model NAME`
      fast              chat       ready      qwen3-coder
      odd               `models.odd.base_url` is `box:80`, which is no `http` or `https` URL

    presets, as `/model PRESET:MODEL`
      openai:           responses  OPENAI_API_KEY is not set
      anthropic:        anthropic  ANTHROPIC_API_KEY is not set
      openrouter:       chat       OPENROUTER_API_KEY is not set
      deepseek:         chat       DEEPSEEK_API_KEY is not set
      dashscope:        chat       DASHSCOPE_API_KEY is not set
      groq:             chat       GROQ_API_KEY is not set
      ollama:           chat       ready
      lmstudio:         chat       ready
      llamacpp:         chat       ready
      vllm:             chat       ready
    ");
    let items = models::items(&place.kit);
    let typed: Vec<_> = items.iter().take(3).map(|it| &*it.typed).collect();
    assert_eq!(typed, ["fast", "odd", "openai:"]);
}

#[test]
fn agents_are_listed_with_what_they_may_do() {
    let mut place = Place::new();
    let directory = place.home.path().join("agents");
    std::fs::create_dir(&directory).unwrap();
    let text = "---\nname: tester\ndescription: Runs tests.\ntools: Read, Bash\nmodel: fast\n\
                permissionMode: plan\nmaxTurns: 3\nisolation: worktree\n\
                disallowedTools: Write\n---\nTest.";
    std::fs::write(directory.join("tester.md"), text).unwrap();
    let directory = directory.canonicalize().unwrap();
    place.kit.definitions = Definitions::load(&[directory], None, |_, _| true).0;
    assert_snapshot!(place.shown(&agents(&place.kit)), @"
    general-purpose  Does a whole piece of work by itself, with every tool. For a task that needs several steps and whose steps you need not see.
      all tools; built in
    explore  Finds things in the code and reads them; changes nothing. For a question such as where something is defined, who calls it or how a part works.
      tools: Read, Glob, Grep, TodoWrite; built in
    reviewer  Reviews a change from one angle and reports findings with file and line; changes nothing.
      tools: Read, Glob, Grep; built in
    tester  Runs tests.
      tools: Read, Bash; not Write; model fast; mode plan; 3 turns; a worktree of its own; HOME/agents/tester.md
    ");
}

#[test]
fn there_are_no_servers_of_tools() {
    assert_snapshot!(plain(&mcp(&Servers::none())), @"no servers of tools are configured");
}

#[test]
fn rules_are_listed_with_where_they_come_from_and_what_was_answered() {
    let rule = |text: &str, source| WrittenRule { text: text.to_owned(), source };
    let written = Permissions {
        allow: vec![rule("Bash(cargo test *)", Source::User)],
        deny: vec![rule("Read(secret/**)", Source::Project)],
        ..Permissions::default()
    };
    let place = Place::with(Config { permissions: written, ..Config::default() });
    let question = Question::Call(Arc::new(CallQuestion {
        call: "c".into(),
        tool: "Bash".into(),
        subject: "cargo fmt".into(),
        arguments: "{}".into(),
        reason: "no rule allows it".into(),
        rules: vec!["Bash(cargo fmt *)".into()],
        confinement: Some(Confinement::NONE),
    }));
    let terms = Terms {
        arguments: None,
        lasting: Lasting::Session,
        rules: vec!["Bash(cargo fmt *)".into()],
    };
    let answer = Verdict::YesWith(Arc::new(terms));
    let mut log = asked("go");
    log.put(0, "", EventKind::Answered { id: QuestionId(Seq(9)), question, answer });
    place.write(&place.kit.session, &log);
    let rows = permissions(&place.kit).unwrap();
    let rules: Vec<Row> =
        rows.into_iter().filter(|row| !row.plain().starts_with("secret")).collect();
    assert_snapshot!(place.shown(&rules), @"
    mode   default
    deny   Read(secret/**)  (project, HOME/work/.tine/config.toml)
    allow  Bash(cargo test *)  (user, HOME/own/config.toml)
    allow  Bash(cargo fmt *)  (session, as you answered)
    ");
}

#[test]
fn what_was_used_is_told_while_the_session_goes_on() {
    let place = Place::new();
    place.write(&place.kit.session, &asked("where is it?"));
    assert_snapshot!(plain(&usage(&place.kit).unwrap()), @"
    session s: 1 request

                                         input   cached  written   output       cost
    in all                                   0        0        0        0      $0.00

    by model
      m                                      0        0        0        0      $0.00

    by prompt
      1  where is it?                        0        0        0        0      $0.00

    by agent
      main                                   0        0        0        0      $0.00
    ");
}

#[test]
fn the_window_holds_what_the_next_request_would_send() {
    let place = Place::new();
    place.write(&place.kit.session, &asked("where is it?"));
    let shown = plain(&context(&place.kit, 80).unwrap());
    let parts: Vec<&str> = shown.lines().map(|line| line.get(..18).unwrap_or(line)).collect();
    assert_snapshot!(parts.join("\n"), @"
    offline  4.9k toke
      system prompt   
      instructions    
      skills          
      tools           
      prompts         
      answers         
    this model's windo
    an estimate: nobod
    ");
}

#[test]
fn of_a_session_that_is_not_kept_nothing_is_told() {
    let place = Place::unkept();
    let refused = |rows: Result<Vec<Row>, Refusal>| rows.unwrap_err().message;
    assert_eq!(refused(usage(&place.kit)), "this session is not kept");
    assert_eq!(refused(context(&place.kit, 80)), "this session is not kept");
    assert_eq!(permissions(&place.kit).unwrap()[0].plain(), "mode   default");
}

fn diff_of(repo: &Repo) -> Vec<Row> {
    let mut place = Place::new();
    place.kit.root = repo.root();
    diff(&place.kit).unwrap()
}

#[test]
fn a_change_is_shown_with_signs_and_colours_and_untracked_files() {
    let repo = Repo::with_commit();
    repo.write("a.txt", "two\n-- a\n\tb\u{1b}[2J\n");
    repo.write("new.txt", "++ x\n");
    let line = |row: &Row| {
        let inks: Vec<String> = row.spans().iter().map(|(ink, _)| format!("{ink:?}")).collect();
        format!("{:<9}{}\n", inks.join(" "), row.plain())
    };
    let rows = diff_of(&repo);
    let shown: String =
        rows.iter().filter(|row| !row.plain().starts_with("index ")).map(line).collect();
    assert_snapshot!(shown, @r#"
    Strong   uncommitted change of work
    Dim      diff --git a/a.txt b/a.txt
    Dim      --- a/a.txt
    Dim      +++ b/a.txt
    Dim      @@ -1 +1,3 @@
    Removed  -one
    Added    +two
    Added    +-- a
    Added    +   b\u{1b}[2J
    Dim      diff --git a/new.txt b/new.txt
    Dim      new file mode 100644
    Dim      --- /dev/null
    Dim      +++ b/new.txt
    Dim      @@ -0,0 +1,1 @@
    Added    +++ x
    "#);
}

#[test]
fn of_a_long_change_the_rest_is_counted() {
    let repo = Repo::with_commit();
    repo.write("new.txt", &"x\n".repeat(1_000));
    let rows = diff_of(&repo);
    assert_eq!(rows.len(), 1 + DIFF_CAP + 1);
    assert_eq!(rows[DIFF_CAP + 1].plain(), "[605 rows left out]");
}

#[test]
fn where_there_is_no_change_or_no_repository_a_sentence_says_so() {
    let place = Place::new();
    assert_eq!(place.shown(&diff(&place.kit).unwrap()), "HOME/work is not in a git repository\n");
    let rows = diff_of(&Repo::with_commit());
    assert_eq!(plain(&rows), "nothing has changed since the last commit\n");
    let rows = diff_of(&Repo::new());
    assert_eq!(plain(&rows), "the repository has no commits and no files yet\n");
}
