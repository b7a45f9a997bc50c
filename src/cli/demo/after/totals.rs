//! Sums of orders.

/// Returns the sum of all amounts.
pub fn total(amounts: &[u32]) -> u32 {
    amounts.iter().sum()
}

/// Reads amounts from a text, one a line.
pub fn parse(text: &str) -> Vec<u32> {
    text.lines().map(|line| line.trim().parse::<u32>().unwrap()).collect()
}
