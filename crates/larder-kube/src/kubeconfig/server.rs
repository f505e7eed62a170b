//! Parses the server's address, whose scheme may be missing.

use http::Uri;

/// Returns the address with its scheme, and whether the scheme was given. The default is plain HTTP, as for client-go.
///
/// # Errors
///
/// The problem of the address.
pub(super) fn address(server: &str) -> Result<(Uri, bool), &'static str> {
    const WRONG: &str = "it is not an address such as https://HOST:PORT";
    let mut explicit = false;
    let with_scheme = match server.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) && !authority(rest).is_empty() => {
            explicit = true;
            format!("{}://{rest}", scheme.to_ascii_lowercase())
        }
        _ => {
            let rest = server.strip_prefix("//").unwrap_or(server);
            if !matches!(rest.strip_prefix(authority(rest)), Some("" | "/")) {
                return Err(WRONG);
            }
            format!("http://{rest}")
        }
    };
    let uri: Uri = with_scheme.split('#').next().unwrap_or_default().parse().map_err(|_| WRONG)?;
    match uri.scheme_str() {
        Some("http" | "https") => {}
        _ => return Err("its scheme is neither https nor http"),
    }
    let port = uri.authority().and_then(|authority| authority.as_str().rsplit_once(':'));
    let port = port.map(|(_, port)| port).filter(|port| !port.contains(']'));
    match (uri.host(), port) {
        (Some("") | None, _) => Err(WRONG),
        (Some(_), Some(port)) if !port.is_empty() && port.parse::<u16>().is_err() => {
            Err("its port is not a number up to 65535")
        }
        _ => Ok((uri, explicit)),
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// Host and port.
fn authority(rest: &str) -> &str {
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}
