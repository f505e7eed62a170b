//! The status of a container: the API server's, or one that is made of the runtime's as the kubelet makes it.

use crate::newness::{Newer, SECOND, newer};
use crate::wire::{self, Raw};
use crate::write::Object;
use larder_pleg::{ContainerState, ContainerStatus};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Why a container ended that nobody saw end.
const STATUS_UNKNOWN: &str = "ContainerStatusUnknown";
/// The exit code of a container that nobody saw end.
const UNKNOWN_EXIT: i64 = 137;

/// How far a life of a container is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Progress {
    Created,
    Running,
    Ended,
}

/// A state of a container.
#[derive(Clone, Debug, Default)]
pub(crate) struct State<'a> {
    pub(crate) is: Is<'a>,
    /// The JSON that it was read from.
    raw: Option<&'a RawValue>,
}

#[derive(Clone, Debug, Default)]
pub(crate) enum Is<'a> {
    #[default]
    Unset,
    Waiting {
        reason: Cow<'a, str>,
    },
    /// Times are in seconds since the Unix epoch.
    Running {
        started_at: Option<i64>,
    },
    Terminated(Terminated<'a>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Terminated<'a> {
    pub(crate) exit_code: i64,
    pub(crate) reason: Cow<'a, str>,
    message: Cow<'a, str>,
    started_at: Option<i64>,
    finished_at: Option<i64>,
    id: Cow<'a, str>,
}

impl<'a> State<'a> {
    fn read(raw: Option<&'a RawValue>) -> Result<Self, serde_json::Error> {
        let wire::State { waiting, running, terminated } = wire::object(raw)?;
        let seconds = |time: Option<jiff::Timestamp>| time.map(jiff::Timestamp::as_second);
        // In the order in which the kubelet looks.
        let is = if let Some(running) = running {
            Is::Running { started_at: seconds(running.0.started_at) }
        } else if let Some(ended) = terminated {
            let ended = ended.0;
            Is::Terminated(Terminated {
                exit_code: ended.exit_code.unwrap_or_default(),
                reason: ended.reason.0,
                message: Cow::default(),
                started_at: seconds(ended.started_at),
                finished_at: seconds(ended.finished_at),
                id: ended.container_id.0,
            })
        } else if let Some(waiting) = waiting {
            Is::Waiting { reason: waiting.0.reason.0 }
        } else {
            Is::Unset
        };
        Ok(Self { is, raw })
    }

    fn made(is: Is<'a>) -> Self {
        Self { is, raw: None }
    }

    fn waiting(reason: &'static str) -> Self {
        Self::made(Is::Waiting { reason: Cow::Borrowed(reason) })
    }

    /// Of a container that nobody saw end.
    fn unseen_end(message: &'static str) -> Self {
        Self::made(Is::Terminated(Terminated {
            exit_code: UNKNOWN_EXIT,
            reason: STATUS_UNKNOWN.into(),
            message: message.into(),
            ..Terminated::default()
        }))
    }

    /// Of a life in the runtime. `api` is what the API server knows of the container.
    fn of(life: &'a ContainerStatus, api: Option<&Known<'_>>) -> Self {
        let seconds = |nanoseconds: i64| Some(nanoseconds.div_euclid(SECOND));
        Self::made(match life.state {
            ContainerState::Running => Is::Running { started_at: seconds(life.started_at) },
            ContainerState::Exited => Is::Terminated(Terminated {
                exit_code: life.exit_code.into(),
                reason: Cow::Borrowed(&life.reason),
                message: Cow::Borrowed(&life.message),
                started_at: seconds(life.started_at),
                finished_at: seconds(life.finished_at),
                id: life.id.to_string().into(),
            }),
            ContainerState::Unknown if api.is_some_and(|api| api.state.is_running()) => {
                return Self::unseen_end("The container could not be located when the pod was terminated");
            }
            ContainerState::Created | ContainerState::Unknown => Is::Waiting { reason: Cow::default() },
        })
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.is, Is::Running { .. })
    }

    pub(crate) fn terminated(&self) -> Option<&Terminated<'a>> {
        match &self.is {
            Is::Terminated(ended) => Some(ended),
            Is::Unset | Is::Waiting { .. } | Is::Running { .. } => None,
        }
    }

    /// Whether it is the end of this container.
    pub(crate) fn is_end_of(&self, id: &str) -> bool {
        self.terminated().is_some_and(|ended| ended.id == id)
    }

    /// A time at which the container existed, in seconds; the last one that is known.
    pub(crate) fn time(&self) -> Option<i64> {
        match &self.is {
            Is::Running { started_at } => *started_at,
            Is::Terminated(ended) => ended.finished_at.or(ended.started_at),
            Is::Unset | Is::Waiting { .. } => None,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        if let Some(raw) = self.raw {
            out.extend_from_slice(raw.get().as_bytes());
            return;
        }
        let mut state = Object::begin(out);
        match &self.is {
            Is::Unset => {}
            Is::Waiting { reason } => {
                let mut waiting = Object::begin(state.name("waiting"));
                waiting.some_text("reason", reason);
                waiting.end();
            }
            Is::Running { started_at } => {
                let mut running = Object::begin(state.name("running"));
                running.time("startedAt", *started_at);
                running.end();
            }
            Is::Terminated(ended) => {
                let mut terminated = Object::begin(state.name("terminated"));
                terminated.number("exitCode", ended.exit_code);
                terminated.some_text("reason", &ended.reason);
                terminated.some_text("message", &ended.message);
                terminated.time("startedAt", ended.started_at);
                terminated.time("finishedAt", ended.finished_at);
                terminated.some_text("containerID", &ended.id);
                terminated.end();
            }
        }
        state.end();
    }
}

/// What the API server knows of a container.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) id: Cow<'a, str>,
    pub(crate) state: State<'a>,
    pub(crate) last: State<'a>,
    pub(crate) restart_count: i64,
    pub(crate) ready: bool,
    started: Option<bool>,
    image: Cow<'a, str>,
    image_id: Cow<'a, str>,
    raw: &'a RawValue,
}

impl<'a> Known<'a> {
    pub(crate) fn read(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        let status: wire::ContainerStatus<'a> = wire::object(Some(raw))?;
        Ok(Self {
            name: status.name.0,
            id: status.container_id.0,
            state: State::read(status.state)?,
            last: State::read(status.last_state)?,
            restart_count: status.restart_count.unwrap_or_default(),
            ready: status.ready.unwrap_or_default(),
            started: status.started,
            image: status.image.0,
            image_id: status.image_id.0,
            raw,
        })
    }

    /// How far the container is that it names.
    pub(crate) fn progress(&self) -> Progress {
        if self.state.terminated().is_some() || self.last.is_end_of(&self.id) {
            Progress::Ended
        } else if self.state.is_running() {
            Progress::Running
        } else {
            Progress::Created
        }
    }
}

/// Which containers a list has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Regular,
    Init,
    Ephemeral,
}

/// What the containers of a pod have in common.
pub(crate) struct Context<'p> {
    pub(crate) has_init_containers: bool,
    /// Whether the runtime has made a regular container, so that all init containers have ended.
    pub(crate) is_initialized: bool,
    pub(crate) is_deleting: bool,
    /// Whether the container's specification is that of the API, with its probes.
    pub(crate) knows_probes: bool,
    pub(crate) containers: &'p [ContainerStatus],
    pub(crate) as_of: i64,
}

/// The status of a container as it is now.
#[derive(Debug)]
pub(crate) struct Now<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) state: State<'a>,
    pub(crate) last: State<'a>,
    pub(crate) ready: bool,
    pub(crate) started: Option<bool>,
    restart_count: i64,
    image: Cow<'a, str>,
    image_id: Cow<'a, str>,
    id: Cow<'a, str>,
    /// The API server's status, and whether it still stands.
    api: Option<&'a RawValue>,
    pub(crate) newer: Newer,
    /// Since when it is so, in seconds, if a container's times say that.
    pub(crate) changed_at: Option<i64>,
}

impl<'a> Now<'a> {
    /// As the API server has it.
    pub(crate) fn of_api(api: &'a Known<'a>, newer: Newer) -> Self {
        Self {
            name: Cow::Borrowed(&api.name),
            state: api.state.clone(),
            last: api.last.clone(),
            ready: api.ready,
            started: api.started,
            restart_count: api.restart_count,
            image: Cow::Borrowed(&api.image),
            image_id: Cow::Borrowed(&api.image_id),
            id: Cow::Borrowed(&api.id),
            api: Some(api.raw),
            newer,
            changed_at: None,
        }
    }

    /// The status of a container of the specification.
    pub(crate) fn of(
        spec: &'a wire::Container<'_>,
        role: Role,
        api: Option<&'a Known<'a>>,
        context: &Context<'a>,
    ) -> Self {
        let lives: Vec<&ContainerStatus> = context.containers.iter().filter(|life| life.name == *spec.name.0).collect();
        let mut newer = newer(api, &lives, context.as_of);
        let is_waiting = api.is_none_or(|api| matches!(api.state.is, Is::Waiting { .. }));
        let has_ended_unseen = role == Role::Init && lives.is_empty() && context.is_initialized && !spec.is_sidecar();
        if has_ended_unseen && is_waiting {
            newer = Newer::Gone;
        }
        let mut now = match (newer, api, lives.first()) {
            (Newer::Api | Newer::ApiForNow, Some(api), _) => return Self::of_api(api, newer),
            (Newer::Runtime, api, Some(newest)) => Self::of_life(spec, role, api, newest, context),
            (_, api, _) => Self::without_life(spec, role, api, newer, context),
        };
        if let (Newer::Runtime, Some(before)) = (newer, lives.get(1)) {
            now.last = State::of(before, api);
        }
        if has_ended_unseen && matches!(now.state.is, Is::Waiting { .. }) {
            now.state = State::made(Is::Terminated(Terminated {
                reason: "Completed".into(),
                message: "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally".into(),
                ..Terminated::default()
            }));
            now.ready = true;
        }
        now
    }

    fn of_life(
        spec: &wire::Container<'_>,
        role: Role,
        api: Option<&'a Known<'a>>,
        life: &'a ContainerStatus,
        context: &Context<'_>,
    ) -> Self {
        let id = life.id.to_string();
        let state = State::of(life, api);
        let mut restart_count = i64::from(life.restart_count);
        let mut last = State::default();
        if let Some(api) = api {
            last = match (api.state.terminated(), api.last.terminated()) {
                (Some(_), _) if api.id != id => api.state.clone(),
                (_, Some(_)) => api.last.clone(),
                _ => last,
            };
            restart_count = restart_count.max(api.restart_count);
            let is_lost = life.state == ContainerState::Unknown && api.state.is_running();
            let is_again = life.state == ContainerState::Running
                && api.state.terminated().is_some()
                && api.restart_count >= i64::from(life.restart_count);
            if is_lost || is_again {
                restart_count = api.restart_count.saturating_add(1);
            }
        }
        let started = state.is_running() && spec.startup_probe.is_none();
        let is_probed = spec.readiness_probe.is_some() || !context.knows_probes;
        let ready = match role {
            Role::Init if !spec.is_sidecar() => state.terminated().is_some_and(|ended| ended.exit_code == 0),
            Role::Regular | Role::Init => started && !is_probed,
            Role::Ephemeral => false,
        };
        let changed_at = match life.state {
            ContainerState::Running => Some(life.started_at),
            ContainerState::Exited => Some(life.finished_at),
            ContainerState::Created => Some(life.created_at),
            ContainerState::Unknown => None,
        };
        Self {
            name: Cow::Borrowed(&life.name),
            state,
            last,
            ready,
            started: (role != Role::Ephemeral).then_some(started),
            restart_count,
            image: Cow::Borrowed(&life.image),
            image_id: Cow::Borrowed(&life.image_ref),
            id: id.into(),
            api: api.map(|api| api.raw),
            newer: Newer::Runtime,
            changed_at: changed_at.filter(|at| *at > 0).map(|at| at.div_euclid(SECOND)),
        }
    }

    /// Of a container that the runtime does not have.
    fn without_life(
        spec: &'a wire::Container<'_>,
        role: Role,
        api: Option<&'a Known<'a>>,
        newer: Newer,
        context: &Context<'_>,
    ) -> Self {
        let mut last = api.map(|api| api.last.clone()).unwrap_or_default();
        let mut restart_count = api.map_or(0, |api| api.restart_count);
        if api.is_some_and(|api| api.state.is_running()) && last.terminated().is_none() {
            last = State::unseen_end(
                "The container could not be located when the pod was deleted.  The container used to be Running",
            );
            restart_count = restart_count.saturating_add(i64::from(!context.is_deleting));
        }
        let reason = if context.has_init_containers { "PodInitializing" } else { "ContainerCreating" };
        Self {
            name: wire::again(&spec.name),
            state: State::waiting(reason),
            last,
            ready: false,
            started: (role != Role::Ephemeral).then_some(false),
            restart_count,
            image: wire::again(&spec.image),
            image_id: Cow::default(),
            id: Cow::default(),
            api: api.map(|api| api.raw),
            newer,
            changed_at: None,
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        let fields = match (self.api, self.newer) {
            (Some(api), Newer::Api | Newer::ApiForNow) => {
                out.extend_from_slice(api.get().as_bytes());
                return Ok(());
            }
            (api, _) => wire::fields(api)?,
        };
        let mut status = Object::begin(out);
        let mut is_written = [false; OWN.len()];
        for (name, value) in &fields {
            match OWN.iter().position(|own| *own == name.0) {
                None => status.raw(&name.0, value),
                Some(at) if !std::mem::replace(&mut is_written[at], true) => self.write_field(OWN[at], &mut status),
                Some(_) => {}
            }
        }
        for (name, is_written) in OWN.into_iter().zip(is_written) {
            if !is_written {
                self.write_field(name, &mut status);
            }
        }
        status.end();
        Ok(())
    }

    fn write_field(&self, name: &str, status: &mut Object<'_>) {
        match name {
            "state" => self.state.write(status.name(name)),
            "lastState" => self.last.write(status.name(name)),
            "ready" => status.flag(name, self.ready),
            "restartCount" => status.number(name, self.restart_count),
            "image" => status.text(name, &self.image),
            "imageID" => status.text(name, &self.image_id),
            "containerID" => status.some_text(name, &self.id),
            "started" => {
                if let Some(started) = self.started {
                    status.flag(name, started);
                }
            }
            _ => status.text("name", &self.name),
        }
    }
}

/// The fields of a status that are larder's where the runtime is newer.
const OWN: [&str; 9] =
    ["name", "state", "lastState", "ready", "restartCount", "image", "imageID", "containerID", "started"];

/// The fields of an object that are written anew, or left out.
pub(crate) fn without<'f, 'a>(
    fields: &'f Raw<'a>,
    names: &'f [&str],
) -> impl Iterator<Item = (&'f str, &'a RawValue)> + use<'f, 'a> {
    fields.iter().filter(|(name, _)| !names.contains(&&*name.0)).map(|(name, value)| (&*name.0, *value))
}
