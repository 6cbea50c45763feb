//! Loom models of the table: the real code, with pages of two slots and stamps of two bits, under
//! every schedule that loom explores within its bound on preemptions.
//!
//! Each model asserts what must hold in every execution, and, over all of them, that the outcomes it
//! is about were reached. Run with `RUSTFLAGS="--cfg leasehold_loom"`, in release.
#![cfg(leasehold_loom)]

mod hand_overs;
mod leases;
mod orphans;
mod pages;
mod reuse;
mod support;
mod sweeper;
mod sweeps;
mod waiters;
mod waiting;
