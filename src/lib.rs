//! A lock-free, in-process lease table: it grants a *holder* a *lease* on a *resource* for a bounded
//! term, after which the lease ends by itself, whatever became of the holder. Every grant has a *fencing
//! token*, larger than every earlier one of its resource, by which what the lease protects can refuse
//! whoever comes late.
//!
//! ```
//! use leasehold::{Fenced, HolderId, LeaseTable};
//! use std::time::Duration;
//!
//! let table: LeaseTable<String> = LeaseTable::new();
//! let report = Fenced::new(String::new());
//!
//! let lease = table.try_acquire("report.pdf", HolderId::mint(), Duration::from_secs(30))?;
//! report.write(lease.token(), |text| text.push_str("done"))?;
//! lease.release()?; // Or drop it, or crash: then it lapses.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is not promised
//!
//! That a holder stops when its lease is over: one that was suspended goes on as if nothing had happened.
//! Nothing here can prevent that; a token that is checked makes it harmless. Nor is there anything
//! between processes. What *is* promised is in the [guide](docs::guide#what-is-promised).
//!
//! # Where things are
//!
//! | to | use |
//! |---|---|
//! | grant, inspect, revoke, count | [`LeaseTable`], made by its [`Builder`] |
//! | wait for a lease, or for several | [`acquire`](LeaseTable::acquire), [`acquire_async`](LeaseTable::acquire_async), [`acquire_all`](LeaseTable::acquire_all) |
//! | see who waits, and for whom | [`waiters`](LeaseTable::waiters), [`deadlocks`](LeaseTable::deadlocks) |
//! | hold a lease | [`Lease`], [`OwnedLease`]; as a plain value [`Grant`] |
//! | acquire one resource again and again | [`Resource`] |
//! | refuse late holders | [`Fence`], [`Fenced`] |
//! | be told how leases end | [`Builder::events`], [`Builder::listener`], [`Subscription`], [`Ended`] |
//! | have lapses happen in time | [`Builder::sweeper`], or [`LeaseTable::sweep`] in a loop of yours |
//! | say who holds | [`HolderId`] |
//! | choose where time comes from | [`clock`] |
//! | file ids under the ticks at which they are due | [`wheel`] |
//! | test with leases | [`ManualClock`], [`testing`] |
//!
//! And to read: [how to use it](docs::guide), [how to wait](docs::waiting), [its limits](docs::limits),
//! [what it costs](docs::performance), [why it is right](docs::protocol), and
//! [its memory orderings](docs::orderings).
#![cfg_attr(docsrs, feature(doc_cfg))]

mod arena;
mod at;
pub mod clock;
mod directory;
pub mod docs;
mod error;
mod events;
mod expiry;
mod fence;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod grant;
mod granted;
mod hash;
mod id;
mod insert;
mod key_cell;
mod lease;
mod page;
mod pinned;
mod place;
mod prefetch;
mod replace;
mod resource;
mod room;
mod shard;
mod slot;
mod stats;
mod sync;
mod table;
pub mod testing;
mod thread;
mod wait;
pub mod wheel;
mod word;

pub use clock::{
    Clock, CoarseClock, CoarseClockError, InvalidRate, ManualClock, QuantaClock, Skew, StdClock,
    TickRate,
};
pub use error::{AcquireError, Held, Lost, NotHeld, RenewError};
pub use events::{Causes, EndCause, Ended, RecvError, SubscribeError, Subscription};
pub use expiry::{ClockGap, GapPolicy, Sweeper, Sweeping, Swept};
pub use fence::{Fence, Fenced, StaleToken};
pub use grant::Grant;
pub use id::{HolderId, InvalidHolder, TableId, Token};
pub use lease::{Lease, OwnedLease, Status};
pub use resource::Resource;
pub use stats::Stats;
pub use table::{
    BuildError, Builder, DefaultHashBuilder, DefaultHasher, Iter, Key, LeaseInfo, LeaseTable,
    Revoke, WeakLeaseTable,
};
pub use wait::{Acquire, AcquireAll, AcquireOwned, Deadlock, Link, WaitError, Waiter, Waiting};

/// Its examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
