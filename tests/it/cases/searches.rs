//! Searches that have to say what they left out.

use serde_json::{Value, json};

use crate::support::play::{Case, outputs_of};
use crate::support::tine::Place;

/// Returns the texts of the outputs of a case's script.
fn outputs(case: &Case) -> Vec<String> {
    let outputs = case.scripted(&["--yolo"]).run().exits(0).records().outputs();
    outputs.into_iter().map(|output| output.text).collect()
}

#[test]
fn anchors_match_the_lines_that_read_shows() {
    let outputs = outputs(&Case::open("grep-anchor-crlf"));
    assert!(outputs[1].starts_with("crlf.txt:1:needle\n"), "{outputs:?}");
}

#[test]
fn each_form_of_a_search_says_what_is_binary() {
    let case = Case::open("grep-late-nul");
    let [files, late, binary] = &outputs(&case)[..] else { panic!("three outputs") };
    assert!(files.starts_with("late.log\n"), "{files}");
    assert!(files.contains("[x.bin is a binary file and was not searched; "), "{files}");
    assert!(late.starts_with("late.log:"), "{late}");
    assert!(late.contains("[late.log is binary from byte "), "{late}");
    assert!(late.ends_with(" on; the matches before it are shown.]\n"), "{late}");
    assert!(binary.contains("[x.bin is a binary file and was not searched; "), "{binary}");
}

#[test]
fn brackets_in_names_stand_for_themselves() {
    let case = Case::open("glob-brackets");
    let outputs = outputs(&case);
    assert_eq!(outputs[0], "app/[id]/page.tsx\n");
    assert_eq!(outputs[1], "app/[id]/page.tsx\n");
    assert_eq!(outputs[2], "app/[[...sign-in]]/page.tsx\n");
}

#[test]
fn what_git_ignores_is_counted_and_found_by_its_exact_path() {
    let case = Case::open("search-says-none-of-ignored").in_git();
    let outputs = outputs(&case);
    let left_out = "[Left out: 1 file that git ignores. Set \"include_ignored\": true to include \
                    them.]\n";
    assert_eq!(outputs[0], format!("No match in scripts for needle\n{left_out}"));
    assert_eq!(outputs[1], "dist/app.js\n");
    assert_eq!(outputs[2], format!("No match in . for needle\n{left_out}"));
}

/// A directory with files of every sort that searches leave out.
fn omitted_files() -> Place {
    let place = Place::new();
    place.write(".gitignore", "build/\n*.gen\n");
    for name in ["build/out.js", "x.gen", ".config/a.js", "lib/.ignore"] {
        place.write(name, "needle\n");
    }
    place.write("lib/.ignore", "private.js\n");
    place.write("lib/private.js", "needle\n");
    place.write("nested/.git/HEAD", "needle\n");
    place.write("nested/a.js", "needle\n");
    std::fs::create_dir(place.root().join("elsewhere")).expect("the place is new");
    std::fs::write(place.root().join("elsewhere/b.js"), "needle\n").expect("it was made");
    place.write("wide.txt", b"\xff\xfen\0e\0e\0d\0l\0e\0\r\0\n\0");
    place.write("mark.txt", "\u{feff}needle\r\nnext\r\n");
    std::os::unix::fs::symlink(place.root().join("elsewhere"), place.work().join("link"))
        .expect("the name is free");
    place
}

#[test]
fn whatever_a_search_skips_is_counted() {
    let place = omitted_files();
    let search = |more: Value| {
        let mut arguments = json!({ "pattern": "needle" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ("Grep", arguments)
    };
    let found = outputs_of(
        &place,
        &[
            search(json!({})),
            search(json!({ "include_ignored": "true" })),
            search(json!({ "path": "build" })),
            search(json!({ "glob": "build/*.js" })),
            search(json!({ "glob": "lib/private.js" })),
            search(json!({ "pattern": "^needle$", "glob": "*.txt" })),
            search(json!({ "pattern": "needle\nnext$", "multiline": true, "glob": "*.txt" })),
            search(json!({ "pattern": "needle\\r$", "glob": "mark.txt" })),
            search(json!({ "glob": "*.none" })),
            ("Glob", json!({ "pattern": "**/*.js" })),
            ("Glob", json!({ "pattern": "build/**" })),
            ("Glob", json!({ "pattern": "lib" })),
            ("Glob", json!({ "pattern": "nested/.git/*" })),
            ("Glob", json!({ "pattern": "**/*.gen", "include_ignored": true })),
        ],
    );
    let found: Vec<String> = found.into_iter().map(|output| output.text).collect();
    let link = "[The link link is not followed. Set \"path\" to where it leads.]\n";
    let set = "Set \"include_ignored\": true to include them.]\n";
    assert_eq!(
        found[0],
        format!(
            "mark.txt\nnested/a.js\nwide.txt\n[Left out: 3 files that git ignores, 3 hidden \
             files. {set}{link}"
        )
    );
    assert_eq!(
        found[1],
        format!(
            ".config/a.js\nbuild/out.js\nlib/private.js\nmark.txt\nnested/a.js\nwide.txt\nx.gen\n\
             {link}"
        )
    );
    assert_eq!(found[2], "build/out.js\n");
    assert_eq!(found[3], "build/out.js\n");
    assert_eq!(found[4], "lib/private.js\n");
    assert_eq!(found[5], format!("mark.txt\nwide.txt\n{link}"));
    assert_eq!(found[6], format!("mark.txt\n{link}"));
    assert_eq!(found[7], format!("mark.txt\n{link}"));
    assert_eq!(found[8], format!("No match in . for needle\n{link}"));
    assert_eq!(
        found[9],
        format!("nested/a.js\n[Left out: 2 files that git ignores, 1 hidden file. {set}{link}")
    );
    assert_eq!(found[10], "build/out.js\n");
    assert!(found[11].ends_with("[lib is a directory: lib/** matches the files below it.]\n"));
    assert!(found[12].contains("[`.git` is left out. Set \"path\" to it to list its files.]"));
    assert_eq!(found[13], format!("x.gen\n{link}"));
}
