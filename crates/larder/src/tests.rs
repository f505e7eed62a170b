//! What the command line takes, and what it refuses.

use super::*;
use clap::error::ErrorKind;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn what_kubectls_users_type_is_taken() {
    for line in [
        "larder get pods",
        "larder get po -A",
        "larder get secret db -n shop -o yaml",
        "larder get secrets --namespace=shop --selector app=web -owide",
        "larder get cm -l app=web,tier!=cache -o name",
        "larder get secret/db cm/settings",
        "larder get po,cm --field-selector metadata.name=a --no-headers",
        "larder get nodes --timeout 500ms --socket /tmp/l.sock",
        "larder ps",
        "larder ps -n shop --pod web --state exited -o json --no-trunc",
        "larder wait pod web --for=state=exited --timeout=60s",
        "larder wait pod/web --for exited -c app -n shop",
        "larder wait pod web --for=newer-than=now",
        "larder wait pod web --for=newer-than=2026-01-02T15:04:05.000000001Z",
        "larder wait pod web --for=delete --timeout=0",
        "larder status -o json",
        "larder proxy",
        "larder proxy --port 8001 -o k --socket /tmp/l.sock",
        "larder completion bash",
        "larder completion zsh",
        "larder completion fish",
        "larder run",
        "larder run --kubeconfig k --context c --node-name n --runtime-endpoint none --metrics-address 127.0.0.1:9464",
        "larder run --manifests m --socket /tmp/l.sock --log-level debug --log-format json --default-ttl 30s",
    ] {
        if let Err(error) = parse(line) {
            panic!("{line}: {error}");
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (line, kind) in [
        ("larder", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
        ("larder frobnicate", ErrorKind::InvalidSubcommand),
        ("larder get", ErrorKind::MissingRequiredArgument),
        ("larder get pods -n a -A", ErrorKind::ArgumentConflict),
        ("larder get pods -o xml", ErrorKind::InvalidValue),
        ("larder get pods --timeout soon", ErrorKind::ValueValidation),
        ("larder ps --state sleeping", ErrorKind::InvalidValue),
        ("larder wait pod web", ErrorKind::MissingRequiredArgument),
        ("larder wait pod web --for=happiness", ErrorKind::ValueValidation),
        ("larder wait pod web --for=newer-than=yesterday", ErrorKind::ValueValidation),
        ("larder wait pod web --for=state=delete", ErrorKind::ValueValidation),
        ("larder wait pod web --for=exited --timeout=-1s", ErrorKind::ValueValidation),
        ("larder run --kubeconfig k --manifests m", ErrorKind::ArgumentConflict),
        ("larder run --context c --manifests m", ErrorKind::ArgumentConflict),
        ("larder run --metrics-address nowhere", ErrorKind::ValueValidation),
        ("larder run --log-format xml", ErrorKind::InvalidValue),
        ("larder proxy --port 65536", ErrorKind::ValueValidation),
        ("larder completion tcsh", ErrorKind::InvalidValue),
        ("larder --version", ErrorKind::DisplayVersion),
        ("larder get --version", ErrorKind::DisplayVersion),
    ] {
        match parse(line) {
            Ok(cli) => panic!("{line} was taken: {cli:?}"),
            Err(error) => assert_eq!(error.kind(), kind, "{line}: {error}"),
        }
    }
}
