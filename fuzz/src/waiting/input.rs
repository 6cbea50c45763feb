//! What an input says: how the table is built, and what is done with it.

use arbitrary::Arbitrary;

use super::common::{HOUR, SLOTS};
use super::driver::{KEYS_MAX, Op, Settings};
use crate::choice::choice;

/// A whole run.
#[derive(Arbitrary, Clone, Debug)]
pub struct Input {
    keys: u8,
    shards: Shards,
    retention: Retention,
    capacity_max: CapacityMax,
    steps: Vec<Step>,
}

choice! {
    enum Shards {
        One,
        Two,
    }

    enum Retention {
        Hour,
        Zero,
        Ticks(u8),
    }

    enum CapacityMax {
        None,
        Few(u8),
        Many(u8),
    }

    /// How long, in ticks.
    pub(super) enum Span {
        Few(u8),
        Many(u16),
        /// A power of two.
        Far(u8),
    }

    /// One operation. Bytes that choose among what there is are taken modulo its number. What makes queues, and
    /// has them go on, is there more than once.
    pub(super) enum Step {
        TryAcquire { key: u8, holder: u8, term: Span, times_out: bool },
        Wait { key: u8, holder: u8, term: Span, owned: bool },
        WaitAndPoll { key: u8, holder: u8, few: u8 },
        WaitForAll { keys: [u8; 3], holder: u8, term: Span },
        WaitForAllAndPoll { keys: [u8; 3], holder: u8, few: u8 },
        Poll { future: u8 },
        PollAgain { future: u8 },
        PollByAnother { future: u8 },
        DropFuture { future: u8 },
        Release { lease: u8 },
        ReleaseLast,
        Forget { lease: u8 },
        Check { lease: u8 },
        Renew { lease: u8, term: Span },
        RevokeNow { key: u8 },
        RevokeAfter { key: u8, grace: Span },
        Advance { by: Span },
        AdvanceTo { key: u8, beyond: bool },
        GoBack { ticks: u8, far: bool },
        Sweep,
        Churn { count: u8 },
        Fill,
        Report,
        /// Closes the table, if all bits say so: nearly nothing happens after that.
        Close { sure: u8 },
    }
}

/// The newest of the futures, counting one that is about to come, and of the leases.
#[derive(Clone, Copy)]
pub(super) struct Newest {
    pub(super) future: usize,
    pub(super) lease: usize,
}

impl Span {
    fn ticks(self) -> u64 {
        match self {
            Self::Few(ticks) => 1 + u64::from(ticks % 16),
            Self::Many(ticks) => 1 + u64::from(ticks),
            Self::Far(bits) => 1 << (bits % 42),
        }
    }
}

impl Input {
    pub(super) fn settings(&self) -> Settings {
        Settings {
            keys: 1 + usize::from(self.keys) % KEYS_MAX,
            shards: match self.shards {
                Shards::One => 1,
                Shards::Two => 2,
            },
            retention: match self.retention {
                Retention::Hour => HOUR.as_micros() as u64,
                Retention::Zero => 0,
                Retention::Ticks(ticks) => ticks.into(),
            },
            capacity_max: match self.capacity_max {
                CapacityMax::None => None,
                CapacityMax::Few(max) => Some(1 + usize::from(max % 8)),
                CapacityMax::Many(max) => Some(1 + usize::from(max)),
            },
        }
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }
}

impl Step {
    /// What is done: one operation or two.
    pub(super) fn ops(self, keys: usize, newest: Newest) -> [Option<Op>; 2] {
        let key_of = |key: u8| usize::from(key) % keys;
        let holder_of = |holder: u8| 1 + u64::from(holder % 6);
        let poll = Some(Op::Poll { future: newest.future, anew: false });
        let one = match self {
            Self::TryAcquire { key, holder, term, times_out } => {
                let (key, holder, ticks) = (key_of(key), holder_of(holder), term.ticks());
                Op::TryAcquire { key, holder, ticks, times_out }
            }
            Self::Wait { key, holder, term, owned } => {
                let (key, holder, ticks) = (key_of(key), holder_of(holder), term.ticks());
                Op::Wait { key, holder, ticks, owned }
            }
            Self::WaitAndPoll { key, holder, few } => {
                let (key, holder, ticks) =
                    (key_of(key), holder_of(holder), 1 + u64::from(few % 16));
                return [Some(Op::Wait { key, holder, ticks, owned: few > 127 }), poll];
            }
            Self::WaitForAll { keys, holder, term } => {
                let (keys, holder, ticks) = (keys.map(key_of), holder_of(holder), term.ticks());
                Op::WaitForAll { keys, holder, ticks }
            }
            Self::WaitForAllAndPoll { keys, holder, few } => {
                let (keys, holder, ticks) =
                    (keys.map(key_of), holder_of(holder), 1 + u64::from(few));
                return [Some(Op::WaitForAll { keys, holder, ticks }), poll];
            }
            Self::Poll { future } | Self::PollAgain { future } => {
                Op::Poll { future: future.into(), anew: false }
            }
            Self::PollByAnother { future } => Op::Poll { future: future.into(), anew: true },
            Self::DropFuture { future } => Op::DropFuture { future: future.into() },
            Self::Release { lease } => Op::Release { lease: lease.into() },
            Self::ReleaseLast => Op::Release { lease: newest.lease },
            Self::Forget { lease } => Op::Forget { lease: lease.into() },
            Self::Check { lease } => Op::Check { lease: lease.into() },
            Self::Renew { lease, term } => Op::Renew { lease: lease.into(), ticks: term.ticks() },
            Self::RevokeNow { key } => Op::Revoke { key: key_of(key), grace: None },
            Self::RevokeAfter { key, grace } => {
                Op::Revoke { key: key_of(key), grace: Some(grace.ticks() - 1) }
            }
            Self::Advance { by } => Op::Advance { ticks: by.ticks() },
            Self::AdvanceTo { key, beyond } => {
                Op::AdvanceTo { key: key_of(key), beyond: beyond.into() }
            }
            Self::GoBack { ticks, far } => Op::StepBack { ticks: ticks.into(), far },
            Self::Sweep => Op::Sweep,
            Self::Churn { count } => Op::Churn { count: 1 + u64::from(count) % SLOTS },
            Self::Fill => Op::Churn { count: SLOTS },
            Self::Report => Op::Report,
            Self::Close { sure: u8::MAX } => Op::Close,
            Self::Close { .. } => return [None, None],
        };
        [Some(one), None]
    }
}
