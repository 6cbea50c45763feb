//! The whole table against a sequential [`model`], one operation after another.

mod build;
mod ends;
mod hold;
mod input;
mod model;
mod subject;

use std::mem;
use std::time::Duration;

use leasehold::fuzzing::SLOTS;
use leasehold::{Clock, HolderId, LeaseTable, OwnedLease, Resource, Revoke};

pub use self::input::Input;

use self::ends::Ends;
use self::hold::Hold;
use self::input::{Act, Boundary, KeySpace, Keys, Move, Odd, Op, Settings, Span, Spread, Way};
use self::model::look::Walk;
use self::model::{Id, Model};
use self::subject::{Paced, Subject};
use crate::clock::Rate;
use crate::collect;

type Table<K> = LeaseTable<K, Spread, Paced>;
type Owned<K> = OwnedLease<K, Spread, Paced>;

/// What one run may cost, in operations: enough to fill and split pages, and little enough for many
/// runs.
const WORK_MAX: usize = 400;
/// A walk through the whole table, in operations.
const WALK_WORK: usize = 40;
/// Keys that one operation acquires: more than a page has slots.
const FILL_MAX: u8 = SLOTS as u8 + 18;
/// Guards, grants and resources that are kept at a time.
const KEPT_MAX: usize = 16;
/// Readings of a clock start in the lower half, and stay there.
const TICK_MAX: u64 = u64::MAX / 2;
const DAY: u64 = 24 * 60 * 60;

/// Builds a table, does what the input says, and panics where the model disagrees.
pub fn run(input: Input) {
    match input.settings.keys {
        Keys::Numbers => play::<u64>(&input),
        Keys::Texts => play::<String>(&input),
    }
}

fn play<K: Subject>(input: &Input) {
    let Some((table, model, heard)) = build::build::<K>(&input.settings) else { return };
    let mut play = Play {
        table: &table,
        rate: input.settings.pace.rates().1,
        settings: input.settings,
        ends: Ends::new(&table, heard, model.causes()),
        model,
        holds: Vec::new(),
        resources: Vec::new(),
        work: 0,
    };
    for op in &input.ops {
        play.work += 1;
        if play.work > WORK_MAX {
            break;
        }
        play.step(*op);
    }
    let (owned, ends) = play.finish();
    // The last guards outlive the last handle of the table.
    drop(table);
    ends.outlives(owned);
    collect();
}

struct Play<'t, K: Subject> {
    table: &'t Table<K>,
    rate: Rate,
    settings: Settings,
    ends: Ends<K>,
    model: Model,
    holds: Vec<(Id, Hold<'t, K>)>,
    resources: Vec<(u8, Resource<K, Spread, Paced>)>,
    work: usize,
}

impl<'t, K: Subject> Play<'t, K> {
    fn step(&mut self, op: Op) {
        if !matches!(op, Op::Time(_) | Op::Collect | Op::Fill { .. }) {
            self.model.begin();
        }
        match op {
            Op::Acquire { key, holder, term, way } => self.acquire(key, holder, term, way),
            Op::Fill { from, count, holder, term, forget } => {
                for key in 0..count % FILL_MAX {
                    self.fill(from.wrapping_add(key), holder, term, forget);
                }
            }
            Op::Resolve { key } => self.resolve(key),
            Op::Hold { hold, act } => self.act(hold, act),
            Op::Revoke { key, grace, resolved } => self.revoke(key, grace, resolved),
            Op::Inspect { key, resolved } => self.inspect(key, resolved),
            Op::Walk => self.walk(),
            Op::Time(by) => self.move_clock(by),
            Op::Sweep { budget } => drop(self.sweep(budget)),
            Op::SweepAll { budget } => self.sweep_all(budget),
            Op::Jump { hold, by } => self.jump(hold, by),
            Op::Follow { times } => self.follow(times % 8),
            Op::Subscribe { which, capacity } => self.ends.subscribe(self.table, which, capacity),
            Op::Receive { which, at_most } => self.ends.receive(which, at_most),
            Op::Unsubscribe { which } => self.ends.unsubscribe(which),
            Op::Collect => collect(),
        }
        self.settle();
    }

    /// Ends with a look at everything, and the guards that need no table.
    fn finish(mut self) -> (Vec<Owned<K>>, Ends<K>) {
        self.model.begin();
        self.walk();
        self.sweep_all(u8::MAX);
        self.model.begin();
        self.walk();
        let mut owned = Vec::new();
        for (id, hold) in mem::take(&mut self.holds) {
            self.model.begin();
            match hold {
                Hold::Owned(lease) => owned.push(lease),
                hold => self.let_go(id, hold),
            }
            self.settle();
        }
        self.model.begin();
        self.walk();
        self.settle();
        (owned, self.ends)
    }

    fn key(&self, key: u8) -> u8 {
        match self.settings.key_space {
            KeySpace::Few => key % 4,
            KeySpace::Some => key % 16,
            KeySpace::Many => key,
        }
    }

    fn span(&self, span: Span) -> Duration {
        let ticks = match span {
            Span::Ticks(ticks) => ticks.into(),
            Span::Thousands(ticks) => u64::from(ticks) * 1000,
            Span::LongestBy(by) => self.model.term_ticks_max().saturating_add_signed(by.into()),
            Span::Odd(Odd::Zero) => 0,
            Span::Odd(Odd::BelowTick) => {
                return self.rate.duration_ceil(1) - Duration::from_nanos(1);
            }
            Span::Odd(Odd::Endless) => return Duration::MAX,
        };
        self.rate.duration_ceil(ticks)
    }

    // ---- by key --------------------------------------------------------------------------------

    fn acquire(&mut self, key: u8, holder: u8, term: Span, way: Way) {
        let (holder, term) = (holder_of(holder), self.span(term));
        let number = self.key(key);
        let resolved = match way {
            Way::Resource(index) | Way::ResourceOwned(index) => pick(index, &self.resources),
            Way::Borrowed | Way::Owned => None,
        };
        let number = resolved.map_or(number, |index| self.resources[index].0);
        let key = K::new(number);
        let owned = matches!(way, Way::Owned | Way::ResourceOwned(_));
        let result = match (resolved.map(|index| &self.resources[index].1), owned) {
            (None, false) => self.table.try_acquire(key.borrow(), holder, term).map(Hold::Borrowed),
            (None, true) => {
                self.table.try_acquire_owned(key.borrow(), holder, term).map(Hold::Owned)
            }
            // The guard borrows the resource, which is kept elsewhere; the grant does not.
            (Some(resource), false) => {
                resource.try_acquire(holder, term).map(|lease| Hold::Value(lease.into_grant()))
            }
            (Some(resource), true) => resource.try_acquire_owned(holder, term).map(Hold::Owned),
        };
        let token = result.as_ref().map(Hold::token).map_err(|error| *error);
        self.observe();
        self.model.acquired(number, holder, term, token);
        if let Ok(hold) = result {
            self.keep(Id { key: number, token: hold.token(), holder }, hold);
        }
    }

    fn fill(&mut self, key: u8, holder: u8, term: Span, forget: bool) {
        self.work += 1;
        let number = self.key(key);
        let (holder, term) = (holder_of(holder), self.span(term));
        self.model.begin();
        let result = self.table.try_acquire(K::new(number).borrow(), holder, term);
        let token = result.as_ref().map(|lease| lease.token()).map_err(|error| *error);
        self.observe();
        self.model.acquired(number, holder, term, token);
        match result {
            Ok(lease) if forget => mem::forget(lease),
            Ok(lease) => {
                let id = Id { key: number, token: lease.token(), holder };
                self.let_go(id, Hold::Borrowed(lease));
            }
            Err(_) => {}
        }
        self.settle();
    }

    fn resolve(&mut self, key: u8) {
        let number = self.key(key);
        let result = self.table.resource(K::new(number).borrow());
        self.observe();
        self.model.resolved(number, result.as_ref().map(drop).map_err(|error| *error));
        if let Ok(resource) = result {
            assert_eq!(resource.key().number(), number, "the key of a resource");
            if self.resources.len() == KEPT_MAX {
                self.resources.remove(0);
            }
            // Two of the same now and then: each has its own hint.
            if self.resources.len().is_multiple_of(4) {
                self.resources.push((number, resource.clone()));
            }
            self.resources.push((number, resource));
        }
    }

    fn revoke(&mut self, key: u8, grace: Option<Span>, resolved: bool) {
        let how = grace.map_or(Revoke::Now, |grace| Revoke::After(self.span(grace)));
        let (number, result) = match pick(key, &self.resources).filter(|_| resolved) {
            Some(index) => {
                let (number, resource) = &self.resources[index];
                (*number, resource.revoke(how))
            }
            None => {
                let number = self.key(key);
                (number, self.table.revoke(K::new(number).borrow(), how))
            }
        };
        self.model.revoked(number, how, result);
    }

    fn inspect(&mut self, key: u8, resolved: bool) {
        let (number, found) = match pick(key, &self.resources).filter(|_| resolved) {
            Some(index) => {
                let (number, resource) = &self.resources[index];
                (*number, resource.inspect())
            }
            None => {
                let number = self.key(key);
                (number, self.table.inspect(K::new(number).borrow()))
            }
        };
        self.model.inspected(number, found);
    }

    fn walk(&mut self) {
        self.work += WALK_WORK;
        let leases: Vec<_> = self.table.iter().map(|(key, info)| (key.number(), info)).collect();
        self.model.walked(&Walk {
            leases,
            len: self.table.len(),
            is_empty: self.table.is_empty(),
            resources: self.table.resources(),
            stats: self.table.stats(),
        });
    }

    // ---- by hold -------------------------------------------------------------------------------

    fn keep(&mut self, id: Id, hold: Hold<'t, K>) {
        if self.holds.len() == KEPT_MAX {
            let (id, oldest) = self.holds.remove(0);
            self.settle();
            self.model.begin();
            self.let_go(id, oldest);
        }
        self.holds.push((id, hold));
    }

    /// Drops a guard or a grant.
    fn let_go(&mut self, id: Id, hold: Hold<'t, K>) {
        let releases = !matches!(hold, Hold::Value(_));
        drop(hold);
        if releases {
            self.model.dropped(id);
        }
    }

    fn act(&mut self, hold: u8, act: Act) {
        let Some(index) = pick(hold, &self.holds) else { return };
        let (id, hold) = &self.holds[index];
        let (id, table) = (*id, self.table);
        assert_eq!((hold.token(), hold.holder()), (id.token, id.holder), "whose it is");
        match act {
            Act::Check => self.model.checked(id, hold.check(table)),
            Act::Status => {
                if let Some(status) = hold.status() {
                    self.model.checked(id, status);
                }
            }
            Act::Remaining => {
                if let Some(remaining) = hold.remaining() {
                    self.model.remaining(id, remaining);
                }
            }
            Act::Key => {
                if let Some(key) = hold.key() {
                    self.model.key_told(id, key.map(|key| key.number()));
                }
            }
            Act::Renew(span) => {
                let term = self.span(span);
                let result = self.holds[index].1.renew(table, term);
                self.model.renewed(id, term, result);
            }
            Act::Abroad(span) => {
                let term = self.span(span);
                if let Hold::Value(grant) = self.holds[index].1 {
                    build::go_abroad::<K>(&self.settings, grant, term);
                }
            }
            Act::Release => {
                let (_, hold) = self.holds.remove(index);
                self.model.released(id, hold.release(table));
            }
            Act::Drop => {
                let (_, hold) = self.holds.remove(index);
                self.let_go(id, hold);
            }
            Act::Forget => self.holds.remove(index).1.forget(),
            Act::IntoGrant => {
                let (_, hold) = self.holds.remove(index);
                self.holds.push((id, Hold::Value(hold.into_grant())));
            }
            Act::FromGrant { owned } => self.guard(index, owned),
            Act::Copy => {
                if let Hold::Value(grant) = *hold {
                    self.keep(id, Hold::Value(grant));
                }
            }
        }
    }

    /// Makes a guard of a grant.
    fn guard(&mut self, index: usize, owned: bool) {
        let (id, Hold::Value(grant)) = &self.holds[index] else { return };
        let (id, result) = (*id, Hold::from_grant(self.table, *grant, owned));
        let seen = result.as_ref().map(|_| Default::default()).map_err(|lost| *lost);
        self.model.checked(id, seen);
        if let Ok(hold) = result {
            self.holds[index].1 = hold;
        }
    }

    // ---- time ----------------------------------------------------------------------------------

    fn move_clock(&mut self, by: Move) {
        let now = self.table.clock().now();
        let day = self.rate.ticks_floor(Duration::from_secs(DAY));
        let to = match by {
            Move::Ticks(ticks) => now.saturating_add(ticks.into()),
            Move::Thousands(ticks) => now.saturating_add(u64::from(ticks) * 1000),
            Move::Days(days) => now.saturating_add(day.saturating_mul(days.into())),
            Move::Year => now.saturating_add(day.saturating_mul(365)),
            Move::BackTicks(ticks) => now.saturating_sub(ticks.into()),
            Move::BackThousands(ticks) => now.saturating_sub(u64::from(ticks) * 1000),
            Move::BackDays(days) => now.saturating_sub(day.saturating_mul(days.into())),
            Move::BackYear => now.saturating_sub(day.saturating_mul(365)),
            Move::Deadline { hold, by } => {
                let id = pick(hold, &self.holds).map(|index| self.holds[index].0);
                let deadline = id.and_then(|id| self.model.deadline(id));
                deadline.unwrap_or(now).saturating_add_signed((by % 4).into())
            }
            Move::Boundary(boundary) => tick_at(boundary),
        };
        let to = to.min(TICK_MAX);
        self.table.clock().manual.set(to);
        self.model.clock_moved(to);
    }
}

fn tick_at(Boundary { bit, by }: Boundary) -> u64 {
    (1_u64 << (bit % 63)).saturating_add_signed(by.into()).min(TICK_MAX)
}

/// One of a few holders.
fn holder_of(number: u8) -> HolderId {
    HolderId::new(u64::from(number % 3) + 1).expect("small, and not zero")
}

fn pick<T>(index: u8, among: &[T]) -> Option<usize> {
    usize::from(index).checked_rem(among.len())
}
