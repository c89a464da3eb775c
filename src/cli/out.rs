//! Writing to the terminal, or to whatever stands in its place.

use qnnc::Error;
use qnnc::error::reason;
use std::io::{self, ErrorKind, Write};

/// Writes results to stdout. A reader that went away (`| head`) is not an error.
pub fn print(text: &str) -> Result<(), Error> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Error::environment(format!("cannot write to stdout: {}", reason(&e))))
        }
        _ => Ok(()),
    }
}

/// Writes `value` to stdout as JSON with a line break at the end.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Error> {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(&(text + "\n")),
        Err(e) => Err(Error::environment(format!("cannot write JSON: {e}"))),
    }
}

/// `error: ...` and, where there is one, `help: ...` on stderr; coloured on a terminal unless `NO_COLOR` is set.
pub fn error(error: &Error) {
    labelled("\x1b[1;31merror\x1b[0m", &error.to_string());
    for line in &error.trouble().details {
        let _: io::Result<()> = writeln!(anstream::stderr().lock(), "  {line}");
    }
    if let Some(help) = &error.trouble().help {
        labelled("\x1b[1;36mhelp\x1b[0m", &qnnc::error::one_line(help));
    }
}

/// `note: ...` on stderr.
pub fn note(text: &str) {
    labelled("\x1b[1mnote\x1b[0m", &qnnc::error::one_line(text));
}

fn labelled(label: &str, text: &str) {
    // Where stderr is gone there is nobody to tell.
    let _: io::Result<()> = writeln!(anstream::stderr().lock(), "{label}: {text}");
}
