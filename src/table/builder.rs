//! How a table is made.

use core::hash::BuildHasher;
use core::time::Duration;
use std::collections::HashMap;

use crossbeam_utils::CachePadded;

use super::build_error::BuildError;
use super::expiry::Expiry;
use super::shared::Core;
use super::{DefaultHashBuilder, Key, LeaseTable};
use crate::arena::Epochs;
use crate::clock::{Clock, QuantaClock};
use crate::expiry::driver::{Driver, Stop};
use crate::expiry::due::Filings;
use crate::expiry::sweep::Sweeper as SweepState;
use crate::id::TableId;
use crate::page::SLOTS;
use crate::place::PLACE_SHARDS_MAX;
use crate::room::Room;
use crate::shard::{Limits, Shard};
use crate::stats::Striped;
use crate::sync::epoch;
use crate::sync::std_arc::Arc;
use crate::sync::std_atomic::{AtomicBool, AtomicU64};
use crate::sync::{Mutex, RwLock};
use crate::wait::timers::Timers;
use crate::word::TICK_BITS;

/// The longest term: half the range of a word's tick.
const TERM_TICKS_MAX: u64 = 1 << (TICK_BITS - 1);
/// The longest retention.
const RETENTION_TICKS_MAX: u64 = 1 << (TICK_BITS - 3);
/// The most shards.
pub(super) const SHARDS_MAX: usize = PLACE_SHARDS_MAX;
/// The largest initial capacity; a table may grow beyond.
const CAPACITY_MAX: usize = 1 << 36;

/// Settings of a [`LeaseTable`], all with defaults.
///
/// # Example
///
/// ```
/// use leasehold::{BuildError, LeaseTable, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let table = LeaseTable::<String>::builder()
///     .capacity(10_000)
///     .capacity_max(1_000_000)
///     .term_max(Duration::from_secs(3600))
///     .clock(clock.clone())
///     .build()?;
/// # let _ = table;
/// let wrong = LeaseTable::<u64>::builder().capacity(10).capacity_max(5).build();
/// assert_eq!(wrong.unwrap_err(), BuildError::CapacityAboveMax { capacity: 10, capacity_max: 5 });
/// # Ok::<(), BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder makes a table when `build` is called"]
pub struct Builder<K, S = DefaultHashBuilder, C = QuantaClock> {
    capacity: usize,
    capacity_max: Option<usize>,
    shards: Option<usize>,
    term_max: Option<Duration>,
    retention: Duration,
    hasher: S,
    clock: C,
    pub(super) expiry: Expiry<K>,
}

impl<K: Key> Builder<K> {
    pub(super) fn new() -> Self {
        Self {
            capacity: 0,
            capacity_max: None,
            shards: None,
            term_max: None,
            retention: Duration::from_secs(10),
            hasher: DefaultHashBuilder::default(),
            clock: QuantaClock::default(),
            expiry: Expiry::default(),
        }
    }
}

impl<K: Key, S: BuildHasher, C: Clock> Builder<K, S, C> {
    /// Room for about this many resources from the start: the table then hardly grows up to there (some
    /// pages still split, as keys do not spread evenly). Default: 0, which is a page a shard.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::LeaseTable;
    ///
    /// let table = LeaseTable::<u64>::builder().capacity(1_000_000).build()?;
    /// assert!(table.memory_bytes() > 24 * 1_000_000);
    /// # Ok::<(), leasehold::BuildError>(())
    /// ```
    pub fn capacity(mut self, resources: usize) -> Self {
        self.capacity = resources;
        self
    }

    /// The table knows at most this many resources, and refuses more with
    /// [`Full`](crate::AcquireError::Full) while all are held. Idle ones make room first. Default: no
    /// bound but memory.
    ///
    /// A bounded table counts its resources in one place, which every first acquisition of a resource
    /// goes through. A refusal looks through the table for idle resources first.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{AcquireError, HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table = LeaseTable::<u64>::builder().capacity_max(1).build()?;
    /// let (me, term) = (HolderId::mint(), Duration::from_secs(1));
    /// let lease = table.try_acquire(&1, me, term)?;
    /// let refused = table.try_acquire(&2, me, term).unwrap_err();
    /// assert_eq!(refused, AcquireError::Full { capacity_max: 1 });
    /// drop(lease);
    /// assert!(table.try_acquire(&2, me, term).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn capacity_max(mut self, resources: usize) -> Self {
        self.capacity_max = Some(resources);
        self
    }

    /// How many parts the table has: a power of two up to 4096. Default: four for each processor.
    ///
    /// Shards spread what first acquisitions write to. Acquisitions of known resources write to no
    /// line that others' resources share but a neighbour's.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::LeaseTable;
    ///
    /// assert!(LeaseTable::<u64>::builder().shards(64).build().is_ok());
    /// assert!(LeaseTable::<u64>::builder().shards(48).build().is_err());
    /// ```
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// The longest term that is granted; one that is longer by less than a tick is refused, too. Default
    /// and maximum: 2^41 ticks of the clock, which is about three weeks and a half.
    ///
    /// Every term must be longer than the pauses that its holder may suffer, and short enough to wait
    /// for when it crashed: a bound here catches mistakes of units.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{AcquireError, HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let max = Duration::from_secs(60);
    /// let table = LeaseTable::<u64>::builder().term_max(max).build()?;
    /// let requested = Duration::from_secs(60_000); // Milliseconds were meant.
    /// let refused = table.try_acquire(&1, HolderId::mint(), requested).unwrap_err();
    /// assert_eq!(refused, AcquireError::TermTooLong { requested, max });
    /// # Ok::<(), leasehold::BuildError>(())
    /// ```
    pub fn term_max(mut self, term: Duration) -> Self {
        self.term_max = Some(term);
        self
    }

    /// How long a resource is kept after its last lease was granted, or lapsed, before it may be
    /// forgotten to make room. Default: ten seconds. At most 2^39 ticks.
    ///
    /// To forget is never wrong, as tokens go on rising. It costs the next acquirer an insertion.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::LeaseTable;
    /// use std::time::Duration;
    ///
    /// let table = LeaseTable::<u64>::builder().retention(Duration::from_secs(3600)).build()?;
    /// # let _ = table;
    /// # Ok::<(), leasehold::BuildError>(())
    /// ```
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Another hasher. It need not be strong (bits are mixed), but keys with equal hashes share a page.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::LeaseTable;
    /// use std::hash::RandomState;
    ///
    /// let table = LeaseTable::<String>::builder().hasher(RandomState::new()).build()?;
    /// assert!(table.inspect("anything").is_none());
    /// # Ok::<(), leasehold::BuildError>(())
    /// ```
    pub fn hasher<S2: BuildHasher + Send + Sync + 'static>(self, hasher: S2) -> Builder<K, S2, C> {
        let Self { capacity, capacity_max, shards, term_max, retention, clock, expiry, .. } = self;
        Builder { capacity, capacity_max, shards, term_max, retention, hasher, clock, expiry }
    }

    /// Another clock.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Clock, LeaseTable, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let table = LeaseTable::<u64>::builder().clock(clock.clone()).build()?;
    /// clock.advance_ticks(5);
    /// assert_eq!(table.clock().now(), clock.now());
    /// # Ok::<(), leasehold::BuildError>(())
    /// ```
    pub fn clock<C2: Clock>(self, clock: C2) -> Builder<K, S, C2> {
        let Self { capacity, capacity_max, shards, term_max, retention, hasher, expiry, .. } = self;
        Builder { capacity, capacity_max, shards, term_max, retention, hasher, clock, expiry }
    }

    /// Makes the table.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the setting that is out of range, or the two that contradict each other.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{BuildError, LeaseTable};
    ///
    /// let builder = LeaseTable::<u64>::builder().capacity(10);
    /// assert!(builder.clone().build().is_ok());
    /// assert_eq!(builder.capacity_max(0).build().unwrap_err(), BuildError::CapacityMaxZero);
    /// ```
    pub fn build(self) -> Result<LeaseTable<K, S, C>, BuildError>
    where
        S: Send + Sync + 'static,
    {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = self.checked_shards(processors)?;
        self.check_capacity()?;
        let rate = self.clock.rate();
        let (term_max, term_ticks) = self.checked_term_max(rate.duration_floor(TERM_TICKS_MAX))?;
        let retention = self.checked_retention(rate.duration_floor(RETENTION_TICKS_MAX))?;
        let limits = Limits {
            shard_bits: shards.ilog2(),
            term_max: term_ticks,
            retention,
            reach: retention.next_multiple_of(4),
        };
        let epochs =
            Epochs { now: self.clock.now(), reach: limits.reach, term_max: limits.term_max };
        let depth = initial_depth(self.capacity, shards);
        let pinned = epoch::pin();
        let stats = Striped::new(processors);
        let expiry = self.expiry.checked(rate)?;
        let filings = Arc::new(Filings::new(expiry.alarm.clone()));
        let new_shard = |number| {
            let shard =
                Shard::new(number, depth, epochs, expiry.stride(), &filings, &stats, &pinned);
            CachePadded::new(shard)
        };
        let core = Core {
            rate,
            limits,
            room: Room::new(self.capacity_max),
            shards: (0..shards).map(new_shard).collect(),
            stats,
            id: TableId::mint(),
            labels: RwLock::new(HashMap::new()),
            term_max,
            gate: AtomicU64::new(term_ticks - 1),
            closed: AtomicBool::new(false),
            driver: Driver::new(expiry.driven),
            timers: Timers::new(expiry.alarm.clone()),
            capacity_max: self.capacity_max.unwrap_or(usize::MAX),
            hasher: self.hasher,
            clock: self.clock,
            events: expiry.events,
            filings,
            gaps: expiry.gaps,
            sweeper: Mutex::new(Some(Box::new(SweepState::new()))),
            interval_ticks: expiry.interval_ticks,
            nap_ticks: expiry.nap_ticks,
            _stop: Stop(expiry.alarm),
        };
        let core = Arc::new(core);
        if expiry.at_once {
            let started = core.ensure_sweeper();
            started.map_err(|error| BuildError::SweeperThread { kind: error.kind() })?;
        }
        Ok(LeaseTable { core })
    }

    fn checked_shards(&self, processors: usize) -> Result<usize, BuildError> {
        let default = (processors * 4).next_power_of_two().min(SHARDS_MAX);
        let shards = self.shards.unwrap_or(default);
        let fits = shards.is_power_of_two() && shards <= SHARDS_MAX;
        if fits { Ok(shards) } else { Err(BuildError::Shards { shards }) }
    }

    fn check_capacity(&self) -> Result<(), BuildError> {
        let capacity = self.capacity;
        match self.capacity_max {
            Some(0) => Err(BuildError::CapacityMaxZero),
            Some(capacity_max) if capacity > capacity_max => {
                Err(BuildError::CapacityAboveMax { capacity, capacity_max })
            }
            _ if capacity > CAPACITY_MAX => {
                Err(BuildError::CapacityTooLarge { capacity, max: CAPACITY_MAX })
            }
            _ => Ok(()),
        }
    }

    fn checked_term_max(&self, max: Duration) -> Result<(Duration, u64), BuildError> {
        let requested = self.term_max.unwrap_or(max);
        match self.clock.rate().ticks_floor(requested) {
            0 => Err(BuildError::TermMaxZero),
            _ if requested > max => Err(BuildError::TermMaxTooLong { requested, max }),
            ticks => Ok((requested, ticks)),
        }
    }

    fn checked_retention(&self, max: Duration) -> Result<u64, BuildError> {
        let requested = self.retention;
        let fits = requested <= max;
        let ticks = self.clock.rate().ticks_floor(requested);
        if fits { Ok(ticks) } else { Err(BuildError::RetentionTooLong { requested, max }) }
    }
}

/// The depth at which each shard has slots enough. Keys do not spread evenly, so that some pages still
/// split; but twice the pages would be half empty for good.
fn initial_depth(capacity: usize, shards: usize) -> u32 {
    let pages = capacity.div_ceil(shards).div_ceil(SLOTS);
    pages.max(1).next_power_of_two().ilog2()
}
