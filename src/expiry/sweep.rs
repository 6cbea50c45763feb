//! The sweep: ends what lapsed, forgets what is idle, and says when to come back.
//!
//! What is filed in the wheel is *places*, not leases: the range of hashes of a page. A visit goes by the
//! directory to whatever page has that place now, or to several, if it was split. So the sweeper keeps no
//! pointer to a page, and a page can be replaced at any time without telling it: whoever publishes the
//! replacement files that.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};

use foldhash::fast::FixedState;

use super::due::{Filed, NEVER};
use super::visit::{Look, Visit};
use super::{ClockGap, Sweeping, Swept};
use crate::clock::Clock;
use crate::events::Ended;
use crate::place::Place;
use crate::shard::Shard;
use crate::sync::epoch;
use crate::table::Key;
use crate::table::shared::Core;
use crate::wheel::{self, Wheel};
use core::hash::BuildHasher;

/// Ends of other threads that are told to the listener, for each page of the budget.
const TOLD_PER_PAGE: usize = 64;
/// Pages that are filed, for each page of the budget: it costs far less than a visit.
const FILED_PER_PAGE: usize = 16;

/// What the sweeper knows. One thread at a time has it.
pub(crate) struct Sweeper<K> {
    /// Places, by the tick of the clock at which they must be looked at. Made at the first sweep.
    wheel: Option<Wheel<Place>>,
    /// Where in the wheel each is, and at which tick; by [`Place::bits`].
    keys: HashMap<u64, (wheel::Key, u64), FixedState>,
    /// What was taken off the stack and is yet to be filed.
    filed: Filed<K>,
    /// Ends that this sweep brought about and has yet to tell.
    ended: Vec<Ended<K>>,
}

impl<K> Sweeper<K> {
    pub(crate) fn new() -> Self {
        Self { wheel: None, keys: HashMap::default(), filed: Filed::none(), ended: Vec::new() }
    }

    /// Files a place, or moves it to an earlier tick.
    fn file(&mut self, place: Place, tick: u64, now: u64) {
        let wheel = self.wheel.get_or_insert_with(|| Wheel::starting_at(now));
        match self.keys.entry(place.bits()) {
            Entry::Vacant(entry) => {
                entry.insert((wheel.insert(tick, place), tick));
            }
            // Later is never needed: a visit takes the place out.
            Entry::Occupied(entry) => {
                let (key, filed) = entry.into_mut();
                if tick < *filed {
                    *filed = tick;
                    wheel.refile(*key, tick).expect("its key is kept as long as it is filed");
                }
            }
        }
    }

    /// The place that has been due for longest, and since when.
    fn pop_due(&mut self, now: u64) -> Option<(u64, Place)> {
        let place = self.wheel.as_mut()?.pop_due(now)?.id;
        let (_, tick) = self.keys.remove(&place.bits()).expect("what is filed has a key");
        Some((tick, place))
    }

    fn next_due(&self) -> Option<u64> {
        self.wheel.as_ref().and_then(Wheel::next_due)
    }
}

/// The sweeper, borrowed from its table; given back whatever happens.
struct Borrowed<'a, K: Key, S: BuildHasher, C: Clock> {
    core: &'a Core<K, S, C>,
    sweeper: Option<Box<Sweeper<K>>>,
}

impl<K: Key, S: BuildHasher, C: Clock> Drop for Borrowed<'_, K, S, C> {
    fn drop(&mut self) {
        *self.core.sweeper.lock() = self.sweeper.take();
    }
}

impl<K: Key, S: BuildHasher, C: Clock> Core<K, S, C> {
    pub(crate) fn sweep(&self, budget: usize) -> Result<Swept, Sweeping> {
        let sweeper = self.sweeper.lock().take().ok_or(Sweeping)?;
        let mut borrowed = Borrowed { core: self, sweeper: Some(sweeper) };
        let sweeper = borrowed.sweeper.as_mut().expect("just put there");
        Ok(self.sweep_with(sweeper, budget.max(1)))
    }

    fn sweep_with(&self, sweeper: &mut Sweeper<K>, budget: usize) -> Swept {
        let now = self.clock.now();
        self.gaps.sweeps();
        let mut swept = Swept::default();
        self.tell_queued(budget.saturating_mul(TOLD_PER_PAGE), &mut swept);
        self.file_all(sweeper, now, budget.saturating_mul(FILED_PER_PAGE), &mut swept);
        while swept.pages < budget {
            let Some((due, place)) = sweeper.pop_due(now) else { break };
            if self.gaps.look(due, now) {
                swept.clock_gap = self.clock_gap();
            }
            self.sweep_place(sweeper, place, &mut swept);
        }
        let next = if sweeper.filed.is_empty() { sweeper.next_due() } else { Some(now) };
        swept.more = next.is_some_and(|next| next <= now) || self.events.queued() > 0;
        swept.next_tick = next;
        swept.next_in = next.map(|next| self.rate.duration_ceil(next.saturating_sub(now)));
        swept
    }

    /// Files what was put on the stack.
    fn file_all(&self, sweeper: &mut Sweeper<K>, now: u64, at_most: usize, swept: &mut Swept) {
        if sweeper.filed.is_empty() {
            sweeper.filed = self.filings.take();
        }
        for _ in 0..at_most {
            // SAFETY: the pages are this table's.
            let Some((page, tick)) = (unsafe { sweeper.filed.next() }) else { break };
            if tick != NEVER {
                sweeper.file(page.place(), page.clock_tick(tick), now);
            }
            swept.filed += 1;
        }
    }

    /// Visits the pages of a place, and files them anew.
    fn sweep_place(&self, sweeper: &mut Sweeper<K>, place: Place, swept: &mut Swept) {
        let mut next = Some(place.prefix);
        while let Some(prefix) = next {
            let visited =
                catch_unwind(AssertUnwindSafe(|| self.visit(sweeper, place, prefix, swept)));
            swept.pages += 1;
            let at = visited.unwrap_or_else(|_| {
                // A key's code panicked. Whatever it was, the rest of the table goes on, and this page is
                // tried again, though not at once.
                swept.panics += 1;
                let now = self.clock.now();
                sweeper.file(place, now.saturating_add(self.interval_ticks.max(1)), now);
                place
            });
            self.tell_ended(sweeper, swept);
            next = at.after().filter(|&prefix| place.after().is_none_or(|end| prefix < end));
        }
    }

    /// Visits the page that has the hashes from a prefix on, and returns its place.
    fn visit(
        &self,
        sweeper: &mut Sweeper<K>,
        place: Place,
        prefix: u64,
        swept: &mut Swept,
    ) -> Place {
        let pinned = epoch::pin();
        let shard: &Shard<K> = &self.shards[place.shard];
        loop {
            let now = self.clock.now();
            let ctx = self.ctx(now, &pinned);
            let page = shard.directory.page(prefix, &pinned);
            let lapsed = &mut swept.lapsed;
            let visit = Visit { ctx: &ctx, page, lapsed, ended: &mut sweeper.ended };
            match visit.look() {
                Look::Due(tick) => {
                    if tick != NEVER {
                        sweeper.file(page.place(), page.clock_tick(tick), now);
                    }
                    return page.place();
                }
                // Whoever publishes the successors files them.
                Look::Replace => {
                    swept.replaced += 1;
                    shard.settle(page, &ctx, false);
                    return page.place();
                }
                Look::Frozen => shard.settle(page, &ctx, false),
            }
        }
    }

    /// Tells of what the visit ended, with no pin and no lock.
    fn tell_ended(&self, sweeper: &mut Sweeper<K>, swept: &mut Swept) {
        for ended in sweeper.ended.drain(..) {
            swept.panics += u64::from(!self.events.tell_from_sweep(&ended));
        }
    }

    /// Tells the listener of what other threads ended.
    fn tell_queued(&self, at_most: usize, swept: &mut Swept) {
        for _ in 0..at_most {
            let Some(fine) = self.events.tell_queued() else { break };
            swept.told += 1;
            swept.panics += u64::from(!fine);
        }
    }

    pub(crate) fn clock_gap(&self) -> Option<ClockGap> {
        let (ticks, count) = self.gaps.last()?;
        Some(ClockGap { overdue: self.rate.duration_floor(ticks), count })
    }
}
