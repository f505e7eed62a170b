//! How a simulated container behaves: for how long it runs, and how it ends.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// What a container does once it is started. A pod carries it as an annotation of its own, so that what is simulated can
/// be seen: `simulation.larder.dev/container.NAME: exit 3 after 8000ms..12000ms`.
///
/// ```
/// use larder_testkit::cluster::Behaviour;
/// use std::time::Duration;
///
/// let crasher = Behaviour::exits(3, Duration::from_secs(8)..=Duration::from_secs(12));
/// assert_eq!(crasher.to_string(), "exit 3 after 8000ms..12000ms");
/// assert_eq!(crasher.to_string().parse(), Ok(crasher));
/// assert_eq!("run".parse(), Ok(Behaviour::Runs));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Behaviour {
    /// It runs until it is stopped.
    #[default]
    Runs,
    /// It ends by itself.
    Exits {
        /// With this exit code.
        code: i32,
        /// After a time drawn from here.
        after: RangeInclusive<Duration>,
    },
}

/// The text is not that of a behaviour.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a behaviour: expected \"run\" or \"exit CODE after MINms..MAXms\"")]
pub struct BehaviourError {
    text: String,
}

impl Behaviour {
    /// It ends with this exit code after a time drawn from the range.
    pub fn exits(code: i32, after: RangeInclusive<Duration>) -> Self {
        Self::Exits { code, after }
    }

    /// The annotation that tells the behaviour of a container of this name.
    pub fn annotation(container: &str) -> String {
        format!("simulation.larder.dev/container.{container}")
    }
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runs => f.write_str("run"),
            Self::Exits { code, after } => {
                write!(f, "exit {code} after {}ms..{}ms", after.start().as_millis(), after.end().as_millis())
            }
        }
    }
}

impl FromStr for Behaviour {
    type Err = BehaviourError;

    fn from_str(text: &str) -> Result<Self, BehaviourError> {
        let parse = || {
            let (code, after) = text.strip_prefix("exit ")?.split_once(" after ")?;
            let (min, max) = after.split_once("..")?;
            let millis = |text: &str| text.strip_suffix("ms")?.parse().ok().map(Duration::from_millis);
            let after = millis(min)?..=millis(max)?;
            (after.start() <= after.end()).then_some(())?;
            Some(Self::Exits { code: code.parse().ok()?, after })
        };
        let behaviour = if text == "run" { Some(Self::Runs) } else { parse() };
        behaviour.ok_or_else(|| BehaviourError { text: text.to_owned() })
    }
}
