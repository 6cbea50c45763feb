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
use crate::hash::Hash;
use crate::page::{Page, Place, SLOTS, Successors};
use crate::shard::{Ctx, Shard};
use crate::slot::Slot;
use crate::stats::Event;
use crate::word::Word;

/// A page that would keep more than this many slots is split.
const KEEP_MAX: usize = SLOTS * 3 / 4;

/// What goes on from a page.
struct Survey {
    keep: [bool; SLOTS],
    kept: usize,
    /// Slots with a key that are left behind: as many resources fewer are known.
    dropped: u64,
    /// Leases among them that nobody ended.
    lapsed: u64,
    /// The latest deadline that is kept, in ticks of the clock.
    latest: Option<u64>,
}

impl Survey {
    fn of<K>(page: &Page<K>, now: u64, retention: u64, force: bool) -> Self {
        let time = page.time(now);
        let none = Self { keep: [false; SLOTS], kept: 0, dropped: 0, lapsed: 0, latest: None };
        page.slots().iter().enumerate().fold(none, |mut survey, (index, slot)| {
            let word = slot.word();
            if !word.is_published() {
            } else if is_kept(word, time, retention, force) {
                survey.keep[index] = true;
                survey.kept += 1;
                if word.is_leased() {
                    survey.latest = survey.latest.max(Some(page.clock_tick(word.tick())));
                }
            } else {
                survey.dropped += 1;
                survey.lapsed += u64::from(word.is_leased());
            }
            survey
        })
    }
}

/// Whether a resource goes on: if somebody holds it, or used it lately. A lapsed lease that nobody
/// asked for in all that time is not kept either.
fn is_kept(word: Word, time: u64, retention: u64, force: bool) -> bool {
    let recent = time <= word.tick().saturating_add(retention);
    if word.is_leased() {
        !word.is_reclaimable(time) || recent && !force
    } else {
        recent && !force && !word.is_dead()
    }
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
    pub(crate) fn can_replace<S>(&self, page: &Page<K>, ctx: &Ctx<'_, S>) -> bool {
        Survey::of(page, ctx.now, ctx.limits.retention, false).kept < SLOTS
            || page.place().depth < self.depth_limit()
    }

    /// Replaces a page, or helps to; when it returns, the directory leads to its successors. With
    /// `force`, everything that nobody holds is left behind, however lately it was used.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle<S: BuildHasher>(&self, page: &Page<K>, ctx: &Ctx<'_, S>, force: bool) {
        page.freeze();
        let won = page.successors(ctx.pinned).is_none() && self.succeed(page, ctx, force);
        self.directory.advance(page.place(), ctx.pinned);
        if won {
            // Only now does no entry lead to it.
            self.arena.retire(NonNull::from(page), ctx.pinned);
        }
    }

    fn succeed<S: BuildHasher>(&self, page: &Page<K>, ctx: &Ctx<'_, S>, force: bool) -> bool {
        let survey = Survey::of(page, ctx.now, ctx.limits.retention, force);
        let draft = self.draft(page, &survey, ctx);
        if page.succeed(Box::new(draft.successors())).is_err() {
            return false;
        }
        self.add_pages(u64::from(draft.high.is_some()));
        draft.published();
        ctx.room.release(survey.dropped);
        ctx.stats.add(Event::Eviction, survey.dropped);
        ctx.stats.add(Event::Lapse, survey.lapsed);
        true
    }

    fn draft<S: BuildHasher>(&self, old: &Page<K>, survey: &Survey, ctx: &Ctx<'_, S>) -> Draft<K> {
        let place = old.place();
        let mut epochs = ctx.epochs();
        if let Some(latest) = survey.latest {
            epochs = epochs.reaching(latest);
        }
        let split = survey.kept > KEEP_MAX && place.depth < self.depth_limit();
        let draft = self.blanks(place, split, epochs, ctx);
        let kept =
            old.slots().iter().zip(survey.keep).filter_map(|(slot, keep)| keep.then_some(slot));
        for slot in kept {
            // SAFETY: it was found published, and `ctx` is pinned since before that.
            let key = unsafe { slot.with_key(K::clone) };
            let hash = Hash::of(ctx.hasher, &key);
            let upper = hash.below_shard(ctx.limits.shard_bits) & place.half_bit() != 0;
            let half = draft.high.as_ref().filter(|_| upper).unwrap_or(&draft.low);
            copy(slot, old, half.page(), hash, key, ctx);
        }
        draft
    }

    fn blanks<S>(&self, at: Place, split: bool, epochs: Epochs, ctx: &Ctx<'_, S>) -> Draft<K> {
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
    from: &Slot<K>,
    old: &Page<K>,
    new: &Page<K>,
    hash: Hash,
    key: K,
    ctx: &Ctx<'_, S>,
) {
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
    let copied = from.copied(tick);
    let slot = new.first_never(hash);
    // SAFETY: the new page is private, and the slot never had a key in this life.
    unsafe { slot.restore(copied, key) };
}
