//! One agent, from its start to the end of the sync periods.

use crate::agent::{Agent, Programs, Running};
use crate::readers::{PODS, Readers, Seen};
use crate::server::{self, Requests};
use crate::workload::Workload;
use anyhow::{Context as _, Result, ensure};
use larder_testbed::poll::until;
use larder_testbed::proxy::Traffic;
use larder_testbed::{Options, Testbed};
use std::time::Duration;

/// For how long an agent is read, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) periods: u32,
    /// Also the TTL.
    pub(crate) sync_period: Duration,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) agent: Agent,
    pub(crate) requests: Requests,
    /// How many of the requests larder made so that a new pod's first read is at least as new as its registration.
    pub(crate) registration_reads: u64,
    pub(crate) traffic: Traffic,
    pub(crate) seen: Seen,
}

impl Row {
    /// The requests beside those.
    pub(crate) fn beside_registration(&self) -> u64 {
        self.requests.all().saturating_sub(self.registration_reads)
    }
}

/// Measures one agent on a testbed of its own.
pub(crate) async fn measure(programs: &Programs, agent: Agent, plan: Plan) -> Result<Row> {
    let ttl = u32::try_from(plan.sync_period.as_secs())?;
    let testbed = Testbed::start(Options { node_ttl: Some(ttl), ..Options::default() }).await?;
    let workload = Workload::create(&testbed, PODS).await?;
    let running = Running::start(programs, agent, &testbed, plan.sync_period).await?;
    let readers = Readers::new(&running, &workload);
    let read = async {
        readers.start(PODS).await?;
        readers.run(plan).await
    };
    read.await.with_context(|| format!("{}; its log ends:\n{}", agent.name(), running.log_tail()))?;
    let requests = server_says(&testbed, &running.user).await?;
    let registration_reads = if agent.is_larder() { registration_reads(&running).await? } else { 0 };
    let row = Row { agent, requests, registration_reads, traffic: running.proxy.traffic(), seen: readers.seen() };
    running.stop()?;
    Ok(row)
}

/// The requests by the audit log, once its open watches are those of the metrics.
async fn server_says(testbed: &Testbed, user: &str) -> Result<Requests> {
    let client = testbed.client().await?;
    until("the audit log and the metrics agree", Duration::from_mins(1), async || {
        let requests = server::requests(testbed, user)?;
        let open = server::open_watches(&server::metrics(&client).await?)?;
        let in_log = requests.watches_of_all;
        ensure!(open == in_log, "{in_log} watches are open in the log, {open} in the metrics");
        Ok(requests)
    })
    .await
}

/// larder's own count of them.
async fn registration_reads(running: &Running) -> Result<u64> {
    let (_, metrics) = running.get("/metrics").await?;
    let mut reads = 0;
    for line in metrics.lines().filter(|line| line.starts_with("larder_object_new_reference_fetches_total")) {
        reads += line.rsplit(' ').next().unwrap_or_default().parse::<u64>().with_context(|| line.to_owned())?;
    }
    Ok(reads)
}
