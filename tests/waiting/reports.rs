//! Who waits for whom.

use std::sync::Mutex;

use leasehold::{Clock, Deadlock, LeaseTable, Revoke, TickRate};

use super::*;

type Acquires<'t> = Vec<leasehold::Acquire<'t, u64, leasehold::DefaultHashBuilder, ManualClock>>;

/// Each holder waits for a key.
fn wait_for_keys<'t>(table: &'t Table, who: &[(u64, u64)]) -> Acquires<'t> {
    let mut waits: Acquires<'t> =
        who.iter().map(|(id, key)| table.acquire_async(key, holder(*id), TERM)).collect();
    waits.iter_mut().for_each(is_pending);
    waits
}

/// Each holder holds a key, until it lapses.
fn hold(table: &Table, who: &[(u64, u64)]) {
    for (id, key) in who {
        std::mem::forget(table.try_acquire(key, holder(*id), TERM).unwrap());
    }
}

/// The cycle as holders and keys, from its smallest holder on; it must be one.
fn cycle_of(deadlock: &Deadlock<u64>) -> Vec<(u64, u64)> {
    let links = &deadlock.links;
    for (n, link) in links.iter().enumerate() {
        assert_eq!(link.holder, links[(n + 1) % links.len()].waiter, "{deadlock:?}");
    }
    let mut cycle: Vec<_> = links.iter().map(|link| (link.waiter.get(), link.key)).collect();
    let first = (0..cycle.len()).min_by_key(|n| cycle[*n]).unwrap();
    cycle.rotate_left(first);
    cycle
}

fn cycles(table: &Table) -> Vec<Vec<(u64, u64)>> {
    let mut cycles: Vec<_> = table.deadlocks().iter().map(cycle_of).collect();
    cycles.sort_unstable();
    cycles
}

#[test]
fn those_who_wait_are_told_of_in_their_order() {
    let (table, clock) = by_hand();
    assert!(table.waiters(&1).is_empty() && table.waiting().is_empty());
    let lease = table.try_acquire(&1, holder(1), HOUR).unwrap();
    let terms = [TERM, TICK, HOUR, 2 * TERM + 3 * TICK];
    let mut waits = Vec::new();
    for (n, term) in terms.into_iter().enumerate() {
        clock.advance(SEC);
        waits.push(table.acquire_async(&1, holder(2 + n as u64), term));
        is_pending(waits.last_mut().unwrap());
    }
    clock.advance(SEC + TICK);
    let waiters = table.waiters(&1);
    assert_eq!(waiters.len(), 4);
    for (n, waiter) in waiters.iter().enumerate() {
        assert_eq!(waiter.holder, holder(2 + n as u64));
        assert_eq!((waiter.waited, waiter.term), ((4 - n as u32) * SEC + TICK, terms[n]));
    }
    let waiting = table.waiting();
    assert_eq!(waiting.len(), 1);
    assert_eq!((waiting[0].key, waiting[0].holder), (1, Some(holder(1))));
    assert_eq!((waiting[0].token, &waiting[0].waiters), (lease.token(), &waiters));
    // One in the middle goes.
    drop(waits.remove(1));
    assert_eq!(queue(&table, 1), [2, 4, 5].map(holder));
    // Another resource, and one that nobody waits for.
    hold(&table, &[(1, 2), (1, 3)]);
    waits.append(&mut wait_for_keys(&table, &[(9, 2)]));
    let mut keys: Vec<_> = table.waiting().iter().map(|waiting| waiting.key).collect();
    keys.sort_unstable();
    assert_eq!(keys, [1, 2]);
    drop(lease);
    let waiting = table.waiting();
    let first = waiting.iter().find(|waiting| waiting.key == 1).unwrap();
    assert_eq!(first.holder, Some(holder(2)));
    assert_eq!(first.waiters.iter().map(|it| it.holder).collect::<Vec<_>>(), [4, 5].map(holder));
    waits.clear();
    assert!(table.waiting().is_empty());
}

#[test]
fn cycles_of_any_length_are_found() {
    for length in 1..=5 {
        let (table, _clock) = by_hand();
        let members: Vec<u64> = (1..=length).collect();
        // Somebody else is before the one who would wait for itself, or it would just be granted anew.
        hold(&table, &members.iter().map(|id| (*id, *id)).collect::<Vec<_>>());
        let _before = wait_for_keys(&table, &[(99, 1)]);
        let edges: Vec<_> = members.iter().map(|id| (*id, id % length + 1)).collect();
        let mut waits = Vec::new();
        for n in 0..edges.len() {
            assert!(table.deadlocks().is_empty(), "{length}: before its last link");
            waits.append(&mut wait_for_keys(&table, &edges[n..=n]));
        }
        assert_eq!(cycles(&table), std::slice::from_ref(&edges));
        let deadlock = &table.deadlocks()[0];
        for link in &deadlock.links {
            assert_eq!(table.inspect(&link.key).unwrap().token, link.token);
        }
        let text = deadlock.to_string();
        assert!(edges.iter().all(|(id, _)| text.contains(&format!("holder {}", holder(*id)))));
        // Any of its leases revoked: it is one no more.
        table.revoke(&edges[0].1, Revoke::Now).unwrap();
        assert!(table.deadlocks().is_empty());
    }
}

#[test]
fn cycles_are_told_apart_from_what_leads_to_them() {
    let (table, clock) = by_hand();
    hold(&table, &[(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (9, 100)]);
    // Two cycles, a chain into the first, and one that leads nowhere.
    let waits = wait_for_keys(
        &table,
        &[(1, 2), (2, 1), (3, 4), (4, 3), (5, 1), (6, 5), (7, 100), (8, 7), (2, 7)],
    );
    let expected = [vec![(1, 2), (2, 1)], vec![(3, 4), (4, 3)]];
    assert_eq!(cycles(&table), expected);
    assert_eq!(cycles(&table), expected, "in the same order again");
    // Broken by one who no longer waits.
    let mut waits: Vec<_> = waits.into_iter().map(Some).collect();
    waits[2] = None;
    assert_eq!(cycles(&table), expected[..1]);
    // By a release, and by a lapse that somebody found.
    table.revoke(&1, Revoke::Now).unwrap();
    assert!(table.deadlocks().is_empty());
    clock.advance(TERM + TICK);
    assert!(table.deadlocks().is_empty());
    waits.clear();
    assert!(table.deadlocks().is_empty() && table.waiting().is_empty());
}

/// Every holder that is in a cycle is in one that is told of.
#[test]
fn each_holder_in_a_cycle_is_in_a_reported_one() {
    let (table, _clock) = by_hand();
    // Two cycles that share holder 1.
    hold(&table, &[(1, 1), (2, 2), (3, 3)]);
    let _waits = wait_for_keys(&table, &[(1, 2), (2, 1), (1, 3), (3, 1)]);
    let found: Vec<_> = cycles(&table).concat();
    for id in 1..=3 {
        assert!(found.iter().any(|(member, _)| *member == id), "{id} of {found:?}");
    }
}

/// Hand-overs all the time, in a ring that is never closed: each holds one and waits for nothing else.
#[test]
fn no_cycle_is_told_of_that_never_was() {
    watched(|| {
        let table: LeaseTable<u64> = LeaseTable::new();
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..3_u64 {
                let (table, done) = (&table, &done);
                scope.spawn(move || {
                    // It never waits while it holds anything.
                    for n in 0..1500 {
                        let key = (n + thread) % 3;
                        let lease = table.acquire(&key, holder(1 + thread), HOUR).unwrap();
                        lease.release().unwrap();
                    }
                    done.fetch_add(1, SeqCst);
                });
            }
            while done.load(SeqCst) < 3 {
                let found = table.deadlocks();
                assert!(found.is_empty(), "{found:?}");
            }
        });
    });
}

/// A clock that runs something when it is read.
#[derive(Clone)]
struct Meddling(Arc<Meddler>);

type Meddler = Mutex<Option<(u64, Box<dyn FnOnce() + Send>)>>;

impl Clock for Meddling {
    fn now(&self) -> u64 {
        let due = {
            let mut run = self.0.lock().unwrap();
            match &mut *run {
                Some((0, _)) => run.take(),
                Some((reads, _)) => {
                    *reads -= 1;
                    None
                }
                None => None,
            }
        };
        if let Some((_, run)) = due {
            run();
        }
        ManualClock::START
    }

    fn rate(&self) -> TickRate {
        ManualClock::new().rate()
    }
}

/// Each report of a resource is of one moment: whoever holds it does not wait for it, in whatever moment it
/// changes hands.
#[test]
fn a_report_is_of_one_moment() {
    for reads in 0.. {
        let clock = Meddling(Arc::default());
        let table = LeaseTable::<u64>::builder().clock(clock.clone()).shards(1).sweep_by_hand();
        let table = table.build().unwrap();
        let lease = table.try_acquire_owned(&1, holder(1), TERM).unwrap();
        let mut waits = [2, 3].map(|id| table.acquire_async(&1, holder(id), TERM));
        waits.iter_mut().for_each(is_pending);
        *clock.0.lock().unwrap() = Some((reads, Box::new(move || lease.release().unwrap())));
        for waiting in table.waiting() {
            let (by, waiters) = (waiting.holder, &waiting.waiters);
            assert!(!waiters.iter().any(|it| Some(it.holder) == by), "{reads}: {waiting:?}");
        }
        // The lease reads the clock as it goes: not while that is locked.
        let left = clock.0.lock().unwrap().take();
        if left.is_some() {
            assert!(reads > 0, "it looks at the clock");
            break;
        }
    }
}
