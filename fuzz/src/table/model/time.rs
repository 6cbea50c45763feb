//! The clock as the table may see it, and deadlines on it.
//!
//! A page's time never goes back further than the retention before the page was made, so that a
//! clock which does is read as a later one, by how much depends on when pages were replaced. The
//! model does not know that: while the clock is that far back, its times are ranges. While it is not,
//! they are exact.

/// Ticks, wide enough that no sum of them overflows.
pub(super) type Ticks = i128;

/// From `lo` to `hi`, both included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) lo: Ticks,
    pub(super) hi: Ticks,
}

#[derive(Debug)]
pub(super) struct Time {
    now: Ticks,
    /// The latest tick at which the table was used.
    high: Ticks,
    /// How far behind that the table still tells ticks apart.
    reach: Ticks,
    /// All the ways that the clock went forward, and back.
    forward: Ticks,
    back: Ticks,
    /// How often the table was used while the clock was further back than that.
    vague_uses: u64,
}

impl Time {
    pub(super) fn new(now: u64, reach: u64) -> Self {
        let now = Ticks::from(now);
        Self { now, high: now, reach: reach.into(), forward: 0, back: 0, vague_uses: 0 }
    }

    pub(super) fn now(&self) -> Ticks {
        self.now
    }

    pub(super) fn moved_to(&mut self, now: u64) {
        let by = Ticks::from(now) - self.now;
        self.forward += by.max(0);
        self.back += (-by).max(0);
        self.now += by;
    }

    /// The table reads the clock.
    pub(super) fn used(&mut self) {
        self.high = self.high.max(self.now);
        self.vague_uses += u64::from(self.now < self.earliest());
    }

    /// Before this tick, time may stand still.
    pub(super) fn earliest(&self) -> Ticks {
        self.high - self.reach
    }

    /// The present tick, as the table has it.
    pub(super) fn range(&self) -> Range {
        Range { lo: self.now, hi: self.now.max(self.earliest()) }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.vague_uses)
    }

    pub(super) fn was_vague_since(&self, mark: Mark) -> bool {
        self.vague_uses != mark.0
    }
}

/// When something was last known exactly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(u64);

/// Until when a lease is valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    at: Range,
    /// What the holder was promised, and how far the clock had gone forward then: a lease does not
    /// end before it went forward by as much again, whatever else it did.
    promised: Ticks,
    forward: Ticks,
    mark: Mark,
}

impl Deadline {
    /// `ticks` from now.
    pub(super) fn after(ticks: u64, time: &Time) -> Self {
        let (now, ticks) = (time.range(), Ticks::from(ticks));
        let at = Range { lo: now.lo + ticks, hi: now.hi + ticks };
        Self { at, promised: ticks, forward: time.forward, mark: time.mark() }
    }

    /// How many ticks there are until then; below 0, it is so long ago.
    pub(super) fn left(self, time: &Time) -> Range {
        let now = time.range();
        let lo = (self.at.lo - now.hi).max(self.promised_left(time));
        Range { lo, hi: (self.latest(time) - now.lo).max(lo) }
    }

    /// The ticks of the clock among which it is.
    pub(super) fn span(self, time: &Time) -> Range {
        Range { lo: self.at.lo, hi: self.latest(time) }
    }

    /// The earliest tick at which it may be.
    pub(super) fn earliest(self) -> Ticks {
        self.at.lo
    }

    fn promised_left(self, time: &Time) -> Ticks {
        self.promised - (time.forward - self.forward)
    }

    /// A page that is replaced while the clock is far back may put deadlines off by as much.
    fn latest(self, time: &Time) -> Ticks {
        if time.was_vague_since(self.mark) { self.at.hi + 2 * time.back } else { self.at.hi }
    }

    /// The same deadline, of a lease that lapsed and is kept for its holder: if its page is replaced, the new
    /// one's time does not reach back further than the retention, and so no deadline in it.
    pub(super) fn kept(self, time: &Time) -> Self {
        let at = Range { lo: self.at.lo, hi: self.at.hi.max(time.now - time.reach) };
        Self { at, ..self }
    }

    /// The later of two.
    pub(super) fn or_later(self, other: Self, time: &Time) -> Self {
        self.merge(other, Ticks::max, time)
    }

    /// The earlier of two.
    pub(super) fn or_earlier(self, other: Self, time: &Time) -> Self {
        self.merge(other, Ticks::min, time)
    }

    fn merge(self, other: Self, pick: fn(Ticks, Ticks) -> Ticks, time: &Time) -> Self {
        let at = Range {
            lo: pick(self.at.lo, other.at.lo),
            hi: pick(self.latest(time), other.latest(time)),
        };
        let promised = pick(self.promised_left(time), other.promised_left(time));
        Self { at, promised, forward: time.forward, mark: time.mark() }
    }

    /// The same deadline, now that it is known how many ticks are left.
    pub(super) fn known(self, left: Range, time: &Time) -> Self {
        let now = time.range();
        let at = Range {
            lo: self.at.lo.max(now.lo + left.lo),
            hi: self.latest(time).min(now.hi + left.hi),
        };
        let promised = self.promised_left(time).max(left.lo);
        Self { at, promised, forward: time.forward, mark: time.mark() }
    }
}
