//! How a cell is measured: short rounds of each side in turn, and medians over the rounds.
//!
//! Whatever disturbs the run (a clock rate that changes, another process) then disturbs all sides
//! alike, and the ratio is taken within a round, where it disturbs least.

use std::time::{Duration, Instant};

use crate::threads::alone;

/// How long to measure.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// How long each side of a cell is measured, in all: a busy machine gets through fewer rounds.
    pub(crate) side: Duration,
    /// How long the first side's part of a round should take.
    pub(crate) part: Duration,
    /// Fresh repetitions of what can be done to a table only once.
    pub(crate) repetitions: usize,
}

impl Pace {
    pub(crate) const FULL: Self =
        Self { side: Duration::from_millis(3500), part: Duration::from_millis(3), repetitions: 21 };
    pub(crate) const QUICK: Self =
        Self { side: Duration::from_millis(135), part: Duration::from_millis(2), repetitions: 3 };

    /// Fewer rounds have no median worth the name.
    const ROUNDS_MIN: u64 = 10;
}

/// One side's part of one round. The number seeds the keys, so that all sides draw the same ones.
#[derive(Clone, Copy)]
pub(crate) struct Round {
    pub(crate) number: u64,
    /// How many operations each thread does.
    pub(crate) operations: u64,
}

/// Something to compare with others: a name, and a way to do its part of a round, which returns how
/// long that took.
pub(crate) struct Side<'a> {
    name: &'static str,
    part: Box<dyn FnMut(Round) -> Duration + 'a>,
}

impl<'a> Side<'a> {
    pub(crate) fn new(name: &'static str, part: impl FnMut(Round) -> Duration + 'a) -> Self {
        Self { name, part: Box::new(part) }
    }

    /// A side that is one operation again and again, on this thread.
    pub(crate) fn repeat(name: &'static str, mut operation: impl FnMut() + 'a) -> Self {
        Self::new(name, move |round| alone(round.operations, &mut operation))
    }

    /// Does a part of a round, and returns nanoseconds an operation. With several threads that is
    /// wall time × threads ÷ the operations of all: a side that scales perfectly has the same
    /// figure on two threads as on one.
    pub(crate) fn nanos_each(&mut self, round: Round) -> f64 {
        // Threads × operations of each are the operations of all, so the threads cancel out.
        (self.part)(round).as_nanos() as f64 / round.operations as f64
    }
}

/// What came out for the first side against another.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    /// Median over the rounds, of the first side.
    pub(crate) ours: f64,
    /// Median over the rounds, of the side compared with.
    pub(crate) reference: f64,
    /// Median of the rounds' ratios, which need not be the ratio of the medians.
    pub(crate) ratio: f64,
}

impl Figure {
    /// From the two sides' values, round by round.
    pub(crate) fn of(ours: &[f64], reference: &[f64]) -> Self {
        let mut ratios: Vec<_> =
            ours.iter().zip(reference).map(|(ours, reference)| ours / reference).collect();
        Self {
            ours: quantile(&mut ours.to_vec(), 0.5),
            reference: quantile(&mut reference.to_vec(), 0.5),
            ratio: quantile(&mut ratios, 0.5),
        }
    }
}

/// Measures all sides and compares the first with each of the others, in their order.
pub(crate) fn compare(mut sides: Vec<Side<'_>>, pace: Pace) -> Vec<(&'static str, Figure)> {
    let operations = calibrate(&mut sides[0], pace.part);
    let mut nanos = vec![Vec::new(); sides.len()];
    let (start, budget) = (Instant::now(), pace.side * sides.len() as u32);
    let mut number = 0;
    while number < Pace::ROUNDS_MIN || start.elapsed() < budget {
        for side in order(sides.len(), number) {
            nanos[side].push(sides[side].nanos_each(Round { number, operations }));
        }
        number += 1;
    }
    let others = sides.iter().zip(&nanos).skip(1);
    others.map(|(side, reference)| (side.name, Figure::of(&nanos[0], reference))).collect()
}

/// Who comes when: in turn, every other round backwards, and each pair of rounds begins one further
/// on. So nobody is always first, or always after the same other one.
fn order(sides: usize, round: u64) -> impl Iterator<Item = usize> {
    let first = (round / 2) as usize;
    (0..sides).map(move |place| {
        let place = if round.is_multiple_of(2) { place } else { sides - 1 - place };
        (first + place) % sides
    })
}

/// How many operations of this side take about `part`.
fn calibrate(side: &mut Side<'_>, part: Duration) -> u64 {
    let part = part.as_nanos() as f64;
    let mut operations = 256;
    loop {
        let each = side.nanos_each(Round { number: 0, operations });
        if each * operations as f64 > part / 2.0 {
            return (part / each) as u64;
        }
        operations *= 2;
    }
}

/// The value below which a share `q` of all values is; it reorders them. With 0.5 the median, the
/// upper one if two are in the middle.
pub(crate) fn quantile(values: &mut [f64], q: f64) -> f64 {
    let rank = ((values.len() as f64 * q) as usize).min(values.len() - 1);
    *values.select_nth_unstable_by(rank, f64::total_cmp).1
}
