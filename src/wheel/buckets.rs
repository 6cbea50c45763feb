//! The buckets of a wheel: in which one a tick belongs, and which is the first that has entries.

use super::chunks::NONE;

/// A level has this many bits of a tick, and as many buckets as a word has bits.
const BITS: u32 = 6;
const WIDTH: usize = 1 << BITS;
/// Enough for all 64 bits of a tick. The last has only the upper four of them.
const LEVELS: usize = u64::BITS.div_ceil(BITS) as usize;

const _: () = assert!(WIDTH == u64::BITS as usize && LEVELS == 11);

/// Which bucket: the level, and the place in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) level: u32,
    slot: u32,
}

impl Place {
    /// Where a tick belongs when the wheel stands at `cursor`: on the level of the highest digit in
    /// which the two differ, at the tick's own digit.
    #[inline]
    pub(super) const fn of(cursor: u64, tick: u64) -> Self {
        // The lowest bit makes no difference to the level, and there is a highest one then.
        let level = ((cursor ^ tick) | 1).ilog2() / BITS;
        let slot = (tick >> (level * BITS)) as u32 % WIDTH as u32;
        Self { level, slot }
    }

    /// Whether two ticks that agree above this bucket's level are both in one bucket of it.
    #[inline]
    pub(super) const fn is_shared(self, one: u64, other: u64) -> bool {
        (one ^ other) >> (self.level * BITS) == 0
    }

    #[inline]
    const fn index(self) -> usize {
        self.level as usize * WIDTH + self.slot as usize
    }
}

/// The entries that belong to one place, in the order in which they came.
#[derive(Clone, Copy)]
pub(super) struct Bucket {
    /// No entry here is due before this tick: the earliest that any has had since the bucket was
    /// empty.
    pub(super) bound: u64,
    /// Its first and last chunk.
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl Bucket {
    const EMPTY: Self = Self { bound: u64::MAX, head: NONE, tail: NONE };

    /// Takes note of a tick that is filed here.
    #[inline]
    pub(super) fn lower_bound(&mut self, tick: u64) {
        self.bound = self.bound.min(tick);
    }
}

/// All buckets, and which of them have entries.
#[derive(Clone)]
pub(super) struct Buckets {
    buckets: Box<[Bucket; WIDTH * LEVELS]>,
    occupied: [u64; LEVELS],
    /// The levels that have any.
    levels: u32,
}

impl Buckets {
    pub(super) fn new() -> Self {
        let buckets = vec![Bucket::EMPTY; WIDTH * LEVELS].into_boxed_slice();
        let buckets = buckets.try_into().ok().expect("there are as many as were asked for");
        Self { buckets, occupied: [0; LEVELS], levels: 0 }
    }

    #[inline]
    pub(super) fn at(&mut self, place: Place) -> &mut Bucket {
        &mut self.buckets[place.index()]
    }

    #[inline]
    pub(super) fn bound(&self, place: Place) -> u64 {
        self.buckets[place.index()].bound
    }

    /// Has a bucket count as one with entries.
    #[inline]
    pub(super) fn occupy(&mut self, place: Place) {
        self.occupied[place.level as usize] |= 1 << place.slot;
        self.levels |= 1 << place.level;
    }

    /// Empties a bucket, and returns what it was.
    #[inline]
    pub(super) fn vacate(&mut self, place: Place) -> Bucket {
        let occupied = &mut self.occupied[place.level as usize];
        *occupied &= !(1 << place.slot);
        if *occupied == 0 {
            self.levels &= !(1 << place.level);
        }
        std::mem::replace(self.at(place), Bucket::EMPTY)
    }

    /// The bucket with the earliest entries: on the lowest level that has any, the first.
    #[inline]
    pub(super) fn first(&self) -> Option<Place> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros();
        let slot = self.occupied[level as usize].trailing_zeros();
        Some(Place { level, slot })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inv_24_a_place_is_the_highest_digit_that_differs() {
        for level in 0..LEVELS as u32 {
            let unit = 1_u64 << (level * BITS);
            assert_eq!(Place::of(0, unit), Place { level, slot: 1 });
            assert_eq!(Place::of(unit - 1, unit), Place { level, slot: 1 });
            assert_eq!(Place::of(unit, unit + unit / 2).level, level.saturating_sub(1));
        }
        assert_eq!(Place::of(0, u64::MAX), Place { level: 10, slot: 15 });
        assert_eq!(Place::of(u64::MAX, u64::MAX), Place { level: 0, slot: 63 });
    }

    #[test]
    fn the_first_bucket_is_the_earliest() {
        let mut buckets = Buckets::new();
        assert_eq!(buckets.first(), None);
        let mut later = None;
        // From the last of all to the first, relative to a cursor of 0.
        for level in (0..LEVELS as u32).rev() {
            for slot in [9, 5, 1] {
                let place = Place { level, slot };
                buckets.occupy(place);
                assert_eq!(buckets.first(), Some(place), "and not {later:?}");
                later = Some(place);
            }
        }
        for level in 0..LEVELS as u32 {
            for slot in [1, 5, 9] {
                assert_eq!(buckets.first(), Some(Place { level, slot }));
                buckets.vacate(Place { level, slot });
            }
        }
        assert_eq!(buckets.first(), None);
    }
}
