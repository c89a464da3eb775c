//! Drawing the library's progress events on stderr.

use super::out;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use qnnc::progress::Event;
use std::io::IsTerminal;
use std::time::Duration;

/// A spinner or a bar on stderr. Nothing is drawn when stderr is not a terminal, or with `--quiet`.
pub struct Drawing {
    bar: ProgressBar,
    quiet: bool,
}

impl Drawing {
    pub fn new(quiet: bool) -> Self {
        let draw = !quiet && std::io::stderr().is_terminal();
        let target = if draw { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target).with_style(style("{spinner} {msg} {elapsed}"));
        if draw {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        Self { bar, quiet }
    }

    /// What the library calls.
    pub fn show(&self, event: Event<'_>) {
        match event {
            Event::Stage(stage) => {
                self.bar.set_style(style("{spinner} {msg} {elapsed}"));
                self.bar.unset_length();
                self.bar.set_message(qnnc::error::one_line(stage));
            }
            Event::Op { graph, done, total } => {
                self.bar.set_style(style("{spinner} {msg} [{bar:24}] {pos}/{len}"));
                self.bar.set_message(qnnc::error::one_line(graph));
                self.bar.set_length(total as u64);
                self.bar.set_position(done as u64);
            }
            Event::Bytes { what, done, total } => {
                self.bar.set_style(style("{spinner} {msg} {pos} bytes"));
                self.bar.set_message(qnnc::error::one_line(what));
                self.bar.set_length(total.max(done));
                self.bar.set_position(done);
            }
            Event::Note(text) if !self.quiet => self.bar.suspend(|| out::note(text)),
            Event::Note(_) => {}
        }
    }
}

impl Drop for Drawing {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .tick_chars("-\\|/ ")
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid() {
        for template in
            ["{spinner} {msg} {elapsed}", "{spinner} {msg} [{bar:24}] {pos}/{len}", "{spinner} {msg} {pos} bytes"]
        {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
    }
}
