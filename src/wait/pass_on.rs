//! Ending a lease that somebody waits for, and granting it to who has waited for longest: one
//! compare-exchange, made by whoever ends the lease, under the shard's wait lock.

use core::hash::BuildHasher;

use super::lists::{First, Lists, Serial};
use super::signal::{Signal, Wake};
use crate::at::At;
use crate::events::{EndCause, Ended};
use crate::granted;
use crate::hash::Hash;
use crate::shard::{Ctx, Found, NoSlot, Shard};
use crate::slot;
use crate::stats::Event;
use crate::sync::std_arc::Arc;
use crate::table::Key;
use crate::table::handle::{Handle, Name};
use crate::table::shared::Won;
use crate::word::{Cause, STAMP_MAX, TICK_MAX, TICK_SLACK};

/// What is to be done when a lease was passed on. The exchange is made, so its end is told of before anything that
/// may panic.
#[must_use]
pub(crate) struct Passed<'a, K: Key> {
    shard: &'a Shard<K>,
    pub(crate) ended: Option<Ended<K>>,
    then: Then<'a, K>,
}

enum Then<'a, K: Key> {
    Nothing,
    /// The page was being replaced when the winner was told of.
    TellCopy(Name),
    /// The slot can be granted no more, and those who wait need another.
    CarryOn(Orphaned<'a, K>, Hash, Arc<K>),
}

impl<K: Key> Passed<'_, K> {
    /// Tells of the end, and sees to the rest.
    pub(crate) fn tell<S: BuildHasher>(mut self, ctx: &Ctx<'_, K, S>) {
        if let Some(ended) = self.ended.take() {
            ctx.events.tell(ended, ctx.now, ctx.pinned);
        }
        self.finish(ctx);
    }

    /// Sees to the rest, when the end has been told of.
    pub(crate) fn finish<S: BuildHasher>(self, ctx: &Ctx<'_, K, S>) {
        match self.then {
            Then::Nothing => {}
            Then::TellCopy(name) => self.shard.tell_copy(name, ctx),
            Then::CarryOn(orphan, hash, key) => self.shard.carry_on(&orphan, hash, &key, ctx),
        }
    }
}

/// The word is not as it was, or its page had to be replaced: look again.
pub(crate) struct Moved;

/// How a waited word is to be passed on.
#[derive(Clone, Copy)]
pub(crate) enum Ending {
    /// There is a lease in it, which ends in this way.
    Lease(Cause),
    /// Nobody ever had it: it was made for an orphan of the same key, if for any.
    Vacancy(Option<Serial>),
}

impl Ending {
    fn cause(self) -> Option<Cause> {
        match self {
            Self::Lease(cause) => Some(cause),
            Self::Vacancy(_) => None,
        }
    }

    fn orphan(self) -> Option<Serial> {
        match self {
            Self::Lease(_) => None,
            Self::Vacancy(orphan) => orphan,
        }
    }
}

/// What was done under the lock.
enum Done<K> {
    Granted(Granted<K>),
    /// Nobody waits for it.
    Vacant,
    Buried(Serial, Hash),
    /// The page's base is too old for the waiter's deadline.
    OutOfRange,
    Moved,
}

/// The lease that a waiter was granted.
struct Granted<K> {
    /// A tick of the page.
    deadline: u64,
    name: Name,
    told: bool,
    signal: Option<Signal>,
    /// Of the queue, if it was an orphan: dropped when the lock is free.
    _key: Option<Arc<K>>,
}

impl<K: Key> Shard<K> {
    /// Ends what is in a waited word: grants it to the first who waits, or makes it plainly vacant if nobody
    /// does any more. Whoever is granted it is woken when the pin is over.
    pub(crate) fn pass_on<S: BuildHasher>(
        &self,
        found: &Found<'_, K>,
        ending: Ending,
        ctx: &Ctx<'_, K, S>,
    ) -> Result<Passed<'_, K>, Moved> {
        let &Found { page, index, word } = found;
        debug_assert!(word.is_waited());
        if word.is_frozen() {
            // A slot that was just made may have been frozen since.
            return Err(Moved);
        }
        let slot = page.slot(index);
        // Before the lock and the exchange: a key's code may panic, or use the table.
        let cause = ending.cause().map(EndCause::of);
        let ended = cause.and_then(|cause| ctx.report(page, index, word, cause));
        // Its last winner is not done telling, or its stamps are used up.
        let bury = word.stamp() == STAMP_MAX || !slot.is_told(word);
        // SAFETY: a waited word that is not frozen is published, and `ctx` is pinned since before it was found.
        let key = bury.then(|| Arc::new(unsafe { slot.with_key(K::clone) }));
        // The term counts from the grant, not from before a key was cloned.
        let ctx = if ended.is_some() || bury { ctx.anew() } else { *ctx };
        let then = match self.pass_on_locked(found, ending, key.as_ref(), &ctx) {
            Done::Granted(granted) => self.granted(found, granted, &ctx),
            Done::Vacant => Then::Nothing,
            Done::Buried(serial, hash) => {
                let key = key.expect("only then is it buried");
                Then::CarryOn(Orphaned { shard: self, serial }, hash, key)
            }
            Done::OutOfRange => {
                self.settle(page, &ctx, false);
                return Err(Moved);
            }
            Done::Moved => return Err(Moved),
        };
        Ok(Passed { shard: self, ended, then })
    }

    fn granted<S>(
        &self,
        found: &Found<'_, K>,
        granted: Granted<K>,
        ctx: &Ctx<'_, K, S>,
    ) -> Then<'_, K> {
        let Granted { deadline, name, told, signal, _key } = granted;
        if let Some(signal) = signal {
            ctx.pinned.wake_later(Wake::up(signal));
        }
        if found.page.due.is_after(deadline + 1) {
            self.filings.file(found.page, deadline + 1);
        }
        ctx.stats.add(Event::Grant, 1);
        ctx.stats.add(Event::HandOver, 1);
        if told { Then::Nothing } else { Then::TellCopy(name) }
    }

    fn pass_on_locked<S>(
        &self,
        found: &Found<'_, K>,
        ending: Ending,
        bury: Option<&Arc<K>>,
        ctx: &Ctx<'_, K, S>,
    ) -> Done<K> {
        let &Found { page, index, word } = found;
        let slot = page.slot(index);
        let time = page.time(ctx.now);
        let mut lists = self.waits.lists.lock();
        let Some(first) = lists.first(slot.identity(), ending.orphan()) else {
            let next = match ending {
                Ending::Lease(cause) => word.end(time.min(word.tick()), cause),
                Ending::Vacancy(_) => word.unwaited(),
            };
            return slot.transition(word, next).map_or(Done::Moved, |()| Done::Vacant);
        };
        if let Some(key) = bury {
            // Counted first: whoever finds the slot buried finds that there is an orphan (invariant P14).
            self.waits.add_orphan();
            if slot.transition(word, word.buried(time, ending.cause())).is_err() {
                self.waits.remove_orphan();
                return Done::Moved;
            }
            return Done::Buried(lists.orphan(first, key.clone()), first.hash);
        }
        let deadline = time.saturating_add(first.wish.ticks);
        if deadline > TICK_MAX - TICK_SLACK {
            return Done::OutOfRange;
        }
        page.raise_top(deadline);
        let granted = word.passed_on(deadline, first.more);
        if slot.transition(word, granted).is_err() {
            return Done::Moved;
        }
        let won = Won { granted: granted.unwaited(), since: time };
        Done::Granted(self.grant_first(&mut lists, found, first, won, ctx))
    }

    /// The first who waits has won: tells who it is, and gives it its lease.
    fn grant_first<S>(
        &self,
        lists: &mut Lists<K>,
        found: &Found<'_, K>,
        first: First,
        won: Won,
        ctx: &Ctx<'_, K, S>,
    ) -> Granted<K> {
        let &Found { page, index, .. } = found;
        let slot = page.slot(index);
        let (stamp, identity) = (won.granted.stamp(), slot.identity());
        if ctx.events.is_on() {
            // SAFETY: ends are told of, so pages are timed; this is the winner, pinned.
            unsafe { granted::note(page, index, ctx.now) };
        }
        let told = slot.tell(stamp, first.wish.holder);
        let token = slot::token(identity, stamp);
        let name = Name { hash: first.hash, token, holder: first.wish.holder };
        let key = lists.adopt(first, identity);
        if key.is_some() {
            self.waits.remove_orphan();
        }
        let signal = lists.grant(first, Handle::new(At::new(page, index), name, won));
        Granted { deadline: won.granted.tick(), name, told, signal, _key: key }
    }

    /// Finds another slot for those who wait for a resource whose slot was buried, and grants it to the first of
    /// them. Whoever else asks for the resource meanwhile may do so instead (invariant P14). If there is no room,
    /// or the key's code panics, they ask anew, each for itself.
    fn carry_on<S: BuildHasher>(
        &self,
        orphan: &Orphaned<'_, K>,
        hash: Hash,
        key: &K,
        ctx: &Ctx<'_, K, S>,
    ) {
        let mut made_room = false;
        while self.waits.lists.lock().is_orphan(orphan.serial) {
            let found = match self.find_or_insert(hash, key, &ctx.anew()) {
                Ok(found) => found,
                Err(NoSlot::Full) if !made_room => {
                    // The slot that was buried takes up room as long as its page does.
                    self.settle(self.page(hash, ctx.limits, ctx.pinned), ctx, true);
                    made_room = true;
                    continue;
                }
                Err(_) => return,
            };
            if !found.word.is_waited() || found.word.is_leased() {
                // Somebody else did it, or all of them went away.
                return;
            }
            // The term counts from the grant, not from before a page was replaced.
            let ctx = ctx.anew();
            if let Ok(passed) = self.pass_on(&found, Ending::Vacancy(Some(orphan.serial)), &ctx) {
                return passed.finish(&ctx);
            }
        }
    }

    /// The orphan whose key is that of a slot, which was found waited and vacant.
    pub(crate) fn orphan_for(&self, found: &Found<'_, K>, hash: Hash) -> Option<Serial> {
        let orphans = self.waits.lists.lock().orphans_of(hash);
        let slot = found.page.slot(found.index);
        // SAFETY: a waited word that is not frozen is published, and was found under a pin.
        let is_its = |key: &K| unsafe { slot.with_key(|own| own == key) };
        orphans.into_iter().find(|(_, key)| is_its(key)).map(|(serial, _)| serial)
    }

    /// Tells who won a grant whose page was being replaced when it was told.
    #[cold]
    pub(crate) fn tell_copy<S: BuildHasher>(&self, name: Name, ctx: &Ctx<'_, K, S>) {
        let (identity, stamp) = (name.identity(), name.stamp());
        if let Some(found) = self.find_identity(name.hash, identity, ctx) {
            found.page.slot(found.index).tell_copy(stamp, name.holder);
        }
    }
}

/// A queue that has lost its slot. Dropped, it sends those away who are still in it.
struct Orphaned<'a, K> {
    shard: &'a Shard<K>,
    serial: Serial,
}

impl<K> Drop for Orphaned<'_, K> {
    fn drop(&mut self) {
        let given_up = self.shard.waits.lists.lock().give_up(self.serial);
        if let Some((_key, signals)) = given_up {
            self.shard.waits.remove_orphan();
            signals.into_iter().map(Wake::up).for_each(drop);
        }
    }
}
