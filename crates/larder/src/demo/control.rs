//! How a demo is told what to do: lines on standard input, or on a Unix socket from another terminal.

use crate::output;
use anyhow::{Context as _, bail};
use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest line that is read.
const LONGEST_LINE: u64 = 1024;
/// How many connections are served at a time.
const CONNECTIONS: usize = 16;

/// What a demo can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// The API server goes away.
    Outage,
    /// It comes back.
    Restore,
    /// A container exits.
    Crash { pod: String, code: i32 },
    /// A Secret gets another value.
    Rotate,
    /// The demo ends.
    Quit,
}

/// The commands as they are typed.
pub(super) const COMMANDS: &str = "outage, restore, crash POD [CODE], rotate, quit";

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outage => f.write_str("outage"),
            Self::Restore => f.write_str("restore"),
            Self::Crash { pod, code } => write!(f, "crash {pod} {code}"),
            Self::Rotate => f.write_str("rotate"),
            Self::Quit => f.write_str("quit"),
        }
    }
}

impl FromStr for Command {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["outage"] => Ok(Self::Outage),
            ["restore"] => Ok(Self::Restore),
            ["rotate"] => Ok(Self::Rotate),
            ["quit" | "exit" | "q"] => Ok(Self::Quit),
            ["crash", pod] => Ok(Self::Crash { pod: pod.to_owned(), code: 1 }),
            ["crash", pod, code] => {
                let code = code.parse().map_err(|_| format!("\"{code}\" is not an exit code"))?;
                Ok(Self::Crash { pod: pod.to_owned(), code })
            }
            _ => Err(format!("\"{}\" is not one of: {COMMANDS}", line.trim())),
        }
    }
}

/// A command, and where to answer to: what was done, or why not.
pub(super) struct Order {
    pub(super) command: Command,
    pub(super) answer: oneshot::Sender<Result<String, String>>,
}

/// The control socket of the demo whose daemon listens there.
pub(super) fn beside(socket: &Path) -> PathBuf {
    socket.with_file_name("control.sock")
}

/// Tells a demo that runs in another terminal.
pub(super) fn tell(control: &Path, command: &Command) -> anyhow::Result<ExitCode> {
    let unreachable = || {
        format!(
            "cannot reach a demo at {}: start one with 'larder demo', and set LARDER_SOCKET as it prints",
            control.display()
        )
    };
    let mut stream = std::os::unix::net::UnixStream::connect(control).with_context(unreachable)?;
    stream.set_read_timeout(Some(PATIENCE)).with_context(unreachable)?;
    stream.set_write_timeout(Some(PATIENCE)).with_context(unreachable)?;
    writeln!(stream, "{command}").context("cannot send the command to the demo")?;
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST_LINE)).read_line(&mut line).context("the demo does not answer")?;
    match line.trim_end().split_once(": ") {
        Some(("done", what)) => {
            output::print(format!("{what}\n").as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        Some((_, why)) => bail!("{why}"),
        None => bail!("the demo has ended"),
    }
}

/// Takes commands from the socket until it is cancelled.
pub(super) async fn listen(listener: UnixListener, orders: mpsc::Sender<Order>, stop: CancellationToken) {
    let mut serving = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = serving.join_next() => {}
            accepted = listener.accept(), if serving.len() < CONNECTIONS => {
                // A connection that fails is its client's concern.
                if let Ok((stream, _)) = accepted {
                    serving.spawn(tokio::time::timeout(PATIENCE, serve(stream, orders.clone())));
                }
            }
        }
    }
    serving.shutdown().await;
}

async fn serve(mut stream: UnixStream, orders: mpsc::Sender<Order>) {
    let (read, mut write) = stream.split();
    let mut line = String::new();
    if tokio::io::BufReader::new(read.take(LONGEST_LINE)).read_line(&mut line).await.is_err() {
        return;
    }
    let answer = match ask(&line, &orders).await {
        Ok(done) => format!("done: {done}\n"),
        Err(why) => format!("error: {why}\n"),
    };
    // Whoever has gone needs no answer.
    let _ = write.write_all(answer.as_bytes()).await;
}

/// Hands a line's command over, and waits for the answer.
async fn ask(line: &str, orders: &mpsc::Sender<Order>) -> Result<String, String> {
    let command = line.parse()?;
    let (answer, answered) = oneshot::channel();
    let ending = || "the demo is ending".to_owned();
    orders.send(Order { command, answer }).await.map_err(|_| ending())?;
    answered.await.map_err(|_| ending())?
}

/// Takes commands from standard input, until it ends. A thread of its own, which is not waited for: nothing ends a read of
/// a terminal but its user.
pub(super) fn listen_to_stdin(orders: mpsc::Sender<Order>) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if line.trim().is_empty() {
                continue;
            }
            let command: Command = match line.parse() {
                Ok(command) => command,
                Err(why) => {
                    output::complain(&why);
                    continue;
                }
            };
            let (answer, answered) = oneshot::channel();
            if orders.blocking_send(Order { command, answer }).is_err() {
                return;
            }
            // What was done is narrated; why not, is told here.
            if let Ok(Err(why)) = answered.blocking_recv() {
                output::complain(&why);
            }
        }
    });
}
