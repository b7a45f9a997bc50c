//! Where a turn starts: the only places at which a history may be cut.

/// Moves a cut forward to the next item that starts a turn, or to the end if
/// there is none. A cut that stands in front of one stays.
///
/// What is behind the returned index is kept whole: its turns are not cut open,
/// and no call loses its output. `items` may hold those of other units, too; if
/// `starts_turn` says no to them, a cut is never put in front of them for their
/// own sake. A cut beyond the end is one at the end.
#[must_use]
pub fn snap_to_turn_start<T>(
    items: &[T],
    cut: usize,
    starts_turn: impl FnMut(&T) -> bool,
) -> usize {
    let cut = cut.min(items.len());
    let later = &items[cut..];
    cut + later.iter().position(starts_turn).unwrap_or(later.len())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Cuts a history of words such as `u` (a user message), `a@sub` (an answer
    /// in the unit `sub`) or `t` (a tool's output).
    #[track_caller]
    fn check(words: &str, cut: usize, expected: usize) {
        let words: Vec<&str> = words.split_whitespace().collect();
        assert_eq!(snap_to_turn_start(&words, cut, |word| *word == "u"), expected, "{words:?}");
    }

    #[test]
    fn every_row_of_the_fixture_gives_its_cut() {
        let fixtures: Value =
            serde_json::from_str(include_str!("../../tests/fixtures/fixtures.json")).unwrap();
        let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
        let rows = fixtures["snap_to_turn_start"].as_array().unwrap();
        assert_eq!(rows.len(), 16);
        for row in rows {
            check(row["events"].as_str().unwrap(), number(&row["cut"]), number(&row["expect"]));
        }
    }

    #[test]
    fn a_cut_beyond_the_end_is_one_at_the_end() {
        check("u a", 7, 2);
    }

    #[test]
    fn outputs_stay_with_their_calls() {
        check("u a t a u a", 2, 4);
    }
}
