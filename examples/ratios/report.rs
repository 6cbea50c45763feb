//! What is printed: a line for each cell, and at the end one for each level that was to be held.

use crate::measure::Figure;

/// Prints the cells that were asked for, and remembers how they stand to their levels.
#[derive(Default)]
pub(crate) struct Report {
    only: Option<String>,
    verdicts: Vec<String>,
}

impl Report {
    /// Of all cells, or only of those with this in their names.
    pub(crate) fn new(only: Option<String>) -> Self {
        Self { only, verdicts: Vec::new() }
    }

    /// Whether the cell was asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only))
    }

    /// A cell that compares two times.
    pub(crate) fn times(&mut self, name: &str, figure: Figure) {
        let Figure { ours, reference, ratio } = figure;
        let text = format!("ours_ns {ours:.2} ref_ns {reference:.2} ratio {ratio:.3}");
        self.cell(name, &text, ratio, &format!("{ratio:.3}"));
    }

    /// A cell that is a number of something.
    pub(crate) fn amount(&mut self, name: &str, unit: &str, amount: f64) {
        // In full: a single allocation in a million operations is to be seen.
        self.cell(name, &format!("{unit} {amount}"), amount, &amount.to_string());
    }

    fn cell(&mut self, name: &str, text: &str, value: f64, shown: &str) {
        if !self.wants(name) {
            return;
        }
        println!("cell {name} {text}");
        if let Some(level) = Level::of(name) {
            self.verdicts.push(format!("level {name} {shown} {}", level.judge(value)));
        }
    }

    /// How the printed cells stand to their levels.
    pub(crate) fn finish(self) {
        for verdict in self.verdicts {
            println!("{verdict}");
        }
    }
}

/// What a cell's value is to be.
#[derive(Clone, Copy)]
enum Level {
    AtMost(f64),
    Below(f64),
}

impl Level {
    /// The level of the cell, if it has one.
    fn of(name: &str) -> Option<Self> {
        Some(match name.split_once('/').unwrap_or((name, "")) {
            ("check", "clock") => Self::AtMost(1.15),
            ("renew", "clock") => Self::AtMost(1.35),
            ("grant_release_resource", "floor") => Self::AtMost(1.35),
            ("grant_release_key16", "floor") => Self::AtMost(2.5),
            ("refuse_key16", "dashmap") => Self::Below(1.0),
            ("grow_p999", "clock") => Self::AtMost(800.0),
            ("grow_max", "dashmap") => Self::AtMost(0.5),
            ("bytes_per_resource", _) => Self::AtMost(64.0),
            ("sweep_per_lapse", "clock") => Self::AtMost(40.0),
            ("sweep_steady", _) => Self::AtMost(0.005),
            ("timers", _) => Self::AtMost(0.5),
            ("grant_while_sweeping", "grant") => Self::AtMost(2.0),
            ("listener_none", "before") => Self::AtMost(1.03),
            ("wheel", "btreemap") => Self::AtMost(0.5),
            ("handover", _) | ("handover_async", _) => Self::AtMost(1.3),
            ("waiters_1000", _) => Self::AtMost(1.3),
            ("allocs_per_op", _) => Self::AtMost(0.0),
            ("grant_release_key64k" | "grant_release_key64k_t2", _) => Self::AtMost(1.05),
            (keys, "best") if keys.starts_with("grant_release_key") => Self::AtMost(0.8),
            (keys, _) if keys.starts_with("grant_release_key") => Self::Below(1.0),
            _ => return None,
        })
    }

    /// The level, and whether a value holds it.
    fn judge(self, value: f64) -> String {
        let (sign, level, held) = match self {
            Self::AtMost(level) => ("<=", level, value <= level),
            Self::Below(level) => ("<", level, value < level),
        };
        let verdict = if held { "ok" } else { "MISSED" };
        format!("{sign} {level} {verdict}")
    }
}
