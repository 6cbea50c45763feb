//! Bookkeeping beside a table, by which threads find out that it broke a promise.
//!
//! Whoever was granted says so in the ledger after the call, and whoever relies on a lease looks there
//! before the call: if a higher token was known before a call that finds a lower one's lease valid, two
//! leases were valid at once.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use leasehold::{HolderId, Token};

use super::STAMP_MAX;

/// What is known of one grant, in ticks of the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) token: Token,
    pub(crate) holder: HolderId,
    /// Not granted later than this.
    pub(crate) granted_by: u64,
    /// Found valid no earlier than this.
    pub(crate) valid_at: u64,
    /// The deadline is no earlier than this.
    pub(crate) deadline: u64,
    /// Whether somebody ended it before the deadline.
    pub(crate) ended: bool,
}

#[derive(Default)]
struct Page {
    newest: AtomicU64,
    /// The highest token that is known to be over.
    over: AtomicU64,
    entries: Mutex<HashMap<u64, Entry>>,
    seen: Mutex<Vec<(Token, HolderId)>>,
    revoked: Mutex<HashSet<u64>>,
}

/// A page for each key.
pub(crate) struct Ledger(Vec<Page>);

/// What was known of a key before a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    newest: u64,
    over: u64,
}

impl Before {
    /// A lease with this token was found valid by the call.
    #[track_caller]
    pub(crate) fn allows(self, token: Token) {
        assert!(token.get() >= self.newest, "{token:?} was valid after {self:?}");
        assert!(token.get() > self.over, "{token:?} was valid again after {self:?}");
    }

    /// The call was granted this token.
    #[track_caller]
    pub(crate) fn grants(self, token: Token) {
        assert!(token.get() > self.newest, "{token:?} was granted after {self:?}");
    }

    /// The call was refused because of this token, whose lease may be over, but not replaced.
    #[track_caller]
    pub(crate) fn refuses(self, token: Token) {
        assert!(token.get() >= self.newest, "{token:?} stood in the way after {self:?}");
    }
}

impl Ledger {
    pub(crate) fn new(keys: usize) -> Self {
        Self((0..keys).map(|_| Page::default()).collect())
    }

    pub(crate) fn before(&self, key: u64) -> Before {
        let page = &self.0[key as usize];
        Before { over: page.over.load(SeqCst), newest: page.newest.load(SeqCst) }
    }

    pub(crate) fn granted(&self, key: u64, entry: Entry) {
        let page = &self.0[key as usize];
        let earlier = page.entries.lock().unwrap().insert(entry.token.get(), entry);
        assert!(earlier.is_none(), "{entry:?} was granted twice: {earlier:?}");
        page.newest.fetch_max(entry.token.get(), SeqCst);
    }

    pub(crate) fn update(&self, key: u64, token: Token, update: impl FnOnce(&mut Entry)) {
        let mut entries = self.0[key as usize].entries.lock().unwrap();
        update(entries.get_mut(&token.get()).expect("granted before"));
    }

    /// Somebody ended or shortened this lease from outside.
    pub(crate) fn revoked(&self, key: u64, token: Token) {
        self.0[key as usize].revoked.lock().unwrap().insert(token.get());
    }

    /// The lease is over.
    pub(crate) fn is_over(&self, key: u64, token: Token) {
        self.0[key as usize].over.fetch_max(token.get(), SeqCst);
    }

    /// Somebody was told that `holder` holds this token.
    pub(crate) fn saw(&self, key: u64, token: Token, holder: Option<HolderId>) {
        if let Some(holder) = holder {
            self.0[key as usize].seen.lock().unwrap().push((token, holder));
        }
    }

    pub(crate) fn grants(&self) -> u64 {
        self.0.iter().map(|page| page.entries.lock().unwrap().len() as u64).sum()
    }

    /// What can only be judged once all threads are done.
    pub(crate) fn audit(&self, with_ticks: bool) {
        for page in &self.0 {
            let entries = page.entries.lock().unwrap();
            for (token, holder) in &*page.seen.lock().unwrap() {
                let entry = entries.get(&token.get());
                assert_eq!(entry.map(|e| e.holder), Some(*holder), "{token:?} has another holder");
            }
            let revoked = page.revoked.lock().unwrap();
            let mut entries: Vec<_> = entries.values().collect();
            entries.sort_unstable_by_key(|entry| entry.token);
            for pair in entries.windows(2).filter(|_| with_ticks) {
                let (one, next) = (pair[0], pair[1]);
                assert!(one.valid_at <= next.granted_by, "{one:?} was valid after {next:?}");
                let lapsed = next.granted_by > one.deadline;
                // The same holder granted again ends its own. With the last stamp of a slot it does so
                // even if another then is faster to the next slot, and it is refused.
                let is_last = one.token.get() & ((1 << 18) - 1) == STAMP_MAX;
                let superseded = one.holder == next.holder || is_last;
                let ended = one.ended || superseded || revoked.contains(&one.token.get());
                assert!(ended || lapsed, "{one:?} ended early, for {next:?}");
            }
        }
    }
}
