//! Settings and methods about the ends of leases: sweeps and events.

use core::fmt;
use core::hash::BuildHasher;
use core::time::Duration;

use super::build_error::BuildError;
use super::{Builder, Key, LeaseTable};
use crate::clock::{Clock, TickRate};
use crate::events::hub::{Hub, Listener};
use crate::events::{Causes, Ended, SubscribeError, Subscription};
use crate::expiry::alarm::Alarm;
use crate::expiry::gap::GapWatch;
use crate::expiry::{ClockGap, GapPolicy, Sweeper, Sweeping, Swept};
use crate::granted::Stride;
use crate::sync::std_arc::Arc;

/// How long a sweeper's thread sleeps at most.
const NAP: Duration = Duration::from_secs(5);

/// What a builder is told of sweeps and events.
pub(super) struct Expiry<K> {
    causes: Option<Causes>,
    listener: Option<Listener<K>>,
    driven: Driven,
    gap_threshold: Duration,
    gap_policy: GapPolicy,
}

/// Who sweeps.
#[derive(Clone, Debug)]
pub(crate) enum Driven {
    /// A thread, from the beginning.
    AtOnce(Sweeper),
    /// A thread, as soon as somebody waits.
    WhenNeeded,
    /// The caller.
    ByHand,
}

impl<K> Default for Expiry<K> {
    fn default() -> Self {
        Self {
            causes: None,
            listener: None,
            driven: Driven::WhenNeeded,
            gap_threshold: Duration::from_secs(5),
            gap_policy: GapPolicy::default(),
        }
    }
}

impl<K> Clone for Expiry<K> {
    fn clone(&self) -> Self {
        let Self { causes, listener, driven, gap_threshold, gap_policy } = self;
        Self {
            causes: *causes,
            listener: listener.clone(),
            driven: driven.clone(),
            gap_threshold: *gap_threshold,
            gap_policy: *gap_policy,
        }
    }
}

impl<K> fmt::Debug for Expiry<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expiry")
            .field("causes", &self.causes)
            .field("listener", &self.listener.is_some())
            .field("driven", &self.driven)
            .field("gap_threshold", &self.gap_threshold)
            .field("gap_policy", &self.gap_policy)
            .finish()
    }
}

/// What a table gets of it.
pub(super) struct Checked<K> {
    pub(super) events: Hub<K>,
    pub(super) gaps: GapWatch,
    pub(super) alarm: Arc<Alarm>,
    pub(super) interval_ticks: u64,
    pub(super) nap_ticks: u64,
    /// How its sweeper's thread is to be, if there may be one.
    pub(super) driven: Option<Sweeper>,
    pub(super) at_once: bool,
}

impl<K> Checked<K> {
    pub(super) fn stride(&self) -> Stride {
        if self.events.is_on() { Stride::Timed } else { Stride::Plain }
    }
}

impl<K> Expiry<K> {
    pub(super) fn checked(self, rate: TickRate) -> Result<Checked<K>, BuildError> {
        let Self { causes, listener, driven, gap_threshold, gap_policy } = self;
        let (driven, at_once) = match driven {
            Driven::AtOnce(sweeper) => (Some(sweeper), true),
            Driven::WhenNeeded => (Some(Sweeper::new()), false),
            Driven::ByHand => (None, false),
        };
        let default = if listener.is_some() { Causes::ALL } else { Causes::NONE };
        let causes = causes.unwrap_or(default);
        if listener.is_some() && causes == Causes::NONE {
            return Err(BuildError::ListenerWithoutEvents);
        }
        let interval = driven.clone().unwrap_or_default().interval;
        // At least a tick, so that the sweeper's thread does sleep; unless it is not to.
        let interval_ticks = rate.ticks_floor(interval).max(u64::from(!interval.is_zero()));
        let alarm = Arc::new(Alarm::new(interval_ticks));
        let grace = match gap_policy {
            GapPolicy::Lapse => 0,
            GapPolicy::Grace(grace) => rate.ticks_floor(grace),
        };
        Ok(Checked {
            events: Hub::new(causes, listener, rate, alarm.clone()),
            gaps: GapWatch::new(rate.ticks_floor(gap_threshold), grace),
            alarm,
            interval_ticks,
            // A model has no time: there it sleeps until it is woken.
            nap_ticks: if cfg!(any(leasehold_loom, leasehold_shuttle)) {
                u64::MAX
            } else {
                rate.ticks_floor(NAP)
            },
            driven,
            at_once,
        })
    }
}

impl<K: Key, S: BuildHasher, C: Clock> Builder<K, S, C> {
    /// Which ends of leases the table tells of, to its [`listener`](Self::listener) and to
    /// [subscriptions](LeaseTable::subscribe). Default: all, if there is a listener, and none if not.
    ///
    /// A table that tells of no ends pays nothing for it. One that does keeps when each lease was granted,
    /// eight bytes a slot. Telling of releases costs each release a look-up.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Causes, EndCause, LeaseTable};
    ///
    /// let table = LeaseTable::<u64>::builder().events(Causes::of(EndCause::Lapsed)).build()?;
    /// let lapses = table.subscribe(1_000)?;
    /// # drop(lapses);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn events(mut self, causes: Causes) -> Self {
        self.expiry.causes = Some(causes);
        self
    }

    /// Code that is called once for the end of each lease, by whoever [sweeps](LeaseTable::sweep): the
    /// [`sweeper`](Self::sweeper)'s thread, or yours. Never inside a grant or a release, and under no lock.
    ///
    /// Ends that other threads bring about wait in memory until somebody sweeps; those that wait when the table
    /// goes are not told. If the listener panics,
    /// the panic hook reports it, and it is called for the next end all the same. It may use the table, but must
    /// not wait for a lease: that could be one that this very sweep is to pass on. If
    /// it holds a handle of it, the two keep each other, for ever: give it a
    /// [weak one](LeaseTable::downgrade). It is told of each end once, in no particular order: of two leases of
    /// one resource the tokens say which came first.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{EndCause, HolderId, LeaseTable};
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let (sender, ends) = mpsc::channel();
    /// let table = LeaseTable::<u64>::builder()
    ///     .listener(move |ended| drop(sender.send((ended.key, ended.cause))))
    ///     .build()?;
    /// drop(table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?);
    /// let swept = table.sweep(100)?;
    /// assert_eq!((swept.told, ends.try_recv()?), (1, (1, EndCause::Released)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn listener(mut self, listener: impl Fn(&Ended<K>) + Send + Sync + 'static) -> Self {
        self.expiry.listener = Some(Arc::new(listener));
        self
    }

    /// A thread that [sweeps](LeaseTable::sweep) the table, from the beginning. Default: one with the
    /// default settings is started when somebody first waits for a lease.
    ///
    /// Without, and with nobody who sweeps by hand, leases end by the clock all the same; but nobody is told
    /// of it, and what is idle is forgotten only to make room.
    ///
    /// # Example
    ///
    /// See [`Sweeper`].
    pub fn sweeper(mut self, sweeper: Sweeper) -> Self {
        self.expiry.driven = Driven::AtOnce(sweeper);
        self
    }

    /// No thread: the caller [sweeps](LeaseTable::sweep), in a loop of its own. Whoever waits depends on it: a
    /// lease that lapses is passed on by a sweep, unless somebody asks for it meanwhile.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable, ManualClock};
    /// use std::future::Future;
    /// use std::pin::pin;
    /// use std::task::{Context, Waker};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let table =
    ///     LeaseTable::<u64>::builder().clock(clock.clone()).sweep_by_hand().build()?;
    /// let (term, mut cx) = (Duration::from_secs(5), Context::from_waker(Waker::noop()));
    /// std::mem::forget(table.try_acquire(&1, HolderId::mint(), term)?); // As if it had crashed.
    ///
    /// let mut next = pin!(table.acquire_async(&1, HolderId::mint(), term));
    /// assert!(next.as_mut().poll(&mut cx).is_pending());
    /// clock.advance(Duration::from_secs(6));
    /// assert_eq!(table.sweep(100)?.lapsed, 1); // It grants what lapsed to who waits.
    /// assert!(next.as_mut().poll(&mut cx).is_ready());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sweep_by_hand(mut self) -> Self {
        self.expiry.driven = Driven::ByHand;
        self
    }

    /// What to do when the clock has jumped: when something is found that was due for longer than
    /// `threshold`, though the table is swept. Default: five seconds, [`GapPolicy::Lapse`].
    ///
    /// The threshold must be longer than sweeps may be late: whoever sweeps by hand does so at least that often,
    /// also if [`next_in`](Swept::next_in) allows more, as leases may be granted meanwhile that are due
    /// earlier. A [`sweeper`](Self::sweeper)'s interval must be shorter, too.
    ///
    /// # Example
    ///
    /// See [`GapPolicy`].
    pub fn clock_gap(mut self, threshold: Duration, policy: GapPolicy) -> Self {
        self.expiry.gap_threshold = threshold;
        self.expiry.gap_policy = policy;
        self
    }
}

impl<K: Key, S: BuildHasher, C: Clock> LeaseTable<K, S, C> {
    /// Ends leases that lapsed, tells of them, and forgets resources that nobody holds, one to two
    /// [retentions](Builder::retention) after they were last granted or lapsed; for those who have a loop to do it in. What is due for longest comes
    /// first.
    ///
    /// At most `budget` pages are visited, 0 taken as 1: each is 62 leases at most, and some microseconds
    /// without what the listener takes. The rest waits for the next call. Pages in which something was
    /// granted that is due earlier than the rest are filed first, all of them, in less than a microsecond
    /// each.
    ///
    /// # Errors
    ///
    /// [`Sweeping`], if another thread is at it, or the caller itself, from the listener.
    ///
    /// # Example
    ///
    /// See [`Swept`].
    pub fn sweep(&self, budget: usize) -> Result<Swept, Sweeping> {
        self.core.sweep(budget)
    }

    /// A bounded queue of the ends of leases, from now on.
    ///
    /// # Errors
    ///
    /// [`SubscribeError`]: the table tells of no ends, or the capacity is 0.
    ///
    /// # Example
    ///
    /// See [`Subscription`].
    pub fn subscribe(&self, capacity: usize) -> Result<Subscription<K>, SubscribeError> {
        self.core.events.subscribe(capacity)
    }

    /// The last jump of the clock that was seen; see [`Builder::clock_gap`].
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::LeaseTable;
    ///
    /// assert_eq!(LeaseTable::<u64>::new().clock_gap(), None);
    /// ```
    #[must_use]
    pub fn clock_gap(&self) -> Option<ClockGap> {
        self.core.clock_gap()
    }
}
