//! A hierarchical timer wheel: ids filed under ticks, and taken out again when their ticks have come.
//!
//! It knows nothing of leases, has no clock, and belongs to one thread at a time. Filing, refiling and
//! removing cost the same however many entries there are; advancing costs what becomes due, never the
//! ticks that pass.
//!
//! ```
//! use leasehold::wheel::Wheel;
//!
//! let mut wheel = Wheel::starting_at(1_000);
//! wheel.insert(1_060, "tea");
//! let soup = wheel.insert(1_300, "soup");
//! wheel.refile(soup, 1_020)?;
//! assert_eq!(wheel.next_due(), Some(1_020));
//!
//! let mut served = Vec::new();
//! while let Some(due) = wheel.pop_due(2_000) {
//!     served.push(due.id);
//! }
//! assert_eq!(served, ["soup", "tea"]);
//! # Ok::<(), leasehold::wheel::StaleKey>(())
//! ```
//!
//! # What is promised
//!
//! - An entry comes out when the wheel is advanced to its tick or beyond, and *never before*. Ticks are
//!   exact, over the whole range of `u64`: there is no resolution to be late by, and no longest term.
//! - The *oldest first*: entries come out in the order of their ticks, and within a tick in the order in
//!   which they were filed. Refiling may keep an entry's place or send it to the end of its tick.
//! - *Nothing starves*: an entry that is already due when it is filed counts as due now, behind all that
//!   were due before. So a backlog that is worked off a little at a time comes to its end, whatever is
//!   filed meanwhile.
//! - One comes out at a time, so what is done with it may use the wheel, or panic: all others are still
//!   in it.
//!
//! Not promised is that each step is short. Entries with far ticks are kept in coarse buckets, and when
//! the first of a bucket is due, all of it is sorted into finer ones. An entry is moved at most ten
//! times like that, but a step may move many.
//!
//! # How it works
//!
//! A tick is a number of eleven digits of six bits. An entry is on the level of the highest digit in
//! which its tick differs from the wheel's *cursor*, in the bucket of that digit. So on each level all
//! buckets that are used lie ahead of the cursor, within one turn; whatever is on a lower level is
//! earlier than all that is on a higher one; and the first bucket is found by looking for the lowest bit
//! in the words that tell which buckets are used. On level 0 a bucket is a single tick. The first bucket
//! of a higher level is sorted into lower ones when its *bound* is reached, the earliest tick that was
//! filed in it, and the cursor goes there at once. It never goes beyond an entry.
//!
//! What is in a bucket lies in a list of *chunks* of seven, and each entry has a *seat* that tells where
//! it is; a key is a seat and its generation. Both are used again when they are free, and memory is
//! taken only when there are more of them than ever before. It is not given back before the wheel goes.
//! An entry with a small id takes 26 bytes, if few are removed or refiled; in the worst case what is left
//! of a bucket has a chunk (128 bytes) for each.
//!
//! # Sources
//!
//! Varghese and Lauck, *Hashed and Hierarchical Timing Wheels*, SOSP 1987: this is their scheme 7.
//! A hashed wheel (scheme 6, as in Netty) has one turn, files far entries under the tick modulo its
//! length, and looks at them once a turn. Caffeine's wheel and Linux's let an entry be late by up to the
//! width of its bucket and so sort nothing. Tokio's is nearest: the same digits, but six levels of
//! milliseconds, beyond which entries are filed again; and its entries lie in the tasks that wait.
#![forbid(unsafe_code)]

mod buckets;
mod chunks;
mod seats;

use core::fmt;

use buckets::{Buckets, Place};
use chunks::{Chunks, Item, NONE};
use seats::Seats;

/// A hierarchical timer wheel over small ids.
///
/// See the [module](self) for what it promises, and for an example.
#[derive(Clone)]
pub struct Wheel<T> {
    /// How far it was advanced. Whatever is due at or before is due now.
    now: u64,
    /// What places are relative to. Never after `now`, or after an entry's tick.
    cursor: u64,
    buckets: Buckets,
    chunks: Chunks<T>,
    seats: Seats,
}

/// What an entry is refiled or removed by. It is of one wheel; another cannot tell.
///
/// Once its entry has come out or was removed, it is [stale](StaleKey), also when the memory of the
/// entry is used again.
///
/// # Example
///
/// ```
/// # use leasehold::wheel::Wheel;
/// let mut wheel = Wheel::starting_at(0);
/// let first = wheel.insert(5, 'a');
/// wheel.remove(first);
/// let second = wheel.insert(5, 'b');
/// assert_ne!(first, second);
/// assert_eq!(wheel.remove(first), None);
/// assert_eq!(wheel.remove(second), Some('b'));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    seat: u32,
    generation: u32,
}

/// The key's entry is in the wheel no more: it has come out, or was removed. File the id anew.
///
/// # Example
///
/// ```
/// # use leasehold::wheel::{StaleKey, Wheel};
/// let mut wheel = Wheel::starting_at(0);
/// let key = wheel.insert(5, 'a');
/// assert!(wheel.pop_due(5).is_some());
/// assert_eq!(wheel.refile(key, 9), Err(StaleKey));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StaleKey;

impl fmt::Display for StaleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this entry is in the wheel no more; file it anew")
    }
}

impl std::error::Error for StaleKey {}

/// An entry that came out.
///
/// # Example
///
/// ```
/// # use leasehold::wheel::{Due, Wheel};
/// let mut wheel = Wheel::starting_at(0);
/// wheel.insert(5, 'a');
/// assert_eq!(wheel.pop_due(7), Some(Due { tick: 5, id: 'a' }));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due<T> {
    /// When it was due: the tick it was filed under, or the wheel's [`now`](Wheel::now) if that was
    /// later when it was filed.
    pub tick: u64,
    /// What was filed.
    pub id: T,
}

impl<T: Copy> Wheel<T> {
    /// An empty wheel that stands at a tick.
    ///
    /// # Example
    ///
    /// ```
    /// # use leasehold::wheel::Wheel;
    /// let wheel = Wheel::<u32>::starting_at(100);
    /// assert_eq!((wheel.now(), wheel.len()), (100, 0));
    /// ```
    #[must_use]
    pub fn starting_at(tick: u64) -> Self {
        let (buckets, chunks, seats) = (Buckets::new(), Chunks::new(), Seats::new());
        Self { now: tick, cursor: tick, buckets, chunks, seats }
    }

    /// Files an id under a tick. If the wheel has reached that tick already, the id is due now: it
    /// comes out at the next advance, behind what was due before.
    ///
    /// # Panics
    ///
    /// With 2^29 chunks in use: there is room for half a billion entries at least. Or with 2^32 − 1
    /// seats, counting those that were used up by 2^31 entries each.
    ///
    /// # Example
    ///
    /// ```
    /// # use leasehold::wheel::{Due, Wheel};
    /// let mut wheel = Wheel::starting_at(100);
    /// wheel.insert(u64::MAX, 'z');
    /// wheel.insert(40, 'a');
    /// assert_eq!(wheel.pop_due(100), Some(Due { tick: 100, id: 'a' }));
    /// assert_eq!(wheel.pop_due(u64::MAX - 1), None);
    /// assert_eq!(wheel.pop_due(u64::MAX), Some(Due { tick: u64::MAX, id: 'z' }));
    /// ```
    #[inline]
    pub fn insert(&mut self, tick: u64, id: T) -> Key {
        let tick = tick.max(self.now);
        let key = self.seats.take();
        self.link(Item { tick, seat: key.seat, id });
        key
    }

    /// Files an entry under another tick, earlier or later. An entry that is due already keeps its
    /// place if the other tick is due as well.
    ///
    /// Entries that stay in their bucket are not moved, so it is cheapest for far ones.
    ///
    /// # Errors
    ///
    /// [`StaleKey`] if the entry is in the wheel no more. Nothing changes then.
    ///
    /// # Panics
    ///
    /// As [`insert`](Self::insert), if it needs a chunk.
    ///
    /// # Example
    ///
    /// ```
    /// # use leasehold::wheel::Wheel;
    /// let mut wheel = Wheel::starting_at(0);
    /// let key = wheel.insert(50, 'a');
    /// wheel.refile(key, 70)?;
    /// assert_eq!(wheel.pop_due(69), None);
    /// assert!(wheel.pop_due(70).is_some());
    /// # Ok::<(), leasehold::wheel::StaleKey>(())
    /// ```
    #[inline]
    pub fn refile(&mut self, key: Key, tick: u64) -> Result<(), StaleKey> {
        let position = self.seats.find(key)?;
        let item = self.chunks.at(position);
        if item.tick.max(tick) <= self.now {
            return Ok(());
        }
        let tick = tick.max(self.now);
        let place = Place::of(self.cursor, item.tick);
        if place == Place::of(self.cursor, tick) {
            item.tick = tick;
            self.buckets.at(place).lower_bound(tick);
            return Ok(());
        }
        let item = self.unlink(place, position);
        self.link(Item { tick, ..item });
        Ok(())
    }

    /// Takes an entry out before it is due, and returns its id; `None` if the key is stale.
    ///
    /// # Example
    ///
    /// ```
    /// # use leasehold::wheel::Wheel;
    /// let mut wheel = Wheel::starting_at(0);
    /// let key = wheel.insert(50, 'a');
    /// assert_eq!(wheel.remove(key), Some('a'));
    /// assert_eq!(wheel.remove(key), None);
    /// ```
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let position = self.seats.find(key).ok()?;
        let place = Place::of(self.cursor, self.chunks.at(position).tick);
        let item = self.unlink(place, position);
        self.seats.free(item.seat);
        Some(item.id)
    }

    /// Advances the wheel, and takes out the oldest entry that is due at or before `to`. `None` says
    /// that there is none: all that was due has come out. A caller with a budget stops earlier, and
    /// the rest stays due.
    ///
    /// A tick before [`now`](Self::now), from a clock that stepped back, does nothing.
    ///
    /// # Example
    ///
    /// Some entries a visit:
    ///
    /// ```
    /// # use leasehold::wheel::Wheel;
    /// let mut wheel = Wheel::starting_at(0);
    /// (1..=5).for_each(|tick| _ = wheel.insert(tick, tick));
    /// for _ in 0..3 {
    ///     let Some(due) = wheel.pop_due(5) else { break };
    ///     println!("{} is over", due.id);
    /// }
    /// assert_eq!(wheel.next_due(), Some(4));
    /// ```
    #[inline]
    #[must_use = "what is taken out is in the wheel no more"]
    pub fn pop_due(&mut self, to: u64) -> Option<Due<T>> {
        if to < self.now {
            return None;
        }
        self.now = to;
        loop {
            let Some(first) = self.buckets.first() else {
                self.cursor = to;
                return None;
            };
            let bound = self.buckets.bound(first);
            if bound > to {
                // Only inside of the first bucket the cursor would not be ahead of it any more.
                if !first.is_shared(bound, to) {
                    self.cursor = to;
                }
                return None;
            }
            self.cursor = bound;
            if first.level == 0 {
                return Some(self.take_first(first));
            }
            self.sort_down(first);
        }
    }

    /// The tick at which to advance next; `None` if the wheel is empty.
    ///
    /// Never later than the earliest entry, and as a rule its tick. It may be an earlier tick at which
    /// an entry was due that has been removed or refiled since. Advancing to that tick then yields
    /// nothing, and finds the true one.
    ///
    /// # Example
    ///
    /// ```
    /// # use leasehold::wheel::Wheel;
    /// let mut wheel = Wheel::starting_at(0);
    /// let (first, second) = (wheel.insert(65, 'a'), wheel.insert(66, 'b'));
    /// wheel.remove(first);
    /// assert_eq!(wheel.next_due(), Some(65)); // They were in one bucket.
    /// assert_eq!(wheel.pop_due(65), None);
    /// assert_eq!(wheel.next_due(), Some(66));
    /// ```
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        self.buckets.first().map(|first| self.buckets.bound(first))
    }

    /// The latest tick that the wheel was advanced to.
    ///
    /// # Example
    ///
    /// ```
    /// # use leasehold::wheel::Wheel;
    /// let mut wheel = Wheel::<u32>::starting_at(100);
    /// assert_eq!(wheel.pop_due(250), None);
    /// assert_eq!(wheel.pop_due(200), None);
    /// assert_eq!(wheel.now(), 250);
    /// ```
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// How many entries there are.
    ///
    /// # Example
    ///
    /// ```
    /// # use leasehold::wheel::Wheel;
    /// let mut wheel = Wheel::starting_at(0);
    /// wheel.insert(5, 'a');
    /// assert_eq!(wheel.len(), 1);
    /// ```
    #[must_use]
    pub const fn len(&self) -> usize {
        self.seats.taken
    }

    /// Whether there is no entry.
    ///
    /// # Example
    ///
    /// ```
    /// # use leasehold::wheel::Wheel;
    /// assert!(Wheel::<u32>::starting_at(0).is_empty());
    /// ```
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts an item where its tick belongs, and tells its seat.
    #[inline]
    fn link(&mut self, item: Item<T>) {
        debug_assert!(self.cursor <= item.tick, "the cursor is never after an entry");
        let place = Place::of(self.cursor, item.tick);
        self.buckets.occupy(place);
        let bucket = self.buckets.at(place);
        bucket.lower_bound(item.tick);
        let position = self.chunks.append(bucket, item);
        self.seats.move_to(item.seat, position);
    }

    /// Takes an item out of its bucket.
    #[inline]
    fn unlink(&mut self, place: Place, position: u32) -> Item<T> {
        let bucket = self.buckets.at(place);
        let item = self.chunks.take(bucket, position);
        if bucket.head == NONE {
            self.buckets.vacate(place);
        }
        item
    }

    /// Takes the first entry out of a bucket that has some.
    #[inline]
    fn take_first(&mut self, place: Place) -> Due<T> {
        let bucket = self.buckets.at(place);
        let Item { tick, seat, id } = self.chunks.take_first(bucket);
        if bucket.head == NONE {
            self.buckets.vacate(place);
        }
        self.seats.free(seat);
        Due { tick, id }
    }

    /// Moves all items of a bucket to lower levels, in their order. The cursor is in the bucket.
    fn sort_down(&mut self, place: Place) {
        let mut head = self.buckets.vacate(place).head;
        while head != NONE {
            let (chunk, next) = self.chunks.take_head(head);
            chunk.items().for_each(|item| self.link(item));
            head = next;
        }
    }
}

impl<T: Copy> fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("now", &self.now)
            .field("next_due", &self.next_due())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
