//! What is measured: the kubelet's managers or larder, behind a proxy that counts, read over a Unix socket.

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::PostParams;
use larder_testbed::credentials::NODE_TOKEN;
use larder_testbed::poll::until;
use larder_testbed::process::Service;
use larder_testbed::proxy::Proxy;
use larder_testbed::{Testbed, unix_http};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an agent may take until it knows the node's pods.
const READY_LIMIT: Duration = Duration::from_mins(1);
/// How long a read may take.
const READ_LIMIT: Duration = Duration::from_secs(30);
/// The namespace of the identity that may watch whole namespaces.
const SERVICE_ACCOUNT_NAMESPACE: &str = "larder";

/// Where the programs are.
pub(crate) struct Programs {
    pub(crate) larder: PathBuf,
    pub(crate) kubelet: PathBuf,
}

/// Who keeps the objects, by which strategy, as whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    /// The kubelet's managers, with its word for the strategy.
    Kubelet(&'static str),
    /// `larder run`.
    Larder(&'static str),
    /// `larder run` with an identity that may watch whole namespaces.
    LarderOfNamespaces(&'static str),
}

impl Agent {
    /// In the order of the table: each of the kubelet's strategies, followed by larder's same one.
    pub(crate) const ALL: [Self; 8] = [
        Self::Kubelet("get"),
        Self::Larder("direct"),
        Self::Kubelet("cache"),
        Self::Larder("ttl"),
        Self::Kubelet("watch"),
        Self::Larder("watch"),
        Self::Larder("auto"),
        Self::LarderOfNamespaces("auto"),
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Kubelet(strategy) => format!("kubelet {strategy}"),
            Self::Larder(strategy) => format!("larder {strategy}"),
            Self::LarderOfNamespaces(strategy) => format!("larder {strategy}, may watch namespaces"),
        }
    }

    /// Its own word for what it does.
    pub(crate) fn strategy(self) -> &'static str {
        match self {
            Self::Kubelet(strategy) | Self::Larder(strategy) | Self::LarderOfNamespaces(strategy) => strategy,
        }
    }

    /// Whose strategy is the same.
    pub(crate) fn same_of_kubelet(self) -> Option<Self> {
        match self {
            Self::Larder("direct") => Some(Self::Kubelet("get")),
            Self::Larder("ttl") => Some(Self::Kubelet("cache")),
            Self::Larder("watch") => Some(Self::Kubelet("watch")),
            _ => None,
        }
    }

    pub(crate) fn is_larder(self) -> bool {
        !matches!(self, Self::Kubelet(_))
    }
}

/// An agent that runs.
pub(crate) struct Running {
    service: Service,
    socket: PathBuf,
    /// What it reaches the API server by.
    pub(crate) proxy: Proxy,
    /// As whom the API server knows it.
    pub(crate) user: String,
}

impl Running {
    /// Starts it, and waits until it says that it knows the node's pods.
    pub(crate) async fn start(
        programs: &Programs,
        agent: Agent,
        testbed: &Testbed,
        sync_period: Duration,
    ) -> Result<Self> {
        let port = testbed.api_server_url().rsplit(':').next().context("a port")?.parse()?;
        let proxy = Proxy::start(port).await?;
        let folder = testbed.folder();
        let (user, token) = match agent {
            Agent::LarderOfNamespaces(_) => reader_of_namespaces(testbed).await?,
            _ => (format!("system:node:{}", testbed.node_name()), NODE_TOKEN.to_owned()),
        };
        let kubeconfig = folder.join("agent.kubeconfig");
        let of_node = fs::read_to_string(testbed.node_kubeconfig())?;
        let proxied = of_node
            .replace(&testbed.api_server_url(), &format!("https://{}", proxy.address()))
            .replace(NODE_TOKEN, &token);
        fs::write(&kubeconfig, proxied)?;

        let socket = folder.join("agent.sock");
        let path = |path: &Path| path.display().to_string();
        let period = format!("{}s", sync_period.as_secs());
        let (program, arguments) = match agent {
            Agent::Kubelet(strategy) => {
                let arguments = ["-strategy", strategy, "-sync-period", &period].map(str::to_owned);
                let common = ["-kubeconfig", &path(&kubeconfig), "-node-name", testbed.node_name(), "-socket"];
                (&programs.kubelet, [&arguments[..], &common.map(str::to_owned), &[path(&socket)]].concat())
            }
            Agent::Larder(strategy) | Agent::LarderOfNamespaces(strategy) => {
                let arguments = [
                    ["run", "--log-level=warn"].map(str::to_owned),
                    ["--change-detection".into(), strategy.into()],
                    ["--sync-period".into(), period],
                    ["--kubeconfig".into(), path(&kubeconfig)],
                    ["--node-name".into(), testbed.node_name().to_owned()],
                    ["--runtime-endpoint".into(), testbed.runtime_endpoint()],
                    ["--socket".into(), path(&socket)],
                ];
                (&programs.larder, arguments.concat())
            }
        };
        let service = Service::new("agent", folder, program.clone(), arguments, Vec::new());
        service.start()?;
        let running = Self { service, socket, proxy, user };
        until("the agent knows the node's pods", READY_LIMIT, async || {
            ensure!(running.service.is_running(), "it has ended");
            let (code, body) = running.get("/readyz").await?;
            ensure!(code == 200, "{code}: {body}");
            Ok(())
        })
        .await
        .with_context(|| format!("its log ends:\n{}", running.log_tail()))?;
        Ok(running)
    }

    /// A GET at its socket.
    pub(crate) async fn get(&self, target: &str) -> Result<(u16, String)> {
        match tokio::time::timeout(READ_LIMIT, unix_http::get(&self.socket, target)).await {
            Ok(answer) => answer,
            Err(_) => bail!("no answer within {READ_LIMIT:?}"),
        }
    }

    /// Waits until a pod is registered.
    pub(crate) async fn until_registered(&self, namespace: &str, pod: &str) -> Result<()> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
        until("the agent has registered the pod", READY_LIMIT, async || {
            let (code, body) = self.get(&path).await?;
            ensure!(code == 200, "{path}: {code}: {body}");
            Ok(())
        })
        .await
    }

    pub(crate) fn log_tail(&self) -> String {
        self.service.log_tail()
    }

    /// Ends it.
    pub(crate) fn stop(self) -> Result<()> {
        self.service.stop()
    }
}

/// A service account that may watch pods, nodes and the objects of every namespace, and its token.
async fn reader_of_namespaces(testbed: &Testbed) -> Result<(String, String)> {
    const NAME: &str = "larder";
    testbed.create_namespace(SERVICE_ACCOUNT_NAMESPACE).await?;
    let client = testbed.client().await?;
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": { "name": NAME },
        "rules": [{
            "apiGroups": [""],
            "resources": ["pods", "nodes", "secrets", "configmaps"],
            "verbs": ["get", "list", "watch"],
        }],
    }))?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": NAME },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME },
        "subjects": [{ "kind": "ServiceAccount", "name": NAME, "namespace": SERVICE_ACCOUNT_NAMESPACE }],
    }))?;
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": NAME } }))?;
    let create = PostParams::default();
    Api::<ClusterRole>::all(client.clone()).create(&create, &role).await?;
    Api::<ClusterRoleBinding>::all(client.clone()).create(&create, &binding).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client, SERVICE_ACCOUNT_NAMESPACE);
    accounts.create(&create, &account).await?;
    let request = TokenRequest {
        spec: Some(TokenRequestSpec { expiration_seconds: Some(4 * 3600), ..TokenRequestSpec::default() }),
        ..TokenRequest::default()
    };
    let status = accounts.create_token_request(NAME, &create, &request).await?.status;
    let token = status.and_then(|status| status.token).context("a token request without a token")?;
    Ok((format!("system:serviceaccount:{SERVICE_ACCOUNT_NAMESPACE}:{NAME}"), token))
}
