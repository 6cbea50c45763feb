//! Pages on how to use the table, why it is right, and what it costs.
//!
//! | page | for whom |
//! |---|---|
//! | [`guide`] | whoever uses leases: what is promised, terms, fencing, patterns |
//! | [`waiting`] | whoever waits for them, with threads or tasks |
//! | [`limits`] | whoever plans with them: every number, and what happens at it |
//! | [`performance`] | whoever compares: what is measured, and how |
//! | [`protocol`] | whoever changes the code: states, invariants, proofs |
//! | [`orderings`] | the same: each atomic operation, its ordering, and why |
//!
//! They are in the repository as `docs/*.md`.

#[doc = include_str!("../docs/guide.md")]
pub mod guide {}

#[doc = include_str!("../docs/limits.md")]
pub mod limits {}

#[doc = include_str!("../docs/orderings.md")]
pub mod orderings {}

#[doc = include_str!("../docs/performance.md")]
pub mod performance {}

#[doc = include_str!("../docs/protocol.md")]
pub mod protocol {}

#[doc = include_str!("../docs/waiting.md")]
pub mod waiting {}
