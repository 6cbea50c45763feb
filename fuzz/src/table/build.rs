//! Building the table and its model, or predicting why neither is built.

use std::time::Duration;

use leasehold::{
    BuildError, Builder, Causes, EndCause, GapPolicy, Grant, LeaseTable, Lost, ManualClock,
    RenewError,
};
use std::hash::BuildHasher;

use super::ends::Heard;
use super::hold::Hold;
use super::input::{
    CapacityMax, Gap, Listener, Retention, Settings, Shards, Spread, Start, TermMax,
};
use super::model::{Limits, Model};
use super::subject::{Paced, Subject};
use super::{Table, tick_at};
use crate::clock::Rate;

/// The longest term and the longest retention: documented of the builder.
const TERM_TICKS_MAX: u64 = 1 << 41;
const RETENTION_TICKS_MAX: u64 = 1 << 39;

/// The settings, resolved.
struct Resolved {
    rate: Rate,
    shards: usize,
    capacity: usize,
    capacity_max: Option<usize>,
    term_max: Option<Duration>,
    retention: Duration,
    /// `None`: the default.
    causes: Option<Causes>,
    listener: bool,
    /// `None`: the default.
    gap: Option<(Duration, GapPolicy)>,
}

impl Resolved {
    fn of(settings: &Settings) -> Self {
        let (_, rate) = settings.pace.rates();
        let near = |ticks: u64, by: i8| rate.duration_ceil(ticks.saturating_add_signed(by.into()));
        Self {
            rate,
            shards: match settings.shards {
                Shards::One => 1,
                Shards::Two => 2,
                Shards::Other(shards) => shards.into(),
            },
            // A page each in the tiny build, of which every walk looks at all.
            capacity: (settings.capacity % 24).into(),
            capacity_max: match settings.capacity_max {
                CapacityMax::None => None,
                CapacityMax::Few(max) => Some((max % 8).into()),
                CapacityMax::Many(max) => Some(max.into()),
            },
            term_max: match settings.term_max {
                TermMax::Default => None,
                TermMax::Ticks(ticks) => Some(rate.duration_ceil(ticks.into())),
                TermMax::LongestBy(by) => Some(near(TERM_TICKS_MAX, by)),
            },
            retention: match settings.retention {
                Retention::Zero => Duration::ZERO,
                Retention::Ticks(ticks) => rate.duration_ceil(ticks.into()),
                Retention::Usual => Duration::from_secs(10),
                Retention::LongestBy(by) => near(RETENTION_TICKS_MAX, by),
            },
            causes: causes_of(settings.causes),
            listener: matches!(settings.listener, Listener::Some),
            gap: gap_of(settings.gap, rate),
        }
    }

    /// What the table tells of.
    fn told(&self) -> Causes {
        self.causes.unwrap_or(if self.listener { Causes::ALL } else { Causes::NONE })
    }

    /// Why no table is built.
    fn error(&self) -> Option<BuildError> {
        let Self { rate, shards, capacity, capacity_max, term_max, retention, .. } = *self;
        if !shards.is_power_of_two() || shards > 4096 {
            return Some(BuildError::Shards { shards });
        }
        match capacity_max {
            Some(0) => return Some(BuildError::CapacityMaxZero),
            Some(capacity_max) if capacity > capacity_max => {
                return Some(BuildError::CapacityAboveMax { capacity, capacity_max });
            }
            _ => {}
        }
        if let Some(requested) = term_max {
            if rate.ticks_floor(requested) == 0 {
                return Some(BuildError::TermMaxZero);
            }
            let max = rate.duration_floor(TERM_TICKS_MAX);
            if requested > max {
                return Some(BuildError::TermMaxTooLong { requested, max });
            }
        }
        let max = rate.duration_floor(RETENTION_TICKS_MAX);
        if retention > max {
            return Some(BuildError::RetentionTooLong { requested: retention, max });
        }
        let useless = self.listener && self.told() == Causes::NONE;
        useless.then_some(BuildError::ListenerWithoutEvents)
    }

    fn limits<K: Subject>(&self, spread: Spread) -> Limits {
        let term_max = self.term_max.unwrap_or_else(|| self.rate.duration_floor(TERM_TICKS_MAX));
        Limits {
            rate: self.rate,
            term_max,
            term_ticks: self.rate.ticks_floor(term_max),
            retention: self.rate.ticks_floor(self.retention),
            capacity_max: self.capacity_max,
            hash: Box::new(move |key| spread.hash_one(K::new(key))),
            causes: self.told(),
            listener: self.listener,
            gap: self.gap.unwrap_or((Duration::from_secs(5), GapPolicy::Lapse)),
        }
    }
}

fn causes_of(bits: u8) -> Option<Causes> {
    use EndCause::{Lapsed, Released, Revoked, Superseded};
    let all = [Released, Lapsed, Revoked, Superseded];
    let chosen = all.into_iter().enumerate().filter(|(bit, _)| bits >> bit & 1 != 0);
    match bits % 64 {
        0..16 => Some(chosen.fold(Causes::NONE, |causes, (_, cause)| causes | cause)),
        16..40 => Some(Causes::ALL),
        _ => None,
    }
}

fn gap_of(gap: Gap, rate: Rate) -> Option<(Duration, GapPolicy)> {
    let time = |ticks: u64| rate.duration_ceil(ticks);
    Some(match gap {
        Gap::Default => return None,
        Gap::Lapse { threshold } => (time(threshold.into()), GapPolicy::Lapse),
        Gap::Grace { threshold, grace } => {
            (time(threshold.into()), GapPolicy::Grace(time(grace.into())))
        }
        Gap::LongGrace { threshold, thousands } => {
            (time(threshold.into()), GapPolicy::Grace(time(u64::from(thousands) * 1000)))
        }
    })
}

/// A table and its model; `None` if the settings are refused, for the reason that was expected.
pub(super) fn build<K: Subject>(settings: &Settings) -> Option<(Table<K>, Model, Heard<K>)> {
    let manual = match settings.start {
        Start::Usual => ManualClock::new(),
        Start::Beside(boundary) => ManualClock::starting_at(tick_at(boundary)),
    };
    let start = leasehold::Clock::now(&manual);
    let resolved = Resolved::of(settings);
    let (rate, _) = settings.pace.rates();
    let builder = builder::<K>(&resolved, settings.spread, Paced { manual, rate });
    let heard = Heard::default();
    let builder = match resolved.listener {
        true => builder.listener(heard.listener()),
        false => builder,
    };
    match (builder.build(), resolved.error()) {
        (Ok(table), None) => {
            let model = Model::new(resolved.limits::<K>(settings.spread), start);
            Some((table, model, heard))
        }
        (Err(error), Some(expected)) => {
            assert_eq!(error, expected, "why {settings:?} make no table");
            None
        }
        (built, expected) => panic!("{:?}, not {expected:?}: {settings:?}", built.err()),
    }
}

fn builder<K: Subject>(
    resolved: &Resolved,
    spread: Spread,
    clock: Paced,
) -> Builder<K, Spread, Paced> {
    let Resolved { shards, capacity, capacity_max, term_max, retention, .. } = *resolved;
    let builder = LeaseTable::builder().hasher(spread).clock(clock);
    let builder = builder.shards(shards).capacity(capacity).retention(retention);
    let builder = match capacity_max {
        Some(capacity_max) => builder.capacity_max(capacity_max),
        None => builder,
    };
    let builder = match term_max {
        Some(term_max) => builder.term_max(term_max),
        None => builder,
    };
    let builder = match resolved.causes {
        Some(causes) => builder.events(causes),
        None => builder,
    };
    match resolved.gap {
        Some((threshold, policy)) => builder.clock_gap(threshold, policy),
        None => builder,
    }
}

/// Takes a grant to a table that did not make it, and that is like the one which did.
pub(super) fn go_abroad<K: Subject>(settings: &Settings, grant: Grant, term: Duration) {
    let Some((other, ..)) = build::<K>(settings) else { return };
    assert_ne!(grant.table(), other.id(), "two tables with one number");
    assert_eq!(other.check(grant), Err(Lost::ForeignTable));
    assert_eq!(other.renew(grant, term), Err(RenewError::Lost(Lost::ForeignTable)));
    assert_eq!(other.release(grant), Err(Lost::ForeignTable));
    for owned in [false, true] {
        let guard = Hold::from_grant(&other, grant, owned);
        assert_eq!(guard.err(), Some(Lost::ForeignTable));
    }
    assert_eq!(other.stats(), Default::default(), "what another table counted");
}
