//! The operations of a table, one by one, on the manual clock.
use leasehold::*;
use std::time::Duration;

type Table = LeaseTable<u64, DefaultHashBuilder, ManualClock>;
fn table() -> (Table, ManualClock) {
    let clock = ManualClock::new();
    (LeaseTable::builder().clock(clock.clone()).build().unwrap(), clock)
}
const TERM: Duration = Duration::from_secs(10);

#[test]
fn grant_renew_release() {
    let (table, clock) = table();
    let (a, b) = (HolderId::new(1).unwrap(), HolderId::new(2).unwrap());
    let lease = table.try_acquire(&1, a, TERM).unwrap();
    let t1 = lease.token();
    assert_eq!(lease.check(), Ok(t1));
    assert!(
        matches!(table.try_acquire(&1, b, TERM), Err(AcquireError::Held(h)) if h.holder == Some(a))
    );
    clock.advance(Duration::from_secs(9));
    lease.renew(TERM).unwrap();
    clock.advance(Duration::from_secs(9));
    assert_eq!(lease.check(), Ok(t1));
    clock.advance(Duration::from_secs(1));
    assert_eq!(lease.check(), Err(Lost::Expired));
    assert!(table.try_acquire(&1, b, TERM).is_err());
    clock.advance_ticks(1);
    let other = table.try_acquire(&1, b, TERM).unwrap();
    assert!(other.token() > t1);
    assert!(matches!(lease.check(), Err(Lost::Taken { holder: Some(h), .. }) if h == b));
    assert!(lease.release().is_err());
    other.release().unwrap();
    println!("{:?}", table.stats());
}

#[test]
fn many() {
    let (table, clock) = table();
    let a = HolderId::new(1).unwrap();
    for i in 0..200_000 {
        std::mem::forget(table.try_acquire(&i, a, TERM).unwrap());
    }
    assert_eq!(table.len(), 200_000);
    assert_eq!(table.iter().count(), 200_000);
    println!("{} bytes each", table.memory_bytes() as f64 / 200e3);
    clock.advance(Duration::from_secs(100));
    for i in 0..200_000 {
        std::mem::forget(table.try_acquire(&(i + 1_000_000), a, TERM).unwrap());
    }
    println!("{} bytes each {:?}", table.memory_bytes() as f64 / 200e3, table.stats());
    for i in 0..1_000_000 {
        table.try_acquire(&7, a, TERM).unwrap().release().unwrap();
        let _ = i;
    }
    println!("{} bytes each {:?}", table.memory_bytes() as f64 / 200e3, table.stats());
}
