//! A small stand-in for `crossbeam-epoch` in models: the same promise, few scheduling points.
//!
//! Who is pinned is kept in a plain registry, which the model does not see (it runs one thread at a time,
//! and nothing yields inside). What the real collector orders, two counters of the model order here, and
//! nothing more, so that the table's own orderings stay under test: whoever pins sees what was
//! unlinked before an earlier `defer`; a deferred call sees all that unpinned threads did.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::sync::atomic::{AtomicU64, Ordering};

type Deferred = Box<dyn FnOnce()>;

#[derive(Default)]
struct Registry {
    ticks: u64,
    pinned: BTreeSet<u64>,
    garbage: Vec<(u64, Deferred)>,
}

struct Collector {
    registry: Mutex<Registry>,
    deferred: AtomicU64,
    unpinned: AtomicU64,
}

// SAFETY: deferred calls are `Send` in all but name: `defer`'s contract lets any thread run them.
unsafe impl Send for Collector {}
// SAFETY: as above; the registry is behind a mutex.
unsafe impl Sync for Collector {}

crate::sync::model::lazy_static! {
    static ref COLLECTOR: Collector = Collector {
        registry: Mutex::default(),
        deferred: AtomicU64::new(0),
        unpinned: AtomicU64::new(0),
    };
}

impl Registry {
    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    fn ripe(&mut self) -> Vec<Deferred> {
        let oldest = self.pinned.first().copied().unwrap_or(u64::MAX);
        let (ripe, rest) = self.garbage.drain(..).partition(|(since, _)| *since < oldest);
        self.garbage = rest;
        let ripe: Vec<(u64, Deferred)> = ripe;
        ripe.into_iter().map(|(_, call)| call).collect()
    }
}

pub(crate) struct Guard(u64);

pub(crate) fn pin() -> Guard {
    let ticket = {
        let mut registry = COLLECTOR.registry.lock().unwrap();
        let ticket = registry.tick();
        registry.pinned.insert(ticket);
        ticket
    };
    // Acquire, as a read-modify-write so that it reads the newest: pairs with `defer`'s Release.
    COLLECTOR.deferred.fetch_add(0, Ordering::Acquire);
    Guard(ticket)
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Release: pairs with the Acquire below, by whoever runs what was deferred.
        COLLECTOR.unpinned.fetch_add(1, Ordering::Release);
        let ripe = {
            let mut registry = COLLECTOR.registry.lock().unwrap();
            registry.pinned.remove(&self.0);
            registry.ripe()
        };
        if !ripe.is_empty() {
            COLLECTOR.unpinned.fetch_add(0, Ordering::Acquire);
            ripe.into_iter().for_each(|call| call());
        }
    }
}

/// See the real one.
///
/// # Safety
///
/// As there.
pub(crate) unsafe fn defer<'a, F: FnOnce() + 'a>(_guard: &Guard, f: F) {
    // Release: pairs with `pin`'s Acquire.
    COLLECTOR.deferred.fetch_add(1, Ordering::Release);
    let call: Box<dyn FnOnce() + 'a> = Box::new(f);
    // SAFETY: the caller promises that `f` may run at any later time.
    let call = unsafe { core::mem::transmute::<Box<dyn FnOnce() + 'a>, Deferred>(call) };
    let mut registry = COLLECTOR.registry.lock().unwrap();
    let since = registry.tick();
    registry.garbage.push((since, call));
}
