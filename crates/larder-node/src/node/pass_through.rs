//! The way of others to the API server.

use super::Node;
use super::sources::Origin;
use larder_clock::MachineClocks;
use larder_kube::PassThrough;

impl<M: MachineClocks> Node<M> {
    /// A way for the requests of others to the API server, with their own credentials and never with larder's; `None` without an API server.
    /// It carries this many requests at once.
    ///
    /// ```
    /// # use larder_node::{Cluster, Config, Node, RuntimeEndpoint};
    /// # use tokio_util::sync::CancellationToken;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let manifests = tempfile::tempdir().unwrap();
    /// # let mut config = Config::new("edge-1", Cluster::Manifests(manifests.path().to_owned()));
    /// # config.runtime = RuntimeEndpoint::None;
    /// # let node = Node::start(config, CancellationToken::new()).await.unwrap();
    /// assert!(node.pass_through(100).is_none(), "manifests are no API server");
    /// # node.stop().await;
    /// # });
    /// ```
    pub fn pass_through(&self, requests: u32) -> Option<PassThrough> {
        match &self.origin {
            Origin::Kube(client, _) => Some(client.pass_through(requests)),
            Origin::Manifests { .. } => None,
        }
    }
}
