//! Whether the runtime is newer about a container than the API server's status of it: [the rule](crate#the-rule).

use crate::container::{Known, Progress};
use larder_pleg::{ContainerState, ContainerStatus};

/// Nanoseconds. Times in the API have whole seconds.
pub(crate) const SECOND: i64 = 1_000_000_000;

/// What is true of a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Newer {
    /// The API server's status stands.
    Api,
    /// The API server's status stands, until the runtime has been read once more.
    ApiForNow,
    /// The newest life in the runtime counts.
    Runtime,
    /// The container is gone, and the runtime has no life of it.
    Gone,
}

/// `lives` are the containers of this name in the runtime, newest first, as of that time.
pub(crate) fn newer(api: Option<&Known<'_>>, lives: &[&ContainerStatus], as_of: i64) -> Newer {
    let (Some(api), newest) = (api, lives.first()) else {
        return if lives.is_empty() { Newer::Api } else { Newer::Runtime };
    };
    if api.id.is_empty() {
        let knows_its_end = |life: &&ContainerStatus| api.last.is_end_of(&life.id.to_string());
        return match newest {
            Some(life) if !knows_its_end(life) => Newer::Runtime,
            _ => Newer::Api,
        };
    }
    if let Some(at) = lives.iter().position(|life| life.id.to_string() == api.id) {
        let is_further = |life: &ContainerStatus| progress(life.state, api) > api.progress();
        return if at > 0 || lives.first().is_some_and(|life| is_further(life)) { Newer::Runtime } else { Newer::Api };
    }
    // The runtime does not have the life that the API status names.
    if newest.is_some_and(|life| i64::from(life.restart_count) > api.restart_count) {
        return Newer::Runtime;
    }
    let Some(seconds) = api.state.time() else { return Newer::Api };
    let second_is_over = seconds.saturating_add(1).saturating_mul(SECOND);
    match newest {
        Some(life) if life.created_at >= second_is_over => Newer::Runtime,
        _ if !api.state.is_running() => Newer::Api,
        _ if as_of < second_is_over => Newer::ApiForNow,
        Some(_) => Newer::Runtime,
        None => Newer::Gone,
    }
}

/// How far a life is. A state that the runtime does not know is the end of a container that was seen running.
fn progress(state: ContainerState, api: &Known<'_>) -> Progress {
    match state {
        ContainerState::Running => Progress::Running,
        ContainerState::Exited => Progress::Ended,
        ContainerState::Unknown if api.state.is_running() => Progress::Ended,
        ContainerState::Created | ContainerState::Unknown => Progress::Created,
    }
}
