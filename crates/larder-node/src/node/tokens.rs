//! What a pod's token is worth: its verification, and what is left of its pod.

use super::{Node, not_relisted};
use crate::error::ReadError;
use crate::report::TokenKeysReport;
use crate::runtime::RuntimeSide;
use crate::tokens::TokenCheckError;
use larder_clock::MachineClocks;
use larder_pod_status::PodUid;
use larder_resource::Pod;
use larder_token::Bound;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

impl<M: MachineClocks> Node<M> {
    /// Verifies a service-account token of a pod, without the API server once its keys are known. Whether its pod is a pod of this node,
    /// and still the same, is [`Bound::check_pod`]'s question.
    ///
    /// The keys are read when the first token is shown, and again when a token names an unknown key, every five seconds at most. While
    /// larder may not read them from the API server, it asks that server about the token (`TokenReview`), and remembers the verdict.
    ///
    /// # Errors
    ///
    /// [`TokenCheckError`] says why the token is not taken.
    ///
    /// # Cancel safety
    ///
    /// A dropped wait leaves nothing behind. It takes ten seconds at most.
    ///
    /// ```
    /// # use larder_node::{Cluster, Config, Node, RuntimeEndpoint, TokenCheckError};
    /// # use tokio_util::sync::CancellationToken;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let manifests = tempfile::tempdir().unwrap();
    /// # let mut config = Config::new("edge-1", Cluster::Manifests(manifests.path().to_owned()));
    /// # config.runtime = RuntimeEndpoint::None;
    /// # let node = Node::start(config, CancellationToken::new()).await.unwrap();
    /// // Without an API server and without a file of keys.
    /// assert_eq!(node.verify_token("a.b.c").await, Err(TokenCheckError::Off));
    /// # node.stop().await;
    /// # });
    /// ```
    pub async fn verify_token(&self, token: &str) -> Result<Bound, TokenCheckError> {
        let wall_now = || self.wall_time(self.now()).unwrap_or_default();
        let may_be_here = |bound: &Bound| match self.get_pod(&bound.namespace, &bound.pod.name) {
            Ok(pod) => pod.object.uid() == bound.pod.uid,
            Err(error) => !error.is_not_found(),
        };
        self.tokens.verify(token, &self.clock, wall_now, may_be_here).await
    }

    /// The keys that verify tokens, and where they come from; `None` where larder takes no tokens.
    pub fn token_keys_report(&self) -> Option<TokenKeysReport> {
        self.tokens.report(self.now(), |at| self.wall_time(at))
    }

    /// Why the keys that verify tokens could not be read when they were last wanted.
    pub fn token_keys_failure(&self) -> Option<String> {
        self.tokens.failure()
    }

    /// The names of the pod's containers that have not ended, init containers among them. If there is none, it waits for one until the
    /// deadline: the runtime may not have told of it yet.
    ///
    /// # Errors
    ///
    /// As [`pod_status`](Self::pod_status).
    ///
    /// # Cancel safety
    ///
    /// A dropped wait leaves nothing behind.
    ///
    /// ```
    /// # use larder_node::{Cluster, Config, Node, RuntimeEndpoint};
    /// # use tokio_util::sync::CancellationToken;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let manifests = tempfile::tempdir().unwrap();
    /// # let mut config = Config::new("edge-1", Cluster::Manifests(manifests.path().to_owned()));
    /// # config.runtime = RuntimeEndpoint::None;
    /// # let node = Node::start(config, CancellationToken::new()).await.unwrap();
    /// let error = node.live_containers(&"7d2f3b8c".into(), std::time::Duration::ZERO).await.unwrap_err();
    /// assert!(error.to_string().contains("without a container runtime"), "{error}");
    /// # node.stop().await;
    /// # });
    /// ```
    pub async fn live_containers(&self, uid: &PodUid, deadline: Duration) -> Result<BTreeSet<String>, ReadError> {
        let runtime = self.runtime()?;
        let some = |runtime: &RuntimeSide<M>| runtime.live_containers(uid).filter(|live| !live.is_empty());
        if let Some(live) = runtime.find_in_time(some, deadline).await {
            return Ok(live);
        }
        match runtime.live_containers(uid) {
            None => Err(not_relisted(runtime, format!("the containers of pod \"{uid}\""))),
            Some(live) => Ok(live),
        }
    }

    /// Waits until the source has another state of this pod than that, or no longer has the pod, or other containers of it
    /// [live](Self::live_containers) than those.
    ///
    /// Nothing changes because the runtime or the API server does not answer. Once larder ends, it never returns.
    ///
    /// # Cancel safety
    ///
    /// A dropped wait leaves nothing behind.
    pub async fn pod_changed(&self, pod: &Arc<Pod>, live: &BTreeSet<String>) {
        let uid = PodUid::from(pod.runtime_uid());
        let by_runtime = async {
            match &self.runtime {
                Some(runtime) => runtime.live_containers_changed(&uid, live).await,
                None => std::future::pending().await,
            }
        };
        let is_other = || self.pods.get(pod.namespace(), pod.name()).is_none_or(|now| !Arc::ptr_eq(&now, pod));
        tokio::select! {
            () = by_runtime => {}
            () = self.pods_say(is_other) => {}
        }
    }
}
