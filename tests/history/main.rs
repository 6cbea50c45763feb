//! The recorder and the checker of histories.
//!
//! - `rules`: by hand, each rule at its edge: the last history that can be explained, and the first
//!   that cannot.
//! - `random`: histories of a correct table, with calls that overlap at random, are never faulted;
//!   a corruption of one always is.
//! - `threads`: real threads on small grantors, honest and not.

#![cfg(not(leasehold_loom))]

mod random;
mod rules;
mod simulator;
mod story;
mod text;
mod threads;
