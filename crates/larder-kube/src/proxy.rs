//! Chooses the proxy to an API server, and its credentials.
//!
//! # Guarantees
//!
//! - *As the kubelet*: the `proxy-url` of a kubeconfig's cluster comes first (client-go, `tools/clientcmd`), then the
//!   environment by the rules of Go's `golang.org/x/net/http/httpproxy`; see [`ProxyEnvironment`].
//! - *Quiet*: no `Debug`, log line or error shows the user or password of a proxy.
//!
//! # Limits
//!
//! Basic and SOCKS5 authentication only; SOCKS5 takes a user, password and server name of some 245 bytes together. CONNECT reaches
//! a server without TLS too.

mod environment;

pub use environment::ProxyEnvironment;

use http::uri::{Authority, Scheme};
use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;
use std::fmt;
use zeroize::Zeroizing;

/// The expected form of a proxy.
pub(crate) const EXPECTED: &str = "is not the URL of a proxy, as in http://HOST:PORT, https://HOST:PORT or \
                                   socks5://HOST:PORT, with USER:PASSWORD@ before HOST where it wants them";

/// A proxy to an API server. Messages show its address without user and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Scheme, host and port.
    address: Uri,
    credentials: Credentials,
}

/// The credentials for a proxy.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    None,
    /// As `Proxy-Authorization`.
    Basic(HeaderValue),
    /// For SOCKS.
    User(Zeroizing<String>, Zeroizing<String>),
}

impl Proxy {
    /// Parses a URL with a scheme; none if invalid.
    pub(crate) fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let port = match scheme.as_str() {
            "http" => 80,
            "https" => 443,
            "socks5" | "socks5h" => 1080,
            _ => return None,
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, place) = match authority.rsplit_once('@') {
            // The library ends the password at the first @, Go at the last.
            Some((user, place)) => (format!("{}@", user.replace('@', "%40")), place),
            None => (String::new(), authority),
        };
        let place = with_port(place, port)?;
        let all = Zeroizing::new(format!("{scheme}://{user}{place}"));
        let found = Matcher::builder().all(all.as_str()).build().intercept(&Uri::from_static("http://all"))?;
        let credentials = match (found.basic_auth(), found.raw_auth()) {
            (Some(basic), _) => Credentials::Basic(basic.clone()),
            (_, Some((user, password))) => Credentials::User(user.to_owned().into(), password.to_owned().into()),
            _ => Credentials::None,
        };
        Some(Self { address: found.uri().clone(), credentials })
    }

    pub(crate) fn address(&self) -> &Uri {
        &self.address
    }

    pub(crate) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Whether the proxy speaks SOCKS5. As for Go, `socks5` and `socks5h` are one: the proxy resolves the server's name.
    pub(crate) fn is_socks(&self) -> bool {
        !matches!(self.address.scheme(), Some(scheme) if *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS)
    }
}

/// Parses a host and port, with this default port; none if invalid.
fn with_port(place: &str, port: u16) -> Option<Authority> {
    let given: Authority = place.parse().ok()?;
    let host = given.host();
    let port = match given.as_str().get(host.len()..)? {
        "" | ":" => port,
        other => other.strip_prefix(':')?.parse().ok()?,
    };
    if host.is_empty() { None } else { format!("{host}:{port}").parse().ok() }
}

/// A server's host and port, by default the port of its scheme.
pub(crate) fn host_and_port(server: &Uri) -> Option<(&str, u16)> {
    let default = if server.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    server.host().map(|host| (host, server.port_u16().unwrap_or(default)))
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.address.authority().map_or("", Authority::as_str);
        write!(f, "{}://{host}", self.address.scheme_str().unwrap_or_default())
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::{Credentials, Proxy};

    /// The address of a proxy and what it is shown, in words; neither for what is no proxy.
    fn check(url: &str, expected: Option<(&str, &str)>) {
        let proxy = Proxy::parse(url);
        let found = proxy.map(|proxy| {
            let shown = match proxy.credentials() {
                Credentials::None => String::new(),
                Credentials::Basic(basic) => basic.to_str().unwrap().to_owned(),
                Credentials::User(user, password) => format!("{} and {}", **user, **password),
            };
            let in_messages = format!("{proxy} {proxy:?}");
            assert!(!in_messages.contains('@') && !in_messages.contains("pass"), "{in_messages}");
            (proxy.to_string(), shown)
        });
        let expected = expected.map(|(address, shown)| (address.to_owned(), shown.to_owned()));
        assert_eq!(found, expected, "{url}");
    }

    #[test]
    fn a_proxy_is_an_address_and_what_it_is_shown() {
        check("http://proxy", Some(("http://proxy:80", "")));
        check("https://proxy/", Some(("https://proxy:443", "")));
        check("socks5://proxy", Some(("socks5://proxy:1080", "")));
        check("HTTP://proxy:/path?query#end", Some(("http://proxy:80", "")));
        check("http://[fd00::1]:3128", Some(("http://[fd00::1]:3128", "")));
        check("http://[fd00::1]", Some(("http://[fd00::1]:80", "")));
        // base64 of "user:pass".
        check("http://user:pass@proxy:3128", Some(("http://proxy:3128", "Basic dXNlcjpwYXNz")));
        check("https://user@proxy", Some(("https://proxy:443", "Basic dXNlcjo=")));
        // "user:p@ss:/", with @ as it is or in its encoding.
        check("http://user:p@ss:%2F@proxy:3128", Some(("http://proxy:3128", "Basic dXNlcjpwQHNzOi8=")));
        check("http://user:p%40ss:%2f@proxy:3128", Some(("http://proxy:3128", "Basic dXNlcjpwQHNzOi8=")));
        check("socks5h://us%20er:p%3Ass@10.0.0.1", Some(("socks5h://10.0.0.1:1080", "us er and p:ss")));
    }

    #[test]
    fn what_is_not_a_proxy_is_refused() {
        for url in [
            "",
            "proxy:3128",
            "ftp://proxy",
            "socks4://proxy",
            "http://",
            "http://:3128",
            "http://user:pass@",
            "http://proxy:many",
            "http://proxy:70000",
            "http://pro xy",
            "http://[fd00::1",
            "http://user:pa ss@proxy",
        ] {
            check(url, None);
        }
    }
}
