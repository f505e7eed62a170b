//! Follows a container runtime for a while: prints the status of its pods in JSON, then each pod event.
//!
//! `cargo run -p larder-cri --example pods -- [ENDPOINT [SECONDS]]`, with a well-known socket by default.

use larder_clock::MonotonicClock;
use larder_cri::{CriObserver, CriOptions, CriRuntime, find_runtimes, parse_endpoint, well_known_sockets};
use larder_pleg::{Delivery, Pleg, PlegOptions};
use larder_pod_status::{Options, pod_status_cache};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let endpoint = args.next().map(|text| parse_endpoint(&text)).transpose()?;
    let seconds = args.next().map_or(Ok(10), |text| text.parse())?;

    let options = CriOptions::default();
    let runtime = if let Some(endpoint) = endpoint {
        CriRuntime::connect(endpoint, options).await?
    } else {
        let observer: Arc<dyn CriObserver> = Arc::new(());
        let found = find_runtimes(&well_known_sockets(), &options, &observer).await?;
        found.runtimes.into_iter().next().ok_or("no runtime answers at the well-known sockets: name its socket")?
    };
    eprintln!("{:?}", runtime.version().await?);
    let (writer, cache) = pod_status_cache(Options::default());
    let pleg = Arc::new(Pleg::new(Arc::new(runtime.clone()), MonotonicClock::new(), writer, PlegOptions::default())?);
    pleg.relist().await;
    if let (_, Some(error)) = pleg.last_relist() {
        return Err(error.into());
    }
    for uid in cache.uids() {
        if let Some(status) = cache.get(&uid).status() {
            println!("{}", serde_json::to_string_pretty(&**status)?);
        }
    }

    let mut events = pleg.subscribe();
    let cancel = CancellationToken::new();
    let running = tokio::spawn({
        let (pleg, cancel) = (Arc::clone(&pleg), cancel.clone());
        async move { pleg.run(cancel).await }
    });
    let follow = async {
        while let Some(delivery) = events.recv().await {
            match delivery {
                Delivery::Event(event) => println!(
                    "{} {}/{} {} {:?}",
                    event.kind,
                    event.namespace,
                    event.name,
                    event.container_name.as_deref().filter(|name| !name.is_empty()).unwrap_or("-"),
                    event.exit_code
                ),
                Delivery::Gap { missed } => println!("{missed} events missed"),
            }
        }
    };
    // That the time is over is what is waited for.
    let _ = tokio::time::timeout(Duration::from_secs(seconds), follow).await;
    cancel.cancel();
    running.await?;
    eprintln!("{:?}\n{:?}", pleg.stats(), runtime.stats());
    Ok(())
}
