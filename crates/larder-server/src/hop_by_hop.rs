//! The headers that are for one connection, which a proxy does not pass on (RFC 9110, 7.6.1).

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};

/// The headers of one connection, of either direction. The next connection has its own.
const OF_CONNECTION: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Removes the headers that are for one connection, and those that the connection names.
pub(crate) fn remove_of_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_CONNECTION) {
        headers.remove(name);
    }
}

/// The protocol to which a request over HTTP/1.1, or the answer to it, changes its connection.
pub(crate) fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let named = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let is_upgrade = named.flat_map(|value| value.split(',')).any(|name| name.trim().eq_ignore_ascii_case("upgrade"));
    headers.get(header::UPGRADE).filter(|_| is_upgrade).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_is_one_if_the_connection_says_so() {
        for (connection, upgrade, expected) in [
            ("Upgrade", "SPDY/3.1", Some("SPDY/3.1")),
            ("keep-alive, upgrade", "websocket", Some("websocket")),
            ("keep-alive", "websocket", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONNECTION, HeaderValue::from_static(connection));
            headers.insert(header::UPGRADE, HeaderValue::from_static(upgrade));
            assert_eq!(upgrade_of(&headers).map(|value| value.to_str().unwrap().to_owned()).as_deref(), expected);
            remove_of_connection(&mut headers);
            assert!(headers.is_empty(), "{headers:?}");
        }
        let without = HeaderMap::from_iter([(header::CONNECTION, HeaderValue::from_static("upgrade"))]);
        assert_eq!(upgrade_of(&without), None);
    }
}
