//! A share of a model's context window.

/// A share of a context window, from [`WindowShare::LEAST`] to
/// [`WindowShare::MOST`], in whole thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowShare {
    thousandths: u16,
}

impl WindowShare {
    /// The smallest share. Below it the system prompt and the tools alone could
    /// be more, and every turn would compact.
    pub const LEAST: f64 = 0.1;

    /// The largest share. The request for the summary, its answer and what an
    /// estimate gets wrong need the rest.
    pub const MOST: f64 = 0.95;

    /// Returns the share, rounded to thousandths; `None` if it is not between
    /// the bounds.
    #[must_use]
    pub fn new(share: f64) -> Option<Self> {
        let is_between = (Self::LEAST..=Self::MOST).contains(&share);
        is_between.then(|| Self { thousandths: (share * 1_000.0).round() as u16 })
    }

    /// Returns the share that is this many thousandths; `None` if it is not
    /// between the bounds.
    #[must_use]
    pub fn from_thousandths(thousandths: u16) -> Option<Self> {
        Self::new(f64::from(thousandths) / 1_000.0)
    }

    /// Returns the share in thousandths.
    #[must_use]
    pub fn thousandths(self) -> u16 {
        self.thousandths
    }

    /// Returns this share of `window`.
    #[must_use]
    pub fn of(self, window: u64) -> u64 {
        let share = u128::from(window) * u128::from(self.thousandths) / 1_000;
        u64::try_from(share).expect("a share is less than the whole")
    }
}

impl Default for WindowShare {
    /// Late enough that most conversations never get there, early enough that
    /// one more turn with long outputs still fits.
    fn default() -> Self {
        Self { thousandths: 800 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_between_its_bounds_and_exact_to_a_thousandth() {
        let of = |share: f64| WindowShare::new(share).map(|share| share.of(200_000));
        assert_eq!(of(0.1), Some(20_000));
        assert_eq!(of(0.8), Some(160_000));
        assert_eq!(of(0.8124), Some(162_400));
        assert_eq!(of(0.95), Some(190_000));
        for share in [0.0, 0.099, 0.951, 1.0, 80.0, -0.5, f64::NAN, f64::INFINITY] {
            assert_eq!(of(share), None, "{share}");
        }
        for thousandths in 0..=u16::MAX {
            let share = WindowShare::from_thousandths(thousandths);
            assert_eq!(share.is_some(), (100..=950).contains(&thousandths));
            assert!(share.is_none_or(|share| share.thousandths() == thousandths));
        }
        assert_eq!(WindowShare::new(0.8), Some(WindowShare::default()));
    }

    #[test]
    fn no_window_is_too_large() {
        assert!(WindowShare::default().of(u64::MAX) < u64::MAX);
        assert_eq!(WindowShare::default().of(1), 0);
    }
}
