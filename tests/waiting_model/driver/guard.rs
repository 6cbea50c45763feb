//! A lease of either kind, as the driver keeps it.

use leasehold::{Lease, ManualClock, OwnedLease, Token};

use super::FixedHash;

pub(super) enum Guard<'t> {
    Lease(Lease<'t, u64, FixedHash, ManualClock>),
    Owned(OwnedLease<u64, FixedHash, ManualClock>),
}

impl Guard<'_> {
    pub(super) fn token(&self) -> Token {
        match self {
            Self::Lease(lease) => lease.token(),
            Self::Owned(lease) => lease.token(),
        }
    }

    /// As if its holder had crashed; but it keeps no table.
    pub(super) fn forget(self) {
        // The lease goes on, by value.
        let _ = match self {
            Self::Lease(lease) => lease.into_grant(),
            Self::Owned(lease) => lease.into_grant(),
        };
    }
}
