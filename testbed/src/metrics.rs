//! The samples of a metrics page, and what two of them differ by: what happened in between.

use std::collections::BTreeMap;
use std::time::Duration;

/// Samples by their names, with labels as they stand on the page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(BTreeMap<String, f64>);

/// What a histogram has of one set of labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Mean {
    /// The labels, as they stand on the page.
    pub labels: String,
    /// How many were observed.
    pub count: f64,
    /// What they took on average.
    pub mean: Duration,
}

impl Samples {
    /// Reads a page in the text format; what is no sample is left out.
    ///
    /// ```
    /// use larder_testbed::metrics::Samples;
    ///
    /// let before = Samples::parse("# TYPE a_seconds histogram\na_seconds_bucket{le=\"0.1\"} 1\na_seconds_bucket{le=\"+Inf\"} 1\n");
    /// let after = Samples::parse("a_seconds_bucket{le=\"0.1\"} 3\na_seconds_bucket{le=\"+Inf\"} 4\n");
    /// assert_eq!(after.since(&before).median_at_most("a_seconds"), Some(0.1));
    /// ```
    pub fn parse(page: &str) -> Self {
        let samples = page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Self(samples.collect())
    }

    /// What each sample has grown by since then.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let grown = self.0.iter().map(|(name, now)| {
            let then = before.0.get(name).copied().unwrap_or_default();
            (name.clone(), now - then)
        });
        Self(grown.collect())
    }

    /// The upper bound of the bucket that the median of a histogram without labels is in; none if nothing was observed.
    pub fn median_at_most(&self, histogram: &str) -> Option<f64> {
        let prefix = format!("{histogram}_bucket{{le=\"");
        let mut buckets: Vec<(f64, f64)> = self
            .0
            .iter()
            .filter_map(|(name, count)| {
                let bound = name.strip_prefix(&prefix)?.strip_suffix("\"}")?;
                Some((if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? }, *count))
            })
            .collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        let all = buckets.last().map(|last| last.1).filter(|all| *all > 0.0)?;
        buckets.iter().find(|(_, count)| *count * 2.0 >= all).map(|(bound, _)| *bound)
    }

    /// The average of a histogram, for each set of labels of which anything was observed.
    pub fn means(&self, histogram: &str) -> Vec<Mean> {
        let (counts, sums) = (format!("{histogram}_count"), format!("{histogram}_sum"));
        let observed = self.0.iter().filter(|(_, count)| **count > 0.0);
        observed
            .filter_map(|(name, count)| {
                let labels = name.strip_prefix(&counts)?;
                let sum = self.0.get(&format!("{sums}{labels}"))?;
                let mean = Duration::try_from_secs_f64(sum / count).ok()?;
                Some(Mean { labels: labels.to_owned(), count: *count, mean })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# HELP t_seconds A histogram.
t_seconds_sum 0.9
t_seconds_count 3
t_seconds_bucket{le=\"0.05\"} 1
t_seconds_bucket{le=\"0.5\"} 2
t_seconds_bucket{le=\"+Inf\"} 3
calls_seconds_sum{call=\"A\"} 0.5
calls_seconds_count{call=\"A\"} 5
calls_seconds_sum{call=\"B\"} 0
calls_seconds_count{call=\"B\"} 0
# EOF
";

    #[test]
    fn the_median_is_in_the_bucket_that_half_of_all_do_not_exceed() {
        let page = Samples::parse(PAGE);
        assert_eq!(page.median_at_most("t_seconds"), Some(0.5));
        assert_eq!(page.since(&page).median_at_most("t_seconds"), None, "nothing in between");
        assert_eq!(page.median_at_most("other"), None);
        let one_more = PAGE.replace("le=\"+Inf\"} 3", "le=\"+Inf\"} 4");
        let only = Samples::parse(&one_more).since(&page);
        assert_eq!(only.median_at_most("t_seconds"), Some(f64::INFINITY));
    }

    #[test]
    fn averages_are_by_labels_and_of_what_was_observed() {
        let mean = Mean { labels: "{call=\"A\"}".into(), count: 5.0, mean: Duration::from_millis(100) };
        assert_eq!(Samples::parse(PAGE).means("calls_seconds"), [mean]);
    }
}
