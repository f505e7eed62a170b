//! Random traces of the TTL store under the pod-object manager.

use super::Dice;
use crate::trace::{Header, ObjectsOp, Op, Trace};
use crate::{DurationError, GoDuration};
use larder_objects::ObjectTtl;

/// With names that would run into one another if they were only joined.
const NAMESPACES: [&str; 5] = ["a", "b", "a/b", "", "A"];
const NAMES: [&str; 6] = ["x", "y", "z", "b/x", "", "ü"];
const PODS: [&str; 3] = ["p", "q", "x"];
const UIDS: [&str; 3] = ["u1", "u2", ""];

/// Besides the ordinary ones: those that are no numbers, in the sense in which the original reads them, and the limits.
const ODD_VERSIONS: [&str; 18] = [
    "",
    "0",
    "abc",
    "+5",
    "-1",
    " 7",
    "7 ",
    "007",
    "1_000",
    "0x10",
    "5.0",
    "1e3",
    "\u{ff15}",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551614",
    "18446744073709551615",
    "18446744073709551616",
];

const CODES: [u16; 16] = [400, 401, 403, 404, 405, 409, 410, 413, 422, 429, 500, 501, 502, 503, 504, 599];

const DEFAULT_TTLS: [&str; 14] = [
    "60s",
    "1m0s",
    "1m",
    "500ms",
    "5ns",
    "1ns",
    "0",
    "0s",
    "-0",
    "-5s",
    "1h30m",
    "1.5s",
    "2562047h47m16.854775807s",
    "-2562047h47m16.854775808s",
];

/// Annotations: plain, at 0 and below, such that wrap, and such that are no integers.
const ANNOTATIONS: [&str; 24] = [
    "15",
    "1",
    "60",
    "0",
    "-0",
    "+0",
    "-1",
    "-5",
    "+7",
    "007",
    "",
    "abc",
    "1.5",
    " 3",
    "3 ",
    "0x10",
    "1_0",
    "5s",
    "9223372036",
    "9223372037",
    "18446744074",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
];

/// Steps of the clock in many spellings.
const ODD_STEPS: [&str; 16] = [
    "0",
    "0s",
    "-0s",
    "+0",
    "+5s",
    "-5s",
    ".5s",
    "5.s",
    "1s500ms",
    "1.5\u{b5}s",
    "1.5\u{3bc}s",
    "1.5us",
    "1h0.5m",
    "-1ns",
    "2562047h47m16.854775807s",
    "0.3333333333333333333h",
];

#[derive(Clone, Copy)]
enum Choice {
    ServerPut,
    ServerDelete,
    ServerFail,
    ServerCache,
    NodeTtl,
    NodeFail,
    Advance,
    Register,
    Unregister,
    AddReference,
    DeleteReference,
    Get,
}

const CHOICES: [(u32, Choice); 12] = [
    (13, Choice::ServerPut),
    (4, Choice::ServerDelete),
    (6, Choice::ServerFail),
    (5, Choice::ServerCache),
    (5, Choice::NodeTtl),
    (2, Choice::NodeFail),
    (18, Choice::Advance),
    (9, Choice::Register),
    (5, Choice::Unregister),
    (4, Choice::AddReference),
    (4, Choice::DeleteReference),
    (34, Choice::Get),
];

pub(super) fn generate(dice: &mut Dice) -> Trace {
    let default_ttl: GoDuration = parsed(if dice.percent(50) { "60s" } else { dice.pick(&DEFAULT_TTLS) });
    let counts = [(6, 1), (3, 2), (1, 3)];
    let [namespaces, names, uids] = [(); 3].map(|()| dice.weighted(&counts));
    let mut world = World {
        namespaces: dice.some(&NAMESPACES, namespaces),
        names: dice.some(&NAMES, names),
        uids: dice.some(&UIDS, uids),
        default_ttl: default_ttl.nanos(),
        annotation: None,
        now: 0,
        reads: vec![0],
        version: 5,
        written: 0,
    };
    let mut ops = Vec::new();
    if dice.percent(80) {
        // Without a reference there is little to see.
        ops.push(world.register(dice));
    }
    ops.extend((0..dice.length()).map(|_| world.op(dice)));
    Trace { header: Header::Objects { default_ttl }, ops: ops.into_iter().map(Op::Objects).collect() }
}

/// A duration of the tables above, or whole nanoseconds; a test parses every one of them.
fn parsed(text: &str) -> GoDuration {
    text.parse().unwrap_or_else(|_: DurationError| GoDuration::from_nanos(0))
}

struct World {
    namespaces: Vec<&'static str>,
    names: Vec<&'static str>,
    uids: Vec<&'static str>,
    default_ttl: i64,
    annotation: Option<String>,
    now: i128,
    /// When something was read, and so perhaps fetched.
    reads: Vec<i128>,
    version: u64,
    written: u32,
}

impl World {
    fn op(&mut self, dice: &mut Dice) -> ObjectsOp {
        let (ns, name) = (dice.pick(&self.namespaces).to_owned(), dice.pick(&self.names).to_owned());
        let uid = dice.pick(&self.uids).to_owned();
        match dice.weighted(&CHOICES) {
            Choice::ServerPut => ObjectsOp::ServerPut { ns, name, rv: self.version(dice), data: self.data(dice) },
            Choice::ServerDelete => ObjectsOp::ServerDelete { ns, name },
            Choice::ServerFail => {
                let any = u16::try_from(dice.between(400, 599)).unwrap_or(400);
                ObjectsOp::ServerFail { ns, name, code: if dice.percent(70) { dice.pick(&CODES) } else { any } }
            }
            Choice::ServerCache => ObjectsOp::ServerCache { ns, name, rv: self.version(dice), data: self.data(dice) },
            Choice::NodeTtl => {
                let value = dice.pick(&ANNOTATIONS);
                self.annotation = if dice.percent(80) { Some(value.to_owned()) } else { None };
                ObjectsOp::NodeTtl { value: self.annotation.clone() }
            }
            Choice::NodeFail => {
                self.annotation = None;
                ObjectsOp::NodeFail
            }
            Choice::Advance => {
                let by = self.step(dice);
                self.now += i128::from(by.nanos());
                ObjectsOp::Advance { by }
            }
            Choice::Register => self.register(dice),
            Choice::Unregister => {
                let pod = dice.pick(&PODS).to_owned();
                let refs = if dice.percent(50) { Some(self.refs(dice)) } else { None };
                ObjectsOp::Unregister { ns, name: pod, uid, refs }
            }
            Choice::AddReference => ObjectsOp::AddReference { ns, name, uid },
            Choice::DeleteReference => ObjectsOp::DeleteReference { ns, name, uid },
            Choice::Get => {
                self.reads.push(self.now);
                ObjectsOp::Get { ns, name }
            }
        }
    }

    fn register(&self, dice: &mut Dice) -> ObjectsOp {
        // Mostly the same pod again.
        let name = if dice.percent(70) { PODS[0] } else { dice.pick(&PODS) };
        ObjectsOp::Register {
            ns: dice.pick(&self.namespaces).to_owned(),
            name: name.to_owned(),
            uid: dice.pick(&self.uids).to_owned(),
            refs: self.refs(dice),
        }
    }

    /// Names, with repetitions now and then.
    fn refs(&self, dice: &mut Dice) -> Vec<String> {
        let count = dice.weighted(&[(1, 0), (5, 1), (4, 2), (2, 3)]);
        (0..count).map(|_| dice.pick(&self.names).to_owned()).collect()
    }

    fn version(&mut self, dice: &mut Dice) -> String {
        match dice.weighted(&[(4, 0), (2, 1), (2, 2), (2, 3)]) {
            0 => self.version += 1,
            1 => {}
            2 => return dice.between(0, 12).to_string(),
            _ => return dice.pick(&ODD_VERSIONS).to_owned(),
        }
        self.version.to_string()
    }

    /// Contents that stand nowhere else, so that an answer tells what it is an answer of.
    fn data(&mut self, dice: &mut Dice) -> String {
        self.written += 1;
        match dice.between(1, 20) {
            1 => String::new(),
            2 => format!("v{}\"\\ <ü\u{1f980}>\n\u{2028}", self.written),
            _ => format!("v{}", self.written),
        }
    }

    /// A step of the clock, mostly to around the expiry of something read before.
    fn step(&self, dice: &mut Dice) -> GoDuration {
        if dice.percent(20) {
            return parsed(dice.pick(&ODD_STEPS));
        }
        if dice.percent(20) {
            return spelled(dice.between(0, 3), dice);
        }
        let ttl = self
            .annotation
            .as_deref()
            .and_then(ObjectTtl::from_annotation)
            .map_or(self.default_ttl, ObjectTtl::as_nanos);
        let from = dice.between(1, 3);
        let read = self.reads.iter().rev().nth(usize::try_from(from).unwrap_or(0)).unwrap_or(&self.reads[0]);
        let expiry = read + i128::from(ttl) + i128::from(dice.between(-1, 1));
        match i64::try_from(expiry - self.now) {
            Ok(step) if step >= 0 || dice.percent(25) => spelled(step, dice),
            _ => spelled(ttl.checked_abs().unwrap_or(i64::MAX) / 2, dice),
        }
    }
}

/// A duration in one of several spellings.
fn spelled(nanos: i64, dice: &mut Dice) -> GoDuration {
    const SECOND: u64 = 1_000_000_000;
    let sign = if nanos < 0 { "-" } else { "" };
    let (seconds, below) = (nanos.unsigned_abs() / SECOND, nanos.unsigned_abs() % SECOND);
    let text = match dice.between(1, 4) {
        1 => format!("{sign}{seconds}.{below:09}s"),
        2 => format!("{sign}{}h{}m{}s{below}ns", seconds / 3600, seconds / 60 % 60, seconds % 60),
        3 => format!("{sign}{}m{}.{below:09}s", seconds / 60, seconds % 60),
        _ => return GoDuration::from_nanos(nanos),
    };
    parsed(&text)
}

#[cfg(test)]
mod tests;
