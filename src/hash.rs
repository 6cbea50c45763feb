//! A key's hash, mixed, and what its bits are for.
//!
//! ```text
//!  63        shard's       then the directory's           23      6 5      0
//! ┌────────────┬──────────────────────────────┬───────┬────────────┬────────┐
//! │ shard      │ directory, page by page      │       │ tag 18     │ home 6 │
//! └────────────┴──────────────────────────────┴───────┴────────────┴────────┘
//! ```

use core::hash::{BuildHasher, Hash as StdHash};

use crate::page::SLOTS;
use crate::word::{INCARNATION_BITS, identity_bits};

/// A 64-bit hash of which every bit depends on every bit of the hasher's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hash(u64);

const TAG_BITS: u32 = 64 - INCARNATION_BITS;
const HOME_BITS: u32 = 6;

impl Hash {
    #[inline]
    pub(crate) fn of<Q: StdHash + ?Sized>(hasher: &impl BuildHasher, key: &Q) -> Self {
        Self::mix(hasher.hash_one(key))
    }

    /// One folded multiplication, because a hasher may be weak (that of integers is often the
    /// identity) and all bits are used here.
    #[inline]
    fn mix(hash: u64) -> Self {
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        let product = u128::from(hash ^ ODD.rotate_left(29)) * u128::from(ODD);
        let folded = (product >> 64) as u64 ^ product as u64;
        Self(folded)
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// The shard, of `1 << bits`.
    #[inline]
    pub(crate) const fn shard(self, bits: u32) -> usize {
        // Shifted in two steps: no bits, no shard to choose.
        (self.0 >> 1 >> (63 - bits)) as usize
    }

    /// The bits below the shard's, left-aligned.
    #[inline]
    pub(crate) const fn below_shard(self, bits: u32) -> u64 {
        self.0 << bits
    }

    /// The first slot to look at: the first of a cache line's two.
    #[inline]
    pub(crate) const fn home(self) -> usize {
        let low = (self.0 & ((1 << HOME_BITS) - 1)) as usize;
        ((low * (SLOTS / 2)) >> HOME_BITS) * 2
    }

    #[inline]
    const fn tag(self) -> u64 {
        self.0 >> HOME_BITS & ((1 << TAG_BITS) - 1)
    }

    /// Whether a slot's identity may be of this hash. Not for one that has none.
    #[inline]
    pub(crate) const fn is_tag_of(self, identity: u64) -> bool {
        identity >> INCARNATION_BITS == self.tag() && identity != 0
    }

    /// The identity of this hash's key in its `incarnation`.
    #[inline]
    pub(crate) const fn identity(self, incarnation: u64) -> u64 {
        identity_bits(self.tag(), incarnation)
    }
}
