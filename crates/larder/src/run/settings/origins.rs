//! Where settings come from: what is wrong with one of them is told with its place, and by the name that it was set by.

use super::places::{Place, Places};
use super::{Args, Settings};
use larder_node::ConfigError;
use larder_server::ServeError;
use std::path::PathBuf;

/// Where settings come from.
#[derive(Clone, Debug, Default)]
pub(super) struct Origins {
    file: Option<(PathBuf, Places)>,
    /// The flags that are given, of those whose value may be refused; by their keys in the file.
    flags: Vec<(&'static str, &'static str)>,
}

impl Origins {
    pub(super) fn of(args: &Args, places: Places) -> Self {
        let flags = [
            ("manifests", "--manifests", args.manifests.is_some()),
            ("kubeconfig", "--kubeconfig", args.kubeconfig.is_some()),
            ("context", "--context", args.context.is_some()),
            ("nodeName", "--node-name", args.node_name.is_some()),
            ("runtimeEndpoint", "--runtime-endpoint", args.runtime_endpoint.is_some()),
            ("syncPeriod", "--sync-period", args.sync_period.is_some()),
            ("defaultTtl", "--default-ttl", args.default_ttl.is_some()),
            ("socket", "--socket", args.socket.is_some()),
            ("logLevel", "--log-level", args.log_level.is_some()),
        ];
        let flags = flags.into_iter().filter_map(|(key, flag, is_given)| is_given.then_some((key, flag))).collect();
        Self { file: args.config.clone().map(|path| (path, places)), flags }
    }

    /// What is told of a setting that cannot be used, and why not: `FILE:3:9: kube.pageSize: must be at least 1`.
    pub(super) fn refuse(&self, key: &str, problem: &str) -> anyhow::Error {
        self.tell(key, None, &format!("{key}: {problem}"), problem)
    }

    /// `told` is what stands in the file, or is the default; `problem` is all where a flag has set it. If the setting does not
    /// go with another and only that one stands in the file, that one's place is told.
    fn tell(&self, key: &str, other: Option<&str>, told: &str, problem: &str) -> anyhow::Error {
        if let Some((_, flag)) = self.flags.iter().find(|(of, _)| *of == key) {
            return anyhow::anyhow!("{flag}: {problem}");
        }
        let of_key = |key: &str| {
            let (path, places) = self.file.as_ref()?;
            places.of_key(key).map(|Place { at, .. }| format!("{}:{at}", path.display()))
        };
        match of_key(key).or_else(|| of_key(other?)) {
            Some(place) => anyhow::anyhow!("{place}: {told}"),
            None => anyhow::anyhow!("setting {told}"),
        }
    }

    /// The same for what the node's larder refuses, which has names of its own for its settings.
    pub(super) fn refuse_config(&self, settings: &Settings, error: &ConfigError) -> anyhow::Error {
        let key = match &*error.field {
            "runtime" => "runtimeEndpoint".to_owned(),
            "cluster" => "manifests".to_owned(),
            field => camel_case(field),
        };
        let section = key.split_once('.').map(|(section, _)| section);
        let values = settings.values();
        let with_value = |key: &str| {
            let value = values.pointer(&format!("/{}", key.replace('.', "/")))?;
            Some(format!("{key} ({})", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        };
        // Another setting is named as the field is.
        let mut other = None;
        let words = error.problem.split(' ').map(|word| {
            let is_name = word.contains('_') && word.bytes().all(|b| b.is_ascii_lowercase() || b"_.".contains(&b));
            let named = is_name.then(|| match section {
                Some(section) if !word.contains('.') => format!("{section}.{}", camel_case(word)),
                _ => camel_case(word),
            });
            let Some(told) = named.as_deref().and_then(with_value) else { return word.to_owned() };
            other = named;
            told
        });
        let problem = words.collect::<Vec<_>>().join(" ");
        let named = other.as_ref().and_then(|_| with_value(&key)).unwrap_or_else(|| key.clone());
        self.tell(&key, other.as_deref(), &format!("{named}: {problem}"), &problem)
    }

    /// The same for what the server refuses.
    pub(super) fn refuse_serving(&self, error: &ServeError) -> anyhow::Error {
        match error {
            ServeError::Limit(error) => self.refuse(&format!("limits.{}", camel_case(error.field)), &error.problem),
            other => self.refuse("socket", &other.to_string()),
        }
    }
}

/// `page_size`, as a file has it: `pageSize`.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut all, word| {
        all.extend(word.chars().take(1).map(|first| first.to_ascii_uppercase()));
        all.extend(word.chars().skip(1));
        all
    })
}
