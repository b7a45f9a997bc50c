//! What cannot be mapped: said before anything is asked, written or kept.

use std::io::Read as _;
use std::process::Stdio;

use crate::support::server::{Reaction, Server};
use crate::support::tine::Place;

use super::{PROMPT, SESSION, echo, map, place};

/// Checks that a map is refused before anything is asked or kept.
#[track_caller]
fn refuses(place: &Place, flags: &[&str], code: i32, said: &str) {
    let server = echo();
    map(place, &server, flags).run().refuses(code, said);
    assert!(server.finish().is_empty() && place.sessions().is_empty());
}

#[test]
fn a_table_that_cannot_be_read_is_refused_with_its_line() {
    let place = place(&["a"]);
    for (name, text, said) in [
        ("empty.csv", "", "there are no rows in it"),
        ("empty.jsonl", "\n\n", "there are no rows in it"),
        ("names.csv", "\u{feff}path,b\r\n", "there are no rows in it"),
        ("ragged.csv", "path,b\n1,2\n3\n", {
            "line 3: the row has 1 field, and the first line names 2 columns"
        }),
        ("long.csv", "\u{feff}path\r\n1\r\n2,3\r\n", {
            "line 3: the row has 2 fields, and the first line names 1 column"
        }),
        ("open.csv", "path,b\n\"a \"\" b\",x\"\"y\n2,\"c\n3,d\n", {
            "line 3: a field that begins with a quotation mark does not end with one; within it a \
             quotation mark is written twice"
        }),
        ("within.csv", "path,b\n1,\"a\n2,b\n3,\"c\"\n", {
            "line 2: a field that begins with a quotation mark does not end with one; within it a \
             quotation mark is written twice"
        }),
        ("twice.csv", "id,path\nx,1\ny,2\nx,3\n", {
            "line 4: its `id` is `x`, and so is that of line 2"
        }),
        ("no.jsonl", "{\"path\":1}\n[2]\n", {
            "line 2: invalid type: sequence, expected a row, which is an object, such as {\"name\": \
             \"a\"}"
        }),
        ("both.jsonl", "{\"path\":1}\n{\"path\":2,\"path\":3}\n", {
            "line 2: two fields are called `path`"
        }),
        ("broken.jsonl", "{\"path\":1}\n{\"path\":\n", {
            "line 2, column 8: it is not valid JSON: EOF while parsing a value"
        }),
        ("array.json", "[{\"path\":1}]", {
            "it is one array; a row is an object on a line of its own: `jq -c '.[]'` makes lines \
             of it"
        }),
    ] {
        place.write(name, text);
        let said = format!("error: `{name}`: {said}\n");
        refuses(&place, &["--input", name], 42, &said);
    }
    refuses(&place, &["--input", "none.csv"], 42, {
        "error: cannot read `none.csv`: No such file or directory (os error 2)\n"
    });
}

#[test]
fn a_line_without_an_end_is_given_up_in_bounded_memory() {
    let place = place(&["a"]);
    refuses(&place, &["--input", "/dev/zero"], 42, {
        "error: cannot read `/dev/zero`: it is longer than 64 MiB\n"
    });
    // Ten times the size of the largest table, of which a part is read.
    let large = std::fs::File::create(place.work().join("large.jsonl")).expect("a new file");
    large.set_len(640 << 20).expect("it takes no room");
    refuses(&place, &["--input", "large.jsonl"], 42, {
        "error: cannot read `large.jsonl`: it is longer than 64 MiB\n"
    });
}

#[test]
fn standard_input_that_is_empty_or_closed_has_no_rows() {
    let place = place(&["a"]);
    let server = echo();
    let said = "error: `-`: there are no rows in it\n";
    map(&place, &server, &["--input", "-"]).run().refuses(42, said);
    let closed = map(&place, &server, &["--input", "-"]).by("sh", ["-c", "exec \"$@\" <&-", "sh"]);
    closed.run().refuses(42, said);
    assert!(server.finish().is_empty());
}

#[test]
fn a_prompt_that_names_what_no_row_has_is_refused() {
    let place = place(&["a"]);
    place.write("rows.jsonl", "{\"path\":1}\n{\"pat\":1}\n");
    refuses(&place, &["--input", "rows.jsonl"], 42, {
        "error: `p.md`: it names `path`, which the row of line 2 has not\n"
    });
    for (prompt, said) in [
        ("Look at {{ pth }}", "there is no column `pth`; there are `path`"),
        ("Look at path", {
            "the prompt names no column, so every row would be asked the same; there are `path`"
        }),
        ("Look at\n{{ path }", {
            "syntax error: unexpected `}`, expected end of variable block (line 2)"
        }),
    ] {
        place.write("p.md", prompt);
        refuses(&place, &[], 42, &format!("error: `p.md`: {said}\n"));
    }
    place.write("p.md", b"Look at {{ path }} \xff");
    refuses(&place, &[], 42, "error: `p.md`: the file is not UTF-8 text\n");
}

#[test]
fn a_schema_that_is_none_is_refused() {
    let place = place(&["a"]);
    place.write("s.json", "{\"type\":");
    for (schema, said) in [
        ("{\"type\":7}", "error: `--schema` is not a usable JSON Schema: "),
        ("s.json", "error: `s.json` is not a usable JSON Schema: it is not valid JSON"),
        ("none.json", "error: cannot read `none.json`: "),
    ] {
        let server = echo();
        let run = map(&place, &server, &["--schema", schema]).run().exits(42);
        assert!(run.stderr.starts_with(said), "{schema}: {}", run.stderr);
        assert!(server.finish().is_empty() && place.sessions().is_empty());
    }
}

#[test]
fn columns_that_no_comma_parts_are_told_from_one() {
    let place = place(&["a"]);
    for (table, said) in [
        ("path;owner\na;b\n", "`path;owner`, since commas part them, and not `;`\n"),
        ("path\towner\na\tb\n", ", since commas part them, and not tabs\n"),
    ] {
        place.write("items.csv", table);
        let run = map(&place, &echo(), &[]).run().exits(42);
        assert!(run.stderr.ends_with(said), "{}", run.stderr);
    }
}

#[test]
fn an_output_that_cannot_be_written_is_refused() {
    let place = place(&["a"]);
    std::fs::create_dir(place.work().join("there")).expect("a new directory");
    for (output, said) in [
        ("there", "cannot write `there`: Is a directory (os error 21)"),
        ("none/out.jsonl", "cannot write `none/out.jsonl`: No such file or directory (os error 2)"),
    ] {
        refuses(&place, &["--output", output], 42, &format!("error: {said}\n"));
    }
}

#[test]
fn no_file_is_written_over_that_holds_anything_else() {
    let place = place(&["a"]);
    place.write("out.jsonl", "mine\n");
    refuses(&place, &["--output", "out.jsonl"], 42, {
        "error: there is something in `out.jsonl`\n\
         hint: name another file, or go on with its session: `--resume SESSION`\n"
    });
    for (file, read) in [("items.csv", "--input"), ("p.md", "--prompt")] {
        for flag in ["--output", "--json-file", "--output-last-message", "--debug-file"] {
            let said = format!(
                "error: `{flag}` and `{read}` are the same file, `./{file}`\n\
                 hint: name another one as `{flag}`\n"
            );
            refuses(&place, &[flag, &format!("./{file}")], 42, &said);
        }
    }
    map(&place, &echo(), &["--session-id", SESSION]).run().exits(0);
    let server = echo();
    let flags = ["--output", "out.jsonl", "--resume", SESSION];
    map(&place, &server, &flags).run().refuses(42, {
        "error: there is something in `out.jsonl`\n\
         hint: these are not the lines of a map: name another file\n"
    });
    assert!(server.finish().is_empty());
    assert_eq!(place.read("out.jsonl").as_deref(), Some("mine\n"));
    assert_eq!(place.read("p.md").as_deref(), Some(PROMPT));
}

/// Another process writes for it: the lines that are there are not touched.
#[test]
fn a_map_that_runs_is_not_gone_on_with() {
    let place = place(&["a", "b"]);
    let first = crate::support::talk::serve(|talk| match super::row(talk) {
        "a" => Reaction::text_reply("saw a"),
        _ => Reaction::Hang,
    });
    let running = map(&place, &first, &["--output", "out.jsonl", "--session-id", SESSION]).start();
    let lines = || place.read("out.jsonl").filter(|lines| !lines.is_empty());
    let there = crate::support::wait::found("a line is written", lines);
    let second = echo();
    let again = map(&place, &second, &["--output", "out.jsonl", "--resume", SESSION]).run();
    assert_ne!(again.status.code(), Some(0), "{}", again.stderr);
    assert!(again.stderr.starts_with("error: "), "{}", again.stderr);
    assert_eq!(lines(), Some(there));
    assert!(second.finish().is_empty());
    drop(running);
}

#[test]
fn flags_that_a_map_has_no_use_for_are_refused_with_what_to_do() {
    let place = place(&["a"]);
    refuses(&place, &["--retry-failed"], 2, {
        "error: `--retry-failed` needs a session to go on with\n\
         hint: add `--resume SESSION` or `--continue`\n"
    });
    // A result of its own stands on standard output in these formats.
    let run = map(&place, &echo(), &["-o", "json"]).run().exits(2);
    let expected = "error: a map's output is a line for each row\n\
                    hint: `--json-file FILE` takes the records of its run besides\n";
    assert_eq!(run.stderr, expected);
    let records = ["--output", "out.jsonl", "--json-file", "out.jsonl"];
    refuses(&place, &records, 42, {
        "error: `--json-file` and `--output` are the same file, `out.jsonl`\n\
         hint: name another one as `--json-file`\n"
    });
    let asked = ["map", "--prompt", "p.md", "--input", "items.csv", "-m", "offline"];
    place.tine(asked).run().refuses(42, {
        "error: a map needs a model, and fixed rules answer\n\
         hint: choose a model with `-m MODEL`; `tine doctor` says how to get one\n"
    });
    let run = map(&place, &echo(), &["--agent", "explroe"]).run().exits(2);
    assert!(run.stderr.starts_with("error: there is no agent `explroe`\nhint: "), "{}", run.stderr);
    assert!(place.sessions().is_empty());
}

/// Nobody reads on: what has ended is in the session, the rest is stopped.
#[test]
fn lines_that_cannot_be_written_end_the_map_with_what_to_do() {
    let place = super::rows(30);
    let server = echo();
    let kept = ["--session-id", SESSION, "--max-concurrent", "2"];
    let full = map(&place, &server, &[&kept[..], &["--output", "/dev/full"]].concat());
    let full = full.run().exits(1);
    let hint = format!(
        "hint: what has ended is in the session: with `--resume {SESSION}` all lines are written \
         again, and the rest is asked"
    );
    let said: Vec<&str> = full.stderr.lines().collect();
    let begun = format!("30 rows, session {SESSION}");
    let error = "error: cannot write the output: No space left on device (os error 28)";
    assert_eq!(said, [&*begun, error, &*hint]);
    let asked = server.finish().len();
    assert!(asked < 30, "the rest is not asked for nobody");
    let second: Server = echo();
    let again = ["--resume", SESSION, "--output", "out.jsonl"];
    map(&place, &second, &again).run().exits(0);
    assert!(second.finish().len() <= 30);
    super::check_all_completed(&place, 30);
    // A pipe whose reader has seen enough.
    let place = super::rows(30);
    let mut command = map(&place, &echo(), &kept).into_command();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cargo has built the binary");
    let mut reader = child.stdout.take().expect("its output is a pipe");
    reader.read_exact(&mut [0]).expect("it has written a line");
    drop(reader);
    let output = child.wait_with_output().expect("a child can be waited for");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().last()), (Some(141), Some(&*hint)), "{said}");
}
