//! A lease in hand, in one of its three forms.

use std::mem;
use std::time::Duration;

use leasehold::{Grant, HolderId, Lease, Lost, RenewError, Status, Token};

use super::input::Spread;
use super::model::hold::Seen;
use super::subject::{Paced, Subject};
use super::{Owned, Table};

pub(super) enum Hold<'t, K: Subject> {
    Borrowed(Lease<'t, K, Spread, Paced>),
    Owned(Owned<K>),
    Value(Grant),
}

impl<'t, K: Subject> Hold<'t, K> {
    pub(super) fn from_grant(table: &'t Table<K>, grant: Grant, owned: bool) -> Result<Self, Lost> {
        if owned {
            Owned::from_grant(table, grant).map(Self::Owned)
        } else {
            Lease::from_grant(table, grant).map(Self::Borrowed)
        }
    }

    pub(super) fn into_grant(self) -> Grant {
        match self {
            Self::Borrowed(lease) => lease.into_grant(),
            Self::Owned(lease) => lease.into_grant(),
            Self::Value(grant) => grant,
        }
    }

    pub(super) fn forget(self) {
        match self {
            Self::Borrowed(lease) => mem::forget(lease),
            // Forgotten as it is, it would keep its table for ever: a leak, as it should be.
            Self::Owned(lease) => drop(lease.into_grant()),
            Self::Value(_) => {}
        }
    }

    pub(super) fn token(&self) -> Token {
        match self {
            Self::Borrowed(lease) => lease.token(),
            Self::Owned(lease) => lease.token(),
            Self::Value(grant) => grant.token(),
        }
    }

    pub(super) fn holder(&self) -> HolderId {
        match self {
            Self::Borrowed(lease) => lease.holder(),
            Self::Owned(lease) => lease.holder(),
            Self::Value(grant) => grant.holder(),
        }
    }

    pub(super) fn check(&self, table: &Table<K>) -> Result<Seen, Lost> {
        let token = match self {
            Self::Borrowed(lease) => lease.check(),
            Self::Owned(lease) => lease.check(),
            Self::Value(grant) => table.check(*grant),
        };
        assert!(token.is_err() || token == Ok(self.token()), "checked as another");
        token.map(|_| Seen::default())
    }

    /// `None`: a grant by value has none. The same of the next two.
    pub(super) fn status(&self) -> Option<Result<Seen, Lost>> {
        let status = match self {
            Self::Borrowed(lease) => lease.status(),
            Self::Owned(lease) => lease.status(),
            Self::Value(_) => return None,
        };
        let seen = |remaining, closing| Seen { remaining: Some(remaining), closing: Some(closing) };
        Some(match status {
            Status::Held { remaining } => Ok(seen(remaining, false)),
            Status::Closing { remaining } => Ok(seen(remaining, true)),
            Status::Lost(lost) => Err(lost),
        })
    }

    pub(super) fn remaining(&self) -> Option<Duration> {
        match self {
            Self::Borrowed(lease) => Some(lease.remaining()),
            Self::Owned(lease) => Some(lease.remaining()),
            Self::Value(_) => None,
        }
    }

    pub(super) fn key(&self) -> Option<Option<K>> {
        match self {
            Self::Borrowed(lease) => Some(lease.key()),
            Self::Owned(lease) => Some(lease.key()),
            Self::Value(_) => None,
        }
    }

    pub(super) fn renew(&self, table: &Table<K>, term: Duration) -> Result<(), RenewError> {
        match self {
            Self::Borrowed(lease) => lease.renew(term),
            Self::Owned(lease) => lease.renew(term),
            Self::Value(grant) => table.renew(*grant, term),
        }
    }

    pub(super) fn release(self, table: &Table<K>) -> Result<(), Lost> {
        match self {
            Self::Borrowed(lease) => lease.release(),
            Self::Owned(lease) => lease.release(),
            Self::Value(grant) => table.release(grant),
        }
    }
}
