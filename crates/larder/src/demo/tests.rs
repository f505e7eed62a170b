//! What the demo refuses and prints.

use super::control::Command;
use super::folder::Folder;
use super::guide::ROWS;
use super::session::Demo;
use super::shop::NAMESPACE;
use super::*;
use clap::Parser;
use larder_objects::FreshState;
use larder_resource::ObjectKind;
use std::os::unix::fs::PermissionsExt as _;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn parse(line: &[&str]) -> Result<Args, String> {
    let line = std::iter::once("demo").chain(line.iter().copied());
    Cli::try_parse_from(line).map(|cli| cli.args).map_err(|error| error.to_string())
}

#[test]
fn a_demo_is_started_or_told() {
    let start = parse(&["--for", "20s", "--outage-after", "5s"]).expect("it starts").start;
    assert_eq!((start.lasts, start.outage_after), (Some(Duration::from_secs(20)), Some(Duration::from_secs(5))));
    let told = parse(&["crash", "api", "--code", "3", "--socket", "/tmp/larder.sock"]).expect("it is told");
    assert!(matches!(told.act, Some(Act::Crash { pod, code: 3, .. }) if pod == "api"));
    parse(&["--for", "20s", "outage"]).expect_err("one or the other");
    parse(&["--outage-for", "5s"]).expect_err("an outage that never begins");
}

#[test]
fn commands_are_read_as_they_are_written() {
    for command in [
        Command::Outage,
        Command::Restore,
        Command::Crash { pod: "shop/api".into(), code: -1 },
        Command::Rotate,
        Command::Quit,
    ] {
        assert_eq!(command.to_string().parse(), Ok(command));
    }
    assert_eq!(" crash api \n".parse(), Ok(Command::Crash { pod: "api".into(), code: 1 }));
    for bad in ["", "crash", "crash api three", "outage now"] {
        let error = bad.parse::<Command>().expect_err(bad);
        assert!(error.contains("is not"), "{error}");
    }
}

#[test]
fn the_folder_is_its_users_alone_and_goes_with_it() {
    let base = std::env::temp_dir().join(format!("larder-demo-test-{}", std::process::id()));
    let folder = Folder::create(Some(&base)).expect("made");
    assert_eq!(std::fs::metadata(folder.path()).expect("there").permissions().mode() & 0o777, 0o700);
    Folder::create(Some(&base)).expect_err("it exists, and may be somebody else's");
    drop(folder);
    assert!(!base.exists());
    let long = std::env::temp_dir().join("x".repeat(120));
    let error = Folder::create(Some(&long)).expect_err("too long for a socket").to_string();
    assert!(error.contains("--dir"), "{error}");
}

#[test]
fn without_a_demo_the_message_says_what_to_do() {
    let error = control::tell(std::path::Path::new("/nonexistent/control.sock"), &Command::Outage);
    let error = error.expect_err("nothing there").to_string();
    assert!(error.contains("larder demo") && error.contains("LARDER_SOCKET"), "{error}");
}

#[test]
fn what_the_guide_says_to_try_is_understood() {
    let commands = ROWS.iter().map(|(command, _)| *command).filter(|command| command.starts_with("larder "));
    for command in commands {
        let words = command.split_whitespace().map(|word| if word == "NS" { NAMESPACE } else { word });
        crate::Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{command}: {error}"));
    }
}

fn scratch(name: &str) -> Folder {
    let path = std::env::temp_dir().join(format!("larder-{name}-{}", std::process::id()));
    Folder::create(Some(&path)).expect("a folder")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_larder_holds_is_served_through_an_outage() {
    let folder = scratch("demo-outage");
    let mut demo = Demo::start(&folder, 1).await.expect("started");
    demo.larder.settled().await;
    let node = std::sync::Arc::clone(demo.larder.node());
    let read = async || node.get_object(ObjectKind::Secret, NAMESPACE, "api-login", Duration::from_secs(5)).await;
    let before = read().await.expect("read");
    assert!(matches!(before.freshness.state, FreshState::Fresh));
    assert!(demo.larder.greeting().contains("5 pods, 4 secrets, 3 configmaps"), "{}", demo.larder.greeting());
    node.get_object(ObjectKind::Secret, "finance", "payroll", Duration::from_secs(5))
        .await
        .expect_err("not referenced");

    assert!(demo.obey(&Command::Rotate).await.expect("obeyed").is_ok());
    assert!(demo.obey(&Command::Outage).await.expect("obeyed").is_ok());
    assert_eq!(demo.obey(&Command::Outage).await.expect("obeyed"), Err("the API server is away already".into()));
    assert!(demo.obey(&Command::Rotate).await.expect("obeyed").is_err());
    let during = read().await.expect("served from what is held");
    assert_eq!(during.object.resource_version(), before.object.resource_version());

    assert!(demo.obey(&Command::Restore).await.expect("obeyed").is_ok());
    let fresh = larder_testkit::poll_until(Duration::from_secs(30), async || {
        let read = read().await.ok()?;
        (read.object.resource_version() != before.object.resource_version()).then_some(())
    });
    fresh.await.expect("the rotated Secret comes within its TTL");
    let summary = demo.stop().await;
    assert!(summary.contains("get secrets") && summary.contains("list pods"), "{summary}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_terminal_is_obeyed() {
    let folder = scratch("demo-control");
    let mut demo = Demo::start(&folder, 1).await.expect("started");
    let control = control::beside(&folder.path().join("larder.sock"));
    let tell = |command: Command| {
        let control = control.clone();
        tokio::task::spawn_blocking(move || control::tell(&control, &command))
    };
    let told = tell(Command::Crash { pod: "api".into(), code: 3 });
    let order = demo.orders.recv().await.expect("an order");
    demo.carry_out(order).await.expect("obeyed");
    told.await.expect("told").expect("done");
    let told = tell(Command::Crash { pod: "nobody".into(), code: 3 });
    let order = demo.orders.recv().await.expect("an order");
    demo.carry_out(order).await.expect("obeyed");
    let error = told.await.expect("told").expect_err("no such pod").to_string();
    assert!(error.contains("shop/nobody"), "{error}");
    demo.stop().await;
    drop(folder);
    tell(Command::Quit).await.expect("told").expect_err("it has ended");
}
