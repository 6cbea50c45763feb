//! Comparing a table with the model of it.

use std::collections::HashSet;
use std::sync::atomic::Ordering::SeqCst;

use super::super::common::ends::sweep_all;
use super::super::common::{TERM_MAX, TICK, holder};
use super::super::model::Stand;
use super::{Simulation, micros};

impl Simulation<'_> {
    /// Looks at everything that a look does not change.
    pub(crate) fn compare(&mut self) {
        for key in 0..self.settings.keys {
            let info = self.table.inspect(&(key as u64));
            let lease = self.model.valid(key);
            let seen = info.map(|info| (info.holder, info.remaining, info.closing));
            let expected = lease.map(|lease| {
                let left = micros(lease.deadline - self.model.now);
                (Some(holder(lease.holder)), left, lease.stand == Stand::Closing)
            });
            assert_eq!(seen, expected, "resource {key}");
            if let (Some(info), Some(lease)) = (info, lease) {
                self.saw(key, lease.grant, info.token);
            }
            let waiters = self.table.waiters(&(key as u64));
            let queue = &self.model.resources[key].queue;
            let now = self.model.now;
            let expected = queue.iter().map(|wish| {
                (holder(wish.holder), micros(now.saturating_sub(wish.since)), micros(wish.ticks))
            });
            let seen = waiters.iter().map(|waiter| (waiter.holder, waiter.waited, waiter.term));
            assert!(seen.eq(expected), "resource {key}: {waiters:?}, not {queue:?}");
        }
        for waiting in &self.waiting {
            let expected = self.model.futures[waiting.number].wakes;
            assert_eq!(waiting.wakes(), expected, "wakes of future {}", waiting.number);
            for (count, so_far) in &waiting.earlier {
                assert_eq!(count.0.load(SeqCst), *so_far, "a replaced waker was woken");
            }
        }
    }

    /// Who waits for whom, and which of them wait for each other.
    pub(super) fn report(&self) {
        let mut seen: Vec<_> = self.table.waiting();
        seen.sort_unstable_by_key(|waiting| waiting.key);
        let seen = seen.iter().map(|it| (it.key as usize, it.holder, it.waiters.len()));
        let resources = self.model.resources.iter().enumerate();
        let waited = resources.filter(|(_, resource)| !resource.queue.is_empty());
        let expected = waited.map(|(key, resource)| {
            (key, resource.lease.map(|lease| holder(lease.holder)), resource.queue.len())
        });
        assert!(seen.eq(expected), "{:?}", self.table.waiting());
        let links = self.model.links();
        let mut found = HashSet::new();
        for deadlock in self.table.deadlocks() {
            let mut before = deadlock.links.last().expect("one at least").holder;
            for link in deadlock.links {
                let (waiter, by) = (link.waiter.get(), link.holder.get());
                assert!(links.contains(&(waiter, link.key as usize, by)), "{link:?}");
                assert_eq!(before, link.waiter);
                before = link.holder;
                found.insert(waiter);
            }
        }
        assert_eq!(found, self.model.deadlocked(), "of {links:?}");
    }

    /// All go, and leave nothing behind.
    pub(crate) fn finish(mut self) {
        let stats = self.table.stats();
        assert_eq!((stats.waits, stats.hand_overs), (self.model.waits, self.model.hand_overs));
        assert_eq!(stats.grants, self.model.grants + self.churned);
        // Whoever goes now leaves nothing behind.
        self.guards.clear();
        self.waiting.clear();
        for key in 0..self.settings.keys as u64 {
            assert!(self.table.waiters(&key).is_empty());
        }
        self.clock.set(self.latest);
        self.clock.advance(TERM_MAX + TICK);
        sweep_all(self.table, 2);
        assert!(self.table.is_empty() && self.table.waiting().is_empty());
    }
}
