//! `larder completion`: a script that completes larder's command line in a shell.

use crate::Cli;
use crate::output;
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  source <(larder completion bash)
  larder completion zsh > \"${fpath[1]}/_larder\"
  larder completion fish > ~/.config/fish/completions/larder.fish")]
pub(crate) struct Args {
    /// The shell
    #[arg(value_parser = ["bash", "zsh", "fish"])]
    shell: String,
}

/// Prints the script.
pub(crate) fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let shell = match args.shell.as_str() {
        "zsh" => Shell::Zsh,
        "fish" => Shell::Fish,
        _ => Shell::Bash,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "larder", &mut script);
    output::print(&script)?;
    Ok(ExitCode::SUCCESS)
}
