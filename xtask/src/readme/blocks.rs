//! Finds the blocks of a Markdown text that are to be run.

use anyhow::{Result, bail};

/// How a block is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Each command ends, and has printed what is shown.
    Ends,
    /// The last command goes on running.
    Stays,
    /// The block is repeated until the output is as shown.
    Eventually,
}

/// A fenced block: commands with their output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The line of the fence, counted from 1.
    pub(super) line: usize,
    pub(super) mode: Mode,
    /// How the last command ends.
    pub(super) exit_code: i32,
    pub(super) commands: Vec<Command>,
}

/// A command, and the lines that are shown below it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) output: Vec<String>,
}

/// Reads the blocks fenced as `console`, in order.
pub(super) fn parse(text: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut special = (Mode::Ends, 0);
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let trimmed = line.trim();
        if let Some(comment) = trimmed.strip_prefix("<!-- checked:") {
            special = parse_comment(index + 1, comment.trim_end_matches("-->").trim())?;
        } else if let Some(info) = trimmed.strip_prefix("```") {
            let mut content = Vec::new();
            loop {
                match lines.next() {
                    None => bail!("line {}: the block is not closed", index + 1),
                    Some((_, inner)) if inner.trim() == "```" => break,
                    Some((number, inner)) => content.push((number + 1, inner)),
                }
            }
            let (mode, exit_code) = std::mem::replace(&mut special, (Mode::Ends, 0));
            if info.trim() == "console" {
                blocks.push(Block { line: index + 1, mode, exit_code, commands: parse_commands(&content)? });
            }
        }
    }
    Ok(blocks)
}

fn parse_comment(line: usize, words: &str) -> Result<(Mode, i32)> {
    match words {
        "stays" => Ok((Mode::Stays, 0)),
        "eventually" => Ok((Mode::Eventually, 0)),
        other => match other.strip_prefix("exit ").map(str::parse) {
            Some(Ok(code)) => Ok((Mode::Ends, code)),
            _ => bail!("line {line}: `checked: {other}` is not one of stays, eventually, exit CODE"),
        },
    }
}

fn parse_commands(content: &[(usize, &str)]) -> Result<Vec<Command>> {
    let mut commands: Vec<Command> = Vec::new();
    let mut goes_on = false;
    for (line, text) in content {
        match (text.strip_prefix("$ "), commands.last_mut()) {
            (_, Some(last)) if goes_on => {
                last.text.push('\n');
                last.text.push_str(text);
                goes_on = text.ends_with('\\');
            }
            (Some(command), _) => {
                goes_on = command.ends_with('\\');
                // A comment behind a command is for the reader.
                commands.push(Command { line: *line, text: command.to_owned(), output: Vec::new() });
            }
            (None, Some(last)) => last.output.push((*text).to_owned()),
            (None, None) => bail!("line {line}: output without a command before it"),
        }
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_output_of_console_blocks_are_found() {
        let text = "\
# Title
```sh
not run
```
```console
$ larder get \\
    secret
NAME
x
$ true
```
<!-- checked: exit 1 -->

```console
$ false
```
";
        let blocks = parse(text).unwrap();
        assert_eq!(blocks.len(), 2);
        assert_eq!(blocks[0].commands[0].text, "larder get \\\n    secret");
        assert_eq!(blocks[0].commands[0].output, ["NAME", "x"]);
        assert_eq!(blocks[0].commands[1], Command { line: 10, text: "true".into(), output: vec![] });
        assert_eq!((blocks[1].mode, blocks[1].exit_code, blocks[1].line), (Mode::Ends, 1, 14));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, message) in [
            ("```console\n$ a\n", "line 1: the block is not closed"),
            ("```console\nb\n```", "line 2: output without a command before it"),
            ("<!-- checked: sometimes -->", "line 1: `checked: sometimes` is not one of stays, eventually, exit CODE"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message);
        }
    }
}
