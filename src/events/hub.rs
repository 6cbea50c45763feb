//! Who is told of the ends of a table's leases.

use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crossbeam_queue::SegQueue;

use super::subscription::Mailbox;
use super::{Causes, EndCause, Ended, SubscribeError, Subscription};
use crate::clock::TickRate;
use crate::expiry::alarm::Alarm;
use crate::granted;
use crate::page::Page;
use crate::slot;
use crate::sync::epoch::{self, Guard};
use crate::sync::std_arc::Arc;
use crate::sync::std_atomic::{AtomicBool, AtomicPtr, Ordering, fence};
use crate::word::Word;
use core::time::Duration;

/// Whether this is a build in which tables can tell of ends, and can be swept: all but the one that
/// benchmarks compare with.
pub(crate) const EVENTS: bool = !cfg!(leasehold_without_events);

/// What a listener is.
pub(crate) type Listener<K> = Arc<dyn Fn(&Ended<K>) + Send + Sync>;

/// Whether a table is gone.
pub(crate) struct Closed(AtomicBool);

impl Closed {
    pub(super) fn is_closed(&self) -> bool {
        // Acquire: what was posted before is found.
        self.0.load(Ordering::Acquire)
    }
}

type Mailboxes<K> = Vec<Arc<Mailbox<K>>>;

pub(crate) struct Hub<K> {
    causes: Causes,
    listener: Option<Listener<K>>,
    /// For the listener, until somebody sweeps.
    queue: SegQueue<Ended<K>>,
    /// The subscriptions: a list that is replaced as a whole, and freed a grace period later.
    mailboxes: AtomicPtr<Mailboxes<K>>,
    closed: Arc<Closed>,
    rate: TickRate,
    alarm: Arc<Alarm>,
}

impl<K> Hub<K> {
    pub(crate) fn new(
        causes: Causes,
        listener: Option<Listener<K>>,
        rate: TickRate,
        alarm: Arc<Alarm>,
    ) -> Self {
        Self {
            causes,
            listener,
            rate,
            alarm,
            queue: SegQueue::new(),
            mailboxes: AtomicPtr::new(Box::into_raw(Box::default())),
            closed: Arc::new(Closed(AtomicBool::new(false))),
        }
    }

    /// Whether any ends are told of, so that it is noted when each lease was granted.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        EVENTS && self.causes != Causes::NONE
    }

    /// Whether ends of that cause are told of.
    #[inline(always)]
    pub(crate) fn tells(&self, cause: EndCause) -> bool {
        EVENTS && self.causes.contains(cause)
    }

    /// How many ends the listener has yet to be told of.
    pub(crate) fn queued(&self) -> usize {
        // SeqCst: after the sweeper said until when it sleeps; pairs with the fence in `tell`.
        fence(Ordering::SeqCst);
        self.queue.len()
    }

    /// What is told of the end of the lease in a word, as of a tick of the clock; `None` if ends of that
    /// cause are not told of. Made before the exchange that ends it, since a key's code may panic.
    #[inline]
    pub(crate) fn report(
        &self,
        page: &Page<K>,
        index: usize,
        word: Word,
        cause: EndCause,
        now: u64,
        pinned: &Guard,
    ) -> Option<Ended<K>>
    where
        K: Clone,
    {
        self.tells(cause).then(|| self.report_slow(page, index, word, cause, now, pinned))
    }

    #[cold]
    fn report_slow(
        &self,
        page: &Page<K>,
        index: usize,
        word: Word,
        cause: EndCause,
        now: u64,
        _pinned: &Guard,
    ) -> Ended<K>
    where
        K: Clone,
    {
        let slot = page.slot(index);
        // SAFETY: a leased slot is published, and the caller is pinned since before it found that.
        let key = unsafe { slot.with_key(K::clone) };
        let deadline = page.clock_tick(word.tick());
        let lapsed = cause == EndCause::Lapsed;
        let end = if lapsed { deadline } else { now };
        let late = if lapsed { now.saturating_sub(deadline) } else { 0 };
        Ended {
            key,
            holder: slot.holder_of(word.stamp()),
            token: slot::token(slot.identity(), word.stamp()),
            cause,
            held_for: self.held_for(page, index, word, end),
            late: self.rate.duration_floor(late),
        }
    }

    fn held_for(&self, page: &Page<K>, index: usize, word: Word, end: u64) -> Duration {
        if !page.slot(index).is_told(word) {
            return Duration::ZERO;
        }
        // SAFETY: ends are told of, so the table's pages are timed.
        match unsafe { granted::of(page, index) } {
            granted::UNKNOWN => Duration::ZERO,
            granted => self.rate.duration_floor(end.saturating_sub(granted)),
        }
    }

    /// Tells of an end: the subscriptions now, the listener at the next sweep.
    #[cold]
    pub(crate) fn tell(&self, ended: Ended<K>, now: u64, pinned: &Guard)
    where
        K: Clone,
    {
        self.post(&ended, pinned);
        if self.listener.is_some() {
            self.queue.push(ended);
            // SeqCst: after the push, before the look at the sweeper; pairs with the fence in `queued`.
            fence(Ordering::SeqCst);
            self.alarm.ring_before(now);
        } else {
            Self::discard(ended);
        }
    }

    /// Tells the subscriptions.
    fn post(&self, ended: &Ended<K>, _pinned: &Guard)
    where
        K: Clone,
    {
        // Acquire: pairs with `subscribe`. SAFETY: a list is freed a grace period after it was replaced.
        for mailbox in unsafe { &*self.mailboxes.load(Ordering::Acquire) } {
            // A key that panics when it is cloned is lost to this one reader; and it may panic when it is
            // dropped, because there was no room.
            let posted = catch_unwind(AssertUnwindSafe(|| mailbox.post(ended.clone())));
            if posted.is_err() {
                mailbox.count_lost();
            }
        }
    }

    /// Tells the subscriptions of ends that the sweep brought about.
    pub(crate) fn post_all(&self, ended: &[Ended<K>])
    where
        K: Clone,
    {
        if !ended.is_empty() {
            let pinned = epoch::pin();
            ended.iter().for_each(|ended| self.post(ended, &pinned));
        }
    }

    /// Tells the listener of an end that waited for a sweep. `None`: there is none.
    pub(crate) fn tell_queued(&self) -> Option<bool> {
        let ended = self.queue.pop()?;
        Some(self.call(ended))
    }

    /// Tells the listener. `false` if it panicked, or the key when it was dropped.
    pub(crate) fn call(&self, ended: Ended<K>) -> bool {
        // A listener that panics must not keep the others' ends from being told.
        let tell = || self.listener.iter().for_each(|listener| listener(&ended));
        let told = catch_unwind(AssertUnwindSafe(tell)).is_ok();
        Self::discard(ended) && told
    }

    /// Drops what was told. A key that panics then must not keep the others' ends from being told, either.
    fn discard(ended: Ended<K>) -> bool {
        catch_unwind(AssertUnwindSafe(|| drop(ended))).is_ok()
    }

    pub(crate) fn subscribe(&self, capacity: usize) -> Result<Subscription<K>, SubscribeError>
    where
        K: Send + Sync + 'static,
    {
        if self.causes == Causes::NONE {
            return Err(SubscribeError::NoEvents);
        }
        if capacity == 0 {
            return Err(SubscribeError::CapacityZero);
        }
        let mailbox = Arc::new(Mailbox::new(capacity));
        self.add(&mailbox);
        Ok(Subscription::new(mailbox, self.closed.clone()))
    }

    /// Adds a mailbox to the list, and removes those whose readers are gone.
    fn add(&self, mailbox: &Arc<Mailbox<K>>)
    where
        K: Send + Sync + 'static,
    {
        let pinned = epoch::pin();
        // Acquire: as in `post`.
        let mut old = self.mailboxes.load(Ordering::Acquire);
        loop {
            // SAFETY: as in `post`.
            let living = unsafe { &*old }.iter().filter(|mailbox| !mailbox.is_abandoned());
            let list: Mailboxes<K> = living.chain([mailbox]).cloned().collect();
            let new = Box::into_raw(Box::new(list));
            // AcqRel: Release hands over the list, Acquire takes over the one that it replaces. Acquire on
            // failure: as for the load.
            match self.mailboxes.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(found) => {
                    // SAFETY: it came from `Box::into_raw` above, and was not published.
                    drop(unsafe { Box::from_raw(new) });
                    old = found;
                }
            }
        }
        let old = SendPtr(old);
        // SAFETY: the list is this call's alone, after a grace period. It runs no code of the user's: a
        // mailbox whose reader is gone is empty.
        unsafe {
            epoch::defer(&pinned, move || {
                let old = old;
                drop(Box::from_raw(old.0));
            });
        }
    }
}

struct SendPtr<T>(*mut T);

impl<K> Drop for Hub<K> {
    fn drop(&mut self) {
        // Release: whoever finds it closed finds what was posted before.
        self.closed.0.store(true, Ordering::Release);
        // Relaxed: the hub goes, with everything of all threads before it.
        let mailboxes = self.mailboxes.swap(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: it came from `Box::into_raw`, and nobody else is left.
        for mailbox in *unsafe { Box::from_raw(mailboxes) } {
            mailbox.wake();
        }
    }
}
