//! Where a container runtime listens.

use crate::error::CriError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The longest path that the kernel takes for a Unix socket: 108 bytes with the zero at the end.
const LONGEST_PATH: usize = 107;

/// The Unix socket of a container runtime, written `unix:///run/containerd/containerd.sock` or as a plain path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    path: PathBuf,
}

impl Endpoint {
    /// The path of the socket.
    ///
    /// ```
    /// let endpoint = larder_cri::parse_endpoint("unix:///run/crio/crio.sock").unwrap();
    /// assert_eq!(endpoint.path(), std::path::Path::new("/run/crio/crio.sock"));
    /// ```
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.path.display())
    }
}

impl FromStr for Endpoint {
    type Err = CriError;

    fn from_str(text: &str) -> Result<Self, CriError> {
        parse_endpoint(text)
    }
}

/// Reads an endpoint as the kubelet and crictl take it: `unix://` and the path of a socket, or the path alone.
///
/// # Errors
///
/// [`CriError::InvalidEndpoint`] if it names another protocol, or a path that no socket can have.
///
/// ```
/// use larder_cri::parse_endpoint;
/// assert_eq!(parse_endpoint("/run/crio/crio.sock").unwrap(), parse_endpoint("unix:///run/crio/crio.sock").unwrap());
/// assert!(parse_endpoint("tcp://127.0.0.1:1234").is_err());
/// ```
pub fn parse_endpoint(text: &str) -> Result<Endpoint, CriError> {
    let fail = |reason: &str| Err(CriError::InvalidEndpoint { endpoint: text.to_owned(), reason: reason.into() });
    let path = match text.split_once("://") {
        Some(("unix", path)) => path,
        Some((scheme, _)) => {
            return fail(&format!("runtimes are reached by a Unix socket only, not by {scheme:?}; give unix:///PATH"));
        }
        // The short form of gRPC's own addresses.
        None => text.strip_prefix("unix:").unwrap_or(text),
    };
    if !path.starts_with('/') {
        return fail("the path of the socket must be absolute, as in unix:///run/containerd/containerd.sock");
    }
    if path.len() > LONGEST_PATH {
        return fail(&format!("the path of the socket is longer than the {LONGEST_PATH} bytes that the kernel takes"));
    }
    if path.contains('\0') {
        return fail("the path of the socket must not contain a zero byte");
    }
    Ok(Endpoint { path: path.into() })
}

/// The sockets where the kubelet and crictl look for a runtime, in the order in which crictl tries them: containerd, CRI-O,
/// cri-dockerd. That a socket is there does not mean that CRI is spoken there; see [`find_runtimes`](crate::find_runtimes).
///
/// ```
/// assert_eq!(larder_cri::well_known_sockets()[0].to_string(), "unix:///run/containerd/containerd.sock");
/// ```
pub fn well_known_sockets() -> [Endpoint; 3] {
    ["/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/cri-dockerd.sock"]
        .map(|path| Endpoint { path: path.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_are_taken() {
        for text in ["unix:///run/r.sock", "unix:/run/r.sock", "/run/r.sock"] {
            assert_eq!(parse_endpoint(text).unwrap().to_string(), "unix:///run/r.sock", "{text}");
        }
        let longest = format!("/{}", "x".repeat(LONGEST_PATH - 1));
        assert_eq!(parse_endpoint(&longest).unwrap().path().as_os_str().len(), LONGEST_PATH);
    }

    #[test]
    fn endpoints_that_are_refused_say_why() {
        let too_long = format!("/{}", "x".repeat(LONGEST_PATH));
        for (text, why) in [
            ("", "absolute"),
            ("run/r.sock", "absolute"),
            ("unix://run/r.sock", "absolute"),
            ("tcp://127.0.0.1:1", "not by \"tcp\""),
            ("npipe:////./pipe/containerd", "not by \"npipe\""),
            ("UNIX:///run/r.sock", "not by \"UNIX\""),
            ("/run/\0", "zero byte"),
            (&too_long, "longer than the 107 bytes"),
        ] {
            let error = parse_endpoint(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }
}
