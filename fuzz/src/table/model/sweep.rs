//! What a sweep must have done, and when it must come back.

use std::time::Duration;

use leasehold::Swept;
use leasehold::fuzzing::SLOTS;

use super::life::{Ended, Life};
use super::time::Ticks;
use super::{Model, clamp};

/// How late a sweep may be for a clock that steps back by less: a millisecond, unless the builder has a
/// sweeper that says otherwise.
const INTERVAL: Duration = Duration::from_millis(1);

impl Model {
    pub(in super::super) fn swept(
        &mut self,
        budget: usize,
        swept: &Swept,
        queued: bool,
        resources: usize,
    ) {
        let now = self.time.now();
        assert!(swept.pages <= budget.max(1), "{swept:?} with a budget of {budget}");
        let most = (swept.pages * SLOTS) as u64;
        assert!(swept.lapsed <= most, "{swept:?}: a page has {SLOTS} slots");
        assert_eq!(swept.panics, 0, "{swept:?}, but nothing panics");
        assert!(swept.more || !queued, "{swept:?}, but the listener has yet to be told");
        // Beyond that all is looked at anew; within it, what is due waits for the earlier reading.
        let interval = Ticks::from(self.limits.rate.ticks_floor(INTERVAL).max(1));
        self.swept_to = if now + interval < self.swept_to { now } else { now.max(self.swept_to) };
        let done = !swept.more && now == self.swept_to;
        self.end_swept(swept, done);
        // What it ended may have been left behind at once.
        self.loosen();
        if !swept.more {
            self.gap.has_swept();
        }
        if done {
            self.gap.all_done(now);
            self.forget_idle();
            let lives = self.known.values().filter(|known| known.present().is_some()).count();
            assert!(
                resources <= lives,
                "a sweep left {resources} resources, of {lives}: {swept:?}"
            );
        }
        if !swept.more {
            self.check_next(swept);
        }
    }

    /// Finds out which leases a sweep ended.
    fn end_swept(&mut self, swept: &Swept, done: bool) {
        let told = self.ends.take_swept();
        if self.ends.tells_lapses() {
            assert_eq!(swept.lapsed, told, "leases that a sweep ended, and what was told");
        }
        let tells = self.ends.tells_lapses();
        let Self { known, time, gap, tally, .. } = self;
        let (mut least, mut most) = (0, 0);
        for life in known.values_mut().flat_map(|known| &mut known.lives) {
            let Some(lease) = life.lease() else { continue };
            let left = lease.deadline.left(time);
            if left.lo >= 0 {
                continue;
            }
            most += 1;
            let must = done && left.hi < 0 && gap.waits(time.now()) == 0;
            least += u64::from(must && !life.loose && !lease.unsure);
            assert!(!(tells && must), "a sweep left {life:?} at {time:?}, {gap:?}: {swept:?}");
            if must {
                tally.lapses.add();
                life.end(Ended::Lapsed, time);
            } else if swept.lapsed > 0 {
                life.set_unsure();
            }
        }
        let lapsed = swept.lapsed;
        assert!(tells || (least..=most).contains(&lapsed), "{swept:?}, not {least} to {most}");
    }

    /// All that was idle for two retentions is gone.
    fn forget_idle(&mut self) {
        let Self { known, time, terms, tally, .. } = self;
        for known in known.values_mut() {
            let lives = known.lives.len();
            known.lives.retain(|life| !life.must_be_forgotten(terms, time));
            tally.forgotten += (lives - known.lives.len()) as u64;
        }
    }

    /// Nobody may sleep for longer than until something is to be done.
    fn check_next(&self, swept: &Swept) {
        assert_ne!(swept.next_in, Some(Duration::ZERO), "there is more to do: {swept:?}");
        let now = self.time.now();
        let lives = self.known.values().flat_map(|known| &known.lives);
        for life in lives.filter(|life| !life.loose && life.next.is_none()) {
            let Some(until) = self.due_in(life) else { continue };
            // A clock that stepped back a little is waited for.
            let until = until.max(self.swept_to - now);
            let longest = self.limits.rate.duration_ceil(clamp(until));
            let early = swept.next_in.is_some_and(|next| next <= longest);
            assert!(early, "{swept:?} at {now}, but {life:?} is due in {until}: {:?}", self.gap);
        }
    }

    /// In how many ticks there is something to do about a life, at the latest.
    fn due_in(&self, life: &Life) -> Option<Ticks> {
        match life.lease() {
            Some(lease) if lease.unsure => None,
            Some(lease) => {
                let left = lease.deadline.left(&self.time);
                let waits = if left.lo < 0 { self.gap.waits(self.time.now()) } else { 0 };
                Some((left.hi + 1).max(waits).max(1))
            }
            None if life.is_dead() => None,
            None => Some(life.idle_until(&self.terms, &self.time) - self.time.now()),
        }
    }
}
