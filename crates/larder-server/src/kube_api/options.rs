//! The parameters of a list or watch: `ListOptions` of the Kubernetes API, with the API server's rules for which go together
//! (`ValidateListOptions` of apimachinery).

use crate::error::ApiError;
use crate::params::Params;
use larder_resource::journal::Snapshot;
use larder_resource::selector::{FieldSelector, LabelSelector, Selectable};
use larder_resource::{Kind, KubeObject};
use std::sync::Arc;
use std::time::Duration;

/// The longest time for which a watch may ask.
const LONGEST_WATCH: u64 = 24 * 60 * 60;

/// Which objects are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Wanted {
    /// Whether an object of that namespace and name may be wanted.
    pub(crate) fn may_have(&self, namespace: &str, name: &str) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace) && self.fields.may_match(namespace, name)
    }

    pub(crate) fn has(&self, namespace: &str, object: &Selectable) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
            && object.is_selected(&self.labels, &self.fields)
    }

    pub(crate) fn has_object(&self, object: &KubeObject) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == object.namespace())
            && self.fields.matches(object)
            && self.labels.matches(|key| object.label(key))
    }

    /// The wanted objects of a snapshot.
    pub(crate) fn of(&self, snapshot: Snapshot) -> Vec<Arc<larder_resource::journal::Resource>> {
        let wanted = snapshot.objects.into_iter().filter(|(object, selectable)| {
            let object: &KubeObject = (**object).as_ref();
            self.has(object.namespace(), selectable)
        });
        wanted.map(|(object, _)| object).collect()
    }
}

/// Of which version the answer is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    /// What larder has. The API server would read etcd where the client gives no version; larder says how old its answer is.
    Any,
    /// This version or a later one.
    NotOlderThan(u64),
    /// This one.
    Exact(u64),
}

/// The version that a client gives. Any is good for 0, as for none.
fn given_version(params: &Params) -> Result<Option<u64>, ApiError> {
    match params.text("resourceVersion") {
        None | Some("0") => Ok(None),
        Some(text) => {
            let version = text.parse::<u64>().ok().filter(|version| *version != 0);
            let problem = || "is not a version of this API".to_owned();
            version.map(Some).ok_or_else(|| ApiError::bad_parameter("resourceVersion", text, problem()))
        }
    }
}

impl Version {
    /// Of which version one object is to be.
    ///
    /// # Errors
    ///
    /// What is given is no version.
    pub(crate) fn of_one(params: &Params) -> Result<Self, ApiError> {
        Ok(given_version(params)?.map_or(Self::Any, Self::NotOlderThan))
    }
}

/// The parameters of a list or watch.
#[derive(Debug)]
pub(crate) struct ListOptions {
    pub(crate) wanted: Wanted,
    pub(crate) version: Version,
    pub(crate) is_watch: bool,
    /// Whether a watch begins with the objects that there are; `None` where the client does not say.
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) bookmarks: bool,
    pub(crate) timeout: Option<Duration>,
}

impl ListOptions {
    /// # Errors
    ///
    /// A parameter is not one of the Kubernetes API, or does not go with another one.
    pub(crate) fn parse(params: &Params, kind: Kind, namespace: Option<&str>) -> Result<Self, ApiError> {
        let is_watch = params.flag("watch");
        let given = given_version(params)?;
        let initial = params.text("sendInitialEvents").map(|_| params.flag("sendInitialEvents"));
        let invalid = |name: &'static str, problem: &str| Err(ApiError::InvalidParameter(name, problem.to_owned()));
        let version = match (params.text("resourceVersionMatch"), given) {
            (Some(_), _) if is_watch && initial.is_none() => {
                return invalid(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                );
            }
            (None | Some("Exact"), _) if is_watch && initial.is_some() => {
                return invalid(
                    "resourceVersionMatch",
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                );
            }
            (Some(_), None) if !is_watch && params.text("resourceVersion").is_none() => {
                return invalid(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                );
            }
            (Some("Exact"), None) => {
                return invalid(
                    "resourceVersionMatch",
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                );
            }
            (Some("Exact"), Some(version)) => Version::Exact(version),
            (None | Some("NotOlderThan"), Some(version)) => Version::NotOlderThan(version),
            (None | Some("NotOlderThan"), None) => Version::Any,
            (Some(other), _) => {
                let problem = "supported values are Exact and NotOlderThan".to_owned();
                return Err(ApiError::bad_parameter("resourceVersionMatch", other, problem));
            }
        };
        if initial.is_some() && !is_watch {
            return invalid("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        if let Some(token) = params.text("continue") {
            // Each list is one page, so no client got this token from here.
            let problem = format!("the token {token:.20} is not of larder, whose lists are one page each: list again");
            return Err(ApiError::Expired(problem));
        }
        let timeout = params
            .count("timeoutSeconds")?
            .map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX).min(LONGEST_WATCH)));
        Ok(Self {
            wanted: Wanted {
                namespace: namespace.map(str::to_owned),
                labels: params.label_selector()?,
                fields: params.field_selector(kind)?,
            },
            version,
            is_watch,
            send_initial_events: initial,
            bookmarks: params.flag("allowWatchBookmarks"),
            timeout: timeout.filter(|timeout| !timeout.is_zero()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    fn parse(query: &str) -> Result<ListOptions, ApiError> {
        let pairs =
            query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let params = Params::new(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
        ListOptions::parse(&params, Kind::Pod, None)
    }

    /// Which version a request is answered from, or the code with which it is refused.
    fn check(query: &str, expected: Result<Version, u16>) {
        let version = parse(query).map(|options| options.version).map_err(|error| error.code().as_u16());
        assert_eq!(version, expected, "{query}");
    }

    #[test]
    fn versions_and_their_match_are_taken_as_the_api_server_takes_them() {
        check("", Ok(Version::Any));
        check("resourceVersion=", Ok(Version::Any));
        check("resourceVersion=0", Ok(Version::Any));
        check("resourceVersion=7", Ok(Version::NotOlderThan(7)));
        check("resourceVersion=7&resourceVersionMatch=NotOlderThan", Ok(Version::NotOlderThan(7)));
        check("resourceVersion=7&resourceVersionMatch=Exact", Ok(Version::Exact(7)));
        check("resourceVersion=0&resourceVersionMatch=NotOlderThan", Ok(Version::Any));
        check("resourceVersion=0&resourceVersionMatch=Exact", Err(422));
        check("resourceVersionMatch=NotOlderThan", Err(422));
        check("resourceVersion=7&resourceVersionMatch=Newest", Err(400));
        check("resourceVersion=x", Err(400));
        check("resourceVersion=-1", Err(400));
        check("sendInitialEvents=true", Err(422));
        check("continue=abc", Err(410));
        check("watch=1&resourceVersion=7", Ok(Version::NotOlderThan(7)));
        check("watch=1&resourceVersionMatch=NotOlderThan", Err(422));
        check("watch=1&sendInitialEvents=true", Err(422));
        check("watch=1&sendInitialEvents=true&resourceVersion=7&resourceVersionMatch=Exact", Err(422));
        check("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", Ok(Version::Any));
        check(
            "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=7",
            Ok(Version::NotOlderThan(7)),
        );
        check("limit=500", Ok(Version::Any));
    }

    #[test]
    fn the_version_of_one_object_is_the_oldest_that_it_may_have() {
        for (text, expected) in [
            ("", Ok(Version::Any)),
            ("0", Ok(Version::Any)),
            ("7", Ok(Version::NotOlderThan(7))),
            ("-1", Err(400)),
            ("00", Err(400)),
            ("x", Err(400)),
        ] {
            let params = Params::new([("resourceVersion".to_owned(), text.to_owned())].into());
            assert_eq!(Version::of_one(&params).map_err(|error| error.code().as_u16()), expected, "{text}");
        }
    }

    #[test]
    fn the_time_of_a_watch_is_bounded() {
        let timeout = |query: &str| parse(query).unwrap().timeout.map(|timeout| timeout.as_secs());
        assert_eq!(timeout("timeoutSeconds=7"), Some(7));
        assert_eq!(timeout("timeoutSeconds=0"), None);
        assert_eq!(timeout("timeoutSeconds=99999999999"), Some(LONGEST_WATCH));
        assert_eq!(parse("timeoutSeconds=soon").unwrap_err().code(), StatusCode::BAD_REQUEST);
    }
}
