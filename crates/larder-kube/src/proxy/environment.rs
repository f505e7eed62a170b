//! The proxies that the process's environment names, by Go's rules.

use super::{EXPECTED, Proxy, host_and_port};
use crate::error::KubeError;
use http::Uri;
use ipnet::IpNet;
use secrecy::{ExposeSecret, SecretString};
use std::net::IpAddr;

/// The proxies of an environment: `HTTPS_PROXY` for servers with TLS, `HTTP_PROXY` for others, and `NO_PROXY` for servers
/// reached directly. A lower-case variable counts if the upper-case one is unset. The default names no proxy.
///
/// The rules are those of Go's `net/http` (`ProxyFromEnvironment`, in `golang.org/x/net/http/httpproxy`), which the kubelet
/// follows:
///
/// - A proxy is a URL, or the `HOST:PORT` of an HTTP proxy.
/// - `localhost` and loopback addresses are never proxied.
/// - `NO_PROXY` has entries between commas: `*` for all; an address, or a network such as `10.0.0.0/8`; a domain with its
///   subdomains; `.DOMAIN` or `*.DOMAIN` for the subdomains only. All but networks may end in `:PORT`.
///
/// ```
/// use larder_kube::ProxyEnvironment;
/// # let to = |server: &'static str| http::Uri::from_static(server);
/// let environment = ProxyEnvironment::from_vars(|name| match name {
///     "HTTPS_PROXY" => Some("http://edge:secret@proxy.example:3128".to_owned()),
///     "NO_PROXY" => Some("10.0.0.0/8,.cluster.local".to_owned()),
///     _ => None,
/// });
/// let proxy = environment.proxy_for(&to("https://api.example:6443"))?.expect("one is named");
/// assert_eq!(proxy.to_string(), "http://proxy.example:3128");
/// assert!(environment.proxy_for(&to("https://10.96.0.1"))?.is_none());
/// assert!(environment.proxy_for(&to("http://api.example:6443"))?.is_none());
/// # Ok::<(), larder_kube::KubeError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ProxyEnvironment {
    http: Option<Variable>,
    https: Option<Variable>,
    direct: Direct,
}

/// A set variable. Its value may contain a password.
#[derive(Clone, Debug)]
struct Variable {
    name: &'static str,
    value: SecretString,
}

/// The servers reached without a proxy.
#[derive(Clone, Debug)]
enum Direct {
    All,
    Those(Vec<Rule>),
}

#[derive(Clone, Debug)]
struct Rule {
    hosts: Hosts,
    port: Option<String>,
}

#[derive(Clone, Debug)]
enum Hosts {
    Network(IpNet),
    Address(IpAddr),
    /// A domain with a leading dot, and whether the domain itself matches, or only its subdomains.
    Domain(String, bool),
}

impl ProxyEnvironment {
    /// The current environment of this process.
    pub fn of_process() -> Self {
        Self::from_vars(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// Reads these variables. An empty one counts as unset.
    pub fn from_vars(value: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&'static str; 2]| {
            let set = names.into_iter().filter_map(|name| Some((name, value(name).filter(|value| !value.is_empty())?)));
            set.map(|(name, value)| Variable { name, value: value.into() }).next()
        };
        Self {
            http: first(["HTTP_PROXY", "http_proxy"]),
            https: first(["HTTPS_PROXY", "https_proxy"]),
            direct: first(["NO_PROXY", "no_proxy"])
                .map_or_else(Direct::default, |variable| Direct::parse(variable.value.expose_secret())),
        }
    }

    /// The proxy for a server; none to connect directly.
    ///
    /// # Errors
    ///
    /// [`KubeError::Config`] with the variable's name if the proxy for this server is invalid. Go's programs would connect
    /// directly, against the intent of the variable.
    pub fn proxy_for(&self, server: &Uri) -> Result<Option<Proxy>, KubeError> {
        let variable = match server.scheme_str() {
            Some("https") => &self.https,
            Some("http") => &self.http,
            _ => &None,
        };
        let (Some(variable), Some((host, port))) = (variable, host_and_port(server)) else { return Ok(None) };
        if self.direct.includes(host, port) {
            return Ok(None);
        }
        let value = variable.value.expose_secret();
        let proxy = if value.contains("://") { Proxy::parse(value) } else { Proxy::parse(&format!("http://{value}")) };
        proxy.map(Some).ok_or_else(|| KubeError::Config {
            origin: format!("environment variable {}", variable.name),
            problem: format!("it {EXPECTED}; correct it, or name the server in NO_PROXY"),
        })
    }
}

impl Default for Direct {
    fn default() -> Self {
        Self::Those(Vec::new())
    }
}

impl Direct {
    fn parse(no_proxy: &str) -> Self {
        let no_proxy = no_proxy.to_lowercase();
        let entries = no_proxy.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        if entries.clone().any(|entry| entry == "*") {
            Self::All
        } else {
            Self::Those(entries.filter_map(Rule::parse).collect())
        }
    }

    fn includes(&self, host: &str, port: u16) -> bool {
        let host = host.trim_matches(['[', ']']).to_lowercase();
        let address = host.parse().ok().map(|address: IpAddr| address.to_canonical());
        if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
            return true;
        }
        match self {
            Self::All => true,
            Self::Those(rules) => rules.iter().any(|rule| rule.includes(&host, address, port)),
        }
    }
}

impl Rule {
    /// Parses a lower-case entry; none if invalid.
    fn parse(entry: &str) -> Option<Self> {
        if let Ok(network) = entry.parse() {
            return Some(Self { hosts: Hosts::Network(network), port: None });
        }
        let (host, port) = match entry.rsplit_once(':') {
            Some((host, port)) if host.starts_with('[') && host.ends_with(']') => (host.trim_matches(['[', ']']), port),
            Some((host, port)) if !host.contains(':') => (host, port),
            _ => (entry, ""),
        };
        let hosts = match host.parse() {
            Ok(IpAddr::V6(address)) => Hosts::Address(address.to_canonical()),
            Ok(address) => Hosts::Address(address),
            Err(_) => match host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host) {
                "" => return None,
                below if below.starts_with('.') => Hosts::Domain(below.to_owned(), false),
                domain => Hosts::Domain(format!(".{domain}"), true),
            },
        };
        Some(Self { hosts, port: Some(port.to_owned()).filter(|port| !port.is_empty()) })
    }

    fn includes(&self, host: &str, address: Option<IpAddr>, port: u16) -> bool {
        let is_host = match (&self.hosts, address) {
            (Hosts::Network(network), Some(address)) => network.contains(&address),
            (Hosts::Address(this), Some(address)) => *this == address,
            (Hosts::Domain(below, itself), None) => host.ends_with(below) || (*itself && host == &below[1..]),
            _ => false,
        };
        is_host && self.port.as_ref().is_none_or(|this| *this == port.to_string())
    }
}

#[cfg(test)]
mod tests;
