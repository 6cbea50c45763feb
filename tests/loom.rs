//! Models.
#![cfg(leasehold_loom)]
use leasehold::*;
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

type Table = LeaseTable<u64, Identity, ManualClock>;
#[derive(Clone, Default)]
struct Identity;
impl std::hash::BuildHasher for Identity {
    type Hasher = IdHasher;
    fn build_hasher(&self) -> IdHasher {
        IdHasher(0)
    }
}
struct IdHasher(u64);
impl std::hash::Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!()
    }
    fn write_u64(&mut self, i: u64) {
        self.0 = i;
    }
}

fn table(clock: &ManualClock) -> Table {
    LeaseTable::builder()
        .shards(1)
        .hasher(Identity)
        .clock(clock.clone())
        .retention(Duration::ZERO)
        .build()
        .unwrap()
}
fn h(i: u64) -> HolderId {
    HolderId::new(i).unwrap()
}
const TERM: Duration = Duration::from_millis(10);

#[test]
fn two_creators() {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(3);
    let n = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let n2 = n.clone();
    let t0 = std::time::Instant::now();
    b.check(move || {
        n2.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let clock = ManualClock::new();
        let t = table(&clock);
        let t2 = t.clone();
        let th = thread::spawn(move || {
            t2.try_acquire_owned(&1, h(2), TERM).map(|l| l.into_grant()).ok()
        });
        let mine = t.try_acquire(&1, h(1), TERM).map(|l| l.into_grant()).ok();
        let other = th.join().unwrap();
        assert!(mine.is_some() != other.is_some());
        assert_eq!(t.resources(), 1);
    });
    println!("{} executions {:?}", n.load(std::sync::atomic::Ordering::Relaxed), t0.elapsed());
}
