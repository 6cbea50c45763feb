//! A bounded queue of ends, with one reader.

use core::error::Error;
use core::fmt;
use core::ptr;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crossbeam_queue::ArrayQueue;

use super::Ended;
use super::hub::Closed;
use crate::sync::std_arc::Arc;
use crate::sync::std_atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};

/// A subscription that cannot be made.
///
/// # Example
///
/// ```
/// use leasehold::{LeaseTable, SubscribeError};
///
/// let table: LeaseTable<u64> = LeaseTable::new();
/// assert_eq!(table.subscribe(10).unwrap_err(), SubscribeError::NoEvents);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The table was built without [`events`](crate::Builder::events).
    NoEvents,
    /// The capacity is 0: nothing could be received.
    CapacityZero,
}

impl fmt::Display for SubscribeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoEvents => "the table tells of no ends: build it with `events(Causes::ALL)`",
            Self::CapacityZero => "the capacity is 0: use at least 1",
        })
    }
}

impl Error for SubscribeError {}

/// Why nothing was received.
///
/// # Example
///
/// ```
/// use leasehold::{Causes, LeaseTable, RecvError};
/// use std::time::Duration;
///
/// let table = LeaseTable::<u64>::builder().events(Causes::ALL).build()?;
/// let mut ends = table.subscribe(10)?;
/// assert_eq!(ends.recv_timeout(Duration::ZERO), Err(RecvError::Timeout));
/// drop(table);
/// assert_eq!(ends.recv(), Err(RecvError::Closed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// The time passed.
    Timeout,
    /// The table is gone, and everything was received.
    Closed,
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout => "no lease ended in that time",
            Self::Closed => "the table is gone: no more leases will end",
        })
    }
}

impl Error for RecvError {}

/// The ends of a table's leases, for one reader; made by
/// [`LeaseTable::subscribe`](crate::LeaseTable::subscribe).
///
/// It holds as many as it was made for. While it is full, further ends are lost to it, and
/// [counted](Self::lost): a slow reader holds up nobody. It does not keep its table.
///
/// The ends of one resource arrive in the order of their tokens, unless two threads brought them about
/// within the same moment.
///
/// # Example
///
/// ```
/// use leasehold::{Causes, EndCause, HolderId, LeaseTable};
/// use std::time::Duration;
///
/// let table = LeaseTable::<String>::builder().events(Causes::of(EndCause::Released)).build()?;
/// let mut ends = table.subscribe(1_000)?;
/// let worker = std::thread::spawn(move || ends.recv().map(|ended| ended.key));
/// drop(table.try_acquire("job", HolderId::mint(), Duration::from_secs(5))?);
/// assert_eq!(worker.join().unwrap().unwrap(), "job");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "ends that nobody receives are lost"]
pub struct Subscription<K> {
    mailbox: Arc<Mailbox<K>>,
    table: Arc<Closed>,
}

impl<K> Subscription<K> {
    pub(super) fn new(mailbox: Arc<Mailbox<K>>, table: Arc<Closed>) -> Self {
        Self { mailbox, table }
    }

    /// The next end, if there is one.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Causes, LeaseTable};
    ///
    /// let table = LeaseTable::<u64>::builder().events(Causes::ALL).build()?;
    /// assert!(table.subscribe(10)?.try_recv().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_recv(&mut self) -> Option<Ended<K>> {
        self.mailbox.queue.pop()
    }

    /// Waits for the next end.
    ///
    /// # Errors
    ///
    /// [`RecvError::Closed`], if the table is gone.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Causes, HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table = LeaseTable::<u64>::builder().events(Causes::ALL).build()?;
    /// let mut ends = table.subscribe(10)?;
    /// drop(table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?);
    /// assert_eq!(ends.recv()?.key, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv(&mut self) -> Result<Ended<K>, RecvError> {
        self.recv_until(None)
    }

    /// Waits for the next end, for no longer than `timeout` by the system's clock.
    ///
    /// # Errors
    ///
    /// [`RecvError`]: the time passed, or the table is gone.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Causes, LeaseTable, RecvError};
    /// use std::time::Duration;
    ///
    /// let table = LeaseTable::<u64>::builder().events(Causes::ALL).build()?;
    /// let nothing = table.subscribe(10)?.recv_timeout(Duration::from_millis(1));
    /// assert_eq!(nothing, Err(RecvError::Timeout));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Ended<K>, RecvError> {
        // Later than any clock: for ever.
        self.recv_until(Instant::now().checked_add(timeout))
    }

    fn recv_until(&mut self, deadline: Option<Instant>) -> Result<Ended<K>, RecvError> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        loop {
            if let Poll::Ready(done) = self.poll_recv(&mut Context::from_waker(&waker)) {
                return done.ok_or(RecvError::Closed);
            }
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                None => std::thread::park(),
                Some(Duration::ZERO) => return Err(RecvError::Timeout),
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }

    /// The next end, for tasks: `None` once the table is gone. If there is none yet, the context's waker is
    /// woken when there is, by the thread that ended the lease. With any executor.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if it is not called again.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Causes, HolderId, LeaseTable};
    /// use std::future::poll_fn;
    /// use std::time::Duration;
    ///
    /// let table = LeaseTable::<u64>::builder().events(Causes::ALL).build()?;
    /// let mut ends = table.subscribe(10)?;
    /// drop(table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?);
    /// let next = async { poll_fn(|cx| ends.poll_recv(cx)).await };
    /// # let mut next = std::pin::pin!(next);
    /// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert!(next.as_mut().poll(&mut cx).is_ready());
    /// # use std::future::Future;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Ended<K>>> {
        if let Some(ended) = self.try_recv() {
            return Poll::Ready(Some(ended));
        }
        self.mailbox.wait(cx.waker().clone());
        // Looked at again, after the waker can be found: see `Mailbox::post`.
        let closed = self.table.is_closed();
        match self.try_recv() {
            Some(ended) => Poll::Ready(Some(ended)),
            None if closed => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// How many ends were lost to this subscription so far, because it was full.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Causes, HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table = LeaseTable::<u64>::builder().events(Causes::ALL).build()?;
    /// let mut ends = table.subscribe(1)?;
    /// for key in 0..3 {
    ///     drop(table.try_acquire(&key, HolderId::mint(), Duration::from_secs(5))?);
    /// }
    /// assert_eq!(ends.lost(), 2);
    /// assert_eq!(ends.recv()?.key, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn lost(&self) -> u64 {
        // Relaxed: a figure for people.
        self.mailbox.lost.load(Ordering::Relaxed)
    }
}

impl<K> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("waiting", &self.mailbox.queue.len())
            .field("capacity", &self.mailbox.queue.capacity())
            .field("lost", &self.lost())
            .finish()
    }
}

impl<K> Drop for Subscription<K> {
    fn drop(&mut self) {
        self.mailbox.abandon();
    }
}

/// Wakes a thread.
struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What is between the threads that end leases and a reader.
pub(super) struct Mailbox<K> {
    queue: ArrayQueue<Ended<K>>,
    lost: AtomicU64,
    /// The reader is gone.
    abandoned: AtomicBool,
    /// The waker of a reader that waits, in a box. Whoever swaps it out has it.
    waiting: AtomicPtr<Waker>,
}

impl<K> Mailbox<K> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            queue: ArrayQueue::new(capacity),
            lost: AtomicU64::new(0),
            abandoned: AtomicBool::new(false),
            waiting: AtomicPtr::new(ptr::null_mut()),
        }
    }

    pub(super) fn is_abandoned(&self) -> bool {
        // SeqCst: looked at after a push; `abandon` says why.
        self.abandoned.load(Ordering::SeqCst)
    }

    /// Hands an end to the reader, or counts it as lost.
    pub(super) fn post(&self, ended: Ended<K>) {
        if self.is_abandoned() {
            return;
        }
        if self.queue.push(ended).is_err() {
            self.count_lost();
        }
        self.wake();
        if self.is_abandoned() {
            // The reader may have left before this was pushed.
            self.drain();
        }
    }

    pub(super) fn count_lost(&self) {
        // Relaxed: a figure for people.
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Wakes the reader, if it waits. What it is to find is there.
    pub(super) fn wake(&self) {
        // SeqCst: after what the reader is to find, before the look at its waker; pairs with `wait`.
        fence(Ordering::SeqCst);
        // Relaxed: the swap decides.
        if !self.waiting.load(Ordering::Relaxed).is_null()
            && let Some(waker) = self.take_waiting()
        {
            // A waker that panics is its task's affair; a lease's end is not undone by it.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }

    /// The reader will wait. It looks at the queue once more after this.
    fn wait(&self, waker: Waker) {
        drop(self.take_waiting());
        // Release: whoever takes it finds the waker.
        self.waiting.store(Box::into_raw(Box::new(waker)), Ordering::Release);
        // SeqCst: after the waker can be found, before the look at the queue; pairs with `wake`.
        fence(Ordering::SeqCst);
    }

    fn take_waiting(&self) -> Option<Box<Waker>> {
        // AcqRel: Acquire pairs with `wait`; Release, so that the next one stored comes after it.
        let waker = self.waiting.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: it came from `Box::into_raw` in `wait`, and whoever swapped it out alone has it.
        (!waker.is_null()).then(|| unsafe { Box::from_raw(waker) })
    }

    fn abandon(&self) {
        // SeqCst: it is stored before the queue is emptied; whoever pushes looks after it pushed. So one of
        // the two finds what was pushed, and no key is kept for a reader that is gone.
        self.abandoned.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        drop(self.take_waiting());
        self.drain();
    }

    /// Drops what nobody will receive: all of it, also if a key panics, so that none is dropped where the
    /// mailbox is.
    fn drain(&self) {
        while let Some(ended) = self.queue.pop() {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(ended)));
        }
    }
}

impl<K> Drop for Mailbox<K> {
    fn drop(&mut self) {
        drop(self.take_waiting());
    }
}
