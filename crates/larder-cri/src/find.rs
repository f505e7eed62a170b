//! Which of several sockets a container runtime answers at.
//!
//! # Guarantees
//!
//! - *Only a runtime is found.* A socket counts when its owner has answered `Version` of CRI v1: a containerd without its CRI
//!   plugin, as Docker's is, does not.
//! - *Nobody holds up the search.* The sockets are asked side by side. A search ends within five seconds, and within one second
//!   of the first answer.
//!
//! # Cancel safety
//!
//! A search that is dropped closes its connections.

use crate::client::CriRuntime;
use crate::endpoint::Endpoint;
use crate::error::CriError;
use crate::observe::CriObserver;
use crate::options::CriOptions;
use futures_util::stream::{FuturesUnordered, StreamExt};
use larder_pleg::{RuntimeCall, RuntimeError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a search may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How long the other sockets have once one has answered.
const GRACE: Duration = Duration::from_secs(1);

/// What a search came to.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FoundRuntimes {
    /// The runtimes that have answered, in the order of their sockets.
    pub runtimes: Vec<CriRuntime>,
    /// The sockets where no runtime has answered, and why not.
    pub failures: Vec<(Endpoint, RuntimeError)>,
}

/// Asks at each of these sockets whether a runtime that speaks CRI v1 is there.
///
/// # Errors
///
/// If an option cannot work; see [`CriOptions::validate`]. That no runtime is there is no error.
///
/// ```
/// use larder_cri::{CriObserver, CriOptions, find_runtimes, parse_endpoint};
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let nowhere = parse_endpoint("/run/no-runtime-here/containerd.sock").unwrap();
/// let observer: Arc<dyn CriObserver> = Arc::new(());
/// let found = find_runtimes(&[nowhere.clone()], &CriOptions::default(), &observer).await.unwrap();
/// assert!(found.runtimes.is_empty());
/// assert_eq!(found.failures[0].0, nowhere);
/// # });
/// ```
pub async fn find_runtimes(
    endpoints: &[Endpoint],
    options: &CriOptions,
    observer: &Arc<dyn CriObserver>,
) -> Result<FoundRuntimes, CriError> {
    let began = Instant::now();
    let mut asked = FuturesUnordered::new();
    for (at, endpoint) in endpoints.iter().enumerate() {
        let runtime = CriRuntime::with_observer(endpoint.clone(), options.clone(), Arc::clone(observer))?;
        asked.push(async move { (at, runtime.version().await.map(|_| runtime)) });
    }
    let mut answers: Vec<Option<Result<CriRuntime, RuntimeError>>> = endpoints.iter().map(|_| None).collect();
    let mut until = began + LIMIT;
    while let Ok(Some((at, answer))) = tokio::time::timeout_at(until, asked.next()).await {
        if answer.is_ok() {
            until = until.min(Instant::now() + GRACE);
        }
        answers[at] = Some(answer);
    }
    let mut found = FoundRuntimes::default();
    for (endpoint, answer) in endpoints.iter().zip(answers) {
        let timed_out = || RuntimeError::TimedOut { call: RuntimeCall::new("Version").into(), after: began.elapsed() };
        match answer.unwrap_or_else(|| Err(timed_out())) {
            Ok(runtime) => found.runtimes.push(runtime),
            Err(error) => found.failures.push((endpoint.clone(), error)),
        }
    }
    Ok(found)
}
