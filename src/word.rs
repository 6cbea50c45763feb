//! One lease in 64 bits, and the rules by which it changes. No atomics here: pure packing and pure
//! decisions, so that they can be tested alone. `slot` is what applies them.
//!
//! ```text
//!  63                  22 21           5 4        3        2..0
//! ┌──────────────────────┬──────────────┬────────┬────────┬───────┐
//! │ tick 42              │ stamp 17     │ waited │ frozen │ state │
//! └──────────────────────┴──────────────┴────────┴────────┴───────┘
//! ```
//!
//! *Waited* says that somebody waits for the resource, or did lately: what ends such a lease goes by the
//! shard's wait lists, under their lock.
//!
//! The tick is relative to the page's base. While a lease is held it is the deadline; while the slot
//! is vacant it is when the last lease was granted, with the lowest two bits saying how it ended.

use core::fmt;

/// Bits of a tick within a word.
pub(crate) const TICK_BITS: u32 = 42;
/// The largest tick of a word.
pub(crate) const TICK_MAX: u64 = (1 << TICK_BITS) - 1;
/// Bits of a stamp within a token. A word has one bit less of it.
pub(crate) const STAMP_BITS: u32 = 18;
const WORD_STAMP_BITS: u32 = 17;
/// The last stamp: a vacant slot that has it is dead for the rest of its page's life. Tiny in models
/// and in the stress build, so that they run out of stamps all the time.
pub(crate) const STAMP_MAX: u64 = if cfg!(any(leasehold_loom, leasehold_shuttle)) {
    3
} else if cfg!(leasehold_tiny) {
    7
} else {
    (1 << WORD_STAMP_BITS) - 1
};
/// Bits of an incarnation within a token.
pub(crate) const INCARNATION_BITS: u32 = 64 - STAMP_BITS;
/// The last incarnation.
pub(crate) const INCARNATION_MAX: u64 = (1 << INCARNATION_BITS) - 1;

/// How far a word's tick may stand above the page's time that was decided upon: the bits that say how a
/// lease ended.
pub(crate) const TICK_SLACK: u64 = 4;

const STATE_MASK: u64 = 0b0111;
const FROZEN: u64 = 0b1000;
const WAITED: u64 = 0b1_0000;
/// All that must be as it is for a plain vacant or leased word.
const PLAIN_MASK: u64 = STATE_MASK | FROZEN | WAITED;
const STAMP_SHIFT: u32 = 5;
const TICK_SHIFT: u32 = STAMP_SHIFT + WORD_STAMP_BITS;
const STAMP_MASK: u64 = (1 << WORD_STAMP_BITS) - 1;
const STAMP_ONE: u64 = 1 << STAMP_SHIFT;
const CAUSE_MASK: u64 = 0b11;

const _: () = assert!(TICK_SHIFT + TICK_BITS == u64::BITS);
const _: () = assert!(STAMP_MAX <= STAMP_MASK && STAMP_MAX >= 2);

/// What a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Holds no key. With stamp 0 it never did in this life of the page.
    Free,
    /// An inserter is writing its key; nobody else looks at it.
    Claimed,
    /// A resource that nobody holds.
    Vacant,
    /// A lease, until its deadline.
    Held,
    /// A lease that was revoked with a grace: it can be released, not renewed.
    Closing,
    /// A lease that was reported as expired to somebody, so that no clock that steps back revives
    /// it. It is reclaimable by the same rule as a held one.
    Expired,
}

/// How the last lease of a vacant slot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Released,
    Lapsed,
    Revoked,
    Superseded,
}

/// A slot's word, decoded on demand. Copy: it is a snapshot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(u64);

/// What an acquirer finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquire {
    /// Go from the word to `next`: the lease is the caller's; `ended` is the one that it replaces.
    Grant { next: Word, ended: Option<Cause> },
    /// The slot cannot be granted again, as its stamps are used up or its last winner is not done
    /// telling: go to `next` (dead), then on to another slot. `ended` is the lease that stood in it.
    Bury { next: Word, ended: Option<Cause> },
    /// Dead: the resource lives, or will live, in another slot.
    Dead,
    /// Somebody holds it.
    Refused,
    /// It is waited for: whoever waits for longest is granted first.
    Waited,
    /// The page is being replaced.
    Frozen,
}

/// What a renewer finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renew {
    /// Go to the word.
    To(Word),
    /// The deadline is already that late.
    Unchanged,
    /// The lease is over; say so in the word before saying it to the caller.
    Expire(Word),
    /// It was said before.
    Expired,
    /// Being revoked.
    Closing,
    /// Not the lease of this stamp.
    Lost,
    /// The page is being replaced.
    Frozen,
}

impl Word {
    /// A slot that never had a key in this life of its page.
    pub(crate) const fn never(tick: u64) -> Self {
        Self::new(tick, 0, State::Free)
    }

    #[inline]
    pub(crate) const fn new(tick: u64, stamp: u64, state: State) -> Self {
        debug_assert!(tick <= TICK_MAX && stamp <= STAMP_MAX);
        Self(tick << TICK_SHIFT | stamp << STAMP_SHIFT | state as u64)
    }

    #[inline]
    fn vacant(tick: u64, stamp: u64, cause: Cause) -> Self {
        Self::new(tick & !CAUSE_MASK | cause as u64, stamp, State::Vacant)
    }

    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) const fn tick(self) -> u64 {
        self.0 >> TICK_SHIFT
    }

    #[inline]
    pub(crate) const fn stamp(self) -> u64 {
        self.0 >> STAMP_SHIFT & STAMP_MASK
    }

    /// Whether somebody waits for it, or did lately.
    #[inline]
    pub(crate) const fn is_waited(self) -> bool {
        self.0 & WAITED != 0
    }

    #[inline]
    pub(crate) const fn is_frozen(self) -> bool {
        self.0 & FROZEN != 0
    }

    #[inline]
    pub(crate) fn state(self) -> State {
        match self.0 & STATE_MASK {
            0 => State::Free,
            1 => State::Claimed,
            2 => State::Vacant,
            3 => State::Held,
            4 => State::Closing,
            // No word has 6 or 7.
            _ => State::Expired,
        }
    }

    pub(crate) fn cause(self) -> Cause {
        match self.tick() & CAUSE_MASK {
            0 => Cause::Released,
            1 => Cause::Lapsed,
            2 => Cause::Revoked,
            _ => Cause::Superseded,
        }
    }

    /// Whether a lease stands in it, over or not: somebody has yet to end it.
    #[inline]
    pub(crate) fn is_leased(self) -> bool {
        self.0 & STATE_MASK >= State::Held as u64
    }

    /// Whether its key may be read.
    #[inline]
    pub(crate) fn is_published(self) -> bool {
        self.0 & STATE_MASK >= State::Vacant as u64
    }

    /// Whether no key was ever put in: a search ends here.
    #[inline]
    pub(crate) fn is_never(self) -> bool {
        self.0 & (STATE_MASK | STAMP_MASK << STAMP_SHIFT) == State::Free as u64
    }

    /// Whether it can be granted no more.
    #[inline]
    pub(crate) fn is_dead(self) -> bool {
        self.0 & STATE_MASK == State::Vacant as u64 && self.stamp() == STAMP_MAX
    }

    /// Valid: a holder may act. The one rule, with [`is_reclaimable`](Self::is_reclaimable).
    #[inline]
    pub(crate) fn is_valid(self, now: u64) -> bool {
        matches!(self.state(), State::Held | State::Closing) && now < self.tick()
    }

    /// Reclaimable: the resource may be given to another. At the deadline's own tick a lease is
    /// neither valid nor reclaimable, which is the slack between two readings of the clock.
    #[inline]
    pub(crate) fn is_reclaimable(self, now: u64) -> bool {
        self.is_leased() && now > self.tick()
    }

    /// Whether somebody holds it then, in a page that is not being replaced, and nobody waits: not
    /// reclaimable, though perhaps no longer valid.
    #[inline(always)]
    pub(crate) fn is_held_at(self, now: u64) -> bool {
        // States are below the other bits, and the leased ones at the end.
        let state = self.0 & PLAIN_MASK;
        (State::Held as u64..FROZEN).contains(&state) && now <= self.tick()
    }

    #[inline]
    pub(crate) const fn frozen(self) -> Self {
        Self(self.0 | FROZEN)
    }

    #[inline]
    pub(crate) const fn thawed(self) -> Self {
        Self(self.0 & !FROZEN)
    }

    /// The same lease, or vacancy, for which somebody waits.
    pub(crate) const fn waited(self) -> Self {
        Self(self.0 | WAITED)
    }

    /// The same for which nobody waits. A handle knows its word in this form, so that it finds another one
    /// while somebody waits.
    #[inline]
    pub(crate) const fn unwaited(self) -> Self {
        Self(self.0 & !WAITED)
    }

    const fn with_state(self, state: State) -> Self {
        Self(self.0 & !STATE_MASK | state as u64)
    }

    /// The same lease or vacancy in a page of another base.
    pub(crate) fn at_tick(self, tick: u64) -> Self {
        let tick = match self.state() {
            State::Vacant => tick & !CAUSE_MASK | self.tick() & CAUSE_MASK,
            _ => tick,
        };
        self.keep_waited(Self::new(tick, self.stamp(), self.state()))
    }

    #[inline]
    const fn keep_waited(self, next: Self) -> Self {
        Self(next.0 | self.0 & WAITED)
    }

    /// Claims a free slot for a key, unless frozen, taken or out of stamps.
    pub(crate) fn claim(self, now: u64) -> Option<Self> {
        let open = self.state() == State::Free && !self.is_frozen() && self.stamp() < STAMP_MAX - 1;
        let tick = now & !CAUSE_MASK;
        open.then(|| Self::new(tick, self.stamp() + 1, State::Claimed))
    }

    /// Gives a claimed slot back. Frozen or not: a claim is its claimant's.
    pub(crate) const fn unclaim(self) -> Self {
        self.with_state(State::Free).unwaited()
    }

    /// Makes a claimed slot a resource.
    pub(crate) const fn publish(self) -> Self {
        self.with_state(State::Vacant)
    }

    /// The word after a vacant slot is granted until `deadline`; `None` if it is not vacant, or dead,
    /// or frozen. The commonest transition of all, once its last winner has told.
    #[inline(always)]
    pub(crate) fn grant_vacant(self, deadline: u64) -> Option<Self> {
        let vacant = self.0 & PLAIN_MASK == State::Vacant as u64;
        (vacant && self.stamp() != STAMP_MAX).then(|| self.granted(deadline))
    }

    /// The next stamp's lease. The caller made sure that there is a next stamp.
    #[inline(always)]
    pub(crate) fn granted(self, deadline: u64) -> Self {
        debug_assert!(deadline <= TICK_MAX && self.stamp() < STAMP_MAX);
        let stamp = (self.0 & STAMP_MASK << STAMP_SHIFT) + STAMP_ONE;
        Self(deadline << TICK_SHIFT | stamp | State::Held as u64)
    }

    /// What a holder that asks for a lease until `deadline` finds. `told` is whether the winner of this
    /// word's stamp has told who it is, and `same_holder` that it is the one who asks.
    #[inline]
    pub(crate) fn acquire(self, now: u64, deadline: u64, told: bool, same_holder: bool) -> Acquire {
        if self.is_frozen() {
            return Acquire::Frozen;
        }
        if self.is_waited() {
            return Acquire::Waited;
        }
        let ended = match self.state() {
            State::Vacant if self.stamp() == STAMP_MAX => return Acquire::Dead,
            State::Vacant => None,
            _ if now > self.tick() => Some(Cause::Lapsed),
            State::Held if same_holder => Some(Cause::Superseded),
            _ => return Acquire::Refused,
        };
        if told && self.stamp() != STAMP_MAX {
            return Acquire::Grant { next: self.granted(deadline), ended };
        }
        Acquire::Bury { next: self.buried(now, ended), ended }
    }

    /// The word of a slot that is granted no more. `ended` is how the lease in it ended, if there was one.
    pub(crate) fn buried(self, now: u64, ended: Option<Cause>) -> Self {
        // Its own cause, if it was vacant: it stays as it ended.
        let (since, cause) = match ended {
            Some(ended) => (self.tick().min(now), ended),
            None => (self.tick(), self.cause()),
        };
        Self::vacant(since, STAMP_MAX, cause)
    }

    /// The word after a lease, or a vacancy, that somebody waits for is passed on until `deadline`. `more`
    /// is whether others go on waiting.
    pub(crate) fn passed_on(self, deadline: u64, more: bool) -> Self {
        let next = self.granted(deadline);
        if more { next.waited() } else { next }
    }

    /// What the holder of the lease with `stamp` finds when it renews until `deadline`.
    #[inline]
    pub(crate) fn renew(self, stamp: u64, now: u64, deadline: u64) -> Renew {
        if self.is_frozen() {
            return Renew::Frozen;
        }
        if self.stamp() != stamp {
            return Renew::Lost;
        }
        match self.state() {
            State::Held | State::Closing if now >= self.tick() => {
                Renew::Expire(self.with_state(State::Expired))
            }
            State::Held if deadline <= self.tick() => Renew::Unchanged,
            State::Held => Renew::To(self.keep_waited(Self::new(deadline, stamp, State::Held))),
            State::Closing => Renew::Closing,
            State::Expired => Renew::Expired,
            State::Vacant | State::Free | State::Claimed => Renew::Lost,
        }
    }

    /// The word after the lease was granted and released, at the same time.
    #[inline]
    pub(crate) fn released(self, since: u64) -> Self {
        Self::vacant(since, self.stamp(), Cause::Released)
    }

    /// The word after the lease was ended by its holder or by a revocation. `since` is what a vacant
    /// slot keeps: when it was last known to be in use.
    #[inline]
    pub(crate) fn end(self, since: u64, cause: Cause) -> Self {
        debug_assert!(self.is_leased());
        Self::vacant(since, self.stamp(), cause)
    }

    /// The word after a revocation with a grace: the deadline only falls.
    pub(crate) fn close(self, until: u64) -> Self {
        self.keep_waited(Self::new(self.tick().min(until), self.stamp(), State::Closing))
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waited = if self.is_waited() { ", waited" } else { "" };
        let frozen = if self.is_frozen() { ", frozen" } else { "" };
        write!(f, "{:?}({} @ {}{waited}{frozen})", self.state(), self.stamp(), self.tick())
    }
}

/// The token of a grant: `incarnation << 18 | stamp`.
#[inline]
pub(crate) const fn token_bits(incarnation: u64, stamp: u64) -> u64 {
    incarnation << STAMP_BITS | stamp
}

/// A token's incarnation and stamp.
#[inline]
pub(crate) const fn token_parts(token: u64) -> (u64, u64) {
    (token >> STAMP_BITS, token & ((1 << STAMP_BITS) - 1))
}

/// `[stamp 18 | holder 46]`: who holds the lease of that stamp; 0 is nobody yet.
#[inline]
pub(crate) const fn holder_bits(stamp: u64, holder: u64) -> u64 {
    stamp << (64 - STAMP_BITS) | holder
}

/// The stamp and the holder's id of such a field.
#[inline]
pub(crate) const fn holder_parts(bits: u64) -> (u64, u64) {
    (bits >> (64 - STAMP_BITS), bits & ((1 << (64 - STAMP_BITS)) - 1))
}

/// `[tag 18 | incarnation 46]`: which key's which life a slot is.
#[inline]
pub(crate) const fn identity_bits(tag: u64, incarnation: u64) -> u64 {
    tag << INCARNATION_BITS | incarnation
}

/// The incarnation of an identity.
#[inline]
pub(crate) const fn identity_incarnation(bits: u64) -> u64 {
    bits & INCARNATION_MAX
}

#[cfg(all(test, not(any(leasehold_loom, leasehold_shuttle))))]
#[path = "word_tests.rs"]
mod tests;
