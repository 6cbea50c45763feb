//! Tasks that are to be woken at a tick of the table's clock, by whoever sweeps it.

use core::task::Waker;
use std::collections::BTreeMap;

use super::Wake;
use super::signal::Signal;
use crate::expiry::alarm::Alarm;
use crate::sync::Mutex;
use crate::sync::std_arc::Arc;
use crate::sync::std_atomic::{AtomicU64, Ordering};

pub(crate) struct Timers {
    alarm: Arc<Alarm>,
    /// By the tick, and a number of its own.
    wakers: Mutex<BTreeMap<Timer, Waker>>,
    numbers: AtomicU64,
    /// The earliest tick; `u64::MAX` if there is none.
    next: AtomicU64,
}

/// A waker that was left with the timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timer {
    tick: u64,
    number: u64,
}

impl Timers {
    pub(crate) fn new(alarm: Arc<Alarm>) -> Self {
        let wakers = Mutex::new(BTreeMap::new());
        Self { alarm, wakers, numbers: AtomicU64::new(0), next: AtomicU64::new(u64::MAX) }
    }

    /// Wakes a task when the clock has reached a tick.
    pub(crate) fn set(&self, tick: u64, waker: Waker) -> Timer {
        // Relaxed: only that no two get one number matters.
        let timer = Timer { tick, number: self.numbers.fetch_add(1, Ordering::Relaxed) };
        let mut wakers = self.wakers.lock();
        wakers.insert(timer, waker);
        self.note_next(&wakers);
        drop(wakers);
        self.alarm.ring_before(tick);
        timer
    }

    pub(crate) fn clear(&self, timer: Timer) {
        let mut wakers = self.wakers.lock();
        let waker = wakers.remove(&timer);
        self.note_next(&wakers);
        drop(wakers);
        // Under no lock: it is the user's code.
        drop(waker);
    }

    fn note_next(&self, wakers: &BTreeMap<Timer, Waker>) {
        let next = wakers.first_key_value().map_or(u64::MAX, |(timer, _)| timer.tick);
        // SeqCst: the alarm is looked at after it; pairs with `next`.
        self.next.store(next, Ordering::SeqCst);
    }

    /// The tick at which there is something to do; `u64::MAX` if there is nothing.
    pub(crate) fn next(&self) -> u64 {
        // SeqCst: the sweeper looks after it said until when it sleeps.
        self.next.load(Ordering::SeqCst)
    }

    /// Wakes the tasks whose tick has come.
    pub(crate) fn fire(&self, now: u64) {
        if self.next() > now {
            return;
        }
        let mut wakers = self.wakers.lock();
        let later = wakers.split_off(&Timer { tick: now.saturating_add(1), number: 0 });
        let due = core::mem::replace(&mut *wakers, later);
        self.note_next(&wakers);
        drop(wakers);
        due.into_values().map(|waker| Wake::up(Signal::Task(waker))).for_each(drop);
    }
}
