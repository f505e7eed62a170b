//! Random traces of the pod status cache.

use super::Dice;
use crate::trace::{Header, Op, PodStatusOp, Trace};
use std::collections::BTreeMap;

/// A UUID in several spellings, of which only one is canonical: to the cache they are different pods. The others are what
/// static pods have, strings that only begin like a UUID, and edge cases.
const UIDS: [&str; 9] = [
    "u1",
    "u2",
    "2a1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a8b",
    "2A1F3C5E-9B7D-4E21-8F60-0C4D5E6F7A8B",
    "2a1f3c5e9b7d4e218f600c4d5e6f7a8b",
    "2a1f3c5e-9b7d-4e21-8f60-0c4d5e6f7a8b ",
    "00000000-0000-0000-0000-000000000000",
    "00000000-0000-0000-8f60-0c4d5e6f7a8b",
    "",
];

/// Where a trace's times lie.
const EPOCHS: [i64; 5] = [0, 100, 1_700_000_000_000_000_000, i64::MAX - 10, i64::MIN + 10];

const EXTREMES: [i64; 6] = [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX];

/// Numbers of waits.
const IDS: [i64; 8] = [0, 1, 2, 3, 10, -1, i64::MIN, i64::MAX];

#[derive(Clone, Copy)]
enum Choice {
    Get,
    Set,
    Observed,
    Delete,
    UpdateTime,
    Newer,
    Cancel,
}

const CHOICES: [(u32, Choice); 7] = [
    (20, Choice::Get),
    (22, Choice::Set),
    (12, Choice::Observed),
    (9, Choice::Delete),
    (12, Choice::UpdateTime),
    (30, Choice::Newer),
    (6, Choice::Cancel),
];

pub(super) fn generate(dice: &mut Dice) -> Trace {
    let header = Header::PodStatus { evented: dice.percent(50) };
    let pods = if dice.percent(10) { 9 } else { dice.between(1, 3) };
    let mut world = World {
        uids: dice.some(&UIDS, usize::try_from(pods).unwrap_or(1)),
        now: dice.pick(&EPOCHS),
        written: 0,
        next_id: 1,
        open: BTreeMap::new(),
    };
    let ops = (0..dice.length()).map(|_| Op::PodStatus(world.op(dice))).collect();
    Trace { header, ops }
}

struct World {
    uids: Vec<&'static str>,
    /// Where times are near; goes forward now and then.
    now: i64,
    written: u32,
    next_id: i64,
    /// The waits that may be open: with what they wait for.
    open: BTreeMap<i64, (String, i64)>,
}

impl World {
    fn op(&mut self, dice: &mut Dice) -> PodStatusOp {
        let uid = dice.pick(&self.uids).to_owned();
        match dice.weighted(&CHOICES) {
            Choice::Get => PodStatusOp::Get { uid },
            Choice::Set => PodStatusOp::Set {
                uid,
                status: if dice.percent(85) { Some(self.text("s", dice)) } else { None },
                error: if dice.percent(25) { Some(self.text("e", dice)) } else { None },
                at: self.time(dice),
            },
            Choice::Observed => {
                let at = self.time(dice);
                self.open.retain(|_, (waiting, min)| *waiting != uid || *min > at);
                PodStatusOp::Observed { uid, at }
            }
            Choice::Delete => PodStatusOp::Delete { uid },
            Choice::UpdateTime => {
                let at = self.time(dice);
                self.open.retain(|_, (_, min)| *min > at);
                PodStatusOp::UpdateTime { at }
            }
            Choice::Newer => {
                let (id, min) = (self.free_id(dice), self.time(dice));
                self.open.insert(id, (uid.clone(), min));
                PodStatusOp::Newer { id, uid, min }
            }
            Choice::Cancel => {
                let open: Vec<i64> = self.open.keys().copied().collect();
                let id = if open.is_empty() || dice.percent(15) { dice.pick(&IDS) } else { dice.pick(&open) };
                self.open.remove(&id);
                PodStatusOp::Cancel { id }
            }
        }
    }

    fn time(&mut self, dice: &mut Dice) -> i64 {
        if dice.percent(4) {
            return dice.pick(&EXTREMES);
        }
        if dice.percent(30) {
            self.now = self.now.saturating_add(dice.between(0, 3));
        }
        self.now.saturating_add(dice.between(-4, 4))
    }

    /// A number that no open wait has: one that was used before, now and then.
    fn free_id(&mut self, dice: &mut Dice) -> i64 {
        let used = dice.pick(&IDS);
        if dice.percent(30) && !self.open.contains_key(&used) {
            return used;
        }
        while self.open.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// A text that stands nowhere else, so that an answer tells what it is an answer of.
    fn text(&mut self, prefix: &str, dice: &mut Dice) -> String {
        self.written += 1;
        let suffix = if dice.percent(5) { "\"\\ <ü\u{1f980}>\n\u{2028}" } else { "" };
        format!("{prefix}{}{suffix}", self.written)
    }
}
