//! Sums of orders.

/// Returns the sum of all amounts.
pub fn total(amounts: &[u32]) -> u32 {
    amounts.iter().sum()
}
