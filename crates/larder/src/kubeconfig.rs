//! `larder kubeconfig`: a kubeconfig for the daemon's TLS listener, with a client certificate of larder's own authority, or for pods with
//! their token.
//!
//! It reads the authority from the folder of the daemon, and so has to run as root or as the daemon's user. The daemon only says
//! where the folder is.

use crate::client::{Connection, Error, Query};
use crate::output;
use crate::run::duration;
use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use larder_file::private::{self, PrivateFolder};
use larder_node::{ListenReport, Report};
use larder_server::{DaemonError, TlsOptions};
use larder_tls::{Authority, Issued};
use serde_json::{Value, json};
use std::borrow::Borrow;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use zeroize::Zeroizing;

/// The first line of a written kubeconfig: the command replaces only files with this line.
const HEAD: &str = "# larder kubeconfig wrote this file, and replaces it when asked again.\n";
/// Where the kubelet puts the token of a pod.
const POD_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest life of a client certificate: as long as that of the authority.
const LONGEST: Duration = Duration::from_hours(10 * 365 * 24);
const SHORTEST: Duration = Duration::from_mins(1);
/// The most bytes of a file of authorities.
const LARGEST_FILE: u64 = 1 << 20;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Run it on the node, as root or as larder's user: it reads the key of larder's own authority. Whoever has the kubeconfig can read \
everything from this larder until the certificate in it expires. One of --for-pods holds no secret: it names the file with the pod's token.

Examples:
  larder kubeconfig --output larder.kubeconfig
  kubectl --kubeconfig larder.kubeconfig get pods -A
  # For a client on another machine
  larder kubeconfig --server https://10.0.0.7:6440 --name dashboard --validity 720h
  # For pods of this node
  larder kubeconfig --for-pods > pods.kubeconfig && kubectl create configmap larder -n shop --from-file kubeconfig=pods.kubeconfig")]
pub(crate) struct Args {
    /// Write the kubeconfig to this file, with mode 0600, in place only of one that larder kubeconfig wrote; without a file,
    /// print it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write it for pods of this node, which show their service-account token
    #[arg(long, conflicts_with_all = ["name", "validity", "admin_group"])]
    for_pods: bool,
    /// With --for-pods: where a pod has its token
    #[arg(long, value_name = "FILE", default_value = POD_TOKEN, requires = "for_pods")]
    token_file: String,
    /// The address of the server in the kubeconfig [default: as the running daemon says]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The name of the client in its certificate; refusals and `kubectl auth whoami` show it
    #[arg(long, value_name = "NAME", default_value = "larder-admin")]
    name: String,
    /// How long the client certificate is valid; it ends with larder's own authority at the latest
    #[arg(long, value_name = "DURATION", default_value = "8760h", value_parser = duration)]
    validity: Duration,
    /// The group of the client [default: the group that the running daemon lets in, or larder:admins]
    #[arg(long, value_name = "GROUP")]
    admin_group: Option<String>,
    /// The authority of the serving certificate, if the daemon runs with --tls-cert-file
    #[arg(long, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,
    /// The folder of larder's own authority [default: as the running daemon says, or /var/lib/larder/tls]
    #[arg(long, value_name = "DIR")]
    tls_directory: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
}

/// Writes or prints the kubeconfig.
pub(crate) async fn main(args: Args) -> anyhow::Result<ExitCode> {
    if !(SHORTEST..=LONGEST).contains(&args.validity) {
        bail!("--validity: must be from 1m to 87600h");
    }
    if args.name.trim().is_empty() || args.name.contains(char::is_control) {
        bail!("--name: {:?} is no name of a client: it must have letters, and no control characters", args.name);
    }
    let report = report(&args).await?;
    let listen = report.as_ref().and_then(|report| report.listen.as_ref());
    let server = server(args.server.as_deref(), listen)?;
    let cluster = report.as_ref().map_or_else(|| "larder".to_owned(), |report| format!("larder-{}", report.node));
    if args.for_pods {
        let trusted = trusted(&args, listen, || authority(args.tls_directory.as_deref(), listen))?;
        let text = render(&cluster, &server, &trusted, "pod", &User::TokenFile(&args.token_file))?;
        return written(&args, &text, "for pods of this node");
    }
    let authority = authority(args.tls_directory.as_deref(), listen)?;
    let trusted = trusted(&args, listen, || Ok(&authority))?;
    let group = args.admin_group.as_deref().or(listen.map(|listen| listen.admin_group.as_str()));
    let default = TlsOptions::default().admin_group;
    let group = group.unwrap_or(&default);
    let issued = authority.issue_client(&args.name, group, args.validity, Timestamp::now())?;
    let user = User::Certificate(&issued);
    let text = Zeroizing::new(render(&cluster, &server, &trusted, &args.name, &user)?);
    written(&args, &text, &format!("{} of {group}, until {:.0}", args.name, issued.not_after))
}

/// Prints the kubeconfig, or writes it to its file and says so.
fn written(args: &Args, text: &[u8], what: &str) -> anyhow::Result<ExitCode> {
    match &args.output {
        None => output::print(text)?,
        Some(path) => {
            let text = Zeroizing::new([HEAD.as_bytes(), text].concat());
            private::write(path, HEAD.as_bytes(), &text).context("cannot write the kubeconfig (--output)")?;
            output::print(format!("wrote {}: {what}\n", path.display()).as_bytes())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The authorities that clients trust.
fn trusted<A: Borrow<Authority>>(
    args: &Args,
    listen: Option<&ListenReport>,
    own: impl FnOnce() -> anyhow::Result<A>,
) -> anyhow::Result<String> {
    match (&args.certificate_authority, listen.and_then(|listen| listen.cert_file.as_ref())) {
        (Some(path), _) => authorities_of(path),
        (None, None) => Ok(own()?.borrow().certificate_pem().to_owned()),
        (None, Some(file)) => bail!(
            "the daemon serves the certificate of {}, which larder did not issue: name its authority with \
             --certificate-authority",
            file.display()
        ),
    }
}

/// What the running daemon says; `None` if none runs, or it refuses, and the flags say enough.
async fn report(args: &Args) -> anyhow::Result<Option<Report>> {
    let client = Connection { socket: args.connection.socket.clone() }.client();
    match client.get(&Query::new(&["larder", "v1", "status"]), TIMEOUT).await {
        Ok(reply) => Ok(Some(reply.json()?)),
        Err(Error::Daemon(DaemonError::Unreachable { .. })) if args.server.is_some() => Ok(None),
        // A rule of the policy file may keep the status from whoever may read the authority.
        Err(Error::Server { body }) if args.server.is_some() && body.status.code == Some(403) => Ok(None),
        Err(error) => {
            Err(error).context("cannot ask the daemon for its address (--server names it without the daemon)")
        }
    }
}

fn server(given: Option<&str>, listen: Option<&ListenReport>) -> anyhow::Result<String> {
    let Some(given) = given else {
        let url = listen.map(|listen| listen.url.clone());
        return url.context("the daemon does not listen over TLS: start it with --listen ADDRESS:PORT");
    };
    let is_https =
        given.parse::<http::Uri>().is_ok_and(|url| url.scheme_str() == Some("https") && url.host().is_some());
    anyhow::ensure!(is_https, "--server: {given:?} is not an address of a TLS listener: write https://HOST:PORT");
    Ok(given.to_owned())
}

fn authority(given: Option<&Path>, listen: Option<&ListenReport>) -> anyhow::Result<Authority> {
    let directory = match (given, listen) {
        (Some(given), _) => given.to_owned(),
        (None, None) => TlsOptions::default().directory,
        (None, Some(listen)) => listen.directory.clone().with_context(|| {
            let group = &listen.admin_group;
            format!(
                "the daemon has no authority of its own, since --tls-cert-file and --client-ca are set: issue a client \
                 certificate of the group {group:?} with an authority of --client-ca"
            )
        })?,
    };
    let opened = PrivateFolder::open(&directory).map_err(larder_tls::TlsError::from);
    opened.and_then(|folder| Authority::open(&folder)).context("cannot use larder's own authority (as root?)")
}

fn authorities_of(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    larder_file::open_regular(path)
        .and_then(|file| file.take(LARGEST_FILE).read_to_string(&mut text))
        .with_context(|| format!("cannot read {} (--certificate-authority)", path.display()))?;
    let is_pem = text.contains("-----BEGIN CERTIFICATE-----");
    anyhow::ensure!(is_pem, "{} holds no certificate in PEM (--certificate-authority)", path.display());
    Ok(text)
}

/// How a client shows who it is.
pub(crate) enum User<'a> {
    Certificate(&'a Issued),
    Token(&'a str),
    /// A file with a token, which the client reads again and again.
    TokenFile(&'a str),
}

/// A kubeconfig with one context.
pub(crate) fn render(
    cluster: &str,
    server: &str,
    authorities: &str,
    name: &str,
    user: &User<'_>,
) -> anyhow::Result<Vec<u8>> {
    let user: Value = match user {
        User::Certificate(issued) => json!({
            "client-certificate-data": STANDARD.encode(&issued.certificate),
            "client-key-data": STANDARD.encode(issued.key.as_bytes()),
        }),
        User::Token(token) => json!({"token": token}),
        User::TokenFile(file) => json!({"tokenFile": file}),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": cluster,
            "cluster": {"server": server, "certificate-authority-data": STANDARD.encode(authorities)},
        }],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": name}}],
        "current-context": cluster,
    });
    output::yaml(&config)
}
