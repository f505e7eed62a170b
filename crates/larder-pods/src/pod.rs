//! A pod of the API server, brought up to date.

use crate::conditions::{self, Facts};
use crate::container::{Context, Known, Now, Role, without};
use crate::newness::Newer;
use crate::phase::{self, is_terminal, phase};
use crate::wire::{self, Meta, Raw, Spec};
use crate::write::{Object, array};
use larder_pleg::{ContainerState, PodStatus};
use larder_resource::DecodeError;
use larder_resource::json::Fields;
use serde_json::value::RawValue;
use std::net::IpAddr;

/// What the container runtime says of a pod.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'s> {
    /// The status of the pod; `None` if the runtime was listed and does not have the pod.
    pub status: Option<&'s PodStatus>,
    /// The status is as of this time, in nanoseconds since the Unix epoch.
    pub as_of: i64,
}

/// What became of a pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Brought {
    /// The pod's JSON now; `None` if the API server's stands as it is.
    pub json: Option<Vec<u8>>,
    /// Whether a container that the API server names may be gone, or may be too new for what the runtime was read for. The pod is to be looked
    /// at again when the runtime has been read once more.
    pub is_undecided: bool,
}

/// Brings the API server's pod up to date, by [the rule](crate#the-rule).
///
/// # Errors
///
/// The bytes are not the JSON of a pod. The API server sends none of these.
pub fn bring_up_to_date(json: &[u8], seen: &Seen<'_>) -> Result<Brought, DecodeError> {
    bring(json, seen, true)
}

/// As [`bring_up_to_date`]. The probes of a pod that the API server does not have are not known.
pub(crate) fn bring(json: &[u8], seen: &Seen<'_>, knows_probes: bool) -> Result<Brought, DecodeError> {
    let Fields(fields) = serde_json::from_slice(json)?;
    let status = wire::fields(wire::field(&fields, "status"))?;
    let meta: Meta<'_> = wire::object(wire::field(&fields, "metadata"))?;
    let spec: Spec<'_> = wire::object(wire::field(&fields, "spec"))?;
    let pod = Pod { meta, spec, status, seen, knows_probes };
    let (containers, init, ephemeral) = (
        pod.known("containerStatuses")?,
        pod.known("initContainerStatuses")?,
        pod.known("ephemeralContainerStatuses")?,
    );
    let context = pod.context();
    let lists = [
        List::of(Role::Regular, &pod.spec.containers, &containers, &context),
        List::of(Role::Init, &pod.spec.init_containers, &init, &context),
        List::of(Role::Ephemeral, &pod.spec.ephemeral_containers, &ephemeral, &context),
    ];
    let any = |newer: &[Newer]| lists.iter().any(|list| list.statuses.iter().any(|now| newer.contains(&now.newer)));
    let (is_changed, is_undecided) = (any(&[Newer::Runtime, Newer::Gone]), any(&[Newer::ApiForNow]));
    let ips = pod.new_ips();
    if !is_changed && ips.is_empty() {
        return Ok(Brought { json: None, is_undecided });
    }
    let mut now = Vec::with_capacity(json.len() + json.len() / 4);
    pod.write_status(is_changed.then_some(&lists), &ips, &mut now)?;
    let mut out = Vec::with_capacity(json.len() + now.len());
    let mut whole = Object::begin(&mut out);
    let mut is_written = false;
    for (name, value) in &fields {
        if name.0 != "status" {
            whole.raw(&name.0, value);
        } else if !std::mem::replace(&mut is_written, true) {
            whole.name("status").extend_from_slice(&now);
        }
    }
    if !is_written {
        whole.name("status").extend_from_slice(&now);
    }
    whole.end();
    Ok(Brought { json: Some(out), is_undecided })
}

struct Pod<'p, 'a> {
    meta: Meta<'a>,
    spec: Spec<'a>,
    status: Raw<'a>,
    seen: &'p Seen<'p>,
    knows_probes: bool,
}

/// The containers of one list of a pod.
struct List<'a> {
    role: Role,
    statuses: Vec<Now<'a>>,
}

impl<'a> List<'a> {
    fn of(role: Role, spec: &'a [wire::Container<'_>], known: &'a [Known<'a>], context: &Context<'a>) -> Self {
        let known_of =
            |container: &wire::Container<'_>| known.iter().rev().find(|known| known.name == container.name.0);
        let mut statuses: Vec<Now<'a>> =
            spec.iter().map(|container| Now::of(container, role, known_of(container), context)).collect();
        if role != Role::Init {
            // As the kubelet orders them.
            statuses.sort_by(|a, b| a.name.cmp(&b.name));
        }
        // A container that the specification does not have is not judged.
        let others = known.iter().filter(|known| spec.iter().all(|container| container.name.0 != known.name));
        statuses.extend(others.map(|known| Now::of_api(known, Newer::Api)));
        Self { role, statuses }
    }

    const fn field(&self) -> &'static str {
        match self.role {
            Role::Regular => "containerStatuses",
            Role::Init => "initContainerStatuses",
            Role::Ephemeral => "ephemeralContainerStatuses",
        }
    }
}

impl<'p, 'a> Pod<'p, 'a> {
    fn known(&self, field: &str) -> Result<Vec<Known<'a>>, serde_json::Error> {
        wire::elements(wire::field(&self.status, field))?.into_iter().map(Known::read).collect()
    }

    fn text(&self, field: &str) -> Result<String, serde_json::Error> {
        let value = wire::field(&self.status, field);
        value.map_or(Ok(String::new()), |value| serde_json::from_str(value.get()))
    }

    fn context(&self) -> Context<'p> {
        let containers = self.seen.status.map_or(&[][..], |status| &status.containers);
        let is_made = |container: &wire::Container<'_>| {
            let life = containers.iter().find(|life| life.name == container.name.0);
            life.is_some_and(|life| life.state != ContainerState::Unknown)
        };
        Context {
            has_init_containers: !self.spec.init_containers.is_empty(),
            is_initialized: self.spec.containers.iter().any(is_made),
            is_deleting: self.is_deleting(),
            knows_probes: self.knows_probes,
            containers,
            as_of: self.seen.as_of,
        }
    }

    fn is_deleting(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    /// The pod's addresses, if the API server has none: the first of each family.
    fn new_ips(&self) -> Vec<IpAddr> {
        let has_none = self.text("podIP").is_ok_and(|ip| ip.is_empty());
        if !has_none || self.spec.host_network.unwrap_or_default() {
            return Vec::new();
        }
        let all = self.seen.status.iter().flat_map(|status| &status.ips).filter_map(|ip| ip.parse::<IpAddr>().ok());
        let mut ips: Vec<IpAddr> = Vec::new();
        for ip in all {
            if ips.iter().all(|has| has.is_ipv4() != ip.is_ipv4()) {
                ips.push(ip);
            }
        }
        ips
    }

    /// Writes the status. `lists` are the containers, if one of them has changed.
    fn write_status(
        &self,
        lists: Option<&[List<'_>; 3]>,
        ips: &[IpAddr],
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let changed = lists.map(|lists| self.changed(lists)).transpose()?;
        let mut fields: Vec<(&'static str, Vec<u8>)> = Vec::new();
        let mut left_out = Vec::new();
        if let (Some(lists), Some(changed)) = (lists, changed) {
            fields.push(("phase", format!("\"{}\"", changed.phase).into_bytes()));
            fields.push(("conditions", changed.conditions));
            for list in lists.iter().filter(|list| !list.statuses.is_empty()) {
                let mut written = Ok(());
                let mut json = Vec::new();
                array(&mut json, &list.statuses, |now, out| {
                    if written.is_ok() {
                        written = now.write(out);
                    }
                });
                written?;
                fields.push((list.field(), json));
            }
            // They belong to the phase of before.
            if changed.is_another_phase {
                left_out.extend(["reason", "message"]);
            }
        }
        if let Some(first) = ips.first() {
            fields.push(("podIP", format!("\"{first}\"").into_bytes()));
            let mut json = Vec::new();
            array(&mut json, ips, |ip, out| out.extend_from_slice(format!("{{\"ip\":\"{ip}\"}}").as_bytes()));
            fields.push(("podIPs", json));
        }
        let mut status = Object::begin(out);
        let mut is_written = vec![false; fields.len()];
        for (name, value) in without(&self.status, &left_out) {
            match fields.iter().position(|(own, _)| *own == name) {
                None => status.raw(name, value),
                Some(at) => {
                    if let (Some((_, json)), Some(written @ false)) = (fields.get(at), is_written.get_mut(at)) {
                        *written = true;
                        status.name(name).extend_from_slice(json);
                    }
                }
            }
        }
        for ((name, json), is_written) in fields.iter().zip(is_written) {
            if !is_written {
                status.name(name).extend_from_slice(json);
            }
        }
        status.end();
        Ok(())
    }

    /// What follows from the containers.
    fn changed(&self, lists: &[List<'_>; 3]) -> Result<Changed, DecodeError> {
        let [regular, init, ephemeral] = lists;
        let before = self.text("phase")?;
        let statuses: Vec<&Now<'_>> = regular.statuses.iter().chain(&init.statuses).collect();
        let is_regular = |name: &str| self.spec.containers.iter().any(|container| container.name.0 == name);
        let source = self.meta.annotations.source.as_ref();
        let pod = phase::Pod {
            // The kubelet leaves the phase of a static pod as its containers have it.
            is_ending: self.is_deleting() && source.is_none_or(|source| source.0 == "api"),
            has_initialized: self
                .seen
                .status
                .is_some_and(|status| status.active_containers().any(|life| is_regular(&life.name))),
        };
        let phase = if is_terminal(&before) { before.clone() } else { phase(&self.spec, &pod, &statuses).to_owned() };
        let known = wire::elements(wire::field(&self.status, "conditions"))?;
        let known: Vec<_> = known.into_iter().map(conditions::Known::read).collect::<Result<_, _>>()?;
        let changed_at = statuses.iter().copied().chain(&ephemeral.statuses).filter_map(|now| now.changed_at).max();
        let facts = Facts {
            spec: &self.spec,
            statuses: &statuses,
            phase: &phase,
            generation: self.meta.generation.unwrap_or_default(),
            changed_at,
        };
        let mut conditions = Vec::new();
        if self.knows_probes {
            conditions::write(&known, &facts, &mut conditions);
        } else {
            array::<&RawValue>(&mut conditions, [], |_, _| {});
        }
        Ok(Changed { is_another_phase: phase != before, phase, conditions })
    }
}

struct Changed {
    phase: String,
    is_another_phase: bool,
    conditions: Vec<u8>,
}

#[cfg(test)]
mod tests;
