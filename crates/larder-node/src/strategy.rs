//! How the objects of a kind are kept up to date.

use std::fmt;
use std::str::FromStr;

/// How the objects of a kind are kept up to date: the kubelet's `configMapAndSecretChangeDetectionStrategy`, and one more.
///
/// ```
/// use larder_node::Strategy;
///
/// assert_eq!("ttl".parse(), Ok(Strategy::Ttl));
/// assert_eq!(Strategy::default(), Strategy::Watch, "as the kubelet's");
/// let error = "often".parse::<Strategy>().unwrap_err();
/// assert_eq!(error.to_string(), "\"often\" is no strategy: write direct, ttl, watch or auto");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Every read asks the API server (the kubelet's `Get`).
    Direct,
    /// An object is fetched when it is read, and again once its TTL has passed (the kubelet's `Cache`).
    Ttl,
    /// Each object is watched, from its first reference to its last (the kubelet's `Watch`, its default).
    #[default]
    Watch,
    /// What is read often is watched, what is read rarely is fetched once its TTL has passed, what cannot change is held,
    /// and one watch of a namespace stands for those of its objects.
    Auto,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Direct, Self::Ttl, Self::Watch, Self::Auto];

    /// Its name, as it is written in settings.
    ///
    /// ```
    /// assert_eq!(larder_node::Strategy::Auto.as_str(), "auto");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Ttl => "ttl",
            Self::Watch => "watch",
            Self::Auto => "auto",
        }
    }
}

impl Strategy {
    /// Whether its store keeps watches, and with them what it was told.
    pub(crate) const fn watches(self) -> bool {
        matches!(self, Self::Watch | Self::Auto)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that is no [`Strategy`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{word}\" is no strategy: write direct, ttl, watch or auto")]
pub struct UnknownStrategy {
    /// The word.
    pub word: String,
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(word: &str) -> Result<Self, UnknownStrategy> {
        Self::ALL
            .into_iter()
            .find(|strategy| strategy.as_str() == word)
            .ok_or_else(|| UnknownStrategy { word: word.to_owned() })
    }
}

/// The strategy of each kind.
///
/// ```
/// use larder_node::{ChangeDetection, ObjectKind, Strategy};
///
/// let detection = ChangeDetection { secrets: Strategy::Direct, ..ChangeDetection::default() };
/// assert_eq!(detection.of(ObjectKind::Secret), Strategy::Direct);
/// assert_eq!(detection.of(ObjectKind::ConfigMap), Strategy::Watch);
/// assert_ne!(detection, ChangeDetection::both(Strategy::Direct));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeDetection {
    /// That of Secrets.
    pub secrets: Strategy,
    /// That of `ConfigMap`s.
    pub config_maps: Strategy,
}

impl ChangeDetection {
    /// The same for both kinds.
    pub const fn both(strategy: Strategy) -> Self {
        Self { secrets: strategy, config_maps: strategy }
    }

    /// That of a kind.
    pub const fn of(self, kind: larder_kube::ObjectKind) -> Strategy {
        match kind {
            larder_kube::ObjectKind::Secret => self.secrets,
            larder_kube::ObjectKind::ConfigMap => self.config_maps,
        }
    }
}
