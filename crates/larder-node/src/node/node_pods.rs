//! Reads of the pods as this node knows them.

use super::{Node, PodList, RETRY};
use crate::answer::Answer;
use crate::error::ReadError;
use crate::runtime::PodStatusRead;
use larder_clock::MachineClocks;
use larder_objects::{FreshState, Freshness, Outcome, StaleReason};
use larder_pod_status::PodUid;
use larder_resource::KubeObject;
use larder_resource::journal::Journal;

impl<M: MachineClocks> Node<M> {
    /// The pods as this node knows them, in all namespaces: as [`list_pods`](Self::list_pods) has them, brought up to date from the container
    /// runtime ([`larder_pods`]), and static pods that the API server does not have. They are stale while the runtime does not answer, too.
    ///
    /// # Errors
    ///
    /// As [`list_pods`](Self::list_pods).
    ///
    /// ```
    /// # use larder_node::{Cluster, Config, Node, RuntimeEndpoint};
    /// # use tokio_util::sync::CancellationToken;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let manifests = tempfile::tempdir().unwrap();
    /// # let mut config = Config::new("edge-1", Cluster::Manifests(manifests.path().to_owned()));
    /// # config.runtime = RuntimeEndpoint::None;
    /// # let node = Node::start(config, CancellationToken::new()).await.unwrap();
    /// # node.settled().await;
    /// assert!(node.list_node_pods().unwrap().items.is_empty());
    /// # node.stop().await;
    /// # });
    /// ```
    pub fn list_node_pods(&self) -> Result<PodList, ReadError> {
        let (freshness, why) = self.freshness_of_node_pods()?;
        Ok(PodList { items: self.known_pods.list(), freshness, why })
    }

    /// How fresh the pods as this node knows them are, and why they are stale.
    ///
    /// # Errors
    ///
    /// As [`list_pods`](Self::list_pods).
    pub fn freshness_of_node_pods(&self) -> Result<(Freshness, Option<String>), ReadError> {
        let PodList { freshness, why, .. } = self.list_pods()?;
        // The runtime's list is as fresh as a pod that it does not have.
        Ok(self.with_runtime(freshness, why, |runtime| runtime.read(&PodUid::from(""))))
    }

    /// A pod as this node knows it, with its version in the [journal](Self::journal_of_node_pods).
    ///
    /// # Errors
    ///
    /// As [`get_pod`](Self::get_pod).
    pub fn get_node_pod(&self, namespace: &str, name: &str) -> Result<Answer<KubeObject>, ReadError> {
        self.journal_of_node_pods()?;
        let Some(object) = self.known_pods.in_journal(namespace, name) else {
            let unknown = || ReadError::Unknown {
                what: format!("pod \"{namespace}/{name}\""),
                why: "it has just come".to_owned(),
                retry_after: RETRY,
            };
            return Err(self.get_pod(namespace, name).err().unwrap_or_else(unknown));
        };
        let (freshness, why, uid) = match self.get_pod(namespace, name) {
            Ok(answer) => (answer.freshness, answer.why, PodUid::from(answer.object.runtime_uid())),
            // A static pod, which the API server is known not to have.
            Err(ReadError::NotFound { freshness, .. }) => (*freshness, None, PodUid::from(object.uid())),
            Err(error) => return Err(error),
        };
        let (freshness, why) = self.with_runtime(freshness, why, |runtime| runtime.read(&uid));
        Ok(Answer { object, freshness, outcome: Outcome::Held, why })
    }

    /// The journal of the pods as this node knows them. It begins with the first call, and when it was not used for a minute. Its versions, which its
    /// objects have, are larder's own: none is that of an earlier run of larder.
    ///
    /// # Errors
    ///
    /// [`ReadError::Unknown`] until the pods are known.
    pub fn journal_of_node_pods(&self) -> Result<Journal, ReadError> {
        Self::synced(&self.pods, || "pods".to_owned())?;
        Ok(self.known_pods.journal(&self.tasks))
    }

    /// How fresh something is that comes from the pods' source and from the runtime: as the staler of the two.
    fn with_runtime(
        &self,
        freshness: Freshness,
        why: Option<String>,
        read: impl FnOnce(&crate::runtime::RuntimeSide<M>) -> PodStatusRead,
    ) -> (Freshness, Option<String>) {
        let Some(runtime) = &self.runtime else { return (freshness, why) };
        let read = read(runtime);
        let of_runtime = match (read.freshness, runtime.failure()) {
            (Some(of_runtime), _) => of_runtime,
            (None, Some(error)) => {
                if !freshness.is_fresh() {
                    return (freshness, why);
                }
                let reason = StaleReason::FetchFailed { class: error.kind() };
                let never_listed = FreshState::Stale { since: self.started_at, reason };
                return (freshness.with_state(never_listed), Some(error.to_string()));
            }
            (None, None) => return (freshness, why),
        };
        let confirmed_at = freshness.confirmed_at.min(of_runtime.confirmed_at);
        let (state, why) = match (freshness.is_fresh(), of_runtime.is_fresh()) {
            (true, false) => (of_runtime.state, read.why),
            _ => (freshness.state, why),
        };
        (Freshness::new(confirmed_at, freshness.source, state), why)
    }
}
