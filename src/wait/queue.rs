//! Coming to wait, looking whether it is one's turn, and leaving.

use core::borrow::Borrow;
use core::hash::BuildHasher;
use core::mem;
use core::task::Waker;

use super::lists::{Ticket, Turn, Wish};
use super::signal::Signal;
use crate::clock::Clock;
use crate::error::AcquireError;
use crate::hash::Hash;
use crate::id::HolderId;
use crate::pinned::{self, Pinned};
use crate::shard::Found;
use crate::stats::Event;
use crate::table::Key;
use crate::table::attempt::Attempt;
use crate::table::handle::Handle;
use crate::table::shared::{Core, Want};

/// What an acquirer got that is prepared to wait.
pub(crate) enum Begun<K> {
    Granted(Handle<K>),
    Queued(Ticket),
}

/// Who asks, and for how long, in ticks.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) hash: Hash,
    pub(crate) holder: HolderId,
    pub(crate) ticks: u64,
}

/// A lease that is given back when this is dropped.
struct GiveBack<'a, K: Key, S: BuildHasher, C: Clock> {
    core: &'a Core<K, S, C>,
    handle: &'a Handle<K>,
}

impl<K: Key, S: BuildHasher, C: Clock> Drop for GiveBack<'_, K, S, C> {
    fn drop(&mut self) {
        // If somebody else ended it, that is as well.
        let _ = self.core.release(self.handle);
    }
}

impl<K: Key, S: BuildHasher, C: Clock> Core<K, S, C> {
    /// Grants a resource, or queues for it. `signal` is made when there is no other way, under no lock.
    pub(crate) fn begin<Q>(
        &self,
        ask: Ask,
        key: &Q,
        signal: impl Fn() -> Signal,
    ) -> Result<Begun<K>, AcquireError>
    where
        K: Borrow<Q>,
        Q: std::hash::Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let Ask { hash, holder, ticks } = ask;
        let shard = self.shard(hash);
        let pinned = pinned::pin();
        loop {
            let page = shard.page(hash, &self.limits, &pinned);
            let found = match page.search(hash, key, &pinned) {
                Some((index, word)) if !word.is_frozen() => Found { page, index, word },
                _ => self.find_or_insert(hash, key, &self.ctx(self.clock.now(), &pinned))?,
            };
            // The term counts from the grant, not from before keys were compared or a page replaced.
            let want = Want { holder, ticks, now: self.clock.now() };
            match self.attempt_to_begin(&found, hash, want, &pinned) {
                Attempt::Granted(handle) => return Ok(Begun::Granted(handle)),
                Attempt::Again => {}
                Attempt::Refused(_) => {
                    if let Some(ticket) = self.queue(&found, ask, want.now, signal())? {
                        self.stats.add(Event::Wait, 1);
                        return Ok(Begun::Queued(ticket));
                    }
                }
            }
        }
    }

    /// As [`attempt`](Self::attempt), without a second look at a lease that somebody else holds.
    fn attempt_to_begin(
        &self,
        found: &Found<'_, K>,
        hash: Hash,
        want: Want,
        pinned: &Pinned,
    ) -> Attempt<K> {
        let &Found { page, index, word } = found;
        let held = word.is_leased() && !word.is_reclaimable(page.time(want.now));
        let by = page.slot(index).holder_of(word.stamp());
        if held && by.is_some_and(|holder| holder != want.holder) {
            return Attempt::Refused(word);
        }
        self.attempt(found, hash, want, pinned)
    }

    /// Queues for a lease that was found held. `None`: it no longer is, or not there.
    fn queue(
        &self,
        found: &Found<'_, K>,
        ask: Ask,
        now: u64,
        signal: Signal,
    ) -> Result<Option<Ticket>, AcquireError> {
        let slot = found.page.slot(found.index);
        let wish = Wish { holder: ask.holder, ticks: ask.ticks, since: now };
        // Not dropped under the lock, if it is not needed.
        let mut signal = Some(signal);
        let mut lists = self.shard(ask.hash).waits.lists.lock();
        if lists.is_closed() {
            return Err(AcquireError::Closed);
        }
        // Under the lock, nobody ends a lease whose word is marked (invariant P14).
        let word = slot.word();
        let held =
            !word.is_frozen() && word.is_leased() && !self.can_take_over(found.page, word, now);
        let marked = held && (word.is_waited() || slot.transition(word, word.waited()).is_ok());
        let signal = signal.take_if(|_| marked);
        let ticket = signal.map(|signal| lists.push(slot.identity(), ask.hash, wish, signal));
        drop(lists);
        if ticket.is_some() {
            // Whoever was granted it may have been suspended before it saw to that.
            self.see_to(found.page, word.tick());
        }
        Ok(ticket)
    }

    /// What has become of a waiter; `None` as long as it waits.
    pub(crate) fn turn(&self, hash: Hash, ticket: Ticket) -> Option<Turn<K>> {
        let mut lists = self.shard(hash).waits.lists.lock();
        if let Turn::Waiting = lists.waiter(ticket).turn {
            return None;
        }
        Some(lists.remove(ticket).turn)
    }

    /// As [`turn`](Self::turn), for a task, which is woken by this waker from now on.
    pub(crate) fn poll_turn(&self, hash: Hash, ticket: Ticket, waker: &Waker) -> Option<Turn<K>> {
        let knows_it =
            |signal: &Option<Signal>| signal.as_ref().is_some_and(|s| s.will_wake(waker));
        {
            let mut lists = self.shard(hash).waits.lists.lock();
            let waiter = lists.waiter(ticket);
            match waiter.turn {
                Turn::Waiting if knows_it(&waiter.signal) => return None,
                Turn::Waiting => {}
                _ => return Some(lists.remove(ticket).turn),
            }
        }
        // A waker is the user's code: it is cloned and dropped while the lock is free.
        let mut signal = Some(Signal::Task(waker.clone()));
        let mut lists = self.shard(hash).waits.lists.lock();
        let waiter = lists.waiter(ticket);
        if let Turn::Waiting = waiter.turn {
            mem::swap(&mut waiter.signal, &mut signal);
            return None;
        }
        Some(lists.remove(ticket).turn)
    }

    /// A waiter goes: what had become of it by then.
    pub(crate) fn leave(&self, hash: Hash, ticket: Ticket) -> Turn<K> {
        let left = self.shard(hash).waits.lists.lock().remove(ticket);
        // Its signal is dropped here, under no lock.
        left.turn
    }

    /// Whether a lease that was granted to a waiter is still of use. One that is over is not kept until it lapses:
    /// others may wait.
    pub(crate) fn is_in_time(&self, handle: &Handle<K>) -> bool {
        // Also if the look at it panics.
        let back = GiveBack { core: self, handle };
        let in_time = self.check(handle).is_ok();
        if in_time {
            core::mem::forget(back);
        }
        in_time
    }

    /// A waiter goes, and wants nothing any more: what it was granted is passed on.
    pub(crate) fn abandon(&self, hash: Hash, ticket: Ticket) {
        if let Turn::Granted(handle) = self.leave(hash, ticket) {
            drop(GiveBack { core: self, handle: &handle });
        }
    }
}
