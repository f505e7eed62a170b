//! What is measured, and how fast it has to be.

/// One line of the table.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// The operation of the original's driver; none where the original cannot do it.
    pub(super) original: Option<&'static str>,
    pub(super) larder: Program,
    /// What the operation counts: threads, waits or pods.
    pub(super) number: u32,
    pub(super) unit: Unit,
    pub(super) target: Target,
}

/// The program on larder's side, with its operation.
#[derive(Clone, Copy)]
pub(super) enum Program {
    Speed(&'static str),
    Memory(&'static str),
}

/// What a figure is in.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Nanoseconds,
    Bytes,
}

/// What larder's figure has to keep to.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// At most so many times the original's.
    Ratio(f64),
    /// At most this.
    AtMost(f64),
    /// At most so many times larder's own figure of another row.
    Times(f64, &'static str),
    /// It is shown, and nothing asked of it.
    None,
}

const fn speed(name: &'static str, operation: &'static str, number: u32, target: Target) -> Row {
    let (original, larder) = (Some(operation), Program::Speed(operation));
    Row { name, original, larder, number, unit: Unit::Nanoseconds, target }
}

const fn memory(
    name: &'static str,
    original: &'static str,
    operation: &'static str,
    number: u32,
    target: Target,
) -> Row {
    let (original, larder) = (Some(original), Program::Memory(operation));
    Row { name, original, larder, number, unit: Unit::Bytes, target }
}

/// What only larder can do.
const fn alone(row: Row) -> Row {
    Row { original: None, ..row }
}

/// Every line. The names say what is done; what that is exactly stands in `benches` and `oracle/bench`.
pub(super) const ROWS: &[Row] = &[
    speed("pod status get, 1 thread", "pod-status-get", 1, Target::Ratio(0.9)),
    speed("pod status get, 2 threads", "pod-status-get", 2, Target::Ratio(0.6)),
    speed("pod status get, 2 readers beside a writer", "pod-status-get-while-set", 2, Target::Ratio(0.45)),
    speed("pod status set", "pod-status-set", 1, Target::Ratio(0.6)),
    alone(speed(
        "begin and drop a wait among 1,000,000 of 1,000 pods",
        "wait-begin-and-drop",
        1_000_000,
        Target::AtMost(1_000.0),
    )),
    alone(speed(
        "begin and drop a wait among 1,000,000 of as many pods",
        "wait-begin-and-drop-many-pods",
        1_000_000,
        Target::AtMost(1_000.0),
    )),
    speed(NONE_DUE_100, "update-time-none-due", 100, Target::None),
    speed("update_time, none of 1,000 waits due", "update-time-none-due", 1_000, Target::None),
    speed("update_time, none of 10,000 waits due", "update-time-none-due", 10_000, Target::None),
    speed("update_time, none of 100,000 waits due", "update-time-none-due", 100_000, Target::Ratio(0.001)),
    alone(speed(
        "update_time, none of 1,000,000 waits due",
        "update-time-none-due",
        1_000_000,
        Target::Times(2.0, NONE_DUE_100),
    )),
    speed("update_time that wakes 10,000, until all have run", "update-time-all-woken", 10_000, Target::Ratio(0.4)),
    memory("memory of a wait, without a task", "wait-memory", "wait-memory", 100_000, Target::Ratio(0.05)),
    memory("memory of a wait, with its task", "wait-memory", "wait-memory-in-task", 100_000, Target::Ratio(0.2)),
    speed("object get, 1,000 keys, 1 thread", "object-get", 1, Target::Ratio(0.5)),
    speed("object get, 1,000 keys, 2 threads", "object-get", 2, Target::Ratio(0.3)),
    speed("object get, one hot key, 2 threads", "object-get-hot", 2, Target::Ratio(0.4)),
    speed("register and unregister a pod", "pod-register-unregister", 250, Target::Ratio(0.4)),
    speed("register a pod again, unchanged", "pod-register-again", 250, Target::Ratio(0.3)),
    memory(
        "memory of an object, registered",
        "object-memory-registered",
        "object-memory-registered",
        25_000,
        Target::Ratio(1.5),
    ),
    memory(
        "memory of an object, fetched (kubelet: an empty struct)",
        "object-memory-fetched-empty",
        "object-memory-fetched",
        25_000,
        Target::Ratio(0.8),
    ),
    memory("the same, both from the same JSON", "object-memory-fetched", "object-memory-fetched", 25_000, Target::None),
];

const NONE_DUE_100: &str = "update_time, none of 100 waits due";
