//! Where a page belongs: which hashes of which shard it is for.

/// The hashes of a shard whose top `depth` bits (below the shard's own) are `prefix`'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) shard: usize,
    /// Left-aligned.
    pub(crate) prefix: u64,
    pub(crate) depth: u32,
}

const DEPTH_BITS: u32 = 6;
const SHARD_BITS: u32 = 12;
/// How deep a place may lie, so that shard and depth fit below its prefix.
pub(crate) const PLACE_DEPTH_MAX: u32 = 64 - DEPTH_BITS - SHARD_BITS;
/// How many shards have a number that fits.
pub(crate) const PLACE_SHARDS_MAX: usize = 1 << SHARD_BITS;

impl Place {
    /// The place of the hashes that start as `prefix` does.
    pub(crate) fn new(shard: usize, prefix: u64, depth: u32) -> Self {
        debug_assert!(depth < PLACE_DEPTH_MAX && shard < PLACE_SHARDS_MAX);
        let mask = if depth == 0 { 0 } else { u64::MAX << (64 - depth) };
        Self { shard, prefix: prefix & mask, depth }
    }

    /// `[prefix 46 | shard 12 | depth 6]`.
    pub(crate) fn bits(self) -> u64 {
        self.prefix | (self.shard as u64) << DEPTH_BITS | u64::from(self.depth)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        let depth = (bits & ((1 << DEPTH_BITS) - 1)) as u32;
        let shard = (bits >> DEPTH_BITS) as usize & (PLACE_SHARDS_MAX - 1);
        Self::new(shard, bits, depth)
    }

    /// The bit of a left-aligned hash that tells the halves apart.
    pub(crate) fn half_bit(self) -> u64 {
        1 << (63 - self.depth)
    }

    pub(crate) fn halves(self) -> (Self, Self) {
        let Self { shard, prefix, depth } = self;
        (Self::new(shard, prefix, depth + 1), Self::new(shard, prefix | self.half_bit(), depth + 1))
    }

    /// The left-aligned prefix after the last of this place; `None` at the end.
    pub(crate) fn after(self) -> Option<u64> {
        if self.depth == 0 { None } else { self.prefix.checked_add(1 << (64 - self.depth)) }
    }
}

#[cfg(all(test, not(any(leasehold_loom, leasehold_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_place_packs_and_unpacks() {
        for depth in [0, 1, 5, 32] {
            for shard in [0, 1, PLACE_SHARDS_MAX - 1] {
                for prefix in [0, 1 << 63, u64::MAX] {
                    let place = Place::new(shard, prefix, depth);
                    assert_eq!(Place::from_bits(place.bits()), place);
                }
            }
        }
    }

    #[test]
    fn halves_cover_a_place_one_after_the_other() {
        let place = Place::new(3, 0b101 << 61, 3);
        let (low, high) = place.halves();
        assert_eq!((low.prefix, low.after()), (place.prefix, Some(high.prefix)));
        assert_eq!(high.after(), place.after());
        assert_eq!(Place::new(0, 0, 0).after(), None);
        assert_eq!(Place::new(0, u64::MAX, 1).after(), None);
    }
}
