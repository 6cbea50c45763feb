//! Replacing a page: when it is full, has used up its stamps, or when its base is too old.
//!
//! 1. Freeze insertion, then every word: the contents can no longer change.
//! 2. Build the successors privately: copies of what is held or was in use lately.
//! 3. Publish them by one compare-exchange; whoever loses gives its own back.
//! 4. Move the directory's entries on. Then the winner gives the old page back.
//!
//! Any thread may take any step, and none waits for another.

use core::hash::BuildHasher;
use core::ptr::NonNull;

use crate::arena::{Blank, Epochs};
use crate::events::{EndCause, Ended};
use crate::granted;
use crate::hash::Hash;
use crate::page::{Page, SLOTS, Successors};
use crate::place::Place;
use crate::shard::{Ctx, Shard};
use crate::slot::Slot;
use crate::stats::Event;
use crate::wait::Waits;
use crate::word::Word;

/// A page that would keep more than this many slots is split.
const KEEP_MAX: usize = SLOTS * 3 / 4;

/// What goes on from a page.
struct Survey<K> {
    keep: [bool; SLOTS],
    kept: usize,
    /// Slots with a key that are left behind: as many resources fewer are known.
    dropped: u64,
    /// Leases among them that nobody ended, and what is told of them.
    lapsed: u64,
    ended: Vec<Ended<K>>,
    /// The earliest and the latest deadline that are kept, in ticks of the clock.
    deadlines: Option<(u64, u64)>,
}

impl<K: Clone> Survey<K> {
    fn of<S>(page: &Page<K>, waits: &Waits<K>, ctx: &Ctx<'_, K, S>, force: bool) -> Self {
        let keep = [false; SLOTS];
        let mut survey =
            Self { keep, kept: 0, dropped: 0, lapsed: 0, ended: Vec::new(), deadlines: None };
        for (index, slot) in page.slots().iter().enumerate() {
            let word = slot.word();
            if !word.is_published() {
            } else if is_kept(page, word, ctx, force) || is_waited(slot, word, waits) {
                survey.keep[index] = true;
                survey.kept += 1;
                if word.is_leased() {
                    let deadline = page.clock_tick(word.tick());
                    let (first, last) = survey.deadlines.unwrap_or((deadline, deadline));
                    survey.deadlines = Some((first.min(deadline), last.max(deadline)));
                }
            } else {
                survey.dropped += 1;
                survey.lapsed += u64::from(word.is_leased());
            }
        }
        survey
    }

    /// Takes down what is told of the leases that are left behind. The page is frozen.
    fn with_ends<S>(mut self, page: &Page<K>, ctx: &Ctx<'_, K, S>) -> Self {
        if self.lapsed > 0 && ctx.events.is_on() {
            let slots = page.slots().iter().map(Slot::word).enumerate();
            let ended = slots
                .filter(|&(index, word)| word.is_leased() && !self.keep[index])
                .filter_map(|(index, word)| ctx.report(page, index, word, EndCause::Lapsed));
            self.ended = ended.collect();
        }
        self
    }
}

/// Whether a resource goes on: if somebody holds it, or used it lately. A lapsed lease that nobody
/// asked for in all that time is not kept either, unless its holder has a grace in which to come back.
fn is_kept<K, S>(page: &Page<K>, word: Word, ctx: &Ctx<'_, K, S>, force: bool) -> bool {
    let time = page.time(ctx.now);
    let recent = time <= word.tick().saturating_add(ctx.limits.retention);
    if word.is_leased() {
        !word.is_reclaimable(time) || recent && !force || ctx.takeover_waits(page, word) > 0
    } else {
        recent && !force && !word.is_dead()
    }
}

/// Whether somebody may wait for a resource: then it goes on, and whoever ends the lease passes it on.
fn is_waited<K>(slot: &Slot<K>, word: Word, waits: &Waits<K>) -> bool {
    word.is_waited() && (word.is_leased() || waits.len_of(slot.identity()) > 0)
}

/// The new pages, private until they are published.
struct Draft<K> {
    low: Blank<K>,
    /// If the page is split.
    high: Option<Blank<K>>,
}

impl<K> Draft<K> {
    fn successors(&self) -> Successors<K> {
        let low = core::ptr::from_ref(self.low.page());
        let high = self.high.as_ref().map_or(low, |high| core::ptr::from_ref(high.page()));
        Successors { low, high }
    }

    fn published(self) {
        self.low.into_page();
        self.high.map(Blank::into_page);
    }
}

impl<K> Shard<K>
where
    K: std::hash::Hash + Clone + 'static,
{
    /// Whether replacing a full page makes room.
    pub(crate) fn can_replace<S>(&self, page: &Page<K>, ctx: &Ctx<'_, K, S>) -> bool {
        Survey::of(page, &self.waits, ctx, false).kept < SLOTS
            || page.place().depth < self.depth_limit()
    }

    /// Replaces a page, or helps to; when it returns, the directory leads to its successors. With
    /// `force`, everything that nobody holds is left behind, however lately it was used.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle<S: BuildHasher>(&self, page: &Page<K>, ctx: &Ctx<'_, K, S>, force: bool) {
        page.freeze();
        let won = page.successors(ctx.pinned).is_none() && self.succeed(page, ctx, force);
        self.directory.advance(page.place(), &self.filings, ctx.pinned);
        if won {
            // Only now does no entry lead to it.
            self.arena.retire(NonNull::from(page), ctx.pinned);
        }
    }

    fn succeed<S: BuildHasher>(&self, page: &Page<K>, ctx: &Ctx<'_, K, S>, force: bool) -> bool {
        let survey = Survey::of(page, &self.waits, ctx, force).with_ends(page, ctx);
        let draft = self.draft(page, &survey, ctx);
        if page.succeed(Box::new(draft.successors())).is_err() {
            return false;
        }
        self.add_pages(u64::from(draft.high.is_some()));
        draft.published();
        ctx.room.release(survey.dropped);
        ctx.stats.add(Event::Eviction, survey.dropped);
        ctx.stats.add(Event::Lapse, survey.lapsed);
        for ended in survey.ended {
            ctx.events.tell(ended, ctx.now, ctx.pinned);
        }
        true
    }

    fn draft<S: BuildHasher>(
        &self,
        old: &Page<K>,
        survey: &Survey<K>,
        ctx: &Ctx<'_, K, S>,
    ) -> Draft<K> {
        let place = old.place();
        let mut epochs = ctx.epochs();
        if let Some((earliest, latest)) = survey.deadlines {
            epochs = epochs.reaching_back(earliest).reaching(latest);
        }
        let split = survey.kept > KEEP_MAX && place.depth < self.depth_limit();
        let draft = self.blanks(place, split, epochs, ctx);
        let kept = (0..SLOTS).filter(|&index| survey.keep[index]);
        for index in kept {
            let slot = old.slot(index);
            // SAFETY: it was found published, and `ctx` is pinned since before that.
            let key = unsafe { slot.with_key(K::clone) };
            let hash = Hash::of(ctx.hasher, &key);
            let upper = hash.below_shard(ctx.limits.shard_bits) & place.half_bit() != 0;
            let half = draft.high.as_ref().filter(|_| upper).unwrap_or(&draft.low);
            copy(old, index, half.page(), hash, key, ctx);
        }
        draft
    }

    fn blanks<S>(&self, at: Place, split: bool, epochs: Epochs, ctx: &Ctx<'_, K, S>) -> Draft<K> {
        if !split {
            return Draft { low: self.arena.take(epochs, at, ctx.stats, ctx.pinned), high: None };
        }
        let (low, high) = at.halves();
        let low = self.arena.take(epochs, low, ctx.stats, ctx.pinned);
        let high = Some(self.arena.take(epochs, high, ctx.stats, ctx.pinned));
        Draft { low, high }
    }
}

/// Puts a copy of a frozen slot into a private page.
fn copy<K: 'static, S>(
    old: &Page<K>,
    index: usize,
    new: &Page<K>,
    hash: Hash,
    key: K,
    ctx: &Ctx<'_, K, S>,
) {
    let from = old.slot(index);
    let word = from.word();
    let mut tick = new.draft_time(old.clock_tick(word.tick()));
    if !word.is_leased() {
        // A clock that stepped back since may have left the last use beyond the range.
        tick = tick.min(new.draft_time(ctx.now));
    } else if word.is_valid(old.time(ctx.now)) {
        // If the clock stepped back, the new page's time may stand still at a later tick than the old
        // one's: what the holder was promised counts from there.
        let left = (word.tick() - old.time(ctx.now)).min(ctx.limits.term_max);
        tick = tick.max(new.draft_time(ctx.now) + left);
    }
    new.raise_top(tick);
    let idle = if word.is_leased() { 0 } else { 2 * ctx.limits.retention };
    new.due.lower_quietly(tick + idle + 1);
    let copied = from.copied(tick);
    let (index_in_new, slot) = new.first_never(hash);
    if ctx.events.is_on() {
        // SAFETY: ends are told of, so pages are timed; the new page is private.
        unsafe { granted::copy(old, index, copied.told.is_some(), new, index_in_new) };
    }
    // SAFETY: the new page is private, and the slot never had a key in this life.
    unsafe { slot.restore(copied, key) };
}
