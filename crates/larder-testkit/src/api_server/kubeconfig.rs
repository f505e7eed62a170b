//! Kubeconfig files for the simulated API server, and files that only their owner may read.

use k8s_openapi::ByteString;
use serde_json::json;
use std::io::{self, Write};
use std::path::Path;

/// How the client of a kubeconfig proves who it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Credential<'a> {
    Token(&'a str),
    TokenFile(&'a Path),
}

/// The text of a kubeconfig: JSON, which is YAML.
pub(crate) fn text(url: &str, ca_pem: Option<&str>, credential: Credential<'_>) -> String {
    let mut cluster = json!({"server": url});
    if let Some(pem) = ca_pem {
        cluster["certificate-authority-data"] = json!(ByteString(pem.as_bytes().to_vec()));
    }
    let user = match credential {
        Credential::Token(token) => json!({"token": token}),
        Credential::TokenFile(path) => json!({"tokenFile": path}),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "simulated", "cluster": cluster}],
        "users": [{"name": "larder", "user": user}],
        "contexts": [{"name": "simulated", "context": {"cluster": "simulated", "user": "larder"}}],
        "current-context": "simulated",
    });
    format!("{config:#}\n")
}

/// Writes a file that only its owner may read (mode 0600), replacing one of that name at once and as a whole.
///
/// # Errors
///
/// The folder does not exist or cannot be written to.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// let token = folder.path().join("token");
/// larder_testkit::api_server::write_private(&token, "first")?;
/// larder_testkit::api_server::write_private(&token, "rotated")?;
/// assert_eq!(std::fs::read_to_string(&token)?, "rotated");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_private(path: &Path, contents: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A temporary file is made with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(contents.as_bytes())?;
    file.persist(path)?;
    Ok(())
}
