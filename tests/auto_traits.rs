//! Which types may go to other threads, be shared, and be moved while pinned: positively and
//! negatively. This file is a test by compiling.
#![cfg(not(leasehold_loom))]

mod common;

use std::cell::Cell;
use std::marker::PhantomPinned;
use std::rc::Rc;

use common::Table;
use leasehold::*;

type Hash = DefaultHashBuilder;
type Keyed<K> = LeaseTable<K, Hash, ManualClock>;

const fn is_send<T: Send>() {}
const fn is_sync<T: Sync>() {}
const fn is_unpin<T: Unpin>() {}
const fn is_static<T: 'static>() {}

/// Fails to compile if the type has the trait: then two impls apply, and `_` is ambiguous.
macro_rules! assert_not {
    ($type:ty: $trait:path) => {{
        trait AmbiguousIfImplemented<A> {
            fn check() {}
        }
        struct Implemented;
        impl<T: ?Sized> AmbiguousIfImplemented<()> for T {}
        impl<T: ?Sized + $trait> AmbiguousIfImplemented<Implemented> for T {}
        <$type as AmbiguousIfImplemented<_>>::check();
    }};
}

macro_rules! assert_all {
    ($($type:ty),* $(,)?) => {
        $(is_send::<$type>(); is_sync::<$type>(); is_unpin::<$type>();)*
    };
}

#[test]
fn handles_go_everywhere() {
    assert_all!(
        Table,
        Lease<'static, u64, Hash, ManualClock>,
        OwnedLease<u64, Hash, ManualClock>,
        Resource<u64, Hash, ManualClock>,
        Iter<u64, Hash, ManualClock>,
        Builder<u64, Hash, ManualClock>,
        Grant,
        ManualClock,
        QuantaClock,
        StdClock,
        CoarseClock,
        Fence,
        Fenced<Vec<u8>>,
        wheel::Wheel<u32>,
        Subscription<u64>,
        Sweeper,
        Ended<u64>,
        WeakLeaseTable<u64>,
        Acquire<'static, u64, Hash, ManualClock>,
        AcquireOwned<u64, Hash, ManualClock>,
        AcquireAll<'static, u64, Hash, ManualClock>,
        Waiting<u64>,
        Deadlock<u64>,
        Link<u64>,
    );
    is_static::<AcquireOwned<u64>>();
    is_static::<Subscription<u64>>();
    is_static::<OwnedLease<u64>>();
    is_static::<Iter<u64, Hash, QuantaClock>>();
}

#[test]
fn values_go_everywhere() {
    assert_all!(
        HolderId,
        Token,
        TableId,
        TickRate,
        Stats,
        LeaseInfo,
        Revoke,
        Status,
        Held,
        Lost,
        NotHeld,
        AcquireError,
        RenewError,
        BuildError,
        StaleToken,
        InvalidHolder,
        InvalidRate,
        wheel::Key,
        wheel::Due<u32>,
        wheel::StaleKey,
        EndCause,
        Causes,
        Swept,
        Sweeping,
        ClockGap,
        GapPolicy,
        RecvError,
        SubscribeError,
        WaitError,
        Waiter,
    );
    const fn is_copy<T: Copy + Eq + std::fmt::Debug>() {}
    is_copy::<Grant>();
    is_copy::<Token>();
    is_copy::<AcquireError>();
    is_copy::<RenewError>();
    is_copy::<Lost>();
    is_copy::<Stats>();
    is_copy::<EndCause>();
    is_copy::<Causes>();
    is_copy::<Swept>();
    is_copy::<Sweeping>();
    is_copy::<ClockGap>();
    is_copy::<GapPolicy>();
    is_copy::<RecvError>();
    is_copy::<SubscribeError>();
    is_copy::<WaitError>();
    is_copy::<Waiter>();
}

/// A hasher that may be sent but not shared. The builder refuses it, as a sweeper may share the table.
#[derive(Clone, Default)]
struct Unshared(Cell<u64>, Hash);

impl std::hash::BuildHasher for Unshared {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        self.0.set(self.0.get() + 1);
        self.1.build_hasher()
    }
}

#[test]
fn what_cannot_be_shared_would_make_a_table_that_cannot() {
    assert_not!(LeaseTable<u64, Unshared, ManualClock>: Sync);
    assert_not!(LeaseTable<u64, Unshared, ManualClock>: Send);
    assert_not!(OwnedLease<u64, Unshared, ManualClock>: Send);
    assert_not!(Lease<'static, u64, Unshared, ManualClock>: Send);
    assert_not!(Resource<u64, Unshared, ManualClock>: Send);
    assert_not!(Iter<u64, Unshared, ManualClock>: Send);
    assert_not!(Acquire<'static, u64, Unshared, ManualClock>: Send);
    assert_not!(AcquireOwned<u64, Unshared, ManualClock>: Send);
    assert_not!(AcquireAll<'static, u64, Unshared, ManualClock>: Send);
}

#[test]
fn keys_are_shared_between_threads() {
    assert_not!(Rc<u64>: Key);
    assert_not!(Cell<u64>: Key);
    assert_not!(*const u64: Key);
    assert_not!(f64: Key);
    const fn is_key<K: Key>() {}
    is_key::<u64>();
    is_key::<String>();
    is_key::<std::sync::Arc<str>>();
    is_key::<(u8, [u16; 3])>();
}

/// A key that may not be moved while pinned: the table moves no key that is.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Pinned(u64, PhantomPinned);

#[test]
fn what_is_told_goes_where_its_key_goes() {
    is_unpin::<Subscription<Pinned>>();
    is_send::<Subscription<Cell<u64>>>();
    assert_not!(Ended<Rc<u64>>: Send);
    assert_not!(Ended<Cell<u64>>: Sync);
    assert_not!(Ended<Pinned>: Unpin);
    assert_not!(Subscription<Rc<u64>>: Send);
    assert_not!(Subscription<u64>: Clone);
    assert_not!(Ended<u64>: Copy);
}

#[test]
fn handles_can_be_moved_whatever_their_key_is() {
    is_unpin::<Keyed<Pinned>>();
    is_unpin::<OwnedLease<Pinned, Hash, ManualClock>>();
    is_unpin::<Lease<'static, Pinned, Hash, ManualClock>>();
    is_send::<Keyed<Pinned>>();
    is_unpin::<Acquire<'static, Pinned, Hash, ManualClock>>();
    is_unpin::<AcquireOwned<Pinned, Hash, ManualClock>>();
    is_unpin::<AcquireAll<'static, Pinned, Hash, ManualClock>>();
}

#[test]
fn guards_are_neither_copied_nor_cloned() {
    assert_not!(Lease<'static, u64, Hash, ManualClock>: Clone);
    assert_not!(OwnedLease<u64, Hash, ManualClock>: Clone);
    assert_not!(Skew: Send);
    assert_not!(Skew: Sync);
}

/// Unwinding leaves no handle in a broken state, so that none need be wrapped to be caught.
#[test]
fn tables_may_be_used_after_a_panic_was_caught() {
    let (table, _clock) = common::table::<u64>();
    let other = table.clone();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _lease = other.try_acquire(&1, common::holder(1), common::TERM).unwrap();
        common::keys::planned_panic();
    }));
    assert!(caught.is_err());
    assert!(table.is_empty());
}
