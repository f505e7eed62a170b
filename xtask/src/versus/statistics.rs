//! The middle of several figures, and how far they lie apart.

/// Median and quartiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) median: f64,
    pub(super) lower: f64,
    pub(super) upper: f64,
}

/// Summarizes figures; none for none.
pub(super) fn summarize(figures: &[f64]) -> Option<Summary> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quantile = |quarters| quantile(&sorted, quarters);
    Some(Summary { median: quantile(2)?, lower: quantile(1)?, upper: quantile(3)? })
}

/// The figure below which so many quarters lie, between two of them where none is there.
fn quantile(sorted: &[f64], quarters: usize) -> Option<f64> {
    let place = sorted.len().checked_sub(1)? * quarters;
    let (at, rest) = (place / 4, place % 4);
    let lower = sorted.get(at)?;
    let upper = sorted.get(at + 1).unwrap_or(lower);
    // 0 to 3 quarters.
    let share = [0.0, 0.25, 0.5, 0.75][rest];
    Some(lower + (upper - lower) * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_figures() {
        let summary = |figures: &[f64]| summarize(figures).map(|it| (it.lower, it.median, it.upper));
        assert_eq!(summary(&[]), None);
        assert_eq!(summary(&[3.0]), Some((3.0, 3.0, 3.0)));
        assert_eq!(summary(&[4.0, 2.0]), Some((2.5, 3.0, 3.5)));
        assert_eq!(summary(&[5.0, 1.0, 3.0, 2.0, 4.0]), Some((2.0, 3.0, 4.0)));
        assert_eq!(summary(&[1.0, 2.0, 3.0, 100.0]), Some((1.75, 2.5, 27.25)));
    }
}
