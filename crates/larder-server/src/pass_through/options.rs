//! The settings of pass-through.

/// The most of anything that is counted: a machine has fewer ports towards a server.
const MOST: usize = 1 << 16;

/// Whether requests that larder does not answer go to the API server, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassThroughOptions {
    /// Whether such requests of clients of `listen` with a token go to the API server. Default: no.
    pub enabled: bool,
    /// Requests that are passed on at once, watches among them. Default: 512: each keeps 64 KiB of an answer at most, and six HTTP/2
    /// connections to the API server carry all. Callers whose token larder does not verify have half of them at most.
    pub requests: usize,
    /// The same, of one pod, or of one address without a verified pod. Default: 64: a controller with as many kinds as it can have, and some
    /// reads.
    pub caller_requests: usize,
    /// Connections that are passed on for another protocol (exec, attach, port-forward). Default: 64. Each is a connection to the API server.
    pub upgrades: usize,
    /// The same, of one pod, or of one address without a verified pod. Default: 16.
    pub caller_upgrades: usize,
}

impl Default for PassThroughOptions {
    fn default() -> Self {
        Self { enabled: false, requests: 512, caller_requests: 64, upgrades: 64, caller_upgrades: 16 }
    }
}

/// An option of pass-through that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting passThrough.{field}: {problem}")]
#[non_exhaustive]
pub struct PassThroughOptionError {
    /// The field of [`PassThroughOptions`].
    pub field: &'static str,
    /// What is wrong with it, and which values are valid.
    pub problem: String,
}

impl PassThroughOptions {
    /// Checks the options, of a server with a TLS listener or without one.
    ///
    /// ```
    /// use larder_server::PassThroughOptions;
    /// let mut options = PassThroughOptions::default();
    /// options.enabled = true;
    /// let error = options.validate(false).unwrap_err();
    /// assert_eq!(error.to_string(), "setting passThrough.enabled: needs an address to listen on over TLS: set --listen");
    /// ```
    ///
    /// # Errors
    ///
    /// The first option that cannot be used.
    pub fn validate(&self, listens: bool) -> Result<(), PassThroughOptionError> {
        let invalid = |field, problem: String| Err(PassThroughOptionError { field, problem });
        for (field, count) in [
            ("requests", self.requests),
            ("caller_requests", self.caller_requests),
            ("upgrades", self.upgrades),
            ("caller_upgrades", self.caller_upgrades),
        ] {
            if !(1..=MOST).contains(&count) {
                return invalid(field, format!("must be from 1 to {MOST}"));
            }
        }
        if self.enabled && !listens {
            return invalid("enabled", "needs an address to listen on over TLS: set --listen".to_owned());
        }
        Ok(())
    }

    pub(crate) fn without_server() -> PassThroughOptionError {
        let problem = "needs an API server, and larder reads manifests here".to_owned();
        PassThroughOptionError { field: "enabled", problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_that_cannot_be_used_is_named() {
        PassThroughOptions::default().validate(false).unwrap();
        let check = |field, change: &dyn Fn(&mut PassThroughOptions)| {
            let mut options = PassThroughOptions::default();
            change(&mut options);
            assert_eq!(options.validate(true).unwrap_err().field, field);
        };
        check("requests", &|options| options.requests = 0);
        check("caller_requests", &|options| options.caller_requests = MOST + 1);
        check("upgrades", &|options| options.upgrades = 0);
        check("caller_upgrades", &|options| options.caller_upgrades = usize::MAX);
    }
}
