#![doc(test(attr(deny(warnings))))]
//! The certificates of larder's TLS listeners: its own authority, serving certificates, and who a client is.
//!
//! # Guarantees
//!
//! - *Root only*: larder's own keys are in files that only their owner may read, in a folder that nobody else can enter or replace.
//! - *Never overwritten silently*: a file that larder did not write, or that is damaged, ends the start with an error that says what to
//!   do.
//! - *Kept up to date*: [`ListenerTls::refresh`] renews larder's own serving certificate when a third of its life is left, and reads
//!   the files of others again. Open connections go on. What cannot be used is a problem in the [state](ListenerTls::state), and the
//!   certificates before stay in use.
//! - *In memory, where nothing has to last*: an [`Ephemeral`] certificate reaches no file.
//! - *Admins only*: [`ListenerTls::identify`] says who a client is, by a certificate of larder's own authority or of `--client-ca`.
//!
//! # Limits
//!
//! It opens no socket, reads no clock and spawns no task. There is no list of revoked certificates: a new authority revokes all.
//!
//! # Example
//!
//! ```
//! use larder_tls::{ListenerTls, TlsOptions};
//!
//! let folder = tempfile::tempdir()?;
//! let mut options = TlsOptions::default();
//! options.directory = folder.path().join("tls");
//! let names = ["localhost".to_owned()].into();
//! let now: jiff::Timestamp = "2026-12-01T00:00:00Z".parse()?;
//! let tls = ListenerTls::open(options, "node-1", &names, now)?;
//! assert_eq!(tls.state(now).not_after.to_string(), "2027-03-01T00:00:00Z");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod authority;
mod certificate;
mod clients;
mod ephemeral;
mod error;
mod listener;
mod pem;
mod serving;

pub use authority::{Authority, Issued};
pub use certificate::Subject;
pub use clients::Client;
pub use ephemeral::Ephemeral;
pub use error::TlsError;
pub use listener::{ListenerTls, Refreshed, TlsOptions, TlsState};

use jiff::Timestamp;
use rustls::pki_types::UnixTime;
use std::time::Duration;

/// The time as rustls takes it. Times before 1970 are 1970.
fn unix_time(at: Timestamp) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(at.as_second()).unwrap_or_default()))
}
