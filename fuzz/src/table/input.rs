//! What an input says: how the table is built, and what is done with it.

use arbitrary::Arbitrary;

use crate::choice::choice;

/// A whole run.
#[derive(Arbitrary, Clone, Debug)]
pub struct Input {
    pub(super) settings: Settings,
    pub(super) ops: Vec<Op>,
}

/// How the table is built. Mostly valid.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) keys: Keys,
    pub(super) key_space: KeySpace,
    pub(super) spread: Spread,
    pub(super) pace: Pace,
    pub(super) start: Start,
    pub(super) shards: Shards,
    pub(super) capacity: u8,
    pub(super) capacity_max: CapacityMax,
    pub(super) retention: Retention,
    pub(super) term_max: TermMax,
    /// The ends that are told of, a bit a cause; more bits than that: the default.
    pub(super) causes: u8,
    pub(super) listener: Listener,
    pub(super) gap: Gap,
}

/// A power of two and a distance from it.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(super) struct Boundary {
    pub(super) bit: u8,
    pub(super) by: i8,
}

choice! {
    pub(super) enum Keys {
        /// `u64`: copied, nothing to drop.
        Numbers,
        /// `String`: owned memory, looked up as `str`.
        Texts,
    }

    /// How many keys there are.
    pub(super) enum KeySpace {
        Few,
        Some,
        Many,
    }

    /// How well the hasher tells keys apart.
    pub(super) enum Spread {
        Constant,
        FourValues,
        Well,
    }

    /// How long a tick of the clock lasts.
    pub(super) enum Pace {
        Microsecond,
        /// The default clock's order of magnitude, and no whole number of nanoseconds.
        Counter,
        Nanosecond,
        Second,
    }

    /// Where the clock starts.
    pub(super) enum Start {
        Usual,
        Beside(Boundary),
    }

    pub(super) enum Shards {
        One,
        Two,
        Other(u8),
    }

    pub(super) enum CapacityMax {
        None,
        Few(u8),
        Many(u8),
    }

    pub(super) enum Retention {
        Zero,
        Ticks(u8),
        /// The default: ten seconds.
        Usual,
        LongestBy(i8),
    }

    pub(super) enum TermMax {
        Default,
        Ticks(u16),
        LongestBy(i8),
    }

    pub(super) enum Listener {
        None,
        Some,
    }

    /// When the clock has jumped, and what is done then.
    pub(super) enum Gap {
        Default,
        Lapse {
            threshold: u16,
        },
        Grace {
            threshold: u8,
            grace: u8,
        },
        LongGrace {
            threshold: u16,
            thousands: u16,
        },
    }

    /// One operation. Bytes that choose among what there is are taken modulo its number.
    pub(super) enum Op {
        Acquire {
            key: u8,
            holder: u8,
            term: Span,
            way: Way,
        },
        /// Acquires many keys in a row; the guards are forgotten, or dropped at once.
        Fill {
            from: u8,
            count: u8,
            holder: u8,
            term: Span,
            forget: bool,
        },
        Resolve {
            key: u8,
        },
        Hold {
            hold: u8,
            act: Act,
        },
        Revoke {
            key: u8,
            grace: Option<Span>,
            resolved: bool,
        },
        Inspect {
            key: u8,
            resolved: bool,
        },
        Walk,
        Time(Move),
        Sweep {
            budget: u8,
        },
        /// Sweeps until there is no more to do.
        SweepAll {
            budget: u8,
        },
        /// Goes where sweeps say that there will be something to do, so many times.
        Follow {
            times: u8,
        },
        /// Does what is due, and then nothing until the clock is so far beyond a deadline that it has jumped.
        Jump {
            hold: u8,
            by: i8,
        },
        Subscribe {
            which: u8,
            capacity: u8,
        },
        Receive {
            which: u8,
            at_most: u8,
        },
        Unsubscribe {
            which: u8,
        },
        /// Brings replaced pages back, so that the next page is one that was used before.
        Collect,
    }

    /// How a lease is acquired.
    pub(super) enum Way {
        Borrowed,
        Owned,
        Resource(u8),
        ResourceOwned(u8),
    }

    /// What a holder does with a guard or a grant.
    pub(super) enum Act {
        Check,
        Status,
        Remaining,
        Key,
        Renew(Span),
        Release,
        Drop,
        Forget,
        IntoGrant,
        FromGrant {
            owned: bool,
        },
        Copy,
        /// Takes a grant to another table.
        Abroad(Span),
    }

    /// A term or a grace.
    pub(super) enum Span {
        Ticks(u8),
        Thousands(u16),
        /// The longest term and so many ticks.
        LongestBy(i8),
        Odd(Odd),
    }

    pub(super) enum Odd {
        Zero,
        /// A nanosecond less than a tick.
        BelowTick,
        Endless,
    }

    /// What the clock does.
    pub(super) enum Move {
        Ticks(u8),
        Thousands(u16),
        Days(u8),
        Year,
        BackTicks(u8),
        BackThousands(u16),
        BackDays(u8),
        BackYear,
        /// To a deadline, or beside it.
        Deadline {
            hold: u8,
            by: i8,
        },
        Boundary(Boundary),
    }
}
