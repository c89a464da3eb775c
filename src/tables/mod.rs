//! The tables in `op-tables/`, embedded: facts about chips and backends as data, with where they come from.

pub mod faults;
pub mod soc;
