//! How far the comparison is.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress bar on stderr, if that is a terminal.
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new(traces: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(traces), ProgressDrawTarget::stderr());
        let template = "{bar:40} {human_pos} of {human_len} traces, {per_sec}, {eta} left {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }

    pub(super) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    pub(super) fn at(&self, traces: u64) {
        self.0.set_position(traces);
    }

    pub(super) fn found(&self) {
        self.0.set_message("(differences found)");
    }

    pub(super) fn done(&self) {
        self.0.finish_and_clear();
    }
}
