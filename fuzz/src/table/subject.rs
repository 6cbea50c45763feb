//! What the table is built of: keys, a hasher that may be weak, a clock of any pace.

use std::borrow::Borrow;
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash, Hasher};

use leasehold::{Clock, Key, ManualClock, TickRate};

use super::input::{Pace, Spread};
use crate::clock::Rate;

/// A type of key, of which there are 256.
pub(super) trait Subject: Key + Debug + Borrow<Self::Borrowed> {
    type Borrowed: Hash + Eq + ToOwned<Owned = Self> + ?Sized;

    fn new(number: u8) -> Self;
    fn number(&self) -> u8;
}

impl Subject for u64 {
    type Borrowed = Self;

    fn new(number: u8) -> Self {
        number.into()
    }

    fn number(&self) -> u8 {
        (*self).try_into().expect("the table returned a key that was never put in")
    }
}

impl Subject for String {
    type Borrowed = str;

    fn new(number: u8) -> Self {
        // Too long to be stored anywhere but on the heap, whatever `String` may become.
        format!("the resource with the number {number}")
    }

    fn number(&self) -> u8 {
        let number = self.rsplit(' ').next().and_then(|number| number.parse().ok());
        number.expect("the table returned a key that was never put in")
    }
}

/// The same in every run, so that a crash replays.
impl BuildHasher for Spread {
    type Hasher = WeakHasher;

    fn build_hasher(&self) -> WeakHasher {
        WeakHasher { spread: *self, state: 0xcbf2_9ce4_8422_2325 }
    }
}

/// FNV-1a (Fowler, Noll and Vo), of which little may be left.
pub(super) struct WeakHasher {
    spread: Spread,
    state: u64,
}

impl Hasher for WeakHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.state = (self.state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        match self.spread {
            Spread::Constant => 0,
            Spread::FourValues => self.state % 4,
            Spread::Well => self.state,
        }
    }
}

impl Pace {
    fn ratio(self) -> (u64, u32) {
        match self {
            Self::Microsecond => (1000, 0),
            Self::Counter => (700_001, 10),
            Self::Nanosecond => (1, 0),
            Self::Second => (1_000_000_000, 0),
        }
    }

    /// The rate, as the library and as the model have it.
    pub(super) fn rates(self) -> (TickRate, Rate) {
        let (nanos, log2_ticks) = self.ratio();
        let rate = TickRate::from_ratio(nanos, log2_ticks).expect("within a rate's limits");
        (rate, Rate::of_ratio(nanos, log2_ticks).expect("within a rate's limits"))
    }
}

/// A manual clock with ticks of another length.
#[derive(Clone, Debug)]
pub(super) struct Paced {
    pub(super) manual: ManualClock,
    pub(super) rate: TickRate,
}

impl Clock for Paced {
    fn now(&self) -> u64 {
        self.manual.now()
    }

    fn rate(&self) -> TickRate {
        self.rate
    }
}
