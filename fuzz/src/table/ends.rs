//! Sweeps, and whoever is told of the ends of leases.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold::{Causes, Clock, Ended, RecvError, SubscribeError, Subscription, Swept};

use super::model::ends::Told;
use super::subject::Subject;
use super::{Owned, Play, TICK_MAX, Table, pick};

/// More than one operation can end: each key has one lease.
const WITNESS_CAPACITY: usize = 300;
/// Pages that a sweep of the whole table visits at most, many times over.
const SWEEPS_MAX: usize = 10_000;
/// A sweep, in operations.
const SWEEP_WORK: usize = 4;

/// What the listener was told.
#[derive(Clone)]
pub(super) struct Heard<K>(Arc<Mutex<Vec<Ended<K>>>>);

impl<K> Default for Heard<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Subject> Heard<K> {
    pub(super) fn listener(&self) -> impl Fn(&Ended<K>) + Send + Sync + 'static {
        let heard = self.0.clone();
        move |ended| heard.lock().expect("nothing panics under it").push(ended.clone())
    }

    fn take(&self) -> Vec<Ended<K>> {
        mem::take(&mut self.0.lock().expect("as above"))
    }
}

/// A subscription, and what it must have.
struct Reader<K> {
    subscription: Subscription<K>,
    expected: VecDeque<Ended<K>>,
    capacity: usize,
    lost: u64,
}

impl<K: Subject> Reader<K> {
    fn post(&mut self, ended: &Ended<K>) {
        if self.expected.len() < self.capacity {
            self.expected.push_back(ended.clone());
        } else {
            self.lost += 1;
        }
    }

    /// By every way to receive that does not wait.
    fn receive(&mut self, way: u8) -> Option<Ended<K>> {
        let received = match way % 3 {
            0 => self.subscription.try_recv(),
            1 => match self.subscription.poll_recv(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(ended) => Some(ended.expect("the table is still there")),
                Poll::Pending => None,
            },
            _ => match self.subscription.recv_timeout(Duration::ZERO) {
                Ok(ended) => Some(ended),
                Err(error) => {
                    assert_eq!(error, RecvError::Timeout, "the table is still there");
                    None
                }
            },
        };
        assert_eq!(received, self.expected.pop_front(), "what a subscription received");
        received
    }

    fn check_lost(&self) {
        assert_eq!(self.subscription.lost(), self.lost, "lost to a reader of {}", self.capacity);
    }
}

/// Everybody who is told.
pub(super) struct Ends<K> {
    causes: Causes,
    /// Told of everything, and read after each operation.
    witness: Option<Subscription<K>>,
    heard: Heard<K>,
    /// What the listener has yet to be told of.
    queue: VecDeque<Ended<K>>,
    readers: [Option<Reader<K>>; 2],
}

impl<K: Subject> Ends<K> {
    pub(super) fn new(table: &Table<K>, heard: Heard<K>, causes: Causes) -> Self {
        let witness = (causes != Causes::NONE).then(|| {
            table.subscribe(WITNESS_CAPACITY).expect("it tells of ends, and has room for some")
        });
        Self { causes, witness, heard, queue: VecDeque::new(), readers: [None, None] }
    }

    pub(super) fn subscribe(&mut self, table: &Table<K>, which: u8, capacity: u8) {
        let reader = &mut self.readers[usize::from(which % 2)];
        // The old one goes first, so that its place in the list is found free.
        *reader = None;
        let capacity = usize::from(capacity % 9);
        *reader = match table.subscribe(capacity) {
            Ok(subscription) => {
                assert!(capacity > 0 && self.causes != Causes::NONE, "a useless subscription");
                Some(Reader { subscription, expected: VecDeque::new(), capacity, lost: 0 })
            }
            Err(SubscribeError::NoEvents) => {
                assert_eq!(self.causes, Causes::NONE);
                None
            }
            Err(error) => {
                assert_eq!((error, capacity), (SubscribeError::CapacityZero, 0));
                None
            }
        };
    }

    pub(super) fn receive(&mut self, which: u8, at_most: u8) {
        if let Some(reader) = &mut self.readers[usize::from(which % 2)] {
            for way in 0..at_most % 12 {
                if reader.receive(way.wrapping_add(at_most)).is_none() {
                    break;
                }
            }
        }
    }

    pub(super) fn unsubscribe(&mut self, which: u8) {
        self.readers[usize::from(which % 2)] = None;
    }

    /// What was told since the last look. Every reader must have it too.
    fn take(&mut self) -> Vec<Ended<K>> {
        let Some(witness) = &mut self.witness else { return Vec::new() };
        let ended: Vec<_> = std::iter::from_fn(|| witness.try_recv()).collect();
        assert_eq!(witness.lost(), 0, "there was room for all of them");
        for reader in self.readers.iter_mut().flatten() {
            ended.iter().for_each(|ended| reader.post(ended));
            reader.check_lost();
        }
        ended
    }

    /// What was told by an operation that is no sweep: the listener is told of it later.
    fn take_for_later(&mut self, has_listener: bool) -> Vec<Told> {
        let ended = self.take();
        if has_listener {
            self.queue.extend(ended.iter().cloned());
        }
        assert_eq!(self.heard.take(), [], "the listener was called without a sweep");
        ended.iter().map(told).collect()
    }

    /// What was told by a sweep: of what it ended, and the listener of some of what waited.
    fn take_of_sweep(&mut self, budget: usize, swept: &Swept, has_listener: bool) -> Vec<Told> {
        let ended = self.take();
        let heard = self.heard.take();
        let waited = self.queue.len().min(budget.max(1).saturating_mul(64));
        assert_eq!(swept.told, waited as u64, "ends that waited for a sweep");
        if has_listener {
            let expected: Vec<_> =
                self.queue.drain(..waited).chain(ended.iter().cloned()).collect();
            assert_eq!(heard, expected, "what the listener was told");
        } else {
            assert_eq!(heard, [], "there is no listener");
        }
        ended.iter().map(told).collect()
    }

    /// The last guards are dropped after the last handle of the table, and end leases still.
    pub(super) fn outlives(mut self, owned: Vec<Owned<K>>) {
        let is_open = !owned.is_empty();
        let told_before = is_open.then(|| self.witness.as_mut().and_then(Subscription::try_recv));
        assert_eq!(told_before.flatten(), None, "told of an end that was none");
        let held: Vec<_> = owned.iter().map(|lease| (lease.key(), lease.token())).collect();
        drop(owned);
        let Some(mut witness) = self.witness else { return };
        while let Ok(ended) = witness.recv() {
            let known = (Some(ended.key), ended.token);
            assert!(
                held.iter()
                    .any(|(key, token)| *token == known.1 && (key.is_none() || *key == known.0))
            );
        }
        assert_eq!(witness.recv(), Err(RecvError::Closed), "the table is gone");
    }
}

fn told<K: Subject>(ended: &Ended<K>) -> Told {
    Told {
        key: ended.key.number(),
        holder: ended.holder,
        token: ended.token,
        cause: ended.cause,
        held_for: ended.held_for,
        late: ended.late,
    }
}

impl<K: Subject> Play<'_, K> {
    /// Shows the model whether the table saw a jump of the clock.
    pub(super) fn observe(&mut self) {
        self.model.jumped(self.table.clock_gap());
    }

    /// Compares what was told of an operation with what it did.
    pub(super) fn settle(&mut self) {
        self.observe();
        let told = self.ends.take_for_later(self.model.has_listener());
        self.model.told(&told, &self.table.stats(), false);
    }

    pub(super) fn sweep(&mut self, budget: u8) -> Swept {
        self.work += SWEEP_WORK;
        let budget = usize::from(budget);
        self.settle();
        self.model.begin();
        self.model.begin_sweep();
        let gap = self.table.clock_gap();
        let swept = self.table.sweep(budget).expect("nobody else sweeps");
        self.observe();
        let new_gap = self.table.clock_gap();
        if new_gap != gap {
            assert_eq!(swept.clock_gap, new_gap, "a jump was seen by {swept:?}");
        }
        let told = self.ends.take_of_sweep(budget, &swept, self.model.has_listener());
        self.model.told(&told, &self.table.stats(), true);
        let queued = !self.ends.queue.is_empty();
        self.model.swept(budget, &swept, queued, self.table.resources());
        swept
    }

    pub(super) fn sweep_all(&mut self, budget: u8) {
        for _ in 0..SWEEPS_MAX {
            if !self.sweep(budget).more {
                return;
            }
        }
        panic!("sweeps with a budget of {budget} come to no end");
    }

    /// Goes beside the first tick at which a look at a lease shows that the clock has jumped.
    pub(super) fn jump(&mut self, hold: u8, by: i8) {
        self.sweep_all(u8::MAX);
        let id = pick(hold, &self.holds).map(|index| self.holds[index].0);
        let Some(deadline) = id.and_then(|id| self.model.deadline(id)) else { return };
        let to = deadline.saturating_add(self.model.jump_ticks());
        self.go_to(to.saturating_add_signed((by % 4).into()));
    }

    fn go_to(&mut self, tick: u64) {
        let tick = tick.min(TICK_MAX);
        self.table.clock().manual.set(tick);
        self.model.clock_moved(tick);
    }

    /// Sleeps as long as a sweep says that one may.
    pub(super) fn follow(&mut self, times: u8) {
        for _ in 0..times {
            let swept = self.sweep(u8::MAX);
            if swept.more {
                continue;
            }
            let Some(next_in) = swept.next_in else { return };
            let ticks = self.rate.ticks_floor(next_in);
            self.go_to(self.table.clock().now().saturating_add(ticks));
        }
    }
}
