//! What can keep a lease for each of many keys, the keys, and who holds.

use std::hint::black_box;
use std::mem;
use std::ops::Range;
use std::time::Duration;

use leasehold::{AcquireError, HolderId, Lease, LeaseTable};

/// Longer than any run.
pub(crate) const TERM: Duration = Duration::from_secs(3600);

/// Something that keeps a lease for each key.
pub(crate) trait Leases: Sync {
    /// As the cells call it.
    const NAME: &'static str;
    /// What a grant gives and a release takes.
    type Held<'a>
    where
        Self: 'a;
    /// What a refusal tells.
    type Refusal;

    /// Empty, as one gets it who asks for nothing special.
    fn empty() -> Self;

    /// Empty, with room for this many keys.
    fn with_room(keys: usize) -> Self;

    /// Asks for the lease, for [`TERM`].
    fn acquire(&self, key: u64, holder: HolderId) -> Result<Self::Held<'_>, Self::Refusal>;

    /// The number of the grant.
    fn token(held: &Self::Held<'_>) -> u64;

    /// Gives it back.
    fn release(&self, held: Self::Held<'_>);

    /// Grants, looks at the token (without it a lease protects nothing) and releases. False if it
    /// was refused.
    #[inline]
    fn grant_and_release(&self, key: u64, holder: HolderId) -> bool {
        match self.acquire(key, holder) {
            Ok(held) => {
                black_box(Self::token(&held));
                self.release(held);
                true
            }
            Err(refusal) => {
                black_box(refusal);
                false
            }
        }
    }

    /// Grants each of the first so many keys to somebody who does not give it back.
    fn hold(&self, keys: usize, holder: HolderId) {
        for index in 0..keys {
            let held = self.acquire(key(index), holder);
            assert!(held.is_ok(), "{}: refused, and nobody held it", Self::NAME);
            mem::forget(held);
        }
    }

    /// Makes the first so many keys known, by a grant and a release of each.
    fn fill(&self, keys: usize) {
        for index in 0..keys {
            let granted = self.grant_and_release(key(index), holder(0));
            assert!(granted, "{}: refused, and nobody held it", Self::NAME);
        }
    }
}

impl Leases for LeaseTable<u64> {
    const NAME: &'static str = "leasehold";
    type Held<'a> = Lease<'a, u64>;
    type Refusal = AcquireError;

    fn empty() -> Self {
        Self::new()
    }

    fn with_room(keys: usize) -> Self {
        Self::builder().capacity(keys).retention(TERM).build().expect("settings that agree")
    }

    #[inline]
    fn acquire(&self, key: u64, holder: HolderId) -> Result<Lease<'_, u64>, AcquireError> {
        self.try_acquire(&key, holder, TERM)
    }

    #[inline]
    fn token(held: &Lease<'_, u64>) -> u64 {
        held.token().get()
    }

    #[inline]
    fn release(&self, held: Lease<'_, u64>) {
        held.release().expect("no term passes in a run");
    }
}

/// The holder that the thread with this number is.
pub(crate) fn holder(thread: usize) -> HolderId {
    HolderId::new(thread as u64 + 1).expect("a small number other than 0")
}

/// The key with this index: far from its neighbours', as keys in use are.
#[inline]
pub(crate) fn key(index: usize) -> u64 {
    (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Pseudo-random keys, by a generator that costs next to nothing (Marsaglia's xorshift).
pub(crate) struct Keys {
    state: u64,
    first: usize,
    count: u64,
}

impl Keys {
    /// Out of the keys with these indices: the same sequence for the same arguments, another for
    /// each round and thread.
    pub(crate) fn new(among: Range<usize>, round: u64, thread: usize) -> Self {
        // An odd number times an odd one: never zero, where xorshift would stay for ever.
        let seed = (round << 8) | ((thread as u64) << 1) | 1;
        let state = seed.wrapping_mul(0xD129_0B26_88B3_46C5);
        Self { state, first: among.start, count: among.len() as u64 }
    }

    #[inline]
    pub(crate) fn draw(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        // The upper half, scaled to an index: no division.
        let offset = ((self.state >> 32) * self.count) >> 32;
        key(self.first + offset as usize)
    }
}
