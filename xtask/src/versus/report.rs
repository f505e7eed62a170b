//! The table: as text, as Markdown and as JSON.

use super::drivers::Drivers;
use super::rows::{Row, Target, Unit};
use super::statistics::{Summary, summarize};
use anyhow::Result;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A row, and what was measured of it; the figures at one place of both lists are a pair.
pub(super) struct Measured {
    pub(super) row: &'static Row,
    original: Vec<f64>,
    larder: Vec<f64>,
}

const HEAD: [&str; 7] = ["operation", "kubelet", "(quartiles)", "larder", "(quartiles)", "ratio", "target"];

impl Measured {
    pub(super) fn new(row: &'static Row) -> Self {
        Self { row, original: Vec::new(), larder: Vec::new() }
    }

    /// One more pair.
    pub(super) fn measure(&mut self, drivers: &Drivers, larder_first: bool) -> Result<()> {
        if larder_first {
            self.larder.push(drivers.larder(self.row)?);
        }
        self.original.extend(drivers.original(self.row)?);
        if !larder_first {
            self.larder.push(drivers.larder(self.row)?);
        }
        Ok(())
    }

    /// larder's figures over the original's, pair by pair.
    fn ratio(&self) -> Option<Summary> {
        let ratios: Vec<f64> =
            self.larder.iter().zip(&self.original).map(|(larder, original)| larder / original).collect();
        summarize(&ratios)
    }

    fn larder(&self) -> Option<f64> {
        summarize(&self.larder).map(|summary| summary.median)
    }

    /// Whether the target is met; none where there is no target, or the row that it refers to was not measured.
    fn met(&self, all: &[Self]) -> Option<bool> {
        match self.row.target {
            Target::Ratio(most) => Some(self.ratio()?.median <= most),
            Target::AtMost(most) => Some(self.larder()? <= most),
            Target::Times(most, other) => {
                let other = all.iter().find(|it| it.row.name == other)?.larder()?;
                Some(self.larder()? <= other * most)
            }
            Target::None => None,
        }
    }

    fn cells(&self, all: &[Self]) -> [String; 7] {
        let shown = |figures: &[f64]| match summarize(figures) {
            Some(it) => (
                amount(it.median, self.row.unit),
                format!("{} to {}", amount(it.lower, self.row.unit), amount(it.upper, self.row.unit)),
            ),
            None => ("cannot".to_owned(), String::new()),
        };
        let ((original, of_original), (larder, of_larder)) = (shown(&self.original), shown(&self.larder));
        let ratio = self.ratio().map_or(String::new(), |ratio| significant(ratio.median));
        let met = match self.met(all) {
            Some(true) => ", met",
            Some(false) => ", MISSED",
            None => "",
        };
        let target = format!("{}{met}", target(self.row.target, self.row.unit));
        [self.row.name.to_owned(), original, of_original, larder, of_larder, ratio, target]
    }
}

/// The names of the rows whose targets are missed.
pub(super) fn missed(all: &[Measured]) -> Vec<&'static str> {
    all.iter().filter(|it| it.met(all) == Some(false)).map(|it| it.row.name).collect()
}

/// Columns of equal width.
pub(super) fn text(all: &[Measured]) -> String {
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(all.iter().map(|it| it.cells(all)));
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default())
        .collect();
    let mut out = String::new();
    for line in lines {
        let padded: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        out.push_str(padded.join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// A table of Markdown.
pub(super) fn markdown(all: &[Measured]) -> String {
    let mut out = format!("| {} |\n|{}\n", HEAD.join(" | "), " --- |".repeat(HEAD.len()));
    for it in all {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| {} |", it.cells(all).join(" | "));
    }
    out
}

/// Every figure.
pub(super) fn json(all: &[Measured]) -> Value {
    let summary = |it: Option<Summary>| it.map(|it| json!({"median": it.median, "lower": it.lower, "upper": it.upper}));
    let row = |it: &Measured| {
        let unit = match it.row.unit {
            Unit::Nanoseconds => "ns",
            Unit::Bytes => "bytes",
        };
        json!({
            "operation": it.row.name,
            "unit": unit,
            "kubelet": summary(summarize(&it.original)),
            "larder": summary(summarize(&it.larder)),
            "ratio": summary(it.ratio()),
            "target": target(it.row.target, it.row.unit),
            "met": it.met(all),
            "kubelet_figures": it.original,
            "larder_figures": it.larder,
        })
    };
    Value::Array(all.iter().map(row).collect())
}

fn target(target: Target, unit: Unit) -> String {
    match target {
        Target::Ratio(most) => format!("≤ {most}"),
        Target::AtMost(most) => format!("≤ {}", amount(most, unit)),
        Target::Times(most, other) => format!("≤ {most} × {other}"),
        Target::None => String::new(),
    }
}

fn amount(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => format!("{value:.0} B"),
        Unit::Nanoseconds if value < 10_000.0 => format!("{} ns", significant(value)),
        Unit::Nanoseconds if value < 10_000_000.0 => format!("{} µs", significant(value / 1e3)),
        Unit::Nanoseconds => format!("{} ms", significant(value / 1e6)),
    }
}

/// Three digits that count, or all before the point.
fn significant(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ if value >= 1.0 => format!("{value:.2}"),
        _ if value >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests;
