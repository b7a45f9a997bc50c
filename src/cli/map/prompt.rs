//! The prompt of a map: a template in which the columns of the table are names.

use std::collections::BTreeSet;

use super::table::Table;
use crate::flow::{GLOBALS, Wording};

/// The whole row, for columns that are no names.
const ITEM: &str = "item";

/// The number of the row, from 0.
const INDEX: &str = "index";

/// Most columns that are listed where one is not there.
const LISTED: usize = 25;

/// Reads a prompt for the rows of a table.
///
/// # Errors
///
/// It is no template, it names what is no column or no column at all, or there is
/// a row that lacks one.
pub(super) fn of(template: &str, table: &Table) -> Result<Wording, String> {
    let parsed = Wording::parse(template).map_err(|error| error.to_string())?;
    let columns = table.columns();
    let named = named(&parsed, &columns)?;
    if named.is_empty() {
        return Err(format!(
            "the prompt names no column, so every row would be asked the same; there are {}",
            listed(&columns)
        ));
    }
    for column in named.iter().filter(|name| columns.contains(**name)) {
        if let Some(line) = table.lacking(column) {
            return Err(format!("it names `{column}`, which the row of line {line} has not"));
        }
    }
    // Without a line of their own: so lines that errors name are the user's.
    let set = |column: &&str| format!("{{% set {column} = {ITEM}[\"{column}\"] %}}");
    let mut settings: String = named.iter().filter(|name| **name != ITEM).map(set).collect();
    if columns.contains(ITEM) && named.contains(ITEM) {
        // The last one: behind it the row itself has no name.
        settings.push_str(&set(&ITEM));
    }
    Wording::parse(settings + template).map_err(|error| error.to_string())
}

/// Returns the columns that a prompt names, and `item` if it names that.
fn named<'a>(prompt: &'a Wording, columns: &BTreeSet<&str>) -> Result<BTreeSet<&'a str>, String> {
    let mut named = BTreeSet::new();
    for name in prompt.names() {
        let (root, rest) =
            name.split_once('.').map_or((name, None), |(root, rest)| (root, Some(rest)));
        let missing = match rest {
            _ if columns.contains(root) => None,
            Some(rest) if root == ITEM => (!is_of_row(rest, columns)).then_some(name),
            _ if root == ITEM || root == INDEX || GLOBALS.contains(&root) => None,
            _ => Some(root),
        };
        if let Some(missing) = missing {
            let apart = apart(columns);
            return Err(format!(
                "there is no column `{missing}`; there are {}{apart}",
                listed(columns)
            ));
        }
        if root == ITEM || columns.contains(root) {
            named.insert(root);
        }
    }
    Ok(named)
}

/// Says of columns that look as if they were one that they are.
fn apart(columns: &BTreeSet<&str>) -> &'static str {
    match columns.first() {
        Some(only) if columns.len() == 1 && only.contains(';') => {
            ", since commas part them, and not `;`"
        }
        Some(only) if columns.len() == 1 && only.contains('\t') => {
            ", since commas part them, and not tabs"
        }
        Some(_) | None => "",
    }
}

/// Tells whether a row has this, which may be something inside a column.
fn is_of_row(rest: &str, columns: &BTreeSet<&str>) -> bool {
    let is_in = |column: &str| {
        rest.strip_prefix(column).is_some_and(|inside| inside.is_empty() || inside.starts_with('.'))
    };
    columns.iter().any(|column| is_in(column))
}

fn listed(columns: &BTreeSet<&str>) -> String {
    let mut listed: Vec<String> =
        columns.iter().take(LISTED).map(|column| format!("`{column}`")).collect();
    if columns.len() > LISTED {
        listed.push(format!("{} more", columns.len() - LISTED));
    }
    match listed.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Kind;
    use super::*;

    const ROWS: &str = "{\"id\":1,\"path\":\"a\",\"item\":2,\"first name\":\"A\",\"deep\":{\"x\":1}}\n\
                        {\"id\":2,\"path\":\"b\",\"item\":3,\"first name\":\"B\"}";

    #[track_caller]
    fn check(template: &str, expected: Result<&str, &str>) {
        let table = Table::read(Kind::Jsonl, ROWS.as_bytes()).unwrap();
        let found = of(template, &table).map(|prompt| prompt.source().to_string());
        let whole = |set: &str| format!("{set}{template}");
        assert_eq!(found, expected.map(whole).map_err(str::to_owned), "{template}");
    }

    #[test]
    fn columns_are_names_in_front_of_what_was_written() {
        check("Look at {{ path }}\n", Ok("{% set path = item[\"path\"] %}"));
        check(
            "{%- if id > 1 %}{{ path }}{% endif %} {{ range(index) | list }}",
            Ok("{% set id = item[\"id\"] %}{% set path = item[\"path\"] %}"),
        );
        check("{{ item ~ path }}", {
            Ok("{% set path = item[\"path\"] %}{% set item = item[\"item\"] %}")
        });
        check("{% set own = id %}{{ own }}", Ok("{% set id = item[\"id\"] %}"));
    }

    #[test]
    fn a_column_of_any_name_is_reached_through_its_row() {
        let table = Table::read(Kind::Csv, b"first name,b\nA,B\n").unwrap();
        for template in ["{{ item[\"first name\"] }}", "{{ item.b }}", "{{ item | items }}"] {
            let found = of(template, &table).map(|prompt| prompt.source().to_string());
            assert_eq!(found.as_deref(), Ok(template));
        }
        let found = of("{{ item.c }}", &table);
        let message = "there is no column `item.c`; there are `b` and `first name`";
        assert_eq!(found, Err(message.to_owned()));
        for template in ["{{ b.upper() }}", "{{ item.keys() }}"] {
            let error = of(template, &table).unwrap_err();
            assert!(error.starts_with("values have no methods, so no `"), "{error}");
        }
    }

    #[test]
    fn what_no_row_has_is_refused() {
        let columns = "`deep`, `first name`, `id`, `item` and `path`";
        for name in ["pth", "inputs", "steps"] {
            let message = format!("there is no column `{name}`; there are {columns}");
            check(&format!("{{{{ {name} }}}}"), Err(&message));
        }
        let message = format!(
            "the prompt names no column, so every row would be asked the same; there are {columns}"
        );
        check("Look at path", Err(&message));
        check("{{ index }}", Err(&message));
        check("{{ deep.x }}", Err("it names `deep`, which the row of line 2 has not"));
        let error = of("{{ path", &Table::read(Kind::Csv, b"path\na\n").unwrap());
        assert!(error.is_err(), "{error:?}");
    }
}
