//! What needs the table's insides: counters at their ends.

use std::time::Duration;

use super::LeaseTable;
use crate::error::{AcquireError, Lost};
use crate::id::HolderId;
use crate::word::INCARNATION_MAX;

const TERM: Duration = Duration::from_secs(60);

#[test]
fn inv_12_incarnations_end_in_an_error_and_do_not_wrap() {
    let table: LeaseTable<u64> = LeaseTable::builder().shards(1).build().unwrap();
    let me = HolderId::new(1).unwrap();
    table.core().shards[0].set_incarnations(INCARNATION_MAX - 1);
    let last = table.try_acquire(&1, me, TERM).unwrap();
    assert_eq!(last.token().get() >> 18, INCARNATION_MAX);
    for key in 2..100 {
        assert_eq!(table.try_acquire(&key, me, TERM).unwrap_err(), AcquireError::Exhausted);
        assert_eq!(table.resource(&key).unwrap_err(), AcquireError::Exhausted);
    }
    // What is known goes on, and nothing was put in for what was refused.
    assert_eq!(last.check(), Ok(last.token()));
    let token = last.token();
    last.release().unwrap();
    assert!(table.try_acquire(&1, me, TERM).unwrap().token() > token);
    assert_eq!(table.resources(), 1);
}

#[test]
fn inv_12_the_last_token_of_all_is_a_token() {
    let table: LeaseTable<u64> = LeaseTable::builder().shards(1).build().unwrap();
    let me = HolderId::new(1).unwrap();
    table.core().shards[0].set_incarnations(INCARNATION_MAX - 1);
    let mut tokens = Vec::new();
    let error = loop {
        match table.try_acquire(&1, me, TERM) {
            Ok(lease) => tokens.push(lease.token()),
            Err(error) => break error,
        }
    };
    // Every stamp was used; then the resource needs another incarnation, and there is none.
    assert_eq!(error, AcquireError::Exhausted);
    assert!(tokens.is_sorted_by(|a, b| a < b));
    assert_eq!(tokens.len() as u64, crate::word::STAMP_MAX - 1);
}

#[test]
fn a_forgotten_resource_is_gone() {
    let table: LeaseTable<u64> = LeaseTable::builder().shards(1).capacity_max(1).build().unwrap();
    let me = HolderId::new(1).unwrap();
    let grant = table.try_acquire(&1, me, TERM).unwrap().into_grant();
    table.release(grant).unwrap();
    assert_eq!(table.check(grant), Err(Lost::Released));
    // The only room is needed for another.
    let _other = table.try_acquire(&2, me, TERM).unwrap();
    assert_eq!(table.check(grant), Err(Lost::Gone));
}
