//! What the table takes from the heap: bytes a resource, and allocations an operation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use leasehold::LeaseTable;

use crate::leases::{Leases, TERM, holder, key};
use crate::report::Report;

#[global_allocator]
static HEAP: CountingHeap = CountingHeap {
    counting: AtomicBool::new(false),
    allocations: AtomicU64::new(0),
    bytes: AtomicI64::new(0),
};

/// The system's allocator, which counts when told to. When not, it costs one load of a flag that
/// nobody writes: the peers that allocate are measured through it, too.
struct CountingHeap {
    counting: AtomicBool,
    allocations: AtomicU64,
    bytes: AtomicI64,
}

/// What was taken from the heap.
struct Taken {
    allocations: u64,
    /// Less what was given back.
    bytes: i64,
}

impl CountingHeap {
    /// What the action takes from the heap and has not given back when it is done.
    fn taken_by<R>(&self, action: impl FnOnce() -> R) -> (R, Taken) {
        // Relaxed, all: only this thread runs while something is counted.
        self.allocations.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.counting.store(true, Ordering::Relaxed);
        let result = action();
        self.counting.store(false, Ordering::Relaxed);
        let allocations = self.allocations.load(Ordering::Relaxed);
        (result, Taken { allocations, bytes: self.bytes.load(Ordering::Relaxed) })
    }

    fn count(&self, allocations: u64, taken: usize, given_back: usize) {
        // Relaxed, all: as above.
        if self.counting.load(Ordering::Relaxed) {
            self.allocations.fetch_add(allocations, Ordering::Relaxed);
            self.bytes.fetch_add(taken as i64 - given_back as i64, Ordering::Relaxed);
        }
    }
}

// SAFETY: every call is passed on, as it came, to `System`, which keeps the contract; counting
// neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count(1, layout.size(), 0);
        // SAFETY: the caller's promise is the one asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.count(1, layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        self.count(1, new_size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        self.count(0, 0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Both cells.
pub(crate) fn memory(report: &mut Report) {
    let name = "bytes_per_resource";
    if report.wants(name) {
        let grown = bytes_per_resource(LeaseTable::empty);
        let prepared = bytes_per_resource(|| LeaseTable::with_room(RESOURCES));
        report.amount(name, "bytes", grown.max(prepared));
    }
    let name = "allocs_per_op";
    if report.wants(name) {
        report.amount(name, "allocs", allocations_per_operation());
    }
}

const RESOURCES: usize = 1_000_000;

/// Of a table of a million, by its own account or by the heap's, whichever is more.
fn bytes_per_resource(table: impl FnOnce() -> LeaseTable<u64>) -> f64 {
    let (table, taken) = HEAP.taken_by(|| {
        let table = table();
        table.fill(RESOURCES);
        table
    });
    let bytes = (table.memory_bytes() as f64).max(taken.bytes as f64);
    bytes / RESOURCES as f64
}

/// Grant, renew, check and release of resources that the table knows, by key and resolved.
fn allocations_per_operation() -> f64 {
    let (keys, cycles) = (16, 10_000);
    let table = LeaseTable::<u64>::with_room(keys);
    let resources: Vec<_> =
        (0..keys).map(|index| table.resource(&key(index)).expect("a new table")).collect();
    let use_all = || {
        for (index, resource) in resources.iter().enumerate() {
            let by_key = table.try_acquire(&key(index), holder(0), TERM);
            exercise(&by_key.expect("nobody holds it"));
            exercise(&resource.try_acquire(holder(0), TERM).expect("nobody holds it"));
        }
    };
    // Once before, for whatever a thread or a table sets up at its first use.
    use_all();
    let ((), taken) = HEAP.taken_by(|| (0..cycles).for_each(|_| use_all()));
    // Four operations, by key and resolved.
    let operations = 4 * 2 * keys * cycles;
    taken.allocations as f64 / operations as f64
}

/// What a holder does with a lease; the caller's drop releases it.
fn exercise(lease: &leasehold::Lease<'_, u64>) {
    lease.renew(TERM + Duration::from_secs(1)).expect("it is held");
    lease.check().expect("it is held");
}
