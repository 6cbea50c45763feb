//! For tests: evidence that a lease table kept its word.
//!
//! | module | what it is for |
//! |---|---|
//! | [`history`] | record what threads asked of a table and were told; check that it was true |
//!
//! Nothing here is used by the table itself, and nothing here knows the table: a
//! [`Recorder`](history::Recorder) is told what happened, so it serves as well for a grantor of
//! your own, in this process or behind a network.

pub mod history;
