//! A lock-free, in-process lease table.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod arena;
mod at;
pub mod clock;
mod directory;
mod error;
mod fence;
mod grant;
mod hash;
mod id;
mod key_cell;
mod lease;
mod page;
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
mod word;

pub use clock::{
    Clock, CoarseClock, CoarseClockError, InvalidRate, ManualClock, QuantaClock, Skew, StdClock,
    TickRate,
};
pub use error::{AcquireError, Held, Lost, NotHeld, RenewError};
pub use fence::{Fence, Fenced, StaleToken};
pub use grant::Grant;
pub use id::{HolderId, InvalidHolder, TableId, Token};
pub use lease::{Lease, OwnedLease, Status};
pub use resource::Resource;
pub use stats::Stats;
pub use table::{
    BuildError, Builder, DefaultHashBuilder, DefaultHasher, Iter, Key, LeaseInfo, LeaseTable,
    Revoke,
};
