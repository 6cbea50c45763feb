//! The hasher that a table has unless it is given another.

use core::fmt;
use core::hash::BuildHasher;

/// The default hasher: fast, and seeded at random for each process and table.
///
/// It resists accidents, not an attacker who can observe the table and choose keys: who has such
/// users gives the builder another, `std`'s `RandomState` for instance. What such keys can cost is
/// bounded all the same: see [`Crowded`](crate::AcquireError::Crowded).
///
/// # Example
///
/// ```
/// use leasehold::DefaultHashBuilder;
/// use std::hash::BuildHasher;
///
/// let hasher = DefaultHashBuilder::default();
/// assert_eq!(hasher.hash_one("a"), hasher.clone().hash_one("a"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct DefaultHashBuilder(foldhash::fast::RandomState);

impl BuildHasher for DefaultHashBuilder {
    type Hasher = DefaultHasher;

    #[inline]
    fn build_hasher(&self) -> DefaultHasher {
        DefaultHasher(self.0.build_hasher())
    }
}

/// The hasher of [`DefaultHashBuilder`].
///
/// # Example
///
/// ```
/// use leasehold::DefaultHashBuilder;
/// use std::hash::{BuildHasher, Hasher};
///
/// let mut hasher = DefaultHashBuilder::default().build_hasher();
/// hasher.write_u64(7);
/// let _hash = hasher.finish();
/// ```
#[derive(Clone)]
pub struct DefaultHasher(foldhash::fast::FoldHasher<'static>);

impl std::hash::Hasher for DefaultHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0.finish()
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    #[inline]
    fn write_u8(&mut self, i: u8) {
        self.0.write_u8(i);
    }

    #[inline]
    fn write_u16(&mut self, i: u16) {
        self.0.write_u16(i);
    }

    #[inline]
    fn write_u32(&mut self, i: u32) {
        self.0.write_u32(i);
    }

    #[inline]
    fn write_u64(&mut self, i: u64) {
        self.0.write_u64(i);
    }

    #[inline]
    fn write_u128(&mut self, i: u128) {
        self.0.write_u128(i);
    }

    #[inline]
    fn write_usize(&mut self, i: usize) {
        self.0.write_usize(i);
    }
}

impl fmt::Debug for DefaultHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefaultHasher").finish_non_exhaustive()
    }
}
