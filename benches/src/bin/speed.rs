//! Prints the nanoseconds of one operation of larder's caches.

use larder_bench::command::{Operation, run};
use larder_bench::{objects, pod_status};

const OPERATIONS: &[Operation] = &[
    ("pod-status-get", pod_status::get),
    ("pod-status-get-while-set", pod_status::get_while_set),
    ("pod-status-set", pod_status::set),
    ("wait-begin-and-drop", pod_status::begin_and_drop),
    ("wait-begin-and-drop-many-pods", pod_status::begin_and_drop_of_many_pods),
    ("update-time-none-due", pod_status::update_time_none_due),
    ("update-time-all-woken", pod_status::update_time_all_woken),
    ("object-get", objects::get),
    ("object-get-hot", objects::get_hot),
    ("pod-register-unregister", objects::register_unregister),
    ("pod-register-again", objects::register_again),
];

fn main() -> anyhow::Result<()> {
    run(OPERATIONS)
}
