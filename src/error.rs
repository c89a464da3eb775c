//! What can go wrong in a command, by whose turn it is to act: the user's, the environment's, the vendor's.

use std::fmt;

/// One line that names the thing, and one that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub message: String,
    /// Somebody else's words on it, such as the last lines of the vendor's log.
    pub details: Vec<String>,
    pub help: Option<String>,
}

impl Trouble {
    /// Indented lines at the end of `text` are details.
    fn new(text: &str) -> Self {
        let mut lines = text.split("\n  ");
        let message = lines.next().unwrap_or_default().to_owned();
        Self { message, details: lines.map(one_line).collect(), help: None }
    }
}

/// Why a command failed. The kind decides the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The user's input: a file, a flag, a model.
    Input(Trouble),
    /// The runtime is missing or does not fit, or the machine does not play along.
    Environment(Trouble),
    /// The vendor's backend refused, failed, crashed or hung.
    Vendor(Trouble),
}

impl Error {
    pub fn input(message: impl Into<String>) -> Self {
        Self::Input(Trouble::new(&message.into()))
    }

    pub fn environment(message: impl Into<String>) -> Self {
        Self::Environment(Trouble::new(&message.into()))
    }

    pub fn vendor(message: impl Into<String>) -> Self {
        Self::Vendor(Trouble::new(&message.into()))
    }

    /// The same error with what to do about it.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        match &mut self {
            Self::Input(t) | Self::Environment(t) | Self::Vendor(t) => t.help = Some(help.into()),
        }
        self
    }

    /// An input file that cannot be read.
    pub fn unreadable(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::input(format!("cannot read {}: {}", path.display(), reason(error)))
    }

    /// An output that cannot be written: the user's turn, since the user names outputs.
    pub fn unwritable(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::input(format!("cannot write {}: {}", path.display(), reason(error)))
    }

    pub fn trouble(&self) -> &Trouble {
        match self {
            Self::Input(t) | Self::Environment(t) | Self::Vendor(t) => t,
        }
    }

    /// 2 the user's input · 3 the environment · 4 the vendor. (0 is success, 1 is the gate, which is not an error.)
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Environment(_) => 3,
            Self::Vendor(_) => 4,
        }
    }
}

impl fmt::Display for Error {
    /// One line: line breaks inside the message become spaces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.trouble().message))
    }
}

impl std::error::Error for Error {}

/// `text` without line breaks and other control characters.
pub fn one_line(text: &str) -> String {
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The operating system's reason without its number.
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_exit_codes() {
        assert_eq!(Error::input("x").exit_code(), 2);
        assert_eq!(Error::environment("x").exit_code(), 3);
        assert_eq!(Error::vendor("x").exit_code(), 4);
    }

    #[test]
    fn display_is_one_line() {
        let e = Error::input("node \"a\nb\" is odd\n").help("rename it");
        assert_eq!(e.to_string(), "node \"a b\" is odd");
        assert_eq!(e.trouble().help.as_deref(), Some("rename it"));
    }

    #[test]
    fn indented_lines_are_details() {
        let e = Error::vendor("it crashed; its last words:\n  one\n  two");
        assert_eq!(e.to_string(), "it crashed; its last words:");
        assert_eq!(e.trouble().details, ["one", "two"]);
    }

    #[test]
    fn reasons_have_no_number() {
        assert_eq!(reason(&std::io::Error::from_raw_os_error(2)), "no such file or directory");
    }
}
