//! Waiting without a thread: futures, for any executor.

use core::fmt;
use core::future::Future;
use core::hash::BuildHasher;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use super::WaitError;
use super::lists::{Ticket, Turn};
use super::queue::{Ask, Begun};
use super::signal::Signal;
use crate::clock::{Clock, QuantaClock};
use crate::hash::Hash;
use crate::id::HolderId;
use crate::lease::{Lease, OwnedLease};
use crate::sync::std_arc::{Arc, Weak};
use crate::table::handle::Handle;
use crate::table::shared::Core;
use crate::table::{DefaultHashBuilder, Key};

/// How far an acquisition has come.
enum Stage {
    /// It has not asked yet, or is to ask anew.
    Asks,
    Waits(Ticket),
    Done,
}

/// What a future of either kind does.
struct Acquisition<K> {
    key: K,
    hash: Hash,
    holder: HolderId,
    term: Duration,
    stage: Stage,
}

impl<K: Key> Acquisition<K> {
    fn new(key: K, hash: Hash, holder: HolderId, term: Duration) -> Self {
        Self { key, hash, holder, term, stage: Stage::Asks }
    }

    fn poll<S, C>(
        &mut self,
        core: &Arc<Core<K, S, C>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Handle<K>, WaitError>>
    where
        S: BuildHasher + Send + Sync + 'static,
        C: Clock,
    {
        loop {
            let begun = match self.stage {
                Stage::Asks => self.ask(core, cx),
                Stage::Done => panic!("polled after it was done"),
                Stage::Waits(ticket) => match core.poll_turn(self.hash, ticket, cx.waker()) {
                    None => return Poll::Pending,
                    Some(turn) => {
                        self.stage = Stage::Asks;
                        match turn {
                            // One that is over by now is of no use: wait again.
                            Turn::Granted(handle) if core.is_in_time(&handle) => {
                                Ok(Begun::Granted(handle))
                            }
                            Turn::Closed => Err(WaitError::Closed),
                            Turn::Granted(_) | Turn::Anew | Turn::Waiting => continue,
                        }
                    }
                },
            };
            match begun {
                Ok(Begun::Queued(_)) => return Poll::Pending,
                Ok(Begun::Granted(handle)) => {
                    self.stage = Stage::Done;
                    return Poll::Ready(Ok(handle));
                }
                Err(error) => {
                    self.stage = Stage::Done;
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    fn ask<S, C>(
        &mut self,
        core: &Arc<Core<K, S, C>>,
        cx: &mut Context<'_>,
    ) -> Result<Begun<K>, WaitError>
    where
        S: BuildHasher + Send + Sync + 'static,
        C: Clock,
    {
        let ticks = core.term_ticks(self.term)?;
        core.ready_to_wait()?;
        let ask = Ask { hash: self.hash, holder: self.holder, ticks };
        let begun = core.begin(ask, &self.key, || Signal::Task(cx.waker().clone()))?;
        if let Begun::Queued(ticket) = begun {
            self.stage = Stage::Waits(ticket);
        }
        Ok(begun)
    }

    fn abandon<S: BuildHasher, C: Clock>(&mut self, core: &Core<K, S, C>) {
        if let Stage::Waits(ticket) = core::mem::replace(&mut self.stage, Stage::Done) {
            core.abandon(self.hash, ticket);
        }
    }
}

/// A lease that is being waited for; see
/// [`LeaseTable::acquire_async`](crate::LeaseTable::acquire_async).
///
/// # Cancel safety
///
/// Dropped before it is done, it leaves the queue, and passes on what it may have been granted: nothing is lost
/// but its place.
///
/// # Panics
///
/// If it is polled after it was done.
///
/// # Example
///
/// See [`LeaseTable::acquire_async`](crate::LeaseTable::acquire_async).
#[must_use = "a future does nothing unless it is polled"]
pub struct Acquire<'t, K: Key, S: BuildHasher = DefaultHashBuilder, C: Clock = QuantaClock> {
    core: &'t Arc<Core<K, S, C>>,
    acquisition: Acquisition<K>,
}

impl<'t, K: Key, S: BuildHasher, C: Clock> Acquire<'t, K, S, C> {
    pub(crate) fn new(
        core: &'t Arc<Core<K, S, C>>,
        (key, hash): (K, Hash),
        holder: HolderId,
        term: Duration,
    ) -> Self {
        Self { core, acquisition: Acquisition::new(key, hash, holder, term) }
    }
}

// Nothing in it is pinned.
impl<K: Key, S: BuildHasher, C: Clock> Unpin for Acquire<'_, K, S, C> {}

impl<'t, K: Key, S, C> Future for Acquire<'t, K, S, C>
where
    S: BuildHasher + Send + Sync + 'static,
    C: Clock,
{
    type Output = Result<Lease<'t, K, S, C>, WaitError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let done = this.acquisition.poll(this.core, cx);
        done.map_ok(|handle| Lease::new(this.core, handle))
    }
}

impl<K: Key, S: BuildHasher, C: Clock> Drop for Acquire<'_, K, S, C> {
    fn drop(&mut self) {
        self.acquisition.abandon(self.core);
    }
}

/// As [`Acquire`], for a lease that owns a share of its table. The future itself does not keep the table: if that
/// goes, it is done with [`WaitError::Closed`].
///
/// # Example
///
/// See [`LeaseTable::acquire_owned_async`](crate::LeaseTable::acquire_owned_async).
#[must_use = "a future does nothing unless it is polled"]
pub struct AcquireOwned<K: Key, S: BuildHasher = DefaultHashBuilder, C: Clock = QuantaClock> {
    core: Weak<Core<K, S, C>>,
    acquisition: Acquisition<K>,
}

impl<K: Key, S: BuildHasher, C: Clock> AcquireOwned<K, S, C> {
    pub(crate) fn new(
        core: &Arc<Core<K, S, C>>,
        (key, hash): (K, Hash),
        holder: HolderId,
        term: Duration,
    ) -> Self {
        let acquisition = Acquisition::new(key, hash, holder, term);
        Self { core: Arc::downgrade(core), acquisition }
    }
}

// Nothing in it is pinned.
impl<K: Key, S: BuildHasher, C: Clock> Unpin for AcquireOwned<K, S, C> {}

impl<K: Key, S, C> Future for AcquireOwned<K, S, C>
where
    S: BuildHasher + Send + Sync + 'static,
    C: Clock,
{
    type Output = Result<OwnedLease<K, S, C>, WaitError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(core) = this.core.upgrade() else {
            this.acquisition.stage = Stage::Done;
            return Poll::Ready(Err(WaitError::Closed));
        };
        let done = this.acquisition.poll(&core, cx);
        done.map_ok(|handle| OwnedLease::new(core, handle))
    }
}

impl<K: Key, S: BuildHasher, C: Clock> Drop for AcquireOwned<K, S, C> {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            self.acquisition.abandon(&core);
        }
    }
}

impl<K: Key + fmt::Debug> fmt::Debug for Acquisition<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Asks => "not asked",
            Stage::Waits(_) => "waiting",
            Stage::Done => "done",
        };
        let Self { key, holder, term, .. } = self;
        f.debug_struct("Acquisition")
            .field("key", key)
            .field("holder", holder)
            .field("term", term)
            .field("stage", &format_args!("{stage}"))
            .finish()
    }
}

impl<K: Key + fmt::Debug, S: BuildHasher, C: Clock> fmt::Debug for Acquire<'_, K, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Acquire").field(&self.acquisition).finish()
    }
}

impl<K: Key + fmt::Debug, S: BuildHasher, C: Clock> fmt::Debug for AcquireOwned<K, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AcquireOwned").field(&self.acquisition).finish()
    }
}
