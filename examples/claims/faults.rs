//! What goes wrong, and when: drawn from a seed, so that it happens again with the same seed.

use std::path::Path;

use crate::corpus::hash_name;

/// How likely each fault is, in per cent of all attempts.
pub(crate) struct Faults {
    pub(crate) seed: u64,
    pub(crate) crash: u64,
    pub(crate) hang: u64,
    pub(crate) forget: u64,
}

/// What goes wrong in one attempt at one file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The worker ends in mid-file and releases nothing.
    Crash,
    /// The worker sleeps past its term just before it commits.
    Hang,
    /// The worker drops the work and leaves its lease behind.
    ForgetWork,
    /// The worker commits, but leaves its lease behind.
    ForgetRelease,
}

impl Faults {
    /// The fault of the `attempt`-th grant of the file `name`: a function of these and the seed
    /// alone, whichever worker it is and whatever the others do.
    pub(crate) fn draw(&self, name: &Path, attempt: u32) -> Fault {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.seed.to_le_bytes()).update(&attempt.to_le_bytes());
        hash_name(&mut hasher, name);
        let mut drawn = [0; 8];
        hasher.finalize_xof().fill(&mut drawn);
        let drawn = u64::from_le_bytes(drawn);

        let (percent, coin) = (drawn % 100, drawn / 100 % 2);
        if percent < self.crash {
            Fault::Crash
        } else if percent < self.crash + self.hang {
            Fault::Hang
        } else if percent < self.crash + self.hang + self.forget {
            if coin == 0 { Fault::ForgetWork } else { Fault::ForgetRelease }
        } else {
            Fault::None
        }
    }
}
