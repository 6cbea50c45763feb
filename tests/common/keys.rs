//! A key whose operations do what a test planned, and whose instances are counted.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

/// What is done to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Hash,
    Eq,
    Clone,
    Drop,
}

pub(crate) const OPS: [Op; 4] = [Op::Hash, Op::Eq, Op::Clone, Op::Drop];

type Hook = Arc<dyn Fn(Op, u64) + Send + Sync>;

/// Every instance that lives, and what is to happen when one is used.
#[derive(Default)]
pub(crate) struct Census {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    alive: HashSet<u64>,
    born: u64,
    dropped_twice: u64,
    hook: Option<Hook>,
}

impl Census {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Has `hook` called, with the key's number, at every operation from now on.
    pub(crate) fn plan(&self, hook: impl Fn(Op, u64) + Send + Sync + 'static) {
        self.state.lock().unwrap().hook = Some(Arc::new(hook));
    }

    pub(crate) fn unplan(&self) {
        self.state.lock().unwrap().hook = None;
    }

    pub(crate) fn alive(&self) -> usize {
        self.state.lock().unwrap().alive.len()
    }

    /// Panics unless every instance was dropped, and none twice.
    #[track_caller]
    pub(crate) fn assert_all_gone(&self) {
        let state = self.state.lock().unwrap();
        assert_eq!(state.dropped_twice, 0, "keys were dropped twice");
        assert_eq!(state.alive.len(), 0, "keys leaked, of {} born", state.born);
    }

    fn birth(&self) -> u64 {
        let mut state = self.state.lock().unwrap();
        state.born += 1;
        let instance = state.born;
        state.alive.insert(instance);
        instance
    }

    fn happens(&self, op: Op, id: u64) {
        // The hook may block, panic or plan another: outside the lock.
        let hook = self.state.lock().unwrap().hook.clone();
        if let Some(hook) = hook {
            hook(op, id);
        }
    }
}

pub(crate) struct Odd {
    pub(crate) id: u64,
    instance: u64,
    census: Arc<Census>,
}

impl Odd {
    pub(crate) fn new(id: u64, census: &Arc<Census>) -> Self {
        Self { id, instance: census.birth(), census: census.clone() }
    }
}

impl Hash for Odd {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.census.happens(Op::Hash, self.id);
        self.id.hash(hasher);
    }
}

impl PartialEq for Odd {
    fn eq(&self, other: &Self) -> bool {
        self.census.happens(Op::Eq, self.id);
        self.id == other.id
    }
}

impl Eq for Odd {}

impl Clone for Odd {
    fn clone(&self) -> Self {
        self.census.happens(Op::Clone, self.id);
        Self::new(self.id, &self.census)
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        {
            let mut state = self.census.state.lock().unwrap();
            if !state.alive.remove(&self.instance) {
                state.dropped_twice += 1;
            }
        }
        // A second panic while one is under way would abort.
        if !std::thread::panicking() {
            self.census.happens(Op::Drop, self.id);
        }
    }
}

/// Panics without printing: the panic is planned.
pub(crate) fn planned_panic() -> ! {
    std::panic::resume_unwind(Box::new("planned"))
}
