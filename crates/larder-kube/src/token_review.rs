//! Asks the API server whose a token is (`TokenReview` of `authentication.k8s.io/v1`).

use crate::client::KubeClient;
use crate::error::{KubeError, Target};
use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use tokio::time::Instant;
use zeroize::Zeroizing;

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// The largest answer, which has the token in it.
const LARGEST: usize = 256 << 10;
/// Where the API server names the pod of a token (`serviceaccount.PodUIDKey`).
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// Whom the API server sees in a token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenUser {
    /// The user, such as `system:serviceaccount:shop:web`.
    pub username: String,
    /// The UID of the pod to which the token is bound, if it is bound to one.
    pub pod_uid: Option<String>,
}

impl TokenUser {
    /// A user, with the UID of the token's pod.
    ///
    /// ```
    /// let user = larder_kube::TokenUser::new("system:serviceaccount:shop:web", Some("7d2f3b8c"));
    /// assert_eq!(user.pod_uid.as_deref(), Some("7d2f3b8c"));
    /// ```
    pub fn new(username: impl Into<String>, pod_uid: Option<&str>) -> Self {
        Self { username: username.into(), pod_uid: pod_uid.map(str::to_owned) }
    }
}

#[derive(Deserialize)]
struct Review {
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    authenticated: bool,
    user: User,
    audiences: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct User {
    username: String,
    extra: HashMap<String, Vec<String>>,
}

impl KubeClient {
    /// Asks the API server whose a token is, for one of these audiences, or else for the API server's own. `None` if it takes the token for
    /// nobody's.
    ///
    /// # Errors
    ///
    /// [`KubeError`] if the server does not answer, or does not let larder create a `TokenReview`. No error has the token.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn review_token(&self, token: &str, audiences: &[String]) -> Result<Option<TokenUser>, KubeError> {
        let target = Target::TokenReview;
        let spec = json!({"token": token, "audiences": audiences});
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
        let body = Zeroizing::new(review.to_string().into_bytes());
        let deadline = Instant::now() + self.options().fetch_deadline;
        let response = self.send(&target, &Method::POST, PATH, &Bytes::from_owner(body), deadline).await?;
        let body = self.collect(&target, response, deadline, LARGEST).await?;
        let Review { status } =
            serde_json::from_slice(&body).map_err(|error| KubeError::decode(target, error.into()))?;
        // A server that knows nothing of audiences answers without them, and has looked at none.
        let is_for_us = audiences.is_empty() || status.audiences.iter().any(|of| audiences.contains(of));
        if !status.authenticated || !is_for_us {
            return Ok(None);
        }
        let mut extra = status.user.extra;
        let pod_uid = extra.remove(POD_UID).and_then(|values| values.into_iter().next());
        Ok(Some(TokenUser { username: status.user.username, pod_uid }))
    }
}
