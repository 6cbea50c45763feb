//! Which file to look at next.
//!
//! A file that was taken out comes back when its lease lapsed and it is not committed: the table tells, so
//! nobody has to look after workers that died.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Files that nobody has looked at yet.
    fresh: Range<usize>,
    /// Files that somebody left behind.
    again: VecDeque<usize>,
    /// How many files are not committed yet.
    open: usize,
    stopped: bool,
}

impl Queue {
    pub(crate) fn new(files: usize) -> Self {
        let again = VecDeque::new();
        let state = State { fresh: 0..files, again, open: files, stopped: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Takes out the file to look at next and sleeps until there is one. `None`: the job is over.
    pub(crate) fn next(&self) -> Option<usize> {
        let mut state = self.lock();
        while !state.stopped && state.open > 0 {
            let left_behind = state.again.pop_front();
            if let Some(file) = left_behind.or_else(|| state.fresh.next()) {
                return Some(file);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// Puts `file` back.
    pub(crate) fn put_back(&self, file: usize) {
        self.lock().again.push_back(file);
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
