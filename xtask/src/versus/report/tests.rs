//! Targets that are met, missed or not measured.

use super::*;
use crate::versus::rows::{Program, ROWS};

static FASTER: Row = Row {
    name: "faster",
    original: Some("op"),
    larder: Program::Speed("op"),
    number: 1,
    unit: Unit::Nanoseconds,
    target: Target::Ratio(0.5),
};
static FLAT: Row = Row { name: "flat", original: None, target: Target::Times(2.0, "faster"), ..FASTER };

fn measured(row: &'static Row, original: &[f64], larder: &[f64]) -> Measured {
    Measured { row, original: original.to_vec(), larder: larder.to_vec() }
}

#[test]
fn a_ratio_is_that_of_the_pairs() {
    // The second round met a load; the medians' own ratio would be 0.3.
    let row = measured(&FASTER, &[100.0, 1_000.0, 90.0], &[40.0, 30.0, 30.0]);
    assert_eq!(row.ratio().map(|it| it.median), Some(30.0 / 90.0));
    assert_eq!(row.met(&[]), Some(true));
    assert_eq!(measured(&FASTER, &[100.0], &[51.0]).met(&[]), Some(false));
}

#[test]
fn a_row_can_be_held_to_another() {
    let all = [measured(&FASTER, &[100.0], &[10.0]), measured(&FLAT, &[], &[20.5])];
    assert_eq!(all[1].met(&all), Some(false));
    assert_eq!(missed(&all), ["flat"]);
    // Measured alone, nothing can be said.
    assert_eq!(all[1].met(&all[1..]), None);
}

#[test]
fn every_row_that_is_referred_to_is_there() {
    for row in ROWS {
        if let Target::Times(_, other) = row.target {
            assert!(ROWS.iter().any(|it| it.name == other), "{}: {other}", row.name);
        }
    }
}

#[test]
fn tables_have_what_was_measured() {
    let all = [measured(&FASTER, &[100.0, 120.0, 140.0], &[20.0, 30.0, 40.0]), measured(&FLAT, &[], &[12_345.0])];
    assert_eq!(
        text(&all),
        "\
operation  kubelet  (quartiles)       larder   (quartiles)         ratio  target
faster     120 ns   110 ns to 130 ns  30.0 ns  25.0 ns to 35.0 ns  0.250  ≤ 0.5, met
flat       cannot                     12.3 µs  12.3 µs to 12.3 µs         ≤ 2 × faster, MISSED
"
    );
    assert!(markdown(&all).contains("| flat | cannot |  | 12.3 µs | 12.3 µs to 12.3 µs |  | ≤ 2 × faster, MISSED |\n"));
    assert_eq!(json(&all)[0]["ratio"]["median"], 0.25);
    assert_eq!(json(&all)[1]["kubelet"], Value::Null);
}

#[test]
fn amounts_have_three_digits_that_count() {
    let table =
        [(0.00012, "1.20e-4 ns"), (0.5, "0.500 ns"), (12.34, "12.3 ns"), (9_999.0, "9999 ns"), (2.5e7, "25.0 ms")];
    for (value, shown) in table {
        assert_eq!(amount(value, Unit::Nanoseconds), shown);
    }
    assert_eq!(amount(144.6, Unit::Bytes), "145 B");
}
