//! A thread that never leaves its epoch pin. Alone in its binary, as the pin is felt by all threads.
//!
//! - 41: all stays correct, and the memory held back grows with the replacement of pages only: one page
//!   for each (two where it is split). With `u64` keys in turn that is 2 KiB for each 43 or so, the part
//!   of a page that is not kept: 48 bytes for each new resource. Grants of known resources hold back
//!   nothing. It ends with the pin.
#![cfg(not(leasehold_loom))]

mod common;

use std::sync::mpsc;

use common::*;

/// Bytes of a page with `u64` keys.
const PAGE: u64 = 64 + 32 * SLOTS;

fn memory_after(table: &Table, clock: &leasehold::ManualClock, first: u64, keys: u64) -> u64 {
    for key in first..first + keys {
        table.try_acquire(&key, holder(1), TERM).unwrap().release().unwrap();
        if key % 100 == 0 {
            clock.advance(SEC);
        }
    }
    table.memory_bytes() as u64
}

#[test]
fn inv_41_a_pin_for_ever_costs_a_page_for_each_replacement() {
    let keys = 1000 * SLOTS;
    let (table, clock) = table();
    let lasting = table.try_acquire(&u64::MAX, holder(1), TERM_MAX).unwrap();
    let flat = memory_after(&table, &clock, 0, keys);
    assert!(memory_after(&table, &clock, keys, keys) <= flat + flat / 4 + 100 * PAGE);

    let (tell, pinned) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let other = table.clone();
    let thread = std::thread::spawn(move || {
        // In the middle of an operation, as far as the table can tell.
        let guard = crossbeam_epoch::pin();
        let lease = other.try_acquire_owned(&(u64::MAX - 1), holder(2), TERM_MAX).unwrap();
        tell.send(()).unwrap();
        let _ = released.recv();
        assert_eq!(lease.check(), Ok(lease.token()));
        drop(guard);
    });
    pinned.recv().unwrap();
    let before = table.memory_bytes() as u64;
    let after = memory_after(&table, &clock, 10 * keys, keys);
    let held_back = after - before;
    println!("held back: {held_back} bytes, {} for each new key", held_back / keys);
    assert!(held_back > 500 * PAGE, "the pin was not felt: {held_back}");
    // One page for each replacement, which happens at least every quarter of a page.
    assert!(held_back < 4 * 1000 * PAGE + 100 * PAGE, "{held_back} bytes");

    known_resources_hold_back_nothing(&table);
    assert_eq!(lasting.check(), Ok(lasting.token()));
    assert_eq!(refusal(table.try_acquire(&u64::MAX, holder(3), TERM)).token, lasting.token());
    drop(release);
    thread.join().unwrap();
    // What was held back is used before anything new is allocated, but for what lies in threads' bags.
    let after = table.memory_bytes() as u64;
    memory_after(&table, &clock, 20 * keys, SLOTS);
    let late = memory_after(&table, &clock, 30 * keys, keys / 2);
    // Tiny pages split unevenly, so that the directory grows on for long.
    let slack = if cfg!(leasehold_tiny) { after } else { 100 * PAGE };
    assert!(late <= after + slack, "{after} bytes, then {late}");
}

fn known_resources_hold_back_nothing(table: &Table) {
    let n = if cfg!(leasehold_tiny) { 1 } else { 20_000 };
    churn(table, 7, 1);
    let before = table.memory_bytes();
    for _ in 0..n {
        let lease = table.try_acquire(&7, holder(1), TERM).unwrap();
        lease.renew(2 * TERM).unwrap();
        assert!(table.try_acquire(&7, holder(2), TERM).is_err());
        lease.release().unwrap();
    }
    assert_eq!(table.memory_bytes(), before);
}
