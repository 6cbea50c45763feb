//! A known resource is granted, renewed, checked, released, refused and revoked without the allocator;
//! also if its page is filed with the sweeper each time.
#![cfg(not(any(leasehold_tiny, leasehold_loom)))] // Tiny pages are replaced every few grants, and that allocates.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::*;
use leasehold::wheel::Wheel;
use leasehold::{Causes, EndCause, Revoke};

struct Counting;

thread_local! {
    /// Allocations of this thread. Without a destructor, so that the allocator may use it at any time.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    // Not counted: whoever pins may be the one to free what other threads' pages left.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How much is allocated in `n` rounds, after some to warm up: a thread's first operation
/// registers it with the collector, and gives it its counters.
fn allocations_in(n: u64, mut round: impl FnMut()) -> u64 {
    (0..100).for_each(|_| round());
    let before = ALLOCATIONS.get();
    (0..n).for_each(|_| round());
    ALLOCATIONS.get() - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations_in(10, || drop(std::hint::black_box(Box::new(1)))), 10);
}

#[test]
fn a_known_resource_needs_no_allocation_by_key() {
    let (table, clock) = table();
    churn(&table, 100, 20);
    let allocations = allocations_in(10_000, || {
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        assert!(table.try_acquire(&1, holder(2), TERM).is_err());
        lease.renew(2 * TERM).unwrap();
        lease.renew(TERM).unwrap();
        assert!(lease.check().is_ok() && table.inspect(&1).is_some());
        clock.advance_ticks(1);
        lease.release().unwrap();
    });
    assert_eq!(allocations, 0);
}

#[test]
fn nor_by_resource_or_as_a_value() {
    let (table, clock) = table();
    let resource = table.resource(&1).unwrap();
    let allocations = allocations_in(10_000, || {
        let lease = resource.try_acquire(holder(1), TERM).unwrap();
        let grant = lease.into_grant();
        table.renew(grant, 2 * TERM).unwrap();
        table.check(grant).unwrap();
        drop(leasehold::Lease::from_grant(&table, grant).unwrap());
        assert!(table.release(grant).is_err());
        let owned = resource.try_acquire_owned(holder(2), TERM).unwrap();
        resource.revoke(Revoke::After(SEC)).unwrap();
        clock.advance(2 * SEC);
        assert!(owned.check().is_err());
        let late = resource.try_acquire(holder(3), TERM).unwrap();
        table.revoke(&1, Revoke::Now).unwrap();
        drop((late, owned));
        assert!(table.stats().grants > 0);
    });
    assert_eq!(allocations, 0);
}

#[test]
fn nor_for_a_key_in_a_borrowed_form() {
    let (table, _clock) = common::table::<String>();
    table.try_acquire("printer", holder(1), TERM).unwrap().release().unwrap();
    let allocations = allocations_in(10_000, || {
        drop(table.try_acquire("printer", holder(1), TERM).unwrap());
        assert!(table.inspect("printer").is_none());
    });
    assert_eq!(allocations, 0);
}

/// Seats and chunks are used again, however entries come and go.
#[test]
fn inv_43_a_wheel_that_was_as_full_before_needs_none_either() {
    let (mut wheel, mut number) = (Wheel::starting_at(1), 0_u64);
    let mut keys = Vec::with_capacity(200);
    let mut round = || {
        for id in 0..200 {
            number += 0x9e37_79b9;
            keys.push(wheel.insert(wheel.now() + number % (1 << 30), id));
        }
        for (by, &key) in (0..).zip(&keys) {
            wheel.refile(key, wheel.now() + by * by * 99).unwrap();
        }
        keys.drain(..).skip(50).for_each(|key| _ = wheel.remove(key));
        while wheel.pop_due(wheel.now() + 100_000).is_some() && wheel.len() > 50 {}
        while wheel.len() > 50 {
            _ = wheel.next_due().and_then(|next| wheel.pop_due(next));
        }
    };
    (0..1_000).for_each(|_| round());
    assert_eq!(allocations_in(10_000, round), 0);
}

/// Each round's first grant files its page, as a sweep took it off the stack before. The sweep itself may
/// allocate.
#[test]
fn nor_to_be_filed_with_the_sweeper() {
    let clock = leasehold::ManualClock::new();
    let lapses = Causes::of(EndCause::Lapsed);
    for causes in [Causes::NONE, lapses] {
        let table: Table = build(&clock, |setup| setup.shards(1).retention(DAY).events(causes));
        drop(table.try_acquire(&1, holder(1), DAY).unwrap());
        let (mut allocated, mut filed) = (0, 0);
        for round in 0..10_000_u32 {
            // Ever shorter, so that each is due before the page is, until that is visited.
            let term = 2 * HOUR - round % 1000 * SEC;
            allocated += allocations_in_one(round >= 100, || {
                let lease = table.try_acquire(&1, holder(1), term).unwrap();
                lease.renew(2 * term).unwrap();
                lease.release().unwrap();
            });
            let next_in = table.sweep(100).unwrap().next_in;
            filed += u32::from(next_in.is_some_and(|next| next <= term + TICK));
            if round % 1000 == 999 {
                clock.advance(DAY);
                let _ = table.sweep(100).unwrap();
            }
        }
        assert_eq!(allocated, 0);
        assert!(filed > 9000, "filed {filed} times");
    }
}

fn allocations_in_one(counts: bool, round: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    round();
    if counts { ALLOCATIONS.get() - before } else { 0 }
}
