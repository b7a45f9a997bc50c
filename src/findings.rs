//! Findings of a review: read from what reviewers say, merged into a report.
//!
//! The line format is the review skill's: `- [SEVERITY] PATH:LINE: REASON`.

use std::collections::BTreeMap;

/// Where a line stands in the report: severity, path and line number.
type Place<'a> = (usize, &'a str, u32);

/// Turns the output of a batch of reviewers into the report that the review
/// skill asks for: what several found alike stands there once.
#[must_use]
pub fn report(output: &str) -> String {
    let output = format!("\n{output}");
    let mut found: BTreeMap<(Place<'_>, &str), Vec<&str>> = BTreeMap::new();
    let mut checked = String::new();
    for section in output.split("\n## Task ").skip(1) {
        let (title, body) = section.split_once('\n').unwrap_or((section, ""));
        let name = title.split_once(": ").map_or(title, |(_, name)| name);
        let name = name.rsplit_once(" (").map_or(name, |(name, _)| name);
        let bad_end = body.trim_start().lines().next().and_then(|line| line.strip_prefix('['));
        let (body, missing) = shown(body);
        let notes = body.lines().filter_map(|line| line.strip_prefix("Note: "));
        let notes = notes.map(str::to_owned).chain(missing).collect::<Vec<_>>().join("; ");
        checked.push_str(&match (bad_end, &*notes) {
            (Some(end), "") => format!("- {name}: {}\n", end.trim_end_matches(']')),
            (Some(end), notes) => format!("- {name}: {}; {notes}\n", end.trim_end_matches(']')),
            (None, "") => format!("- {name}: completed\n"),
            (None, notes) => format!("- {name}: completed, but {notes}\n"),
        });
        for line in body.lines().map(str::trim) {
            let Some(place) = place(line) else { continue };
            let names = found.entry((place, line)).or_default();
            names.extend((!names.contains(&name)).then_some(name));
        }
    }
    if checked.is_empty() {
        return format!("The offline review could not start its reviewers: {}", output.trim());
    }
    let lines = found.iter().map(|((_, line), names)| format!("{line} ({})", names.join(", ")));
    let list = lines.collect::<Vec<_>>().join("\n");
    let (verdict, list) = match found.len() {
        0 => ("no findings, which is no proof that there are none".to_owned(), "No findings."),
        1 => ("1 finding".to_owned(), &*list),
        count => (format!("{count} findings, the worst first"), &*list),
    };
    format!(
        "Checked by fixed rules, without a model: {verdict}.\n\n## Findings\n\n{list}\n\n\
         ## What was checked\n\n{checked}"
    )
}

/// Takes the mark of a text that was cut off its end, and with it the line it
/// cut through; returns what is left and what to say about the rest.
fn shown(body: &str) -> (&str, Option<String>) {
    let text = body.trim_end().trim_end_matches("\n---").trim_end();
    let (kept, last) = text.rsplit_once('\n').unwrap_or(("", text));
    let mark = last.strip_prefix('[').and_then(|mark| mark.strip_suffix(']'));
    let Some((count, place)) = mark.and_then(|mark| mark.split_once(" more bytes")) else {
        return (body, None);
    };
    if count.parse::<usize>().is_err() {
        return (body, None);
    }
    // A cut between two lines leaves an empty one.
    let kept = kept.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let note = format!("{count} bytes of its findings are not shown here");
    let note = match place.strip_prefix("; the whole text is in ") {
        Some(file) => format!("{note}; they are in {file}"),
        None => note,
    };
    (kept, Some(note))
}

/// Tells where `- [SEVERITY] PATH:LINE: REASON` belongs; `None` for any other
/// line.
fn place(line: &str) -> Option<Place<'_>> {
    let (severity, rest) = line.strip_prefix("- [")?.split_once("] ")?;
    let severity = ["high", "medium", "low"].iter().position(|name| *name == severity)?;
    // The path may hold `: ` itself.
    rest.match_indices(": ").find_map(|(at, _)| {
        let (path, number) = rest[..at].rsplit_once(':')?;
        Some((severity, path, number.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cut_off_is_told_and_half_a_line_is_no_finding() {
        let output = "## Task 1: clarity (reviewer)\n\nNote: a\n\nNote: b\n\n- [low] a.rs:9: dull\n\
            - [low] a.rs:10: hal\n[11206 more bytes; the whole text is in /s/u2.txt]\n\n---\n\n\
            ## Task 2: tests (reviewer)\n\n- [low] b.rs:1: none\n\n[7 more bytes are left out]\n\n---\n\n\
            ## Task 3: speed (reviewer)\n\n[failed: x]\n\nPartial result:\n\n- [low] b.rs:2: sl\n\
            [9 more bytes are left out]";
        assert_eq!(
            report(output),
            "Checked by fixed rules, without a model: 2 findings, the worst first.\n\n\
             ## Findings\n\n- [low] a.rs:9: dull (clarity)\n- [low] b.rs:1: none (tests)\n\n\
             ## What was checked\n\n- clarity: completed, but a; b; 11206 bytes of its findings \
             are not shown here; they are in /s/u2.txt\n- tests: completed, but 7 bytes of its \
             findings are not shown here\n- speed: failed: x; 9 bytes of its findings are not \
             shown here\n"
        );
    }

    #[test]
    fn what_several_reviewers_found_alike_stands_once_and_the_worst_first() {
        let output = "## Task 1: clarity (reviewer)\n\n- [low] a.rs:9: dull\n- [high] b: c.rs:2: bad\n\n\
            ---\n\n## Task 2: tests (reviewer)\n\n- [high] b: c.rs:2: bad\n- not a finding\n\n---\n\n\
            ## Task 3: security (reviewer)\n\n[failed: overloaded]";
        assert_eq!(
            report(output),
            "Checked by fixed rules, without a model: 2 findings, the worst first.\n\n\
             ## Findings\n\n- [high] b: c.rs:2: bad (clarity, tests)\n- [low] a.rs:9: dull (clarity)\n\n\
             ## What was checked\n\n- clarity: completed\n- tests: completed\n\
             - security: failed: overloaded\n"
        );
    }
}
