//! Leases, and what goes on below them: pages that are replaced, thrown away and used again.

use std::time::Duration;

use leasehold::{AcquireError, LeaseTable, ManualClock, Revoke};
use loom::thread;

use crate::support::{Identity, TERM, Table, explore, holder, table};

fn take(table: &Table, key: u64, who: u64) {
    table.try_acquire(&key, holder(who), TERM).unwrap().into_grant();
}

fn touch(table: &Table, key: u64) {
    table.try_acquire(&key, holder(9), TERM).unwrap().release().unwrap();
}

/// A table whose one page is full: 1 is held, by holder 9, and 2 was used and is vacant.
fn full(clock: &ManualClock) -> Table {
    let table = table(clock);
    take(&table, 1, 9);
    touch(&table, 2);
    // The vacant one is no longer recent.
    clock.advance_ticks(8);
    table
}

#[test]
fn creators_and_page_replacement() {
    explore(1, &["first", "second"], |outcomes| {
        let table = full(&ManualClock::new());
        let held = table.inspect(&1).unwrap();
        let create = |table: &Table, who| match table.try_acquire(&3, holder(who), TERM) {
            Ok(lease) => {
                lease.into_grant();
                true
            }
            Err(AcquireError::Held(_)) => false,
            Err(other) => panic!("{other}"),
        };
        let other = table.clone();
        let thread = thread::spawn(move || create(&other, 2));
        let first = create(&table, 1);
        let second = thread.join().unwrap();
        assert_ne!(first, second, "one of them is granted");
        assert_eq!(table.inspect(&1), Some(held), "what was held is held");
        assert_eq!(table.len(), 2);
        outcomes.reach(if first { "first" } else { "second" });
    });
}

#[test]
fn eviction_against_grant() {
    explore(1, &["created anew", "kept"], |outcomes| {
        let table = full(&ManualClock::new());
        let other = table.clone();
        let thread = thread::spawn(move || take(&other, 3, 1));
        let lease = table.try_acquire(&2, holder(2), TERM).unwrap();
        assert!(lease.check().is_ok(), "granted, whatever became of its page");
        thread.join().unwrap();
        assert_eq!(lease.check(), Ok(lease.token()), "nobody evicts what is held");
        assert_eq!(lease.key(), Some(2));
        assert_eq!(table.len(), 3);
        // 2 was the second key that came into the shard: its tokens started with incarnation 2.
        let same = lease.token().get() >> 18 == 2;
        outcomes.reach(if same { "kept" } else { "created anew" });
        drop(lease);
    });
}

/// A renewal, by a handle whose page is replaced under it.
#[test]
fn renew_against_replacement() {
    explore(1, &["done"], |outcomes| {
        let clock = ManualClock::new();
        let table = full(&clock);
        let lease = table.try_acquire_owned(&2, holder(2), TERM).unwrap();
        let thread = thread::spawn(move || {
            lease.renew(TERM * 2).unwrap();
            lease
        });
        take(&table, 3, 1);
        let lease = thread.join().unwrap();
        clock.advance(TERM);
        clock.advance_ticks(1);
        assert_eq!(lease.check(), Ok(lease.token()), "the renewal was not lost with the page");
        assert!(table.try_acquire(&2, holder(3), TERM).is_err());
        lease.release().unwrap();
        outcomes.reach("done");
    });
}

/// Who won is told to a slot whose page is being replaced: the copy may miss it, for a while.
#[test]
fn teller_against_replacement() {
    explore(1, &["told"], |outcomes| {
        let table = full(&ManualClock::new());
        let other = table.clone();
        let thread = thread::spawn(move || other.try_acquire_owned(&2, holder(2), TERM).unwrap());
        take(&table, 3, 1);
        let lease = thread.join().unwrap();
        let seen = table.inspect(&2).unwrap().holder;
        assert!(seen.is_none() || seen == Some(holder(2)), "nobody else is named");
        assert!(lease.check().is_ok());
        assert_eq!(table.inspect(&2).unwrap().holder, Some(holder(2)), "a check tells it again");
        outcomes.reach("told");
        drop(lease);
    });
}

/// A table that has replaced its page, so that the old one is ready for another life: 1 is held, 3
/// and 4 are known, and their page is full.
fn with_a_page_to_reuse(clock: &ManualClock) -> Table {
    let table = full(clock);
    touch(&table, 3);
    clock.advance_ticks(8);
    table
}

/// A look-up by key, against a replacement that takes an old page for its draft.
#[test]
fn reader_against_reuse() {
    explore(1, &["seen"], |outcomes| {
        let table = with_a_page_to_reuse(&ManualClock::new());
        let other = table.clone();
        let thread = thread::spawn(move || {
            assert_eq!(other.inspect(&1).unwrap().holder, Some(holder(9)));
        });
        take(&table, 4, 1);
        take(&table, 5, 1);
        thread.join().unwrap();
        assert_eq!(table.len(), 3);
        outcomes.reach("seen");
    });
}

/// A resource that was resolved in the old page, and a handle from there, against replacements that
/// take that page for their drafts: neither acts on a copy that may be thrown away.
#[test]
fn resource_against_reuse() {
    explore(1, &["granted"], |outcomes| {
        let clock = ManualClock::new();
        let table = table(&clock);
        let resource = table.resource(&1).unwrap();
        let lease = table.try_acquire_owned(&2, holder(9), TERM).unwrap();
        clock.advance_ticks(8);
        // Replaces the page in which both are; the old one is ready to be used again.
        touch(&table, 3);
        let thread = thread::spawn(move || {
            let mine = resource.try_acquire_owned(holder(2), TERM).unwrap();
            lease.renew(TERM * 2).unwrap();
            assert!(mine.check().is_ok());
            (mine, lease)
        });
        take(&table, 4, 1);
        let (mine, lease) = thread.join().unwrap();
        assert_eq!(mine.check(), Ok(mine.token()));
        assert_eq!(lease.check(), Ok(lease.token()));
        assert_eq!(table.inspect(&1).unwrap().token, mine.token(), "the table agrees");
        clock.advance(TERM);
        assert_eq!(lease.check(), Ok(lease.token()), "the renewal was not made in a draft");
        assert_eq!(table.len(), 1, "the other terms are over");
        outcomes.reach("granted");
        core::mem::forget((mine, lease));
    });
}

/// A refusal without a pin, while the page that it looks at ends its life and begins another: what it
/// names is the lease that stood there.
#[test]
fn refusal_against_reuse() {
    explore(1, &["refused"], |outcomes| {
        let clock = ManualClock::new();
        let table = full(&clock);
        let lease = table.inspect(&1).unwrap();
        let other = table.clone();
        let thread = thread::spawn(move || other.try_acquire(&1, holder(3), TERM).map(drop));
        // The first replaces the page, the second takes it for its draft.
        touch(&table, 3);
        clock.advance_ticks(8);
        touch(&table, 4);
        let Err(AcquireError::Held(held)) = thread.join().unwrap() else { panic!("granted") };
        assert_eq!(held.token, lease.token);
        assert!(held.holder.is_none() || held.holder == lease.holder, "{held:?}");
        outcomes.reach("refused");
    });
}

/// As above, where another key comes to lie in the slot: 1 and 133130 have one tag, so that a look-up of
/// the second compares the key in the slot of the first.
#[test]
fn peeker_against_reuse() {
    explore(1, &["refused"], |outcomes| {
        let clock = ManualClock::new();
        let table = full(&clock);
        let other = table.clone();
        let thread = thread::spawn(move || other.try_acquire(&133_130, holder(3), TERM).map(drop));
        table.revoke(&1, Revoke::Now).unwrap();
        clock.advance_ticks(8);
        // Nothing of the page is kept. What is granted here lies where 1 was: in the next page, and then
        // in the next life of the first.
        let mine = table.try_acquire(&133_130, holder(2), TERM).map(|lease| lease.into_grant());
        touch(&table, 4);
        clock.advance_ticks(8);
        touch(&table, 5);
        match (mine, thread.join().unwrap()) {
            (Ok(mine), Err(AcquireError::Held(held))) => {
                assert_eq!(held.token, mine.token(), "refused because of another key's lease");
                outcomes.reach("refused");
            }
            (_, Ok(())) => {}
            other => panic!("{other:?}"),
        }
    });
}

/// A look-up, without a pin and with one, while the directory grows.
#[test]
fn look_up_against_doubling() {
    explore(1, &["found"], |outcomes| {
        let table = table(&ManualClock::new());
        take(&table, 1, 9);
        take(&table, 2, 9);
        let other = table.clone();
        let thread = thread::spawn(move || {
            let Err(AcquireError::Held(held)) = other.try_acquire(&1, holder(2), TERM) else {
                panic!("9 has it")
            };
            assert_eq!(held.holder, Some(holder(9)));
            assert_eq!(other.inspect(&1).unwrap().token, held.token);
        });
        // Splits the page.
        take(&table, 3, 1);
        thread.join().unwrap();
        outcomes.reach("found");
    });
}

/// A page that is replaced while the directory, for the sake of another page, is copied to one of
/// twice the size: the copy hands on what the entry did, and leads to no page that was given back. 1,
/// 3, 6 and 9 are of one half, 2, 4 and 8 of the other.
#[test]
fn replacement_against_doubling() {
    explore(1, &["found"], |outcomes| {
        let clock = ManualClock::new();
        let table = table(&clock);
        take(&table, 1, 9);
        take(&table, 2, 9);
        // Splits the page.
        take(&table, 3, 9);
        touch(&table, 4);
        clock.advance_ticks(8);
        let other = table.clone();
        // Replaces the page of 2 by one, in which 4 is not.
        let thread = thread::spawn(move || take(&other, 8, 2));
        // Splits the page of 1 and 3.
        take(&table, 9, 1);
        // Splits that of 1 and 9, for which it uses what was given back.
        take(&table, 6, 1);
        assert_eq!(table.inspect(&2).unwrap().holder, Some(holder(9)));
        thread.join().unwrap();
        assert_eq!(table.len(), 6);
        outcomes.reach("found");
    });
}

/// As above, with a page that nobody has used before: the copy hands on its contents, too.
#[test]
fn fresh_page_against_doubling() {
    explore(1, &["found"], |outcomes| {
        let clock = ManualClock::new();
        // Of one page for each half.
        let builder = LeaseTable::builder().shards(1).capacity(3).retention(Duration::ZERO);
        let table = builder.hasher(Identity).clock(clock.clone()).build().unwrap();
        take(&table, 1, 9);
        take(&table, 3, 9);
        take(&table, 2, 9);
        touch(&table, 4);
        clock.advance_ticks(8);
        let other = table.clone();
        let thread = thread::spawn(move || take(&other, 8, 2));
        take(&table, 9, 1);
        assert_eq!(table.inspect(&2).unwrap().holder, Some(holder(9)));
        thread.join().unwrap();
        outcomes.reach("found");
    });
}

/// A key that is put into the last slot of a page which another thread replaces: it is announced before
/// the page is frozen, and goes on; or its claim is given up, and it is put into another page.
#[test]
fn insertion_against_replacement() {
    explore(1, &["announced", "given up"], |outcomes| {
        let table = table(&ManualClock::new());
        take(&table, 1, 9);
        let other = table.clone();
        let thread = thread::spawn(move || other.resource(&3).unwrap());
        let second = table.resource(&2).unwrap();
        let third = thread.join().unwrap();
        assert_eq!(table.resources(), 3, "none was left behind in the old page");
        // 1 has the first incarnation. Who got the last slot drew one, and the other drew two: for the
        // full page, and for the next. Any more were drawn because a claim was given up.
        let incarnations = [second, third].map(|resource| {
            let grant = resource.try_acquire(holder(1), TERM).unwrap().into_grant();
            grant.token().get() >> 18
        });
        let given_up = incarnations.into_iter().max() > Some(4);
        outcomes.reach(if given_up { "given up" } else { "announced" });
    });
}

/// Two threads that replace one page, with nothing after it: the loser goes on from the winner's.
#[test]
fn replacement_against_replacement() {
    explore(1, &["done"], |outcomes| {
        let table = full(&ManualClock::new());
        let other = table.clone();
        let thread = thread::spawn(move || drop(other.resource(&3).unwrap()));
        table.resource(&4).unwrap();
        thread.join().unwrap();
        assert_eq!(table.inspect(&1).unwrap().holder, Some(holder(9)));
        outcomes.reach("done");
    });
}
