//! `larder proxy`: the daemon as its user may read it, on a loopback port, with a kubeconfig for it.

use crate::client::{Connection, Error, Query, message};
use crate::kubeconfig::{User, render};
use crate::output;
use crate::run::keep_memory_private;
use crate::signals::Signals;
use anyhow::Context as _;
use jiff::Timestamp;
use larder_file::private::TransientFile;
use larder_server::proxy::{Proxy, ProxyOptions};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

/// The first line of the kubeconfig: the proxy replaces only files with this line.
const HEAD: &str = "# larder proxy wrote this file, and removes it when it ends.\n";
/// The name of the cluster, the user and the context.
const NAME: &str = "larder-proxy";
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The proxy listens on 127.0.0.1 over TLS, and asks the daemon as the user who runs it. It answers
only requests with its token, which is random and is in the kubeconfig. Whoever can read the
kubeconfig reads what this user may read, until the proxy ends.

Examples:
  larder proxy &
  kubectl --kubeconfig larder-proxy.kubeconfig get pods -A
  larder proxy --port 8001 --output /run/agent/kubeconfig")]
pub(crate) struct Args {
    /// The port on 127.0.0.1; 0 for any free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Write the kubeconfig to this file, with mode 0600, and remove it at the end; a second proxy needs another file
    #[arg(short, long, value_name = "FILE", default_value = "larder-proxy.kubeconfig")]
    output: PathBuf,
    #[command(flatten)]
    connection: Connection,
}

/// Serves until a signal ends it.
pub(crate) async fn main(args: Args) -> anyhow::Result<ExitCode> {
    keep_memory_private()?;
    let mut signals = Signals::listen()?;
    let socket = args.connection.socket;
    // An error says where the socket is: its reader may be in another folder.
    let socket = std::path::absolute(&socket).unwrap_or(socket);
    let mut options = ProxyOptions::new(&socket);
    options.port = args.port;
    let ending = CancellationToken::new();
    let proxy = Proxy::bind(options, Timestamp::now(), ending.clone()).await?;
    let file = write(&args.output, &proxy)?;
    // Nobody may be reading it; that is no reason to end.
    let _ = output::print(greeting(&proxy, &args.output, &socket).as_bytes());
    let (signal, (), _) = tokio::join!(
        async {
            let signal = signals.any().await;
            // From here on the file leads nowhere.
            let removed = file.remove();
            ending.cancel();
            removed.map(|()| signal)
        },
        proxy.run(),
        // A daemon that hangs holds up nothing.
        ending.run_until_cancelled(warn(&socket)),
    );
    Ok(signal?.exit_code())
}

/// Says why clients get no answers, where that is so from the start.
async fn warn(socket: &Path) {
    let client = Connection { socket: socket.to_owned() }.client();
    match client.get(&Query::new(&["api"]), TIMEOUT).await {
        Ok(_) => {}
        Err(Error::Server { body }) if body.status.code == Some(403) => {
            output::complain(&format!("warning: each request to this proxy will be refused: {}", message(&body)));
        }
        Err(error) => output::complain(&format!("warning: requests to this proxy will fail for now: {error}")),
    }
}

fn write(path: &Path, proxy: &Proxy) -> anyhow::Result<TransientFile> {
    let server = format!("https://{}", proxy.address());
    let user = User::Token(proxy.token());
    let config = Zeroizing::new(render(NAME, &server, proxy.authority_pem(), NAME, &user)?);
    let text = Zeroizing::new([HEAD.as_bytes(), &config].concat());
    TransientFile::write(path, HEAD.as_bytes(), &text).context("cannot write the kubeconfig (--output)")
}

fn greeting(proxy: &Proxy, path: &Path, socket: &Path) -> String {
    let (address, path) = (proxy.address(), path.display());
    format!(
        "larder proxy on https://{address}\n  \
           reads    {}, as this process may (larder auth whoami)\n  \
           ask      kubectl --kubeconfig {path} get pods -A\n",
        socket.display()
    )
}
