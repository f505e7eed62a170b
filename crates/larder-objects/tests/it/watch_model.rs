//! Random operations on the watch store and on a naive model of it: same answers, same reflectors, same reads, same
//! status page, step by step.
//!
//! Reads of the source are answered as they begin here; what happens while one is under way is `truth`'s.

use crate::harness::Failure;
use crate::source::{Answer, Doc, MAX_IDLE, Outcome, World};
use larder_clock::{Clock, Timestamp};
use larder_objects::{FreshState, Freshness, Kept, ObjectState, ReadKind, Source as ReadFrom, StaleReason, Store};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const NAMES: [&str; 2] = ["x", "y"];

#[derive(Clone, Debug)]
enum Op {
    Begin(&'static str),
    Drop(prop::sample::Index),
    AddReference(&'static str, &'static str),
    DeleteReference(&'static str, &'static str),
    /// Any reflector that was ever started says something.
    Tell(prop::sample::Index, Say),
    /// What the source answers from now on.
    Answer(Outcome),
    Advance(u64),
    StopIdle,
}

#[derive(Clone, Debug)]
enum Say {
    Listing,
    Replace(Option<Arc<Doc>>, ReadKind),
    Set(Arc<Doc>),
    Delete,
    Confirm,
    Bookmark(u64),
    Failed,
    WentBack,
}

fn doc() -> impl Strategy<Value = Arc<Doc>> {
    (1..6_u64, any::<bool>(), prop::bool::weighted(0.2)).prop_map(|(version, other, immutable)| {
        let uid = if other { "other" } else { "u" }.to_owned();
        Arc::new(Doc { version: version.to_string(), uid, immutable })
    })
}

fn op() -> impl Strategy<Value = Op> {
    let name = || prop::sample::select(NAMES.to_vec());
    let pod = || prop::sample::select(vec!["p", "q"]);
    let read = prop_oneof![3 => Just(ReadKind::Consistent), 1 => Just(ReadKind::ApiServerCache)];
    let say = prop_oneof![
        2 => Just(Say::Listing),
        4 => (prop::option::weighted(0.8, doc()), read).prop_map(|(doc, read)| Say::Replace(doc, read)),
        4 => doc().prop_map(Say::Set),
        2 => Just(Say::Delete),
        2 => Just(Say::Confirm),
        2 => (1..6_u64).prop_map(Say::Bookmark),
        2 => Just(Say::Failed),
        1 => Just(Say::WentBack),
    ];
    let outcome = prop_oneof![
        4 => doc().prop_map(Ok),
        1 => Just(Err(Failure::NotFound)),
        1 => Just(Err(Failure::Status(500))),
    ];
    prop_oneof![
        10 => name().prop_map(Op::Begin),
        1 => any::<prop::sample::Index>().prop_map(Op::Drop),
        4 => (name(), pod()).prop_map(|(name, pod)| Op::AddReference(name, pod)),
        2 => (name(), pod()).prop_map(|(name, pod)| Op::DeleteReference(name, pod)),
        14 => (any::<prop::sample::Index>(), say).prop_map(|(at, say)| Op::Tell(at, say)),
        2 => outcome.prop_map(Op::Answer),
        3 => prop::sample::select(vec![1, 30, 60, 61]).prop_map(Op::Advance),
        2 => Just(Op::StopIdle),
    ]
}

#[derive(Clone)]
enum How {
    Watched { reflector: usize, synced: bool, failing: Option<Timestamp> },
    Idle,
    Held,
}

#[allow(clippy::option_option, reason = "nothing is known, or that there is none, or one: a model says it plainly")]
struct Item {
    pods: Vec<&'static str>,
    how: How,
    known: Option<Option<Arc<Doc>>>,
    at: Timestamp,
    source: ReadFrom,
    /// Since when what is known is in doubt, and from which step on.
    doubt: Option<(Timestamp, usize)>,
    /// Whether the reflector that runs told what is known, or has come as far.
    followed: bool,
    /// When what is known had first arrived, and when the reflector's list began.
    arrived: usize,
    listed: usize,
    /// When versions went back.
    restored: usize,
    /// Whether anything has shown what is there since the first reference.
    verified: bool,
    accessed: Option<Timestamp>,
}

struct Model {
    /// Grows with everything that happens.
    step: usize,
    now: Timestamp,
    items: BTreeMap<&'static str, Item>,
    /// Name, resume, and whether it runs.
    reflectors: Vec<(&'static str, Option<String>, bool)>,
    reads: usize,
    went_back: u64,
    outcome: Outcome,
    /// The object, and whether the reader has just come.
    waiting: BTreeMap<usize, (&'static str, bool)>,
}

fn version(doc: &Doc) -> u64 {
    doc.version.parse().unwrap()
}

fn is_synced(how: &mut How) {
    if let How::Watched { synced, .. } = how {
        *synced = true;
    }
}

impl Item {
    fn doubted(&mut self, now: Timestamp, step: usize) {
        let since = self.doubt.map_or(now, |(since, _)| since);
        self.doubt = Some((since, step));
    }

    fn is_same(&self, new: Option<&Arc<Doc>>) -> bool {
        let held = self.known.as_ref().and_then(Option::as_ref);
        held.zip(new).is_some_and(|(held, new)| (&held.version, &held.uid) == (&new.version, &new.uid))
    }

    fn learn(&mut self, known: Option<Arc<Doc>>, at: Timestamp, step: usize) {
        if !self.is_same(known.as_ref()) {
            self.arrived = step;
        }
        (self.known, self.at, self.source, self.followed) = (Some(known), at, ReadFrom::Watch, true);
    }

    fn replace(&mut self, object: Option<&Arc<Doc>>, read: ReadKind, now: Timestamp, step: usize) {
        let consistent = read == ReadKind::Consistent;
        if consistent {
            self.verified = true;
            self.doubt = self.doubt.filter(|(_, doubted)| *doubted > self.listed);
        }
        let outdated = consistent && self.listed <= self.restored;
        let later = consistent && (self.followed || (self.listed > self.arrived && !outdated));
        let known = self.known.clone();
        let is_taken = match (known, object) {
            (None, _) => true,
            (Some(Some(held)), Some(new)) if later => {
                if version(new) < version(&held) {
                    self.restored = step;
                }
                true
            }
            _ if later => true,
            // One absence is like another: what the watch tells next may be from before the held one.
            (Some(None), None) => {
                self.followed = false;
                if consistent {
                    (self.arrived, self.at, self.source) = (step, now, ReadFrom::Watch);
                }
                false
            }
            (Some(Some(held)), Some(new)) if outdated && (&held.version, &held.uid) != (&new.version, &new.uid) => {
                self.doubted(now, step);
                true
            }
            (Some(Some(held)), Some(new)) if consistent && held.uid != new.uid => {
                self.doubted(now, step);
                true
            }
            (Some(Some(held)), Some(new)) => version(new) >= version(&held),
            (Some(None), Some(_)) | (Some(Some(_)), None) => {
                self.doubted(now, step);
                true
            }
        };
        if is_taken {
            self.learn(object.cloned(), now, step);
        } else if object.is_some() {
            self.doubted(now, step);
            self.followed = false;
        }
        if !self.verified {
            self.doubted(now, step);
        }
        is_synced(&mut self.how);
    }
}

impl Model {
    fn new() -> Self {
        Self {
            step: 0,
            now: Timestamp::ZERO,
            items: BTreeMap::new(),
            reflectors: Vec::new(),
            reads: 0,
            went_back: 0,
            outcome: Err(Failure::NotFound),
            waiting: BTreeMap::new(),
        }
    }

    fn tick(&mut self) -> usize {
        self.step += 1;
        self.step
    }

    fn reflectors(&mut self, name: &'static str) {
        self.tick();
        let item = self.items.get_mut(name).unwrap();
        let resume = item.known.as_ref().and_then(|known| Some(known.as_ref()?.version.clone()));
        item.how = How::Watched { reflector: self.reflectors.len(), synced: false, failing: None };
        item.listed = self.step;
        self.reflectors.push((name, resume, true));
    }

    fn stop(&mut self, how: &How) {
        if let How::Watched { reflector, .. } = how {
            self.reflectors[*reflector].2 = false;
        }
    }

    fn add_reference(&mut self, name: &'static str, pod: &'static str) {
        let (now, step) = (self.now, self.step);
        if let Some(item) = self.items.get_mut(name) {
            item.pods.push(pod);
            item.doubted(now, step);
            return;
        }
        let item = Item {
            pods: vec![pod],
            how: How::Idle,
            known: None,
            at: Timestamp::ZERO,
            source: ReadFrom::Watch,
            doubt: None,
            followed: false,
            arrived: 0,
            listed: 0,
            restored: 0,
            verified: false,
            accessed: None,
        };
        self.items.insert(name, item);
        self.reflectors(name);
    }

    fn delete_reference(&mut self, name: &'static str, pod: &'static str) {
        let Some(item) = self.items.get_mut(name) else { return };
        if let Some(at) = item.pods.iter().position(|of| *of == pod) {
            item.pods.remove(at);
        }
        if item.pods.is_empty() {
            let item = self.items.remove(name).unwrap();
            self.stop(&item.how);
        }
    }

    fn tell(&mut self, reflector: usize, say: &Say) {
        let (now, step) = (self.now, self.step);
        let name = self.reflectors[reflector].0;
        if !self.reflectors[reflector].2 {
            return;
        }
        let item = self.items.get_mut(name).unwrap();
        let told = match say {
            Say::Listing => {
                item.listed = step;
                false
            }
            Say::Failed => {
                if let How::Watched { failing, .. } = &mut item.how {
                    failing.get_or_insert(now);
                }
                false
            }
            Say::WentBack => {
                self.went_back += 1;
                (item.followed, item.restored) = (true, step);
                false
            }
            Say::Confirm | Say::Bookmark(_) => {
                if let (Say::Bookmark(reached), Some(known)) = (say, &item.known) {
                    item.followed |= known.as_ref().is_some_and(|held| version(held) <= *reached);
                    is_synced(&mut item.how);
                }
                let shows_life = matches!(item.how, How::Watched { synced: true, .. });
                if shows_life && item.known.is_some() && now > item.at {
                    (item.at, item.source) = (now, ReadFrom::Watch);
                }
                shows_life
            }
            Say::Replace(object, read) => {
                item.replace(object.as_ref(), *read, now, step);
                true
            }
            Say::Set(_) | Say::Delete => {
                let new = match say {
                    Say::Set(new) => Some(Arc::clone(new)),
                    _ => None,
                };
                match (item.known.clone(), &new) {
                    _ if item.followed => item.learn(new, now, step),
                    (Some(Some(held)), Some(doc)) if version(doc) < version(&held) => {}
                    (None, _) | (Some(Some(_)), Some(_)) => item.learn(new, now, step),
                    (Some(None), None) => {}
                    (Some(None), Some(_)) | (Some(Some(_)), None) => {
                        item.doubted(now, step);
                        item.learn(new, now, step);
                    }
                }
                true
            }
        };
        if let (true, How::Watched { failing, .. }) = (told, &mut item.how) {
            *failing = None;
        }
    }

    fn answer(&mut self, name: &str, since: Option<(Timestamp, &'static str)>) -> Answer {
        let item = &self.items[name];
        let state = match since {
            None => FreshState::Fresh,
            Some((since, class)) => {
                let reason = StaleReason::FetchFailed { class };
                FreshState::Stale { since: since.max(item.at), reason }
            }
        };
        let freshness = Freshness::new(item.at, item.source, state);
        match item.known.clone().expect("something is known") {
            Some(doc) => Answer::Doc((*doc).clone(), freshness),
            None => Answer::NotFound(freshness),
        }
    }

    fn read(&mut self, name: &'static str) -> Option<Answer> {
        let now = self.now;
        let Some(item) = self.items.get_mut(name) else { return Some(Answer::NotRegistered) };
        item.accessed = Some(now);
        let doubted = item.doubt.map(|(since, _)| since);
        let (how, known) = (item.how.clone(), item.known.is_some());
        let failing_since = |failing: Timestamp| doubted.map_or(failing, |doubted| doubted.min(failing));
        match how {
            How::Held if doubted.is_none() => {}
            How::Held => return Some(self.ask(name, doubted.unwrap())),
            How::Idle => {
                self.reflectors(name);
                return None;
            }
            How::Watched { failing: Some(_), .. } if !known => return Some(Answer::Failed(Failure::Status(503))),
            How::Watched { failing: Some(failing), synced: true, .. } if doubted.is_some() => {
                return Some(self.ask(name, failing_since(failing)));
            }
            How::Watched { failing: Some(failing), .. } => {
                return Some(self.answer(name, Some((failing_since(failing), "unavailable"))));
            }
            How::Watched { synced: false, .. } => return None,
            How::Watched { .. } if doubted.is_some() => return Some(self.ask(name, doubted.unwrap())),
            How::Watched { .. } => {}
        }
        let answer = self.answer(name, None);
        self.hold(name);
        Some(answer)
    }

    /// A read of the store's own.
    fn ask(&mut self, name: &'static str, since: Timestamp) -> Answer {
        self.reads += 1;
        let (now, step) = (self.now, self.tick());
        let item = self.items.get_mut(name).unwrap();
        let new = match self.outcome.clone() {
            Ok(doc) => Some(doc),
            Err(Failure::NotFound) => None,
            Err(_) => return self.answer(name, Some((since, "status"))),
        };
        if let (Some(Some(held)), Some(new)) = (&item.known, &new)
            && version(new) < version(held)
        {
            self.went_back += 1;
            item.restored = step;
        }
        let immutable = new.as_ref().is_some_and(|doc| doc.immutable);
        let followed = item.followed && item.is_same(new.as_ref());
        item.learn(new, now, step);
        (item.source, item.followed, item.doubt, item.verified) = (ReadFrom::LiveRead, followed, None, true);
        if matches!(item.how, How::Held) && !immutable {
            item.how = How::Idle;
        }
        let answer = self.answer(name, None);
        self.hold(name);
        answer
    }

    fn hold(&mut self, name: &str) {
        let item = self.items.get_mut(name).unwrap();
        if item.known.as_ref().is_some_and(|known| known.as_ref().is_some_and(|doc| doc.immutable)) {
            let how = std::mem::replace(&mut item.how, How::Held);
            item.followed &= !matches!(how, How::Watched { .. });
            self.stop(&how);
        }
    }

    fn stop_idle(&mut self) {
        let mut stopped = Vec::new();
        for item in self.items.values_mut() {
            let idle = item.accessed.is_none_or(|at| self.now > at + MAX_IDLE);
            if idle && matches!(item.how, How::Watched { synced: true, .. }) {
                item.followed = false;
                stopped.push(std::mem::replace(&mut item.how, How::Idle));
            }
        }
        for how in &stopped {
            self.stop(how);
        }
    }

    /// Answers all who can be answered.
    fn run(&mut self) -> BTreeMap<usize, Answer> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut answers = BTreeMap::new();
        for (reader, (name, arrived)) in waiting {
            let accessed = self.items.get(name).map(|item| item.accessed);
            if let Some(answer) = self.read(name) {
                answers.insert(reader, answer);
                continue;
            }
            self.waiting.insert(reader, (name, false));
            // To wait is no access, to come and to be answered are.
            if let (false, Some(item), Some(accessed)) = (arrived, self.items.get_mut(name), accessed) {
                item.accessed = accessed;
            }
        }
        answers
    }
}

/// References, how it is kept, and what is known, by name.
type Page = BTreeMap<String, (usize, Kept, Option<bool>)>;

fn page(world: &World<crate::source::Watching>) -> Page {
    let all = world.store.snapshot().into_iter().map(|status| {
        let present = match status.state {
            ObjectState::Present(_) => Some(true),
            ObjectState::Absent(_) => Some(false),
            ObjectState::NotFetched => None,
        };
        (status.key.name().to_owned(), (status.references, status.kept, present))
    });
    all.collect()
}

fn model_page(model: &Model) -> Page {
    let all = model.items.iter().map(|(name, item)| {
        let kept = match item.how {
            How::Watched { .. } => Kept::Watched,
            How::Idle => Kept::Idle,
            How::Held => Kept::Held,
        };
        ((*name).to_owned(), (item.pods.len(), kept, item.known.as_ref().map(Option::is_some)))
    });
    all.collect()
}

/// How many sequences are tried: `PROPTEST_CASES`, or 400.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn the_watch_store_does_as_the_model(ops in prop::collection::vec(op(), 1..100)) {
        let (mut world, mut model) = (World::watching(), Model::new());
        world.source.answer_at_once(Some(Err(Failure::NotFound)));
        for (step, op) in ops.into_iter().enumerate() {
            let told = format!("step {step}, {op:?}");
            model.tick();
            match op {
                Op::Begin(name) => {
                    model.waiting.insert(world.begin("ns", name), (name, true));
                }
                Op::Drop(at) => {
                    let waiting = world.waiting();
                    if !waiting.is_empty() {
                        let reader = *at.get(&waiting);
                        world.drop_reader(reader);
                        model.waiting.remove(&reader);
                    }
                }
                Op::AddReference(name, pod) => {
                    world.store.add_references("ns", &[name], pod).run();
                    model.add_reference(name, pod);
                }
                Op::DeleteReference(name, pod) => {
                    world.store.delete_references("ns", &[name], pod).run();
                    model.delete_reference(name, pod);
                }
                Op::Tell(at, say) => {
                    let reflectors = world.source.reflectors();
                    if !reflectors.is_empty() {
                        let id = at.index(reflectors.len());
                        let sink = &reflectors[id].sink;
                        match say.clone() {
                            Say::Listing => sink.listing(),
                            Say::Replace(object, read) => sink.replace(object, read),
                            Say::Set(object) => sink.set(object),
                            Say::Delete => sink.delete(),
                            Say::Confirm => sink.confirm(),
                            Say::Bookmark(version) => sink.bookmark(&version.to_string()),
                            Say::Failed => sink.failed(Arc::new(Failure::Status(503))),
                            Say::WentBack => sink.went_back("9", "1"),
                        }
                        model.tell(id, &say);
                    }
                }
                Op::Answer(outcome) => {
                    world.source.answer_at_once(Some(outcome.clone()));
                    model.outcome = outcome;
                }
                Op::Advance(seconds) => {
                    world.advance(seconds);
                    model.now = model.now + Duration::from_secs(seconds);
                }
                Op::StopIdle => {
                    world.store.stop_idle();
                    model.stop_idle();
                }
            }
            prop_assert_eq!(world.run(), model.run(), "answers at {}", told);
            let reflectors = world.source.reflectors();
            let reflectors: Vec<_> = reflectors
                .iter()
                .map(|started| (started.key.name(), started.resume.clone(), started.is_running()))
                .collect();
            prop_assert_eq!(reflectors, model.reflectors.clone(), "reflectors at {}", told);
            let reads = world.source.reads();
            prop_assert!(reads.iter().all(|read| *read == ReadKind::Consistent));
            prop_assert_eq!(reads.len(), model.reads, "reads at {}", told);
            prop_assert_eq!(world.store.stats().versions_went_back, model.went_back, "went back at {}", told);
            prop_assert_eq!(page(&world), model_page(&model), "what is known at {}", told);
            prop_assert_eq!(world.clock.now(), model.now);
        }
    }
}
