//! Tests of what a change is read as.

use super::*;
use proptest::prelude::*;

fn read(text: &str, most: usize) -> (Vec<File>, Vec<Hunk>, Vec<Aside>) {
    super::read((text, &BTreeSet::new()), most)
}

fn ids(text: &str, most: usize) -> Vec<String> {
    read(text, most).1.iter().map(|hunk| hunk.id.to_string()).collect()
}

#[track_caller]
fn check_aside(text: &str, expected: &[(&str, Why)]) {
    let aside = read(text, 9_999).2;
    let aside: Vec<_> = aside.iter().map(|it| (&*it.path, it.why)).collect();
    assert_eq!(aside, expected);
}

#[test]
fn a_hunk_is_named_by_its_lines_after_the_change_and_before_it_where_it_is_gone() {
    let text = "diff --git a/b.rs b/b.rs\n--- a/b.rs\n+++ b/b.rs\n@@ -1,3 +1,4 @@\n x\n+y\n z\n z\n\
                @@ -40,2 +41,2 @@ fn f() {\n-a\n+b\n c\n\
                diff --git a/a.rs b/a.rs\ndeleted file mode 100644\n--- a/a.rs\n+++ /dev/null\n\
                @@ -1,2 +0,0 @@\n-x\n-y\n";
    assert_eq!(ids(text, 9_999), ["a.rs:-1-2", "b.rs:1-4", "b.rs:41-42"]);
    let (files, hunks, aside) = read(text, 9_999);
    assert_eq!(files[0].hunks().chain(files[1].hunks()).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(hunks[0].is_gone && !files[0].is_code && files[1].is_code && aside.is_empty());
    let changed = |is_new, number, text: &str| Changed { is_new, number, text: text.to_owned() };
    assert_eq!(hunks[2].changed, [changed(false, 40, "a"), changed(true, 41, "b")]);
}

#[test]
fn renames_copies_modes_and_empty_files_are_files_without_hunks() {
    let text = "diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n\
                diff --git a/run b/run\nold mode 100644\nnew mode 100755\n\
                diff --git a/e b/e\nnew file mode 100644\nindex 0..0\n\
                diff --git a/p b/c\nsimilarity index 90%\ncopy from p\ncopy to c\n--- a/p\n+++ b/c\n@@ -1 +1 @@\n-x\n+y\n\
                diff --git \"a/q\\tb\" \"b/q\\tb\"\n--- \"a/q\\tb\"\n+++ \"b/q\\tb\"\n@@ -1 +1 @@\n-x\r\n+y\r\n\\ No newline at end of file\n";
    let (files, hunks, aside) = read(text, 9_999);
    let told: Vec<_> = files.iter().map(|it| (&*it.path, it.from.as_deref(), it.kind)).collect();
    assert_eq!(
        told,
        [
            ("c", Some("p"), ChangeKind::Copied),
            ("e", None, ChangeKind::Added),
            ("new", Some("old"), ChangeKind::Renamed),
            ("q\tb", None, ChangeKind::Modified),
            ("run", None, ChangeKind::Modified),
        ]
    );
    assert!(files[4].head.ends_with("old mode 100644\nnew mode 100755\n") && aside.is_empty());
    let (last, ends) = (&hunks[1], "@@ -1 +1 @@\n-x\r\n+y\r\n\\ No newline at end of file\n");
    assert_eq!((&*last.text, &*last.changed[1].text), (ends, "y"));
}

#[test]
fn what_nobody_can_or_need_read_is_set_aside_with_its_reason() {
    let long = "x".repeat(LINE_CAP + 1);
    check_aside(
        &format!(
            "diff --git a/p.png b/p.png\nindex 1..2 100644\nBinary files a/p.png and b/p.png differ\n\
             diff --git a/sub b/sub\nindex 1..2 160000\n--- a/sub\n+++ b/sub\n@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n\
             diff --git a/Cargo.lock b/Cargo.lock\n--- a/Cargo.lock\n+++ b/Cargo.lock\n@@ -1 +1 @@\n-x\n+y\n\
             diff --git a/l.js b/l.js\n--- a/l.js\n+++ b/l.js\n@@ -1 +1 @@\n-x\n+{long}\n\
             diff --cc m.rs\nindex 1,2..3\n--- a/m.rs\n+++ b/m.rs\n@@@ -1,1 -1,1 +1,1 @@@\n- a\n -b\n++c\n"
        ),
        &[
            ("p.png", Why::Binary),
            ("sub", Why::Submodule),
            ("Cargo.lock", Why::LockFile),
            ("l.js", Why::LongLine),
            ("m.rs", Why::Combined),
        ],
    );
    check_aside(
        "diff --git a/a b/a\nnew file mode 100644\nrename to new mode 160000\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+index 160000\n",
        &[],
    );
}

#[test]
fn a_large_hunk_is_cut_between_its_lines_and_nothing_of_it_is_lost() {
    let body = " a\n-b\n-c\n+d\n+e\n+f\n g\n\\ No newline at end of file\n";
    let text = format!("diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -7,4 +9,5 @@ fn f()\n{body}");
    let (_, hunks, _) = read(&text, 6);
    let texts: Vec<_> = hunks.iter().map(|hunk| &*hunk.text).collect();
    assert_eq!(
        texts,
        [
            "@@ -7,2 +9,1 @@ fn f()\n a\n-b\n",
            "@@ -9,1 +10,1 @@ fn f()\n-c\n+d\n",
            "@@ -9,0 +11,2 @@ fn f()\n+e\n+f\n",
            "@@ -10,1 +13,1 @@ fn f()\n g\n\\ No newline at end of file\n",
        ]
    );
    assert_eq!(ids(&text, 6), ["a:9-9", "a:10-10", "a:11-12", "a:13-13"]);
    // Each part says of its lines what the whole said.
    let head = "diff --git a/a b/a\n--- a/a\n+++ b/a\n";
    let parts = diff::parse(&format!("{head}{}", texts.concat()));
    let whole = diff::parse(&text);
    let lines = |files: &[diff::FileChange]| {
        files[0].hunks.iter().flat_map(|it| it.lines.clone()).collect::<Vec<_>>()
    };
    assert_eq!(lines(&parts), lines(&whole));
}

proptest! {
    #[test]
    fn cutting_keeps_every_changed_line_and_its_number(
        signs in proptest::collection::vec(prop_oneof![Just('+'), Just('-'), Just(' ')], 1..60),
        most in 1_usize..80,
    ) {
        let body: String = signs.iter().zip(0..).map(|(sign, at)| format!("{sign}l{at}\n")).collect();
        let count = |other: char| signs.iter().filter(|sign| **sign != other).count();
        let (old, new) = (count('+'), count('-'));
        let start = |count: usize| if count == 0 { 4 } else { 5 };
        let text = format!(
            "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -{},{old} +{},{new} @@\n{body}",
            start(old), start(new)
        );
        let flat = |most| read(&text, most).1.into_iter().flat_map(|hunk| hunk.changed).collect::<Vec<_>>();
        prop_assert_eq!(flat(most), flat(99_999));
        let names = ids(&text, most);
        prop_assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        let head = "diff --git a/a b/a\n--- a/a\n+++ b/a\n";
        let parts: String = read(&text, most).1.iter().map(|hunk| &*hunk.text).collect();
        prop_assert_eq!(read(&format!("{head}{parts}"), 99_999).1.into_iter().flat_map(|hunk| hunk.changed).collect::<Vec<_>>(), flat(99_999));
    }

    #[test]
    fn no_text_makes_it_panic(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("diff --git a/a b/a\n".to_owned()),
                Just("@@ -4294967295,2 +4294967295,2 @@\n".to_owned()),
                Just("@@ -0,0 +1,3 @@\n".to_owned()),
                Just("\\ No newline\n".to_owned()),
                "[ab \\\\+é0-9\n-]{0,12}",
            ],
            0..20,
        ),
        most in 0_usize..40,
    ) {
        let (files, hunks, _) = read(&parts.concat(), most);
        prop_assert_eq!(files.iter().map(|file| file.hunks().len()).sum::<usize>(), hunks.len());
    }
}
