//! What fuzzing found, each reduced to its core.
#![cfg(not(leasehold_loom))]

use std::time::Duration;

use leasehold::{
    AcquireError, Causes, Clock, DefaultHashBuilder, EndCause, GapPolicy, HolderId, LeaseTable,
    Lost, ManualClock, RenewError, Revoke, Status,
};

type Table = LeaseTable<u64, DefaultHashBuilder, ManualClock>;

const TERM: Duration = Duration::from_secs(5);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn holder(number: u64) -> HolderId {
    HolderId::new(number).unwrap()
}

fn builder(clock: &ManualClock) -> leasehold::Builder<u64, DefaultHashBuilder, ManualClock> {
    LeaseTable::builder().shards(1).clock(clock.clone())
}

/// Inserts until the one page of the table was replaced.
fn replace_the_page(table: &Table) {
    for key in 1000..1063 {
        drop(table.try_acquire(&key, holder(9), TERM).unwrap());
    }
}

/// A page takes new keys however long ago it was made: a word's tick has 42 bits, which are 50 days.
#[test]
fn a_page_takes_new_keys_after_two_months() {
    let clock = ManualClock::new();
    let table = builder(&clock).build().unwrap();
    drop(table.try_acquire(&1, holder(1), TERM).unwrap());
    clock.advance(60 * DAY);
    assert!(table.resource(&2).is_ok());
    assert!(table.try_acquire(&3, holder(1), TERM).is_ok());
}

/// A resource's time of last use lies far ahead when the clock stepped back by more than a word's
/// tick holds.
#[test]
fn a_page_is_replaced_after_a_step_back_of_two_months() {
    let clock = ManualClock::starting_at(60 * 24 * 3600 * 1_000_000);
    let table = builder(&clock).build().unwrap();
    drop(table.try_acquire(&1, holder(1), TERM).unwrap());
    clock.step_back(60 * DAY);
    replace_the_page(&table);
    assert!(table.try_acquire(&1, holder(2), TERM).is_ok());
}

/// Leases that lapsed block nobody, also when the table is full of them.
#[test]
fn a_full_table_takes_over_what_lapsed() {
    let clock = ManualClock::new();
    let table = builder(&clock).capacity_max(1).build().unwrap();
    std::mem::forget(table.try_acquire(&1, holder(1), TERM).unwrap());
    let full = table.try_acquire(&2, holder(2), TERM).unwrap_err();
    assert_eq!(full, AcquireError::Full { capacity_max: 1 });
    clock.advance(TERM);
    clock.advance_ticks(1);
    assert!(table.try_acquire(&2, holder(2), TERM).is_ok());
}

/// A revocation without a grace is one: it takes effect, and says so.
#[test]
fn a_revocation_with_no_grace_succeeds() {
    let clock = ManualClock::new();
    let table = builder(&clock).build().unwrap();
    for grace in [Duration::ZERO, Duration::from_nanos(999)] {
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        let info = table.revoke(&1, Revoke::After(grace)).unwrap();
        assert_eq!((info.remaining, info.closing), (Duration::ZERO, true));
        assert_eq!(info.token, lease.token());
        assert_eq!(lease.renew(TERM), Err(RenewError::Lost(Lost::Expired)));
        clock.advance_ticks(1);
    }
}

/// A lease that was granted after the clock stepped back does not end early because its page is
/// replaced, in which there is a long lease from before.
#[test]
fn a_lease_survives_the_replacement_of_its_page_after_a_step_back() {
    let clock = ManualClock::new();
    let term_max = Duration::from_secs(60);
    let table = builder(&clock).term_max(term_max).build().unwrap();
    clock.advance(Duration::from_secs(100));
    let _long = table.try_acquire(&1, holder(1), term_max).unwrap();
    clock.step_back(Duration::from_secs(50));
    let lease = table.try_acquire(&2, holder(2), TERM).unwrap();
    assert_eq!(lease.remaining(), TERM);
    let before = clock.now();
    replace_the_page(&table);
    assert_eq!(clock.now(), before);
    assert_eq!(lease.status(), Status::Held { remaining: TERM });
}

/// A sweep that sees a jump of the clock says so, also if it sees it by a lease, and not by the page's due
/// tick, which is later.
#[test]
fn a_sweep_says_that_it_saw_a_jump_by_a_lease() {
    let clock = ManualClock::new();
    let policy = GapPolicy::Grace(TERM);
    let table = builder(&clock).clock_gap(Duration::from_secs(1), policy).build().unwrap();
    std::mem::forget(table.try_acquire(&1, holder(1), TERM).unwrap());
    assert_eq!(table.sweep(100).unwrap().clock_gap, None);
    // The page is due one tick after the deadline, by which it is late by just the threshold.
    clock.advance(TERM + Duration::from_secs(1));
    clock.advance_ticks(1);
    let swept = table.sweep(100).unwrap();
    assert_eq!(table.clock_gap().map(|gap| gap.count), Some(1));
    assert_eq!(swept.clock_gap, table.clock_gap());
}

/// Two keys after another have the same hash, and so share a page.
#[derive(Clone, Default)]
struct Pairs(u64);

impl std::hash::BuildHasher for Pairs {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        self.clone()
    }
}

impl std::hash::Hasher for Pairs {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are integers");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key / 2;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A sweep replaces a page, and files just as many others as its budget allows: that there is nothing more
/// to do before the lease in the new page lapses it may not say, as it has yet to file that.
#[test]
fn a_sweep_that_filed_what_it_may_has_more_to_do() {
    let (secs, millis) = (Duration::from_secs, Duration::from_millis);
    for pairs in 1..100 {
        let clock = ManualClock::new();
        let builder = builder(&clock).hasher(Pairs::default()).retention(secs(1));
        let table = builder.capacity(64 * 62).build().unwrap();
        drop(table.try_acquire(&0, holder(1), TERM).unwrap());
        while table.sweep(100).unwrap().more {}
        clock.advance(millis(1900));
        std::mem::forget(table.try_acquire(&1, holder(1), secs(1)).unwrap());
        for pair in 1..=pairs {
            drop(table.try_acquire(&(2 * pair), holder(1), TERM).unwrap());
        }
        clock.advance(millis(200));
        let swept = table.sweep(1).unwrap();
        assert_eq!(swept.replaced, 1, "the first key was idle for two retentions");
        let early = swept.next_in.is_some_and(|next| next <= millis(801));
        assert!(swept.more || early, "with {pairs} others: {swept:?}");
    }
}

/// A lease that lapsed and waits for its holder stays one that lapsed then, when its page is replaced.
#[test]
fn a_lease_in_its_grace_keeps_its_deadline_when_its_page_is_replaced() {
    let clock = ManualClock::new();
    let grace = Duration::from_secs(60);
    let builder = builder(&clock).retention(Duration::ZERO).events(Causes::ALL);
    let policy = GapPolicy::Grace(grace);
    let table = builder.clock_gap(Duration::from_secs(1), policy).build().unwrap();
    let mut ends = table.subscribe(100).unwrap();
    std::mem::forget(table.try_acquire(&1, holder(1), TERM).unwrap());
    assert_eq!(table.sweep(100).unwrap().lapsed, 0);
    clock.advance(DAY);
    let refused = table.try_acquire(&1, holder(2), TERM).unwrap_err();
    assert!(matches!(refused, AcquireError::Held(held) if held.retry_after > grace));
    replace_the_page(&table);
    assert_eq!(table.try_acquire(&1, holder(2), TERM).unwrap_err(), refused);
    while ends.try_recv().is_some() {}
    std::mem::forget(table.try_acquire(&1, holder(1), TERM).unwrap());
    let ended = ends.try_recv().unwrap();
    assert_eq!((ended.cause, ended.held_for), (EndCause::Lapsed, TERM));
}

/// A sweep comes to an end, however far the clock has jumped.
#[test]
fn a_sweep_ends_after_a_jump_of_thousands_of_years() {
    let clock = ManualClock::new();
    let policy = GapPolicy::Grace(Duration::from_secs(60));
    let table = builder(&clock).clock_gap(Duration::from_secs(1), policy).build().unwrap();
    std::mem::forget(table.try_acquire(&1, holder(1), TERM).unwrap());
    assert_eq!(table.sweep(100).unwrap().lapsed, 0);
    clock.advance(Duration::from_micros(1 << 59));
    let mut sweeps = 0..10;
    while table.sweep(100).unwrap().more {
        sweeps.next().expect("it comes to an end");
    }
    clock.advance(Duration::from_secs(61));
    assert_eq!(table.sweep(100).unwrap().lapsed, 1);
}

/// A lease that lapses while others wait for their holders waits with them; when that is over, it has been
/// due for long, but the clock has not jumped again.
#[test]
fn a_lease_that_lapses_in_a_grace_shows_no_other_jump() {
    let clock = ManualClock::new();
    let secs = Duration::from_secs;
    let policy = GapPolicy::Grace(secs(5));
    let table = builder(&clock).clock_gap(secs(1), policy).build().unwrap();
    std::mem::forget(table.try_acquire(&1, holder(1), secs(10)).unwrap());
    assert_eq!(table.sweep(100).unwrap().lapsed, 0);
    clock.advance(secs(3600));
    assert!(table.sweep(100).unwrap().clock_gap.is_some());
    std::mem::forget(table.try_acquire(&2, holder(1), secs(1)).unwrap());
    let mut lapsed = 0;
    for _ in 0..60 {
        clock.advance(Duration::from_millis(100));
        lapsed += table.sweep(100).unwrap().lapsed;
    }
    assert_eq!((lapsed, table.clock_gap().unwrap().count), (2, 1));
}
