//! The `qnnc` command.

fn main() {}
