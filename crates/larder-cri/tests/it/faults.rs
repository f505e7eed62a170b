//! After any sequence of faults has ended, one relist later the cache is what the runtime is.

use crate::bench::{Bench, options};
use larder_testkit::cri_runtime::{Call, CallFault, EventFaults, SandboxSpec};
use proptest::prelude::*;
use std::time::Duration;
use tonic::Code;

const PODS: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Run(usize),
    Start(usize),
    Exit(usize),
    RemoveContainer(usize),
    Stop(usize),
    Remove(usize),
    /// A call fails, hangs, is slow or answers nothing; of one pod's sandbox, or of all.
    Fault(usize, Call, Option<usize>),
    ClearFaults,
    Events(EventFaults),
    CutEvents,
    CutConnections,
    Outage,
    Restore,
    Pause(Until),
}

/// What a pause waits for: the faults go on meanwhile.
#[derive(Clone, Copy, Debug)]
enum Until {
    /// The runtime has been asked something more; if it cannot be, that has been found out once more.
    Asked,
    /// Something that was asked of it has come to an end, well or badly.
    Answered,
    /// All pods have been listed once more, or could not be.
    Relisted,
}

impl Until {
    /// Grows when it happens.
    fn count(self, bench: &Bench) -> u64 {
        let stats = bench.pleg.stats();
        let relists = stats.relists + stats.relists_failed;
        match self {
            Self::Asked => CALLS.map(|call| bench.server.calls(call).made).iter().sum::<u64>() + stats.relists_failed,
            Self::Answered => {
                let pods = stats.pod_relists + stats.pod_relists_failed;
                relists + pods + stats.inspections + stats.inspections_failed
            }
            Self::Relisted => relists,
        }
    }
}

const CALLS: [Call; 6] = [
    Call::Version,
    Call::ListPodSandbox,
    Call::ListContainers,
    Call::PodSandboxStatus,
    Call::ContainerStatus,
    Call::GetContainerEvents,
];

fn step() -> impl Strategy<Value = Step> {
    let events =
        (any::<[bool; 4]>(), 0..3_u32, 0..3_u64).prop_map(|([dropped, no_sandbox, no_containers, odd], n, late)| {
            EventFaults {
                dropped,
                repeated: n,
                late: Duration::from_millis(late),
                without_sandbox: no_sandbox,
                without_containers: no_containers,
                unknown_type: odd,
            }
        });
    prop_oneof![
        4 => (0..PODS).prop_map(Step::Run),
        4 => (0..PODS).prop_map(Step::Start),
        3 => (0..PODS).prop_map(Step::Exit),
        1 => (0..PODS).prop_map(Step::RemoveContainer),
        1 => (0..PODS).prop_map(Step::Stop),
        1 => (0..PODS).prop_map(Step::Remove),
        3 => (0..4_usize, prop::sample::select(CALLS.to_vec()), prop::option::of(0..PODS))
            .prop_map(|(kind, call, pod)| Step::Fault(kind, call, pod)),
        2 => Just(Step::ClearFaults),
        2 => events.prop_map(Step::Events),
        1 => Just(Step::CutEvents),
        1 => Just(Step::CutConnections),
        1 => Just(Step::Outage),
        2 => Just(Step::Restore),
        2 => Just(Step::Pause(Until::Asked)),
        1 => Just(Step::Pause(Until::Answered)),
        1 => Just(Step::Pause(Until::Relisted)),
    ]
}

async fn run(steps: Vec<Step>) {
    // Everything that is measured in seconds, in milliseconds.
    let mut options = options();
    options.relist_period = Duration::from_millis(20);
    options.inspection_deadline = Some(Duration::from_millis(50));
    options.inspection_patience = Duration::from_millis(10);
    options.inspection_backoff_initial = Duration::from_millis(5);
    options.inspection_backoff_max = Duration::from_millis(40);
    options.reconnect_initial = Duration::from_millis(1);
    options.reconnect_max = Duration::from_millis(40);
    options.unsupported_retry = Duration::from_millis(40);
    options.relist_pause = Duration::from_millis(5);
    let bench = Bench::start(options).await;
    let mut sandboxes: Vec<Option<String>> = vec![None; PODS];
    let mut attempts = 0;
    for step in steps {
        let containers = bench.containers();
        let last = |n: usize| {
            let sandbox: &String = sandboxes[n].as_ref()?;
            containers.containers_of(sandbox).last().map(|container| container.id.clone())
        };
        match step {
            Step::Run(n) => {
                attempts += 1;
                let spec = SandboxSpec::new("ns", &format!("web-{n}"), &format!("u{n}")).attempt(attempts);
                sandboxes[n] = Some(containers.run_sandbox(&spec));
            }
            Step::Start(n) => {
                if let Some(sandbox) = &sandboxes[n] {
                    let app = containers.create_container(sandbox, "app", "app:1").unwrap();
                    containers.start_container(&app).unwrap();
                }
            }
            Step::Exit(n) => drop(last(n).map(|id| containers.exit_container(&id, 3))),
            Step::RemoveContainer(n) => drop(last(n).map(|id| containers.remove_container(&id))),
            Step::Stop(n) => drop(sandboxes[n].as_ref().map(|id| containers.stop_sandbox(id))),
            Step::Remove(n) => drop(sandboxes[n].take().map(|id| containers.remove_sandbox(&id))),
            Step::Fault(kind, call, pod) => {
                let fault = match kind {
                    0 => CallFault::hang(),
                    1 => CallFault::fail(Code::Internal, "told to"),
                    2 => CallFault::slow(Duration::from_millis(15)),
                    _ => CallFault::empty(),
                };
                // A list that hangs hangs for its own deadline, which is long; a list that is empty is a lie like any other.
                let is_list = matches!(call, Call::ListPodSandbox | Call::ListContainers | Call::Version);
                let fault = if is_list && kind == 0 { CallFault::slow(Duration::from_millis(60)) } else { fault };
                let fault = fault.call(call);
                let of = pod.and_then(|n| match call {
                    Call::PodSandboxStatus => sandboxes[n].clone(),
                    Call::ContainerStatus => last(n),
                    _ => None,
                });
                bench.server.inject(match of {
                    Some(id) => fault.id(&id),
                    None => fault,
                });
            }
            Step::ClearFaults => bench.server.clear_faults(),
            Step::Events(faults) => bench.server.set_event_faults(faults),
            Step::CutEvents => bench.server.cut_events(),
            Step::CutConnections => bench.server.cut_connections(),
            Step::Outage => bench.server.outage().await,
            Step::Restore => bench.server.restore().await.unwrap(),
            Step::Pause(until) => {
                let before = until.count(&bench);
                bench.until(&format!("{until:?}"), || (until.count(&bench) > before).then_some(())).await;
            }
        }
    }
    bench.server.clear_faults();
    bench.server.set_event_faults(EventFaults::default());
    bench.server.restore().await.unwrap();

    // What was going on when the faults ended goes on to its end; then one relist.
    let ended = bench.now();
    let relisted = || bench.cache.times(&"none".into()).global.filter(|global| *global > ended);
    bench.until("a relist that all pods are known as of", relisted).await;
    if let Err(why) = bench.is_true().await {
        panic!("{why}");
    }
    bench.stop().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn one_relist_after_the_last_fault_the_cache_equals_the_runtime(steps in prop::collection::vec(step(), 0..40)) {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio.block_on(run(steps));
    }
}
