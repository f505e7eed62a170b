//! One shell that runs a document's commands one after the other, so that `cd` and `export` last.

use crate::{checkout, shell};
use anyhow::{Context as _, Result, bail};
use larder_clock::{Clock as _, MonotonicClock, Timestamp};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// The folder of the clone that the commands run in.
const CLONE: &str = "larder";
/// Ends the output of a command.
const MARK: &str = "larder-readme-command-ended-with";
/// How long a program that stays may take to end after Ctrl-C.
const END_LIMIT: Duration = Duration::from_secs(30);

/// A command that has ended.
pub(super) struct Done {
    pub(super) code: i32,
    pub(super) output: Vec<String>,
}

/// The shell.
pub(super) struct Session {
    shell: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    folder: PathBuf,
    commands: usize,
    /// The line of the last command that was shown.
    announced: usize,
    /// The process groups of the commands that stay.
    background: Vec<String>,
    clock: MonotonicClock,
}

impl Session {
    /// Starts the shell in a fresh clone of this checkout, made in `folder`, which builds into `target`.
    pub(super) fn start(folder: &Path, target: &Path) -> Result<Self> {
        let clone = folder.join(CLONE);
        let mut git = Command::new("git");
        git.args(["clone", "--quiet", "--"]).args([checkout::root(), &clone]);
        shell::run(&mut git)?;
        // It builds where the clone before it did, so that only what has changed is built.
        fs::create_dir_all(target)?;
        std::os::unix::fs::symlink(target, clone.join("target"))?;
        let (reader, writer) = std::io::pipe()?;
        let mut shell = Command::new("bash");
        shell
            .args(["--noprofile", "--norc"])
            .current_dir(&clone)
            .stdin(Stdio::piped())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            // As where a reader has none set: the clone builds into its own `target`.
            .env_remove("CARGO_TARGET_DIR")
            // The document shows what its programs print, not how cargo builds them.
            .env("CARGO_TERM_QUIET", "true")
            .env("NO_COLOR", "1")
            .env("COLUMNS", "120")
            .env_remove("LARDER_SOCKET")
            .env_remove("KUBECONFIG");
        for (name, _) in std::env::vars_os() {
            // What cargo tells this program about itself is not for the programs that it runs.
            if name.to_string_lossy().starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR" {
                shell.env_remove(&name);
            }
        }
        let mut shell = shell.spawn().context("start bash")?;
        let input = shell.stdin.take().context("the shell's input")?;
        let (sender, lines) = mpsc::channel();
        // Ends when the shell and all that it started have closed their output.
        std::thread::spawn(move || {
            for line in BufReader::new(reader).lines() {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut session = Self {
            shell,
            input,
            lines,
            folder: folder.to_owned(),
            commands: 0,
            announced: 0,
            background: Vec::new(),
            clock: MonotonicClock::new(),
        };
        // As in the shell that a reader types into.
        session.send("shopt -s expand_aliases\n")?;
        // When this program is killed, the shell's input ends, and with it the shell and what stays.
        session.send("trap 'kill -KILL -- $larder_readme_groups 2>/dev/null' EXIT\n")?;
        Ok(session)
    }

    /// The time, for deadlines.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Shows which command comes next; once, when it is run again and again.
    pub(super) fn announce(&mut self, command: &super::blocks::Command) {
        if self.announced < command.line {
            println!("line {}: {}", command.line, command.text);
            self.announced = command.line;
        }
    }

    /// Gives the programs a moment before the next look.
    pub(super) fn pause(&self) {
        // Between commands nothing arrives here.
        let _ = self.lines.recv_timeout(Duration::from_millis(200));
    }

    /// Runs a command to its end.
    pub(super) fn run(&mut self, command: &str, limit: Duration) -> Result<Done> {
        let script = self.script(command)?;
        // The command must not read the shell's own input, which is the commands to come.
        self.send(&format!(". {script} </dev/null\nprintf '\\n{MARK} %d\\n' $?\n"))?;
        let deadline = self.now() + limit;
        let mut output = Vec::new();
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(self.now())) {
                Ok(line) => match line.strip_prefix(MARK) {
                    Some(code) => {
                        // The mark begins with a line break, for a command whose last line has none.
                        if output.last().is_some_and(String::is_empty) {
                            output.pop();
                        }
                        return Ok(Done { code: code.trim().parse()?, output });
                    }
                    None => output.push(line),
                },
                Err(RecvTimeoutError::Timeout) => {
                    bail!("`{command}` did not end within {limit:?}:\n{}", output.join("\n"))
                }
                Err(RecvTimeoutError::Disconnected) => bail!("`{command}` ended the shell:\n{}", output.join("\n")),
            }
        }
    }

    /// Starts a command that stays, and waits until what it has printed is as it should be.
    pub(super) fn run_in_background(
        &mut self,
        command: &str,
        limit: Duration,
        compare: impl Fn(&[String]) -> Result<()>,
    ) -> Result<()> {
        let script = self.script(command)?;
        let log = format!("{script}.log");
        // With job control, so that the command leads a process group that can be sent Ctrl-C.
        let start =
            format!("set -m; . {script} </dev/null >{log} 2>&1 & echo $!; larder_readme_groups+=\" -$!\"; set +m");
        let group = self.run(&start, END_LIMIT)?.output.pop().context("the process group of a command that stays")?;
        self.background.push(group.clone());
        let deadline = self.now() + limit;
        loop {
            let bytes = fs::read(&log).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            let printed: Vec<String> = text.lines().map(str::to_owned).collect();
            let Err(difference) = compare(&printed) else { return Ok(()) };
            if self.run(&format!("kill -0 {group} 2>/dev/null"), END_LIMIT)?.code != 0 {
                return Err(difference.context(format!("`{command}` should stay, but has ended")));
            }
            if self.now() >= deadline {
                return Err(difference.context(format!("`{command}` did not print what is shown within {limit:?}")));
            }
            self.pause();
        }
    }

    /// Ends what stays, as Ctrl-C does, and the shell.
    pub(super) fn end(mut self) -> Result<()> {
        let limit = END_LIMIT.as_secs();
        let mut stuck = Vec::new();
        for group in std::mem::take(&mut self.background) {
            let end = format!(
                "kill -INT -- -{group} 2>/dev/null; \
                 for _ in $(seq {limit}0); do kill -0 -- -{group} 2>/dev/null || break; sleep 0.1; done; \
                 if kill -KILL -- -{group} 2>/dev/null; then echo killed; fi"
            );
            if self.run(&end, END_LIMIT * 2)?.output.iter().any(|line| line == "killed") {
                stuck.push(group);
            }
        }
        self.send("exit\n")?;
        self.shell.wait()?;
        if !stuck.is_empty() {
            bail!("a command that stays did not end within {limit} s of Ctrl-C, and was killed");
        }
        Ok(())
    }

    fn script(&mut self, command: &str) -> Result<String> {
        self.commands += 1;
        let script = self.folder.join(format!(".command-{}", self.commands));
        fs::write(&script, format!("{command}\n"))?;
        Ok(script.display().to_string())
    }

    fn send(&mut self, text: &str) -> Result<()> {
        self.input.write_all(text.as_bytes()).context("the shell has ended")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Reached without `end` only by a failure to talk to the shell: nothing may be left running.
        for group in &self.background {
            let _ = Command::new("bash").args(["-c", &format!("kill -KILL -- -{group} 2>/dev/null")]).status();
        }
    }
}
