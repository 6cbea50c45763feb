//! The sweep: ends what lapsed, forgets what is idle, and says when to come back.
//!
//! What is filed in the wheel is *places*, not leases: the range of hashes of a page. A visit goes by the
//! directory to whatever page has that place now, and to none, if it was split. So the sweeper keeps no
//! pointer to a page, and a page can be replaced at any time without telling it: whoever opens the
//! replacement, or its halves, files that.

use core::cmp::Reverse;
use core::hash::BuildHasher;
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::agenda::{Agenda, Agendas};
use super::due::NEVER;
use super::visit::{Look, Visit};
use super::{ClockGap, Sweeping, Swept};
use crate::clock::Clock;
use crate::events::Ended;
use crate::page::Page;
use crate::pinned;
use crate::place::Place;
use crate::prefetch::prefetch;
use crate::shard::Ctx;
use crate::table::Key;
use crate::table::shared::Core;

/// Ends of other threads that are told to the listener, for each page of the budget.
const TOLD_PER_PAGE: usize = 64;
/// After how long what panicked is tried again, at least.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// Places that are swept together.
const BATCH: usize = 32;

/// What the sweeper knows. One thread at a time has it.
pub(crate) struct Sweeper<K> {
    /// Made at the first sweep.
    agendas: Option<Agendas>,
    /// Ends that this sweep brought about and has yet to tell.
    ended: Vec<Ended<K>>,
}

impl<K> Sweeper<K> {
    pub(crate) fn new() -> Self {
        Self { agendas: None, ended: Vec::new() }
    }

    fn agendas(&mut self, now: u64) -> &mut Agendas {
        self.agendas.get_or_insert_with(|| Agendas::starting_at(now))
    }
}

/// What visits add to.
struct Findings<'a, K> {
    ended: &'a mut Vec<Ended<K>>,
    swept: &'a mut Swept,
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
        self.gaps.sweeps(now);
        // Not for what threads' clocks differ by: that costs as much as there are pages.
        let agendas = sweeper.agendas(now);
        if now.saturating_add(self.interval_ticks) < agendas.now() {
            agendas.turn_back(now);
        }
        self.timers.fire(now);
        let mut swept = Swept::default();
        let gap = self.clock_gap();
        self.tell_queued(budget.saturating_mul(TOLD_PER_PAGE), &mut swept);
        self.file_all(sweeper, now, &mut swept);
        while swept.pages < budget && self.sweep_batch(sweeper, now, budget, &mut swept) {}
        // Pages that were replaced by these visits, and what listeners were granted: it is due, too.
        self.file_all(sweeper, now, &mut swept);
        let timer = Some(self.timers.next()).filter(|tick| *tick < u64::MAX);
        let next = sweeper.agendas(now).next_due().into_iter().chain(timer).min();
        swept.more = next.is_some_and(|next| next <= now) || self.events.queued() > 0;
        // By a page's due tick, or by a lease in it: that may have been filed for earlier, and not be news.
        swept.clock_gap = self.clock_gap().filter(|new| Some(*new) != gap);
        if !swept.more {
            self.gaps.has_swept();
        }
        swept.next_tick = next;
        swept.next_in = next.map(|next| self.rate.duration_ceil(next.saturating_sub(now)));
        swept
    }

    /// Files what was put on the stack. All of it, whatever the budget: the oldest is not known before; and
    /// it costs far less than a visit.
    fn file_all(&self, sweeper: &mut Sweeper<K>, now: u64, swept: &mut Swept) {
        let mut filed = self.filings.take();
        let agendas = sweeper.agendas(now);
        let mut due = Vec::new();
        // SAFETY: the pages are this table's.
        while let Some((page, tick)) = unsafe { filed.next(now) } {
            swept.filed += 1;
            match tick {
                None => {}
                Some(tick) if tick <= now => due.push((tick, page.place())),
                Some(tick) => agendas.file(page.place(), tick),
            }
        }
        // What is due at once comes out as it went in.
        due.sort_unstable_by_key(|&(tick, _)| tick);
        due.into_iter().for_each(|(tick, place)| agendas.file(place, tick));
    }

    /// Does what has been due for longest, at several places, so that memory is asked for all of them at once.
    /// `false` if nothing was due.
    fn sweep_batch(
        &self,
        sweeper: &mut Sweeper<K>,
        now: u64,
        budget: usize,
        swept: &mut Swept,
    ) -> bool {
        if sweeper.agendas(now).next_due().is_none_or(|due| due > now) {
            return false;
        }
        // Before anything is taken out of the wheel: the clock, and what others deferred, may panic.
        let pinned = pinned::pin();
        let ctx = self.ctx(self.clock.now(), &pinned);
        let mut batch = [0; BATCH];
        let mut len = 0;
        let agendas = sweeper.agendas(now);
        for slot in batch.iter_mut().take(budget - swept.pages) {
            let Some((due, index)) = agendas.pop_due(now) else { break };
            agendas.prefetch(index);
            self.gaps.look(due, now);
            *slot = index;
            len += 1;
        }
        let batch = &batch[..len];
        self.prefetch(agendas, batch);
        for &index in batch {
            self.sweep_agenda(sweeper, index, &ctx, swept);
        }
        drop(pinned);
        self.tell_ended(sweeper, swept);
        len > 0
    }

    /// Asks for what the visits will look at first.
    fn prefetch(&self, agendas: &mut Agendas, batch: &[u32]) {
        let entry = |place: Place| self.shards[place.shard].directory.place_of(place.prefix);
        for &index in batch {
            prefetch(entry(agendas.get(index).place));
        }
        for &index in batch {
            let agenda = agendas.get(index);
            let entry = self.shards[agenda.place.shard].directory.entry(agenda.place.prefix);
            entry.prefetch_slot(agenda.listed.first());
        }
    }

    /// Does what is due at a place, and files it anew.
    fn sweep_agenda(
        &self,
        sweeper: &mut Sweeper<K>,
        index: u32,
        ctx: &Ctx<'_, K, S>,
        swept: &mut Swept,
    ) {
        let Sweeper { agendas: Some(agendas), ended } = sweeper else { return };
        let mut found = Findings { ended, swept };
        let done = catch_unwind(AssertUnwindSafe(|| {
            if !self.visit_listed(agendas.get(index), &mut found, ctx) {
                agendas.get(index).clear();
                self.visit_whole(agendas.get(index), &mut found, ctx);
            }
        }));
        if done.is_err() {
            // A key's code panicked. Whatever it was, the rest of the table goes on, and this place is tried
            // again, though not at once.
            swept.panics += 1;
            agendas.get(index).scan = ctx.now.saturating_add(self.retry_ticks());
        }
        agendas.refile(index);
    }

    /// After how many ticks what panicked is tried again.
    fn retry_ticks(&self) -> u64 {
        self.interval_ticks.max(self.rate.ticks_floor(RETRY)).max(1)
    }

    fn visit<'a, 'g>(
        &'a self,
        page: &'g Page<K>,
        found: &'a mut Findings<'_, K>,
        ctx: &'a Ctx<'g, K, S>,
    ) -> Visit<'a, 'g, K, S>
    where
        Self: 'a,
    {
        let Findings { ended, swept } = found;
        let shard = &self.shards[page.place().shard];
        Visit { ctx, shard, page, swept, ended, retry: self.retry_ticks() }
    }

    /// The page that has the hashes from the place's first on.
    fn page_at<'g>(&self, place: Place, ctx: &Ctx<'g, K, S>) -> &'g Page<K> {
        self.shards[place.shard].directory.page(place.prefix, ctx.pinned)
    }

    /// Looks at the slots whose leases were to lapse by now. `false`: the page must be looked at as a whole.
    fn visit_listed(
        &self,
        agenda: &mut Agenda,
        found: &mut Findings<'_, K>,
        ctx: &Ctx<'_, K, S>,
    ) -> bool {
        let page = self.page_at(agenda.place, ctx);
        if agenda.scan <= ctx.now || page.place() != agenda.place {
            return false;
        }
        let mut visit = self.visit(page, found, ctx);
        while let Some(slot) = agenda.listed.pop(ctx.now) {
            let Some(idle_until) = visit.look_at(slot) else { return false };
            agenda.scan = agenda.scan.min(page.clock_tick(idle_until));
            page.due.lower_quietly(idle_until);
        }
        found.swept.pages += 1;
        true
    }

    /// Looks at the page of a place, and notes what it holds.
    fn visit_whole(
        &self,
        agenda: &mut Agenda,
        findings: &mut Findings<'_, K>,
        ctx: &Ctx<'_, K, S>,
    ) {
        findings.swept.pages += 1;
        let shard = &self.shards[agenda.place.shard];
        loop {
            let page = self.page_at(agenda.place, ctx);
            let found = page.place();
            if found.depth < agenda.place.depth {
                // It was split, and the entries have yet to be moved to its halves, one of which this is.
                shard.settle(page, ctx, false);
                continue;
            }
            if found != agenda.place {
                // It was split. Whoever opens its halves files them: all of them, now.
                return shard.directory.advance(agenda.place, &self.filings, ctx.pinned);
            }
            match self.visit(page, findings, ctx).look() {
                Look::Due(NEVER, _) => return,
                Look::Due(tick, listed) => {
                    (agenda.scan, agenda.listed) = (page.clock_tick(tick), listed);
                    return;
                }
                // Whoever opens the successors files them.
                Look::Replace => {
                    findings.swept.replaced += 1;
                    return shard.settle(page, ctx, false);
                }
                Look::Frozen => shard.settle(page, ctx, false),
            }
        }
    }

    /// Tells of what the visits ended, under no lock.
    fn tell_ended(&self, sweeper: &mut Sweeper<K>, swept: &mut Swept) {
        // A look at a whole page finds them in the order of its slots.
        if !sweeper.ended.is_sorted_by_key(|ended| Reverse(ended.late)) {
            sweeper.ended.sort_unstable_by_key(|ended| Reverse(ended.late));
        }
        self.events.post_all(&sweeper.ended);
        for ended in sweeper.ended.drain(..) {
            swept.panics += u64::from(!self.events.call(ended));
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
