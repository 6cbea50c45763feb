//! Which file to look at next.
//!
//! Taking a file out claims nothing: the lease does that. So a worker that takes one out puts it
//! back at once, for later, and a file is gone from here only when somebody found it committed.
//! Nobody has to notice that a worker died for its file to come up again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Files that nobody has looked at yet.
    fresh: Range<usize>,
    /// Files to look at again, the earliest first.
    later: BinaryHeap<Reverse<(Instant, usize)>>,
    /// How many files are not committed yet.
    open: usize,
    stopped: bool,
}

impl Queue {
    pub(crate) fn new(files: usize) -> Self {
        let later = BinaryHeap::new();
        let state = State { fresh: 0..files, later, open: files, stopped: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Takes out the file to look at next and sleeps until there is one. `None`: the job is over.
    ///
    /// A file whose time has come goes before a fresh one: it may be one that a dead worker left.
    pub(crate) fn next(&self) -> Option<usize> {
        let mut state = self.lock();
        while !state.stopped && state.open > 0 {
            let now = Instant::now();
            let due = state.later.peek().map(|&Reverse((due, _))| due);
            if due.is_some_and(|due| due <= now) {
                return state.later.pop().map(|Reverse((_, file))| file);
            }
            if let Some(file) = state.fresh.next() {
                return Some(file);
            }
            state = match due {
                Some(due) => self
                    .changed
                    .wait_timeout(state, due - now)
                    .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state),
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        None
    }

    /// Puts `file` back, to come up `after` that time.
    pub(crate) fn put_back(&self, file: usize, after: Duration) {
        self.lock().later.push(Reverse((Instant::now() + after, file)));
        self.changed.notify_one();
    }

    /// One more file is committed; with the last one the job is over.
    pub(crate) fn committed(&self) {
        let mut state = self.lock();
        state.open -= 1;
        if state.open == 0 {
            self.changed.notify_all();
        }
    }

    /// Ends the job early.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// No method leaves the state half changed, so what a panicking worker leaves behind is sound.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
