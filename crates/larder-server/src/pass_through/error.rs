//! Why a request was not passed on, or not answered: each is a `Status`.

use http::{Method, StatusCode, Uri};
use larder_node::PassError;
use std::fmt;
use std::time::Duration;

/// A request that was to go to the API server, in messages: without its query, which may have values.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    method: Method,
    path: String,
}

impl Asked {
    pub(super) fn of(method: &Method, uri: &Uri) -> Self {
        Self { method: method.clone(), path: uri.path().chars().take(200).collect() }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} was to go to the API server", self.method, self.path)
    }
}

/// Why there is no answer of the API server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassThroughError {
    /// There is no connection, or it broke.
    #[error("{asked}: {problem}")]
    Away { asked: Asked, problem: String },
    /// It does not answer in time.
    #[error("{asked}: no answer within {after:?}")]
    Late { asked: Asked, after: Duration },
    /// The caller has as many requests under way as it may have, or all callers have.
    #[error(
        "{asked}, and too many requests on that way are under way: wait for some to end, or ask the API server itself"
    )]
    TooMany { asked: Asked },
    /// The body is longer than larder passes on.
    #[error("{asked}: its body has more than {most} bytes: send it to the API server itself")]
    TooLarge { asked: Asked, most: u64 },
    /// The client stopped sending its body.
    #[error("{asked}: nothing more of its body came within {after:?}")]
    LateBody { asked: Asked, after: Duration },
    /// The client breaks off its body.
    #[error("{asked}: its body broke off")]
    CutBody { asked: Asked },
    /// It would replace an object of which larder has given the caller only a part.
    #[error(
        "the object has been given to you by larder in part, because the API server refused it or was away: to replace it would remove the \
         rest. Read it again and apply your changes to that"
    )]
    OfPart,
}

impl PassThroughError {
    /// `knows` says whether the caller may learn where the API server is.
    pub(super) fn of(error: PassError, asked: Asked, knows: bool) -> Self {
        match error {
            PassError::NoRoom => Self::TooMany { asked },
            error if knows => Self::Away { asked, problem: error.to_string() },
            PassError::Broken { .. } => Self::Away { asked, problem: "it broke off before it answered".to_owned() },
            _ => Self::Away { asked, problem: "it cannot be reached".to_owned() },
        }
    }

    pub(crate) const fn code(&self) -> StatusCode {
        match self {
            Self::Away { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Late { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::LateBody { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::CutBody { .. } => StatusCode::BAD_REQUEST,
            Self::OfPart => StatusCode::CONFLICT,
        }
    }

    pub(crate) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Away { .. } | Self::TooMany { .. } => Some(Duration::from_secs(1)),
            Self::Late { .. } | Self::TooLarge { .. } | Self::LateBody { .. } | Self::CutBody { .. } | Self::OfPart => {
                None
            }
        }
    }

    /// Whether the API server is away, so that larder may answer itself.
    pub(super) const fn is_away(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::Late { .. })
    }
}
