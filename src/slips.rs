//! How many slips of the fingers lie between two words.

/// Counts the letters that were left out, added, changed, or swapped with
/// their neighbour.
///
/// The time is the product of the two lengths; whoever takes words from
/// outside bounds them first.
#[must_use]
pub fn distance(a: &[char], b: &[char]) -> usize {
    // The rows for one and two letters of `a` less.
    let mut before: Vec<usize> = (0..=b.len()).collect();
    let mut before_that = Vec::new();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = before[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(before[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                let swapped: &Vec<usize> = &before_that;
                least = least.min(swapped[j - 2] + 1);
            }
            row.push(least);
        }
        before_that = std::mem::replace(&mut before, row);
    }
    before[b.len()]
}

#[cfg(test)]
mod tests {
    #[track_caller]
    fn check(a: &str, b: &str, expected: usize) {
        let letters = |word: &str| word.chars().collect::<Vec<_>>();
        assert_eq!(super::distance(&letters(a), &letters(b)), expected);
    }

    #[test]
    fn each_slip_counts_once() {
        check("main", "main", 0);
        check("", "abc", 3);
        check("abc", "", 3);
        check("kitten", "sitting", 3);
        check("mian", "main", 1);
        check("größe", "grösse", 2);
    }
}
