//! How the objects of a kind are kept up to date.

use std::fmt;
use std::str::FromStr;

/// How the objects of a kind are kept up to date: the kubelet's `configMapAndSecretChangeDetectionStrategy`, and one more.
///
/// ```
/// use larder_objects::Strategy;
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
    /// assert_eq!(larder_objects::Strategy::Auto.as_str(), "auto");
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
