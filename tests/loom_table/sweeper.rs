//! The sweeper's thread: it sleeps until it is woken, as a model has no time; so a wake-up that is lost is
//! a deadlock, which loom reports.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Builder, Causes, Clock, EndCause, LeaseTable, ManualClock, Sweeper, TickRate};
use loom::thread::{self, Thread, ThreadId};

use crate::support::{Identity, Outcomes, TERM, explore, holder};

/// A clock by which the sweeper's thread is ahead of all others, as if these were suspended after reading
/// it: so what they grant is over when the sweeper finds it, which has nothing to wait for.
#[derive(Clone)]
struct Ahead {
    behind: Arc<Mutex<Vec<ThreadId>>>,
    by: u64,
}

impl Ahead {
    fn new(by: Duration) -> Self {
        let behind = Arc::default();
        let clock = Self { behind, by: ManualClock::new().rate().ticks_floor(by) };
        clock.stay_behind();
        clock
    }

    /// The calling thread does.
    fn stay_behind(&self) {
        self.behind.lock().unwrap().push(thread::current().id());
    }
}

impl Clock for Ahead {
    fn now(&self) -> u64 {
        let behind = self.behind.lock().unwrap().contains(&thread::current().id());
        if behind { 0 } else { self.by }
    }

    fn rate(&self) -> TickRate {
        ManualClock::new().rate()
    }
}

type Table<C> = LeaseTable<u64, Identity, C>;

fn builder<C: Clock>(clock: C) -> Builder<u64, Identity, C> {
    let builder = LeaseTable::builder().shards(1).retention(TERM * 1000);
    let sweeper = Sweeper::new().interval(Duration::ZERO);
    builder.hasher(Identity).sweeper(sweeper).clock(clock)
}

/// What the listener was told, for the thread that waits for it.
#[derive(Clone)]
struct Told(Arc<(AtomicU64, Thread)>);

impl Told {
    fn new() -> Self {
        Self(Arc::new((AtomicU64::new(0), thread::current())))
    }

    fn tell(&self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
        self.0.1.unpark();
    }

    /// By the thread that made it.
    fn wait(&self) {
        while self.0.0.load(Ordering::Relaxed) == 0 {
            thread::park();
        }
    }
}

/// A table with a sweeper, which tells of ends of one cause.
fn told_of<C: Clock>(cause: EndCause, capacity: usize, clock: C) -> (Table<C>, Told) {
    let told = Told::new();
    let listener = told.clone();
    let builder = builder(clock).capacity(capacity).events(Causes::of(cause));
    (builder.listener(move |_| listener.tell()).build().unwrap(), told)
}

/// What the sweeper is about when the model's point begins.
fn reach<C: Clock>(outcomes: &Outcomes, table: &Table<C>) {
    outcomes.reach(if table.sweeper_sleeps() { "asleep" } else { "awake" });
}

/// A grant that is due before the sweeper would wake (P13).
#[test]
fn grant_against_falling_asleep() {
    explore(2, &["awake", "asleep"], |outcomes| {
        let (table, told) = told_of(EndCause::Lapsed, 1, Ahead::new(TERM * 2));
        let resource = table.resource(&1).unwrap();
        reach(outcomes, &table);
        resource.try_acquire(holder(1), TERM).unwrap().into_grant();
        told.wait();
    });
}

/// The same, of a key that comes with the grant, into a half of a page: it is filed when it is opened.
#[test]
fn split_against_falling_asleep() {
    explore(1, &["awake", "asleep"], |outcomes| {
        let (table, told) = told_of(EndCause::Lapsed, 1, Ahead::new(TERM * 2));
        table.try_acquire(&1, holder(1), TERM * 4).unwrap().into_grant();
        table.try_acquire(&2, holder(1), TERM * 4).unwrap().into_grant();
        reach(outcomes, &table);
        table.try_acquire(&3, holder(1), TERM).unwrap().into_grant();
        told.wait();
    });
}

/// Two threads that file one page, of which one puts it on the stack, and the other only makes it due
/// earlier: the sweeper is woken for the earlier tick, though it sleeps for less than to the later one.
#[test]
fn two_filers_against_falling_asleep() {
    explore(1, &["told"], |outcomes| {
        let clock = Ahead::new(TERM * 2);
        // 1 and 3 are in one page, 2 in the other.
        let (table, told) = told_of(EndCause::Lapsed, 3, clock.clone());
        let (one, three) = (table.resource(&1).unwrap(), table.resource(&3).unwrap());
        table.try_acquire(&2, holder(9), TERM * 3).unwrap().into_grant();
        // It has found these, and says that it sleeps until 2 is over.
        while !table.sweeper_sleeps() {
            thread::yield_now();
        }
        let thread = thread::spawn(move || {
            clock.stay_behind();
            three.try_acquire_owned(holder(2), TERM).unwrap().into_grant();
        });
        one.try_acquire(holder(1), TERM * 4).unwrap().into_grant();
        // Not while it waits for a thread: loom would take the listener's word for that thread's end.
        told.wait();
        thread.join().unwrap();
        outcomes.reach("told");
    });
}

/// An end that another thread brings about waits for the sweeper, which tells the listener.
#[test]
fn release_against_falling_asleep() {
    explore(2, &["awake", "asleep"], |outcomes| {
        let (table, told) = told_of(EndCause::Released, 1, ManualClock::new());
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        reach(outcomes, &table);
        lease.release().unwrap();
        told.wait();
    });
}

/// The thread ends when the table goes: loom waits for it.
#[test]
fn drop_against_falling_asleep() {
    explore(3, &["awake", "asleep"], |outcomes| {
        let table = builder(ManualClock::new()).build().unwrap();
        table.try_acquire(&1, holder(1), TERM).unwrap().into_grant();
        reach(outcomes, &table);
        drop(table);
    });
}
