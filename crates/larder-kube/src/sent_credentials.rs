//! The credentials that the latest sessions sent, to cut them out of a server's messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use std::collections::VecDeque;
use zeroize::Zeroizing;

/// How many credentials are kept. A watch outlasts a renewal of the token, so the server may repeat an earlier token.
const KEPT: usize = 3;

/// Credentials of the latest sessions, the newest last.
#[derive(Default)]
pub(crate) struct SentCredentials(VecDeque<HeaderValue>);

impl SentCredentials {
    /// Keeps the credentials of these headers.
    pub(crate) fn note(&mut self, headers: &HeaderMap) {
        let Some(value) = headers.get(AUTHORIZATION) else { return };
        self.0.retain(|known| known != value);
        self.0.push_back(value.clone());
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }

    /// The text without the credentials. A password is sent in Base64, and a server may repeat it in clear, too.
    pub(crate) fn redacted(&self, mut text: String) -> String {
        let mut secrets = Vec::new();
        for (_, sent) in self.0.iter().filter_map(|value| value.to_str().ok()?.split_once(' ')) {
            let pair = STANDARD.decode(sent).ok().map(Zeroizing::new);
            let pair = pair.as_ref().and_then(|bytes| std::str::from_utf8(bytes).ok());
            let password = pair.and_then(|pair| pair.split_once(':')).map(|(_, password)| password.to_owned());
            secrets.extend([Some(sent.to_owned()), password].into_iter().flatten().map(Zeroizing::new));
        }
        // The longest first: a secret may be a part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), "[credentials]");
            }
        }
        text
    }
}
