//! `cargo xtask differential`: random traces on larder's caches and on the kubelet's own, compared line by line.
//!
//! The originals run in `oracle/`, a test binary of Go. What is compared, in this order:
//!
//! 1. whether this comparison finds a difference at all: a replay that is wrong on purpose has to be found and shrunk;
//! 2. the kept traces (`crates/larder-sim/tests/golden` and `regressions`) against the results beside them, which larder's
//!    own tests go by without Go;
//! 3. how durations, TTL annotations and resourceVersions are read;
//! 4. which Secrets and ConfigMaps random pods refer to;
//! 5. pods as their node knows them, of random histories of their containers;
//! 6. what odd kubeconfigs mean, with certificates and keys of all kinds and in odd files: the settings, whether TLS can be set
//!    up, the headers of a request, and what a credential plugin is told; and what odd manifests mean;
//! 7. the tables and the metadata of random objects, and of the objects of upstream's own tests;
//! 8. the table of the types that `larder-protobuf` has; random messages, and those of upstream's own tests, from protobuf to JSON and
//!    from JSON to protobuf; quantities;
//! 9. the random traces. A difference is shrunk to the fewest operations that show it, and kept as a regression.

mod compare;
mod files;
mod golden;
mod oracle;
mod pod_views;
mod pods;
mod progress;
mod protobuf;
mod tables;
mod values;

use crate::checkout;
use anyhow::{Result, bail, ensure};
use compare::{Findings, Plan};
use larder_clock::{Clock as _, MonotonicClock};
use larder_sim::{GoDuration, Header, Kind, Trace};
use oracle::Oracle;
use std::path::PathBuf;

/// How many kubeconfigs, manifests, tables and messages are compared unless a number is given.
const FILES: usize = 500;
/// How many pods as their node knows them are compared unless a number is given.
const POD_VIEWS: usize = 5_000;

/// What to compare.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many random traces.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    traces: u64,
    /// How many odd kubeconfigs.
    #[arg(long, value_name = "N", default_value_t = FILES)]
    kubeconfigs: usize,
    /// How many odd manifests.
    #[arg(long, value_name = "N", default_value_t = FILES)]
    manifests: usize,
    /// How many tables of random objects.
    #[arg(long, value_name = "N", default_value_t = FILES)]
    tables: usize,
    /// How many pods as their node knows them.
    #[arg(long, value_name = "N", default_value_t = POD_VIEWS)]
    pod_views: usize,
    /// How many random messages between protobuf and JSON.
    #[arg(long, value_name = "N", default_value_t = FILES)]
    protobuf: usize,
    /// Where the randomness begins; one of the clock's choice if it is not given. Each trace has the next seed.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Only traces of this kind; both in turn if it is not given.
    #[arg(long, value_name = "KIND", value_parser = parse_kind)]
    kind: Option<Kind>,
    /// How many pairs of a replay and an oracle run side by side.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Write the kept traces' results, the kept messages and the table of types anew, as the originals give them now.
    #[arg(long)]
    bless: bool,
}

fn parse_kind(text: &str) -> Result<Kind, String> {
    let known = Kind::ALL.into_iter().find(|kind| kind.to_string() == text);
    known.ok_or_else(|| "there are pod-status and objects".to_owned())
}

/// Compares so many random traces, and all else, with a seed of the clock's choice.
pub(crate) fn check(traces: u64) -> Result<()> {
    run(&Arguments {
        traces,
        kubeconfigs: FILES,
        manifests: FILES,
        tables: FILES,
        pod_views: POD_VIEWS,
        protobuf: FILES,
        seed: None,
        kind: None,
        jobs: 2,
        bless: false,
    })
}

/// Runs the comparison; fails where there is a difference.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let clock = MonotonicClock::new();
    // The time is random enough; what counts is that it is printed.
    let seed = arguments.seed.unwrap_or_else(|| u64::try_from(clock.now().as_nanos() / 1_000).unwrap_or_default());
    println!("seed {seed}");
    let program = oracle::build()?;
    if arguments.bless {
        protobuf::bless(&program)?;
        return golden::bless(&program);
    }
    check_comparison(&program)?;
    println!("a wrong replay is found and shrunk");
    println!("{} kept traces agree", golden::check(&program)?);
    println!("{} durations, annotations and resourceVersions agree", values::check(&program, seed)?);
    println!("{} pods' references agree", pods::check(&program, seed)?);

    let found = pod_views::check(&program, seed, arguments.pod_views)?;
    println!("{} pods as their node knows them agree: larder brings {} up to date", arguments.pod_views, found.changed);

    let found = files::check_kubeconfigs(&program, seed, arguments.kubeconfigs)?;
    println!(
        "{} kubeconfigs agree: both sides take {}, and larder alone refuses {}, as it is meant to",
        arguments.kubeconfigs, found.taken, found.refused
    );
    let found = files::check_manifests(&program, seed, arguments.manifests)?;
    println!("{} manifests agree: both sides take {}", arguments.manifests, found.taken);

    let found = tables::check(&program, seed, arguments.tables)?;
    println!("{} tables and their metadata agree: both sides take {}", found.documents, found.taken);

    let found = protobuf::check(&program, seed, arguments.protobuf)?;
    println!(
        "the table of types is that of Go; {} random messages and {} of upstream's agree in protobuf and JSON",
        found.random, found.upstream
    );

    let plan = Plan { traces: arguments.traces, seed, kind: arguments.kind, jobs: arguments.jobs.into() };
    let start = clock.now();
    let findings = compare::run(&plan, &compare::larder, || Oracle::start(&program), &progress::Bar::new(plan.traces))?;
    let seconds = clock.now().saturating_duration_since(start).as_secs().max(1);
    report(&findings, &regressions())?;
    println!(
        "{} traces of {} operations compared in {seconds} s ({} traces/s), seed {seed}: no difference",
        findings.traces,
        findings.operations,
        findings.traces / seconds,
    );
    Ok(())
}

/// Where the traces are kept that once showed a difference.
fn regressions() -> PathBuf {
    checkout::root().join("crates/larder-sim/tests/regressions")
}

/// Prints what differs and keeps its traces; fails if anything does.
fn report(findings: &Findings, folder: &std::path::Path) -> Result<()> {
    for difference in &findings.differences {
        let kept = golden::keep(folder, difference)?;
        println!(
            "\nseed {}, shrunk to {} operations:\n{}\nthe original:\n{}\nlarder:\n{}\nkept as {}",
            difference.seed,
            difference.trace.ops.len(),
            difference.trace,
            difference.original.join("\n"),
            difference.larder.join("\n"),
            kept.display(),
        );
    }
    match findings.differences.len() {
        0 => Ok(()),
        differences => bail!("{differences} differences after {} traces", findings.traces),
    }
}

/// Runs a replay that takes an object for fresh one nanosecond too long, as `<=` in the place of `<` would, and sees
/// whether it is found.
fn check_comparison(program: &std::path::Path) -> Result<()> {
    let plan = Plan { traces: 1_000, seed: 1, kind: Some(Kind::Objects), jobs: 1 };
    let findings = compare::run(&plan, &wrong_by_a_nanosecond, || Oracle::start(program), &progress::Bar::hidden())?;
    let Some(difference) = findings.differences.first() else {
        bail!("a replay that is wrong on purpose was not found in {} traces", findings.traces);
    };
    let operations = difference.trace.ops.len();
    ensure!(operations <= 5, "a wrong replay was shrunk to {operations} operations only:\n{}", difference.trace);
    Ok(())
}

fn wrong_by_a_nanosecond(trace: &Trace) -> Vec<String> {
    let mut wrong = trace.clone();
    if let Header::Objects { default_ttl } = &mut wrong.header {
        *default_ttl = GoDuration::from_nanos(default_ttl.nanos().saturating_add(1));
    }
    compare::larder(&wrong)
}
