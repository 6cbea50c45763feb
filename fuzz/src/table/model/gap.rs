//! Jumps of the clock, and who may take over after one.

use leasehold::{ClockGap, GapPolicy};

use super::time::{Deadline, Ticks, Time};
use super::{Model, clamp};

#[derive(Debug)]
pub(super) struct Gap {
    threshold: Ticks,
    /// 0: anybody may take over at once.
    grace: Ticks,
    /// When the last jump was seen; 0 before, and after the clock stepped back behind it.
    seen: Ticks,
    /// The same, when the present sweep began.
    seen_before: Ticks,
    count: u64,
    /// Whether the table was ever swept to the end.
    swept: bool,
    /// When nothing was left to do, and the clock did not step back since.
    done_at: Option<Ticks>,
}

impl Gap {
    pub(super) fn new(threshold: u64, grace: u64) -> Self {
        let (threshold, grace) = (threshold.into(), grace.into());
        Self { threshold, grace, seen: 0, seen_before: 0, count: 0, swept: false, done_at: None }
    }

    pub(super) fn stepped_back(&mut self) {
        self.done_at = None;
    }

    /// A sweep came to its end.
    pub(super) fn has_swept(&mut self) {
        self.swept = true;
    }

    pub(super) fn all_done(&mut self, now: Ticks) {
        self.done_at = Some(now);
    }

    fn is_undone(&self, now: Ticks) -> bool {
        now + self.threshold < self.seen
    }

    /// For how many ticks who held what lapsed has it for himself; 0 if he has not.
    pub(super) fn waits(&self, now: Ticks) -> Ticks {
        if self.grace == 0 || self.seen == 0 || self.is_undone(now) {
            return 0;
        }
        (self.seen + self.grace + 1 - now).max(0)
    }

    /// Whether a look at a lease shows a jump that is news.
    fn shows(&self, deadline: Deadline, time: &Time) -> bool {
        let (due, now) = (deadline.span(time), time.now());
        // What lapses in a grace waits for its end.
        let grace_end =
            if self.seen > 0 && self.grace > 0 { self.seen + self.grace + 1 } else { 0 };
        self.swept && now > due.hi.max(grace_end) + self.threshold && due.lo > self.seen
    }

    /// As [`keeps`](Self::keeps), for a lease that a sweep looked at before it saw any jump.
    pub(super) fn keeps_in_sweep(&self, deadline: Deadline, time: &Time) -> bool {
        let before = Self { seen: self.seen_before, ..*self };
        before.keeps(deadline, time)
    }

    /// Whether a lease that lapsed is surely its holder's still, whoever looks at it.
    pub(super) fn keeps(&self, deadline: Deadline, time: &Time) -> bool {
        self.grace > 0 && (self.shows(deadline, time) || self.waits(time.now()) > 0)
    }
}

impl Model {
    /// How late a look at a lease must be to show a jump.
    pub(in super::super) fn jump_ticks(&self) -> u64 {
        clamp(self.gap.threshold + 1)
    }

    /// A sweep begins.
    pub(in super::super) fn begin_sweep(&mut self) {
        if self.gap.is_undone(self.time.now()) {
            self.gap.seen = 0;
        }
        self.gap.seen_before = self.gap.seen;
    }

    /// What the table says of jumps after an operation; asked before the model is told of its answer, which
    /// follows from it.
    pub(in super::super) fn jumped(&mut self, gap: Option<ClockGap>) {
        let now = self.time.now();
        let count = gap.map_or(0, |gap| gap.count);
        if count == self.gap.count {
            return;
        }
        let Some(gap) = gap else { panic!("a jump was taken back") };
        assert_eq!(count, self.gap.count + 1, "jumps seen by one operation");
        assert!(self.gap.swept, "a jump, though nobody sweeps");
        let rate = self.limits.rate;
        let floor = |ticks: Ticks| rate.duration_floor(u64::try_from(ticks).expect("a time"));
        assert!(gap.overdue >= floor(self.gap.threshold + 1), "{gap:?} is no jump: {:?}", self.gap);
        if let Some(done_at) = self.gap.done_at {
            // Nothing was due then.
            assert!(gap.overdue <= floor(now - done_at), "{gap:?} at {now}: {:?}", self.gap);
        }
        (self.gap.count, self.gap.seen) = (count, now);
    }
}

/// Threshold and grace, in ticks.
pub(super) fn ticks_of(
    (threshold, policy): (std::time::Duration, GapPolicy),
    rate: crate::clock::Rate,
) -> Gap {
    let grace = match policy {
        GapPolicy::Grace(grace) => rate.ticks_floor(grace),
        _ => 0,
    };
    Gap::new(rate.ticks_floor(threshold), grace)
}
