//! Tools that write: links, line ends, indentation, encodings, names.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::play::Case;
use crate::support::tine::{Finished, Place};

/// Returns the texts of the outputs of a case's script.
fn outputs(case: &Case) -> Vec<String> {
    texts(&case.scripted(&["--yolo"]).run().exits(0))
}

fn texts(finished: &Finished) -> Vec<String> {
    finished.records().outputs().into_iter().map(|output| output.text).collect()
}

/// Runs calls in one place, and returns the texts of their outputs.
fn calls(place: &Place, calls: &[(&str, Value)], flags: &[&str]) -> Vec<String> {
    let turns = calls
        .iter()
        .map(|(name, arguments)| json!({ "calls": [{ "name": name, "arguments": arguments }] }))
        .chain([json!({ "text": "END" })])
        .collect::<Vec<Value>>();
    let flags: Vec<&str> = ["-o", "stream-json"].iter().chain(flags).copied().collect();
    texts(&place.play(&json!({ "units": { "main": turns } }), &flags).exits(0))
}

fn read(path: &str) -> (&'static str, Value) {
    ("Read", json!({ "file_path": path }))
}

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("Write", json!({ "file_path": path, "content": content }))
}

fn edit(path: &str, old: &str, new: &str) -> (&'static str, Value) {
    ("Edit", json!({ "file_path": path, "old_string": old, "new_string": new }))
}

fn patch(body: &str) -> (&'static str, Value) {
    ("ApplyPatch", json!({ "patch": format!("*** Begin Patch\n{body}\n*** End Patch") }))
}

/// Returns where a link leads.
fn leads(place: &Place, name: &str) -> Option<PathBuf> {
    place.work().join(name).read_link().ok()
}

#[test]
fn a_deleted_link_goes_itself_and_comes_back_as_a_link() {
    let case = Case::open("patch-deletes-link-target");
    let outputs = outputs(&case);
    assert_eq!(outputs[1], "Deleted the symbolic link link.txt; its target real/data.txt stays.\n");
    let place = &case.place;
    assert_eq!((leads(place, "link.txt"), place.work().join("link.txt").exists()), (None, false));
    assert!(place.read("real/data.txt").is_some());
    let undone = case.tine(&["-c", "-p", "/undo"]).run().exits(0);
    assert_eq!(undone.stdout, "put back link.txt\n");
    assert_eq!(leads(place, "link.txt").as_deref(), Some(Path::new("real/data.txt")));
}

/// A place with a file in the workspace and one outside of it, and links of all kinds.
fn links() -> Place {
    let place = Place::new();
    place.write("real/data.txt", "one\ntwo\n");
    place.write("CLAUDE.md", "rules\n");
    fs::write(place.root().join("outside.txt"), "outside\n").expect("the place is ours");
    for (name, to) in [
        ("AGENTS.md", "CLAUDE.md"),
        ("link.txt", "real/data.txt"),
        ("directory", "real"),
        ("dangling", "nowhere/at/all"),
        ("loop", "loop"),
        ("outside", "../outside.txt"),
        ("absolute", "/etc/hostname"),
    ] {
        symlink(to, place.work().join(name)).expect("the name is free");
    }
    fs::hard_link(place.work().join("CLAUDE.md"), place.work().join("hard.md"))
        .expect("it is free");
    place
}

#[test]
fn links_of_all_kinds_are_deleted_themselves() {
    let place = links();
    let names = ["AGENTS.md", "directory", "dangling", "loop", "outside", "absolute", "directory"];
    let deleted: Vec<_> =
        names.iter().map(|name| patch(&format!("*** Delete File: {name}"))).collect();
    let outputs = calls(&place, &deleted, &["--yolo"]);
    for (name, output) in names.iter().zip(&outputs).take(6) {
        assert!(output.starts_with(&format!("Deleted the symbolic link {name}; ")), "{output}");
        assert_eq!(leads(&place, name), None);
    }
    assert!(
        outputs[2].ends_with("it was dangling: nowhere/at/all does not exist.\n"),
        "{}",
        outputs[2]
    );
    // The second time there is none.
    assert!(outputs[6].starts_with("There is no file directory."), "{}", outputs[6]);
    assert_eq!(place.read("real/data.txt").as_deref(), Some("one\ntwo\n"));
    assert_eq!(place.read("CLAUDE.md").as_deref(), Some("rules\n"));
    assert_eq!(place.read("../outside.txt").as_deref(), Some("outside\n"));
    let undone = place.tine(["-c", "-p", "/undo"]).run().exits(0);
    assert_eq!(undone.stdout.lines().count(), 6, "{}", undone.stdout);
    for (name, to) in [
        ("AGENTS.md", "CLAUDE.md"),
        ("directory", "real"),
        ("loop", "loop"),
        ("outside", "../outside.txt"),
    ] {
        assert_eq!(leads(&place, name).as_deref(), Some(Path::new(to)));
    }
}

#[test]
fn what_a_link_leads_to_is_written_and_the_link_stays() {
    let place = links();
    let outputs = calls(
        &place,
        &[
            edit("link.txt", "two", "2"),
            read("link.txt"),
            write("link.txt", "one\nthree\n"),
            patch("*** Update File: link.txt\n-three\n+3"),
            write("dangling", "made\n"),
            edit("loop", "a", "b"),
            edit("directory", "a", "b"),
            edit("directory/data.txt", "one", "1"),
        ],
        &["--yolo"],
    );
    let note = " link.txt is a symbolic link and stays one: the change is in real/data.txt.";
    for at in [0, 2, 3] {
        assert!(outputs[at].contains(note), "{}", outputs[at]);
    }
    assert!(outputs[1].contains("[This is a symbolic link to real/data.txt.]"), "{}", outputs[1]);
    assert!(outputs[4].starts_with("Created dangling: 1 lines, 5 bytes."), "{}", outputs[4]);
    assert!(outputs[5].contains("Too many levels of symbolic links"), "{}", outputs[5]);
    assert!(outputs[6].starts_with("directory is a directory."), "{}", outputs[6]);
    assert_eq!(place.read("real/data.txt").as_deref(), Some("1\n3\n"));
    assert_eq!(place.read("nowhere/at/all").as_deref(), Some("made\n"));
    assert_eq!(leads(&place, "link.txt").as_deref(), Some(Path::new("real/data.txt")));
    assert_eq!(leads(&place, "dangling").as_deref(), Some(Path::new("nowhere/at/all")));
    let undone = place.tine(["-c", "-p", "/undo"]).run().exits(0);
    assert_eq!(undone.stdout, "deleted nowhere/at/all\nput back real/data.txt\n");
    assert_eq!(leads(&place, "dangling").as_deref(), Some(Path::new("nowhere/at/all")));
    assert_eq!(place.read("link.txt").as_deref(), Some("one\ntwo\n"));
}

#[test]
fn no_link_is_moved_and_nothing_is_moved_over_one() {
    let place = links();
    let refused = [
        "*** Update File: link.txt\n*** Move to: new.txt",
        "*** Update File: link.txt\n*** Move to: new.txt\n@@\n-two\n+2",
        "*** Update File: directory\n*** Move to: new",
        "*** Update File: dangling\n*** Move to: new",
        "*** Update File: real/data.txt\n*** Move to: AGENTS.md",
        "*** Update File: real/data.txt\n*** Move to: dangling",
        "*** Update File: real/data.txt\n*** Move to: outside",
    ];
    let all: Vec<_> = refused.iter().map(|body| patch(body)).collect();
    for output in calls(&place, &all, &["--yolo"]) {
        assert!(output.contains(" is a symbolic link to "), "{output}");
        assert!(output.ends_with("Nothing was changed in any file of the patch."), "{output}");
    }
    let twice = patch("*** Delete File: AGENTS.md\n*** Update File: ./AGENTS.md\n-rules\n+x");
    let both = patch("*** Delete File: AGENTS.md\n*** Update File: CLAUDE.md\n-rules\n+x");
    let outputs = calls(&place, &[twice, both], &["--yolo"]);
    assert_eq!(outputs[0], "AGENTS.md is named twice; say once what shall become of it.");
    assert!(outputs[1].starts_with("Deleted the symbolic link AGENTS.md; "), "{}", outputs[1]);
    assert!(outputs[1].contains("Updated CLAUDE.md: 1 hunk, at line 1."), "{}", outputs[1]);
    assert_eq!(place.read("hard.md").as_deref(), Some("x\n"));
    assert_eq!(place.read("real/data.txt").as_deref(), Some("one\ntwo\n"));
    assert_eq!(leads(&place, "outside").as_deref(), Some(Path::new("../outside.txt")));
}

#[test]
fn one_hard_link_goes_and_the_others_stay() {
    let place = links();
    let outputs = calls(
        &place,
        &[edit("hard.md", "rules", "RULES"), read("hard.md"), patch("*** Delete File: hard.md")],
        &["--yolo"],
    );
    assert!(outputs[0].contains("The file has other hard links: it was written in place"));
    assert_eq!(outputs[2], "Deleted hard.md. The file's other hard links stay.\n");
    let kept = place.work().join("CLAUDE.md");
    assert_eq!(fs::metadata(&kept).expect("it is there").nlink(), 1);
    assert_eq!(place.read("CLAUDE.md").as_deref(), Some("RULES\n"));
}

#[test]
fn the_guard_judges_the_link_that_goes_and_what_it_leads_to() {
    let place = links();
    fs::create_dir_all(place.work().join(".claude/hooks")).expect("the place is ours");
    symlink("../../CLAUDE.md", place.work().join(".claude/hooks/x")).expect("the name is free");
    let delete = |name: &str| patch(&format!("*** Delete File: {name}"));
    let edits = ["--permission-mode", "acceptEdits"];
    let one =
        calls(&place, &[delete(".claude/hooks/x"), delete("AGENTS.md"), delete("outside")], &edits);
    assert!(one[0].contains("`.claude` can make programs run"), "{}", one[0]);
    assert!(one[1].starts_with("Deleted the symbolic link AGENTS.md; "), "{}", one[1]);
    assert!(one[2].contains("is outside the workspace"), "{}", one[2]);
    let denied =
        ["--yolo", "--disallowed-tools", "Edit(link.txt)", "--disallowed-tools", "Edit(real/**)"];
    let two = calls(&place, &[delete("link.txt"), delete("directory")], &denied);
    assert!(two[0].contains("denied by the rule `Edit("), "{}", two[0]);
    assert!(leads(&place, "link.txt").is_some() && leads(&place, ".claude/hooks/x").is_some());
}

#[test]
fn an_edit_that_forgives_white_space_writes_the_files_own() {
    let case = Case::open("forgiving-edit-breaks-tabs");
    let outputs = outputs(&case);
    assert!(outputs[1].starts_with("Edited a.py: 1 replacement."), "{}", outputs[1]);
    let text = case.place.read("a.py").expect("it is there");
    let expected =
        "class A:\n\tdef f(self):\n\t\tif x and y:\n\t\t\tlog()\n\t\t\treturn 1\n\t\treturn 2\n";
    assert_eq!(text, expected);
}

#[test]
fn what_cannot_be_indented_is_refused_and_the_place_is_shown() {
    let place = Place::new();
    place.write("a.py", "if x:\n\ty()\n\tif z:\n\t\tw()\n");
    let strange = "    if z:\n        w()\n       v()\n";
    let outputs = calls(
        &place,
        &[
            edit("a.py", "    if z:\n        w()\n", strange),
            patch("*** Update File: a.py\n     if z:\n         w()\n+       v()"),
            edit("a.py", "    if zz:\n        w()", "x"),
        ],
        &["--yolo"],
    );
    assert_eq!(
        outputs[0],
        "\"old_string\" does not stand in a.py. It matches lines 3 to 4 except for the white space \
         at the start of lines, and the indentation of `v()` there cannot be determined. Copy the \
         lines from the file:\n     3\t\tif z:\n     4\t\t\tw()\n"
    );
    assert!(
        outputs[1].contains("hunk 1 matches at line 3 except for the white space"),
        "{}",
        outputs[1]
    );
    assert!(outputs[2].contains("The nearest is line 3"), "{}", outputs[2]);
    assert_eq!(place.read("a.py").as_deref(), Some("if x:\n\ty()\n\tif z:\n\t\tw()\n"));
}

#[test]
fn line_ends_and_marks_stay_with_every_tool_that_writes() {
    let case = Case::open("write-crlf-to-lf");
    let said = outputs(&case);
    assert_eq!(
        said[1],
        "Replaced crlf.txt: 2 lines, 10 bytes. Its line endings are CRLF, as before."
    );
    assert_eq!(case.place.read("crlf.txt").as_deref(), Some("one\r\nTWO\r\n"));

    let place = Place::new();
    place.write("mark", "\u{feff}a\r\nb\r\n");
    place.write("mixed", "a\r\nb\r\nc\n");
    place.write("plain", "a\nb\n");
    place.write("moved", "a\r\nb\r\n");
    let outputs = calls(
        &place,
        &[
            read("mark"),
            write("mark", "x\ny\n"),
            patch("*** Add File: mark\n+z"),
            edit("mixed", "b", "x\ny"),
            read("mixed"),
            write("mixed", "x\n"),
            edit("plain", "a\r\nb\r\n", "a\r\nc\r\n"),
            patch("*** Update File: moved\n*** Move to: there\n a\n-b\n+c\n+d"),
            read("plain"),
            write("plain", "a\r\nb"),
        ],
        &["--yolo"],
    );
    assert_eq!(place.read("mark").as_deref(), Some("\u{feff}z\r\n"));
    assert!(outputs[1].contains("CRLF, as before. It begins with a byte order mark, as before."));
    assert!(outputs[2].starts_with("Replaced mark: 1 lines. Its line endings are CRLF"));
    assert!(outputs[4].contains("y\n"), "{}", outputs[4]);
    assert!(outputs[5].ends_with("Its line endings were mixed and are now LF."), "{}", outputs[5]);
    assert_eq!(place.read("there").as_deref(), Some("a\r\nc\r\nd\r\n"));
    assert!(
        outputs[9].ends_with(
            "Its line endings were LF and are now CRLF. Its last line no longer has a line ending."
        ),
        "{}",
        outputs[9]
    );
}

#[test]
fn characters_that_look_alike_are_found_and_kept() {
    let case = Case::open("edit-invisible-characters");
    let said = outputs(&case);
    assert!(
        said[0].contains("[Characters that look like others: U+00A0 (no-break space) at line ")
    );
    assert!(said[1].contains("Differing characters: U+00A0 (no-break space)."), "{}", said[1]);
    assert!(
        case.place
            .read("nbsp.md")
            .is_some_and(|text| text.contains("this") && text.contains('\u{a0}'))
    );

    let place = Place::new();
    let text = "\u{201c}it\u{2019}s\u{201d} one\nzero\u{200b}width two\ncafe\u{301} three\n\
                soft\u{ad}hyphen four\nｆｎ（） five\nno\u{a0}break six\na\u{2014}b seven\n";
    place.write("a.md", text);
    let plain =
        ["\"it's\" one", "zerowidth two", "caf\u{e9} three", "softhyphen four", "fn() five"];
    let mut all: Vec<_> = plain
        .iter()
        .map(|line| {
            edit(
                "a.md",
                line,
                &line.rsplit_once(' ').map_or(String::new(), |(start, _)| format!("{start} x")),
            )
        })
        .collect();
    all.push(patch("*** Update File: a.md\n-no break six\n+no break x"));
    all.push(patch("*** Update File: a.md\n a-b seven\n+end"));
    all.push(edit("a.md", "nо break x", "y"));
    let outputs = calls(&place, &all, &["--yolo"]);
    let expected = "\u{201c}it\u{2019}s\u{201d} x\nzero\u{200b}width x\ncafe\u{301} x\n\
                    soft\u{ad}hyphen x\nｆｎ（） x\nno\u{a0}break x\na\u{2014}b seven\nend\n";
    assert_eq!(place.read("a.md").as_deref(), Some(expected), "{outputs:?}");
    // A Cyrillic letter is not a look-alike that is forgiven: the error names its place.
    let named = "The nearest is line 6 (it differs in U+00A0 (no-break space), U+043E (`о`))";
    assert!(outputs[7].contains(named), "{}", outputs[7]);
}

#[test]
fn a_text_in_utf_16_is_read_found_edited_and_written_back() {
    let case = Case::open("read-utf16");
    let said = outputs(&case);
    assert!(said[0].contains("[The file is UTF-16LE; Edit, Write and ApplyPatch keep that.]"));
    assert!(said[1].starts_with("u16.txt:"), "{}", said[1]);
    assert!(said[2].starts_with("Edited u16.txt: 1 replacement."), "{}", said[2]);
    let written =
        |place: &Place, name: &str| fs::read(place.work().join(name)).expect("it is there");
    let bytes = written(&case.place, "u16.txt");
    assert!(bytes.starts_with(b"\xff\xfe") && bytes.windows(6).any(|it| it == b"T\0W\0O\0"));

    let place = Place::new();
    let big = |text: &str| {
        let units = text.encode_utf16().flat_map(u16::to_be_bytes);
        [0xfe, 0xff].into_iter().chain(units).collect::<Vec<u8>>()
    };
    place.write("be.txt", big("größe\r\nzwei\r\n"));
    place.write("bare.txt", &big("one\ntwo\n")[2..]);
    let outputs = calls(
        &place,
        &[
            read("be.txt"),
            write("be.txt", "eins\nzwei\n"),
            patch("*** Update File: be.txt\n eins\n-zwei\n+drei \u{1f600}"),
            read("bare.txt"),
            edit("bare.txt", "o", "oo"),
        ],
        &["--yolo"],
    );
    assert!(outputs[0].starts_with("     1\tgröße\n     2\tzwei\n"), "{}", outputs[0]);
    assert!(outputs[1].ends_with("CRLF, as before. It is UTF-16BE, as before."), "{}", outputs[1]);
    assert_eq!(written(&place, "be.txt"), big("eins\r\ndrei \u{1f600}\r\n"));
    assert!(outputs[3].contains("is a binary file of 16 bytes. It looks like UTF-16 without"));
    assert!(outputs[3].contains("`iconv -f UTF-16BE -t UTF-8 'bare.txt'`"), "{}", outputs[3]);
    let refused = "Nothing was changed in bare.txt. It looks like UTF-16 without";
    assert!(outputs[4].contains(refused), "{}", outputs[4]);
    assert_eq!(written(&place, "bare.txt"), &big("one\ntwo\n")[2..]);
}

#[test]
fn a_name_in_another_normal_form_is_opened_and_a_dangling_link_is_named() {
    let case = Case::open("file-name-normal-form");
    let said = outputs(&case);
    assert!(said[0].contains("found under the same name in another Unicode normal form"));
    assert!(said[1].starts_with("l is a dangling symbolic link: nowhere does not exist."));

    let place = Place::new();
    let (one, two) = ("caf\u{e9}", "cafe\u{301}");
    place.write(&format!("{two}/\u{212b}.txt"), "a\n");
    let path = format!("{one}/\u{c5}.txt");
    let outputs = calls(
        &place,
        &[
            edit(&path, "a", "b"),
            write(&format!("{one}/new.txt"), "n\n"),
            ("Grep", json!({ "pattern": "b", "path": one })),
            read("CAFE\u{301}/new.txt"),
        ],
        &["--yolo"],
    );
    assert_eq!(place.read(&format!("{two}/\u{212b}.txt")).as_deref(), Some("b\n"));
    assert_eq!(place.read(&format!("{two}/new.txt")).as_deref(), Some("n\n"));
    assert!(!place.work().join(one).exists(), "{outputs:?}");
    assert!(outputs[2].starts_with(two), "{}", outputs[2]);
    assert!(outputs[3].starts_with("There is no file "), "{}", outputs[3]);
}

#[test]
fn no_directory_is_made_for_what_a_shell_would_expand() {
    let place = Place::new();
    let outputs = calls(
        &place,
        &[
            write("~/notes.txt", "x"),
            write("$HOME/notes.txt", "x"),
            write("${HOME}/notes.txt", "x"),
            write("~ada/notes.txt", "x"),
            write("file:///tmp/notes.txt", "x"),
            patch("*** Add File: ~/notes.txt\n+x"),
            read("~"),
            edit("~/notes.txt", "x", "y"),
            ("Glob", json!({ "pattern": "*", "path": "~" })),
            write("a/~/b", "x"),
        ],
        &["--yolo"],
    );
    for output in &outputs[..9] {
        assert!(output.contains("which tools do not expand"), "{output}");
    }
    let names = fs::read_dir(place.work()).expect("it is there");
    let names: Vec<_> = names.map(|entry| entry.expect("it is there").file_name()).collect();
    assert_eq!(names, ["a"]);
}
