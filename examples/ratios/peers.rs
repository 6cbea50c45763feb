//! The same lease as an entry of other concurrent maps: what one would write without this crate.
//!
//! Each peer uses the hasher and the clock of the table, is given what that is given (a key, a holder, a
//! term) and tells what that tells (a token; or who holds, under which token, and when to ask again). Each is
//! written as it is fastest: known keys are looked up before anything is made ready for an insertion, times
//! are converted outside of locks, and vacant is a deadline of zero, so that one comparison tells whether to
//! grant.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use dashmap::DashMap;
use leasehold::{Clock, DefaultHashBuilder, HolderId, QuantaClock, TickRate};
use parking_lot::Mutex;

use crate::leases::{Leases, TERM};

/// What a grant gives: the key and its token.
type Ticket = (u64, u64);

/// What a refusal tells: the holder, its token, and when to try again.
type Refusal = (Option<HolderId>, u64, Duration);

/// The same, in ticks.
type Refused = (Option<HolderId>, u64, u64);

/// The time by which a peer decides.
struct Time {
    clock: QuantaClock,
    rate: TickRate,
}

impl Time {
    fn new() -> Self {
        let clock = QuantaClock::default();
        Self { rate: clock.rate(), clock }
    }

    /// The present, and the term in ticks.
    #[inline]
    fn now_and(&self, term: Duration) -> (u64, u64) {
        let ticks = self.rate.ticks_floor(term);
        assert!(ticks != 0, "a term of nothing");
        (self.clock.now(), ticks)
    }

    #[inline]
    fn refusal(&self, (holder, token, ticks): Refused) -> Refusal {
        (holder, token, self.rate.duration_ceil(ticks))
    }
}

/// A lease under a lock.
#[derive(Clone, Copy, Default)]
pub(crate) struct Entry {
    holder: Option<HolderId>,
    token: u64,
    deadline: u64,
}

impl Entry {
    #[inline]
    fn grant(&mut self, now: u64, ticks: u64, holder: HolderId) -> Result<u64, Refused> {
        if now <= self.deadline {
            return Err((self.holder, self.token, self.deadline + 1 - now));
        }
        let token = self.token + 1;
        *self = Self { holder: Some(holder), token, deadline: now + ticks };
        Ok(token)
    }

    /// The newest token's holder gives the lease back; nobody else can.
    #[inline]
    fn release(&mut self, token: u64) {
        if self.token == token {
            self.deadline = 0;
        }
    }
}

/// A map that locks an entry, or more, for as long as it is visited.
pub(crate) trait LockedMap: Sync {
    const NAME: &'static str;

    fn with_room(keys: usize) -> Self;

    /// Puts a vacant entry in if there is none.
    fn visit<R>(&self, key: u64, act: impl Fn(&mut Entry) -> R) -> R;
}

/// Leases in a locked map.
pub(crate) struct Locked<M> {
    map: M,
    time: Time,
}

impl<M: LockedMap> Leases for Locked<M> {
    const NAME: &'static str = M::NAME;
    type Held<'a>
        = Ticket
    where
        Self: 'a;
    type Refusal = Refusal;

    fn empty() -> Self {
        Self::with_room(0)
    }

    fn with_room(keys: usize) -> Self {
        Self { map: M::with_room(keys), time: Time::new() }
    }

    #[inline]
    fn acquire(&self, key: u64, holder: HolderId) -> Result<Ticket, Refusal> {
        let (now, ticks) = self.time.now_and(TERM);
        let granted = self.map.visit(key, |entry| entry.grant(now, ticks, holder));
        Ok((key, granted.map_err(|refused| self.time.refusal(refused))?))
    }

    #[inline]
    fn token(&(_, token): &Ticket) -> u64 {
        token
    }

    #[inline]
    fn release(&self, (key, token): Ticket) {
        self.map.visit(key, |entry| entry.release(token));
    }
}

/// `dashmap`. With `entry` for keys that are there, too, a million of them take 1.6 times as long.
pub(crate) type Dashmap = Locked<DashMap<u64, Entry, DefaultHashBuilder>>;

impl LockedMap for DashMap<u64, Entry, DefaultHashBuilder> {
    const NAME: &'static str = "dashmap";

    fn with_room(keys: usize) -> Self {
        Self::with_capacity_and_hasher(keys, DefaultHashBuilder::default())
    }

    #[inline]
    fn visit<R>(&self, key: u64, act: impl Fn(&mut Entry) -> R) -> R {
        match self.get_mut(&key) {
            Some(mut entry) => act(&mut entry),
            None => act(&mut self.entry(key).or_default()),
        }
    }
}

/// `scc`. Its `update_sync` is a little faster than `get_sync` and `entry_sync`.
pub(crate) type Scc = Locked<scc::HashMap<u64, Entry, DefaultHashBuilder>>;

impl LockedMap for scc::HashMap<u64, Entry, DefaultHashBuilder> {
    const NAME: &'static str = "scc";

    fn with_room(keys: usize) -> Self {
        Self::with_capacity_and_hasher(keys, DefaultHashBuilder::default())
    }

    #[inline]
    fn visit<R>(&self, key: u64, act: impl Fn(&mut Entry) -> R) -> R {
        match self.update_sync(&key, |_, entry| act(entry)) {
            Some(result) => result,
            None => act(self.entry_sync(key).or_default().get_mut()),
        }
    }
}

/// 64 maps of the standard library, each under a mutex of its own.
pub(crate) type Mutex64 = Locked<Shards>;

type Shard = Mutex<HashMap<u64, Entry, DefaultHashBuilder>>;

pub(crate) struct Shards {
    shards: [CachePadded<Shard>; 64],
    hasher: DefaultHashBuilder,
}

impl LockedMap for Shards {
    const NAME: &'static str = "mutex64";

    fn with_room(keys: usize) -> Self {
        let hasher = DefaultHashBuilder::default();
        let map = || HashMap::with_capacity_and_hasher(keys / 64, hasher.clone());
        Self { shards: std::array::from_fn(|_| CachePadded::new(Mutex::new(map()))), hasher }
    }

    #[inline]
    fn visit<R>(&self, key: u64, act: impl Fn(&mut Entry) -> R) -> R {
        // Bits from the middle of the hash: the map itself uses those at both ends.
        let shard = (self.hasher.hash_one(key) >> 40) as usize % self.shards.len();
        let mut map = self.shards[shard].lock();
        match map.get_mut(&key) {
            Some(entry) => act(entry),
            None => act(map.entry(key).or_default()),
        }
    }
}

/// `papaya`, which hands out shared references: the entry is made of atomics. A new entry at each
/// change, which is what `compute` puts in, takes one and a half to four times as long; a mutex in
/// the entry, up to a tenth longer.
pub(crate) struct Papaya {
    map: papaya::HashMap<u64, AtomicEntry, DefaultHashBuilder>,
    time: Time,
}

impl Leases for Papaya {
    const NAME: &'static str = "papaya";
    type Held<'a> = Ticket;
    type Refusal = Refusal;

    fn empty() -> Self {
        Self::with_room(0)
    }

    fn with_room(keys: usize) -> Self {
        let map = papaya::HashMap::builder()
            .capacity(keys)
            .hasher(DefaultHashBuilder::default())
            // To grow bit by bit, as it does by default, takes ten times as long.
            .resize_mode(papaya::ResizeMode::Blocking)
            .build();
        Self { map, time: Time::new() }
    }

    #[inline]
    fn acquire(&self, key: u64, holder: HolderId) -> Result<Ticket, Refusal> {
        let (now, ticks) = self.time.now_and(TERM);
        let map = self.map.pin();
        let entry = match map.get(&key) {
            Some(entry) => entry,
            None => map.get_or_insert_with(key, AtomicEntry::default),
        };
        let granted = entry.grant(now, ticks, holder);
        Ok((key, granted.map_err(|refused| self.time.refusal(refused))?))
    }

    #[inline]
    fn token(&(_, token): &Ticket) -> u64 {
        token
    }

    #[inline]
    fn release(&self, (key, token): Ticket) {
        if let Some(entry) = self.map.pin().get(&key) {
            entry.release(token);
        }
    }
}

/// A lease in atomics. `state` is the newest token, times four, plus one of the constants below.
#[derive(Default)]
struct AtomicEntry {
    state: AtomicU64,
    holder: AtomicU64,
    deadline: AtomicU64,
}

impl AtomicEntry {
    const VACANT: u64 = 0;
    /// Somebody is granted the lease and still writes the fields. Others wait.
    const CLAIMED: u64 = 1;
    const HELD: u64 = 2;

    #[inline]
    fn grant(&self, now: u64, ticks: u64, holder: HolderId) -> Result<u64, Refused> {
        loop {
            // Acquire: pairs with the release store of `HELD` below, for the fields.
            let state = self.state.load(Ordering::Acquire);
            if state % 4 == Self::CLAIMED {
                std::hint::spin_loop();
                continue;
            }
            // Relaxed: a deadline of a later grant is read only if `state` moved on meanwhile, and
            // then either it refuses rightly or the compare-exchange fails.
            let deadline = self.deadline.load(Ordering::Relaxed);
            if state % 4 == Self::HELD && now <= deadline {
                // Relaxed: this is only told, not acted upon.
                let holder = HolderId::new(self.holder.load(Ordering::Relaxed)).ok();
                return Err((holder, state / 4, deadline + 1 - now));
            }
            let token = state / 4 + 1;
            // Acquire: nothing written below comes before it. Relaxed on failure: it is loaded anew.
            let claim = self.state.compare_exchange(
                state,
                token * 4 + Self::CLAIMED,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            if claim.is_ok() {
                // Relaxed, both: the release store after them publishes them.
                self.holder.store(holder.get(), Ordering::Relaxed);
                self.deadline.store(now + ticks, Ordering::Relaxed);
                self.state.store(token * 4 + Self::HELD, Ordering::Release);
                return Ok(token);
            }
        }
    }

    /// The newest token's holder gives the lease back; nobody else can.
    #[inline]
    fn release(&self, token: u64) {
        let (held, vacant) = (token * 4 + Self::HELD, token * 4 + Self::VACANT);
        // Release: what the holder did comes before the next grant, which acquires. Relaxed on
        // failure: it was no longer ours, and that is that.
        let _ = self.state.compare_exchange(held, vacant, Ordering::Release, Ordering::Relaxed);
    }
}
