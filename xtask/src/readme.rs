//! Runs the commands of README.md and compares what they print with what it says that they print.
//!
//! A block fenced as `console` is a terminal: a line that begins with `$ ` is a command (a line that ends in `\` goes on
//! in the next), the lines below it are its output. Blocks run one after the other, in one shell, in a fresh clone of the
//! last commit of this checkout. Other blocks are not run.
//!
//! A comment before a block says what is special about it:
//!
//! | comment | meaning |
//! | --- | --- |
//! | `<!-- checked: stays -->` | the last command goes on running, as in a terminal of its own, until the end |
//! | `<!-- checked: eventually -->` | the block is run again until the output is as shown |
//! | `<!-- checked: exit 1 -->` | the last command ends with this code |
//!
//! In shown output a line `...` stands for any lines, and `…` for any text. Ages, times, identifiers, ports and the
//! paths of sockets are compared as such, not by value, and so are runs of spaces ([`compare`]).

mod blocks;
mod compare;
mod session;

use crate::{checkout, shell};
use anyhow::{Context as _, Result, bail};
use blocks::{Block, Mode};
use session::Session;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The first command may build everything.
const COMMAND_LIMIT: Duration = Duration::from_mins(45);
/// How long output that is to come eventually may take.
const EVENTUALLY_LIMIT: Duration = Duration::from_mins(1);

/// Which file.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The file, in the checkout.
    #[arg(default_value = "README.md")]
    file: PathBuf,
    /// Only list the commands that would be run.
    #[arg(long)]
    list: bool,
}

/// Checks one file.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let file = checkout::root().join(&arguments.file);
    if arguments.list {
        for block in read(&file)? {
            for command in block.commands {
                println!("{}: {}", command.line, command.text);
            }
        }
        return Ok(());
    }
    check(&file)
}

fn read(file: &Path) -> Result<Vec<Block>> {
    let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    blocks::parse(&text).with_context(|| format!("in {}", file.display()))
}

/// Runs what a file shows. The programs that it leaves running are ended, whatever happens.
pub(crate) fn check(file: &Path) -> Result<()> {
    let blocks = read(file)?;
    if blocks.is_empty() {
        bail!("{} has no block fenced as `console`, so there is nothing to check", file.display());
    }
    let status = shell::output(shell::program_in(Path::new("git"), checkout::root()).args(["status", "--porcelain"]))?;
    if !status.is_empty() {
        println!("note: a clone has the last commit, without the changes that are not committed yet");
    }
    let folder = std::env::temp_dir().join(format!("larder-readme-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let mut session = Session::start(&folder, &checkout::target().join("readme"))?;
    let checked = blocks.iter().try_for_each(|block| {
        check_block(&mut session, block).with_context(|| format!("{}, line {}", file.display(), block.line))
    });
    let ended = session.end();
    fs::remove_dir_all(&folder)?;
    checked.and(ended)
}

fn check_block(session: &mut Session, block: &Block) -> Result<()> {
    if block.mode == Mode::Eventually {
        let deadline = session.now() + EVENTUALLY_LIMIT;
        loop {
            match run_block(session, block) {
                Ok(()) => return Ok(()),
                Err(error) if session.now() >= deadline => return Err(error),
                Err(_) => session.pause(),
            }
        }
    }
    run_block(session, block)
}

fn run_block(session: &mut Session, block: &Block) -> Result<()> {
    for (index, command) in block.commands.iter().enumerate() {
        let is_last = index + 1 == block.commands.len();
        session.announce(command);
        if is_last && block.mode == Mode::Stays {
            session.run_in_background(&command.text, COMMAND_LIMIT, |printed| {
                let mut shown = command.output.clone();
                // It goes on, so more may come.
                shown.push("...".into());
                compare::compare(&shown, printed)
            })?;
            continue;
        }
        let done = session.run(&command.text, COMMAND_LIMIT)?;
        let expected = if is_last { block.exit_code } else { 0 };
        if done.code != expected {
            let output = done.output.join("\n");
            bail!("line {}: `{}` ended with code {}, not {expected}:\n{output}", command.line, command.text, done.code);
        }
        let compared = compare::compare(&command.output, &done.output);
        compared.with_context(|| format!("line {}: `{}` printed something else", command.line, command.text))?;
    }
    Ok(())
}
