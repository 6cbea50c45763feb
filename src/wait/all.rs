//! Several resources at once: all or nothing.
//!
//! They are acquired one by one in one order for everybody, that of their hashes: so no two acquisitions wait
//! for each other (Havender, 1968). What is held already is renewed while the next is waited for. Resources
//! whose keys have the same hash have no order that everybody knows. Of those, only the first is waited for, and
//! if one of the rest cannot be had at once, all of them are given back, and that one is waited for: nobody who
//! waits holds anything of the same hash.

use core::fmt;
use core::future::Future;
use core::hash::BuildHasher;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::time::Instant;

use super::WaitError;
use super::blocking::{Place, is_past, park};
use super::lists::Turn;
use super::queue::{Ask, Begun};
use super::signal::Signal;
use super::timers::Timer;
use crate::clock::{Clock, QuantaClock};
use crate::error::{AcquireError, Held};
use crate::hash::Hash;
use crate::id::HolderId;
use crate::lease::Lease;
use crate::sync::std_arc::Arc;
use crate::sync::{thread, time};
use crate::table::shared::Core;
use crate::table::{DefaultHashBuilder, Key};

/// What comes of it.
type Leases<'t, K, S, C> = Result<Vec<Lease<'t, K, S, C>>, WaitError>;

/// How far it went.
enum Advance<'t, K: Key, S: BuildHasher, C: Clock> {
    Done(Leases<'t, K, S, C>),
    Waits,
    /// Some of what it held was lost, and the rest given back, and not for the first time: the caller is to look at
    /// other things, as it never ends if the term is too short for all of them.
    Lost,
}

/// One of the resources.
struct Wanted<K> {
    hash: Hash,
    key: K,
    /// Where its lease belongs in the result.
    place: usize,
}

/// An acquisition of several resources, as far as it has come.
pub(crate) struct Pursuit<'t, K: Key, S: BuildHasher, C: Clock> {
    core: &'t Arc<Core<K, S, C>>,
    /// In the order in which they are acquired.
    wanted: Vec<Wanted<K>>,
    /// Of the first of those.
    held: Vec<Lease<'t, K, S, C>>,
    /// In the queue of the next.
    place: Option<Place<'t, K, S, C>>,
    holder: HolderId,
    term: Duration,
    /// When what is held is to be renewed: a tick of the clock.
    renew_at: u64,
}

/// Who is to be woken.
enum Who<'a> {
    Thread,
    Task(&'a Waker),
}

impl Who<'_> {
    fn signal(&self) -> Signal {
        match self {
            Self::Thread => Signal::Thread(thread::current()),
            Self::Task(waker) => Signal::Task(Waker::clone(waker)),
        }
    }
}

impl<'t, K: Key, S, C> Pursuit<'t, K, S, C>
where
    S: BuildHasher + Send + Sync + 'static,
    C: Clock,
{
    pub(crate) fn new(
        core: &'t Arc<Core<K, S, C>>,
        keys: impl Iterator<Item = K>,
        holder: HolderId,
        term: Duration,
    ) -> Self {
        let mut wanted: Vec<Wanted<K>> = Vec::new();
        for key in keys {
            let hash = Hash::of(&core.hasher, &key);
            // Those with the same hash are together, and few.
            let at = wanted.partition_point(|other| other.hash.bits() < hash.bits());
            let mut same = wanted[at..].iter().take_while(|other| other.hash == hash);
            if !same.any(|other| other.key == key) {
                let place = wanted.len();
                wanted.insert(at, Wanted { hash, key, place });
            }
        }
        let (held, place) = (Vec::new(), None);
        Self { core, wanted, held, place, holder, term, renew_at: u64::MAX }
    }

    /// Goes on as far as possible without waiting. It begins again once at most.
    fn advance(&mut self, who: &Who<'_>) -> Advance<'t, K, S, C> {
        let mut lost = false;
        loop {
            if self.core.clock.now() >= self.renew_at && !self.renew() {
                if lost {
                    return Advance::Lost;
                }
                lost = true;
            }
            let step = match &self.place {
                Some(place) => match self.turn(place, who) {
                    None => return Advance::Waits,
                    Some(turn) => {
                        // The ticket is taken: nothing is left to be given up.
                        core::mem::forget(self.place.take());
                        self.take(turn)
                    }
                },
                None if self.held.len() == self.wanted.len() => match self.finish() {
                    Some(leases) => return Advance::Done(Ok(leases)),
                    None if lost => return Advance::Lost,
                    None => {
                        lost = true;
                        Ok(())
                    }
                },
                None => self.ask(who),
            };
            if let Err(error) = step {
                self.let_go(0);
                return Advance::Done(Err(error));
            }
        }
    }

    fn turn(&self, place: &Place<'t, K, S, C>, who: &Who<'_>) -> Option<Turn<K>> {
        match who {
            Who::Thread => self.core.turn(place.hash, place.ticket),
            Who::Task(waker) => self.core.poll_turn(place.hash, place.ticket, waker),
        }
    }

    fn take(&mut self, turn: Turn<K>) -> Result<(), WaitError> {
        match turn {
            Turn::Granted(handle) => {
                let lease = Lease::new(self.core, handle);
                // One that is over by now is of no use: wait again.
                if lease.check().is_ok() {
                    self.hold(lease);
                }
                Ok(())
            }
            Turn::Closed => Err(WaitError::Closed),
            Turn::Anew | Turn::Waiting => Ok(()),
        }
    }

    fn hold(&mut self, lease: Lease<'t, K, S, C>) {
        if self.held.is_empty() {
            self.renew_at = self.next_renewal();
        }
        self.held.push(lease);
    }

    /// A third of the term from now.
    fn next_renewal(&self) -> u64 {
        let third = self.core.rate.ticks_floor(self.term) / 3;
        self.core.clock.now().saturating_add(third.max(1))
    }

    /// Renews what is held. If some of it was lost meanwhile, it begins again.
    fn renew(&mut self) -> bool {
        let kept = self.held.iter().all(|lease| lease.renew(self.term).is_ok());
        if kept {
            self.renew_at = self.next_renewal();
        } else {
            self.let_go(0);
        }
        kept
    }

    /// Gives back what is held from the one of that number on, and the place in the queue.
    fn let_go(&mut self, from: usize) {
        self.place = None;
        self.held.truncate(from);
        if self.held.is_empty() {
            self.renew_at = u64::MAX;
        }
    }

    /// Asks for the next.
    fn ask(&mut self, who: &Who<'_>) -> Result<(), WaitError> {
        let next = self.held.len();
        let Wanted { hash, key, .. } = &self.wanted[next];
        let hash = *hash;
        let group = self.wanted[..next].iter().rposition(|other| other.hash != hash);
        let group = group.map_or(0, |before| before + 1);
        if group < next {
            match self.core.acquire(key, self.holder, self.term) {
                Ok(handle) => self.hold(Lease::new(self.core, handle)),
                Err(AcquireError::Held(_)) => {
                    self.let_go(group);
                    self.wanted[group..=next].rotate_right(1);
                }
                Err(error) => return Err(error.into()),
            }
            return Ok(());
        }
        let ask = Ask { hash, holder: self.holder, ticks: self.core.term_ticks(self.term)? };
        match self.core.begin(ask, key, || who.signal())? {
            Begun::Granted(handle) => self.hold(Lease::new(self.core, handle)),
            Begun::Queued(ticket) => self.place = Some(Place { core: self.core, hash, ticket }),
        }
        Ok(())
    }

    /// All of them are held: for a whole term from now on, in the order in which they were asked for.
    fn finish(&mut self) -> Option<Vec<Lease<'t, K, S, C>>> {
        if self.held.len() > 1 && !self.renew() {
            return None;
        }
        let places = self.wanted.iter().map(|wanted| wanted.place);
        let mut leases: Vec<_> = places.zip(self.held.drain(..)).collect();
        leases.sort_unstable_by_key(|(place, _)| *place);
        self.renew_at = u64::MAX;
        Some(leases.into_iter().map(|(_, lease)| lease).collect())
    }

    /// Acquires them all, parking the thread in between.
    pub(crate) fn wait(mut self, until: Option<Instant>) -> Leases<'t, K, S, C> {
        self.core.term_ticks(self.term)?;
        self.core.ready_to_wait()?;
        loop {
            match self.advance(&Who::Thread) {
                Advance::Done(done) => return done,
                _ if is_past(until) => return self.time_out(),
                Advance::Lost => continue,
                Advance::Waits => {}
            }
            let now = self.core.clock.now();
            let nap = match self.renew_at {
                u64::MAX => None,
                tick => {
                    let nap = self.core.rate.duration_ceil(tick.saturating_sub(now));
                    time::now().checked_add(nap)
                }
            };
            park(until.into_iter().chain(nap).min());
        }
    }

    /// The last look, which also says who holds the one that was waited for.
    fn time_out(mut self) -> Leases<'t, K, S, C> {
        if let Some(place) = self.place.take() {
            // It may have come just then.
            let turn = place.leave();
            self.take(turn)?;
        }
        for Wanted { key, .. } in &self.wanted[self.held.len()..] {
            let handle = self.core.acquire(key, self.holder, self.term)?;
            self.held.push(Lease::new(self.core, handle));
        }
        let first = self.held.first().map(Lease::token);
        match (self.finish(), first) {
            (None, Some(token)) => {
                // The term was too short for all of them: it is its own leases that it lost.
                let (holder, retry_after) = (Some(self.holder), Duration::ZERO);
                Err(WaitError::TimedOut(Held { holder, token, retry_after, waiters: 0 }))
            }
            (leases, _) => Ok(leases.unwrap_or_default()),
        }
    }
}

/// Several leases that are being waited for; see
/// [`LeaseTable::acquire_all_async`](crate::LeaseTable::acquire_all_async).
///
/// # Cancel safety
///
/// Dropped before it is done, it gives back whatever it holds by then, and leaves the queue that it is in.
///
/// # Panics
///
/// If it is polled after it was done.
///
/// # Example
///
/// See [`LeaseTable::acquire_all_async`](crate::LeaseTable::acquire_all_async).
#[must_use = "a future does nothing unless it is polled"]
pub struct AcquireAll<'t, K: Key, S: BuildHasher = DefaultHashBuilder, C: Clock = QuantaClock> {
    core: &'t Arc<Core<K, S, C>>,
    /// `None` when it is done.
    pursuit: Option<Pursuit<'t, K, S, C>>,
    timer: Option<Timer>,
}

impl<'t, K: Key, S: BuildHasher, C: Clock> AcquireAll<'t, K, S, C> {
    pub(crate) fn new(pursuit: Pursuit<'t, K, S, C>) -> Self {
        Self { core: pursuit.core, pursuit: Some(pursuit), timer: None }
    }

    fn clear_timer(&mut self) {
        if let Some(timer) = self.timer.take() {
            self.core.timers.clear(timer);
        }
    }
}

// Nothing in it is pinned.
impl<K: Key, S: BuildHasher, C: Clock> Unpin for AcquireAll<'_, K, S, C> {}

impl<'t, K: Key, S, C> Future for AcquireAll<'t, K, S, C>
where
    S: BuildHasher + Send + Sync + 'static,
    C: Clock,
{
    type Output = Result<Vec<Lease<'t, K, S, C>>, WaitError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let pursuit = this.pursuit.as_mut().expect("polled after it was done");
        let begun = this.core.term_ticks(pursuit.term).and_then(|_| this.core.ready_to_wait());
        let done = match begun.map(|()| pursuit.advance(&Who::Task(cx.waker()))) {
            Ok(Advance::Done(done)) => Poll::Ready(done),
            Ok(Advance::Waits) => Poll::Pending,
            Ok(Advance::Lost) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error.into())),
        };
        let renew_at = pursuit.renew_at;
        this.clear_timer();
        if done.is_ready() {
            this.pursuit = None;
        } else if renew_at != u64::MAX {
            this.timer = Some(this.core.timers.set(renew_at, cx.waker().clone()));
        }
        done
    }
}

impl<K: Key, S: BuildHasher, C: Clock> Drop for AcquireAll<'_, K, S, C> {
    fn drop(&mut self) {
        self.clear_timer();
    }
}

impl<K: Key + fmt::Debug, S: BuildHasher, C: Clock> fmt::Debug for AcquireAll<'_, K, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pursuit) = &self.pursuit else {
            return f.write_str("AcquireAll(done)");
        };
        let keys = pursuit.wanted.iter().map(|wanted| &wanted.key);
        f.debug_struct("AcquireAll")
            .field("keys", &keys.collect::<Vec<_>>())
            .field("holder", &pursuit.holder)
            .field("held", &pursuit.held.len())
            .finish_non_exhaustive()
    }
}
