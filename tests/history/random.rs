//! Random histories of a correct table: never faulted as they are, always when corrupted.

use leasehold::Token;
use leasehold::testing::history::{Checker, Event, Outcome, Violation};

use crate::simulator::{Random, deadline, history, insert};
use crate::story::*;

#[test]
fn a_correct_table_is_never_faulted() {
    for seed in 0..1_500 {
        // From calls one by one to calls that overlap with dozens of others.
        let width = [0, 1, 70, 300, 3_000][usize::try_from(seed % 5).unwrap()];
        let events = history(seed, 200, width);
        if let Err(violation) = check(&events) {
            panic!("seed {seed}: {violation}");
        }
    }
}

#[test]
fn the_simulator_does_everything() {
    let all: Vec<Event> = (0..20)
        .flat_map(|seed| history(seed, 200, 0).into_iter().map(move |event| (seed, event)))
        .map(|(seed, event)| Event { resource: seed * 10 + event.resource, ..event })
        .zip(0..)
        .map(|(event, place)| Event { began: place, returned: place + 1, ..event })
        .collect();
    let summary = check(&all).unwrap();
    assert_eq!((summary.events(), summary.resources), (4_000, 60));
    let counts = [
        summary.granted,
        summary.refused,
        summary.renewed,
        summary.renew_refused,
        summary.renew_lost,
        summary.released,
        summary.release_lost,
        summary.dropped,
        summary.checked,
        summary.check_lost,
        summary.revoked,
        summary.closing,
    ];
    assert!(counts.iter().all(|count| *count > 10), "{summary}");
}

/// Corrupts a history that has no overlaps in some `places`: the indices it may do it at, and what
/// it does at one of them.
struct Corruption {
    name: &'static str,
    places: fn(&[Event], usize) -> bool,
    at: fn(&mut Vec<Event>, usize),
    finds: fn(&Violation) -> bool,
}

fn corrupt(corruption: &Corruption) {
    let mut corrupted = 0;
    for seed in 0..400 {
        let mut events = history(seed, 150, 0);
        let fits = |index: &usize| (corruption.places)(&events, *index);
        let places: Vec<usize> = (0..events.len()).filter(fits).collect();
        let Some(place) = Random(seed).pick(&places) else { continue };
        (corruption.at)(&mut events, place);
        let name = corruption.name;
        let Err(violation) = check(&events) else {
            panic!("{name} at {place}, seed {seed}: unseen")
        };
        assert!((corruption.finds)(&violation), "{name} at {place}, seed {seed}: {violation}");
        corrupted += 1;
    }
    assert!(corrupted > 100, "{}: only {corrupted} histories had a place for it", corruption.name);
}

fn is_grant(event: &Event) -> bool {
    matches!(event.outcome, Outcome::Granted { .. })
}

fn number(event: &Event) -> u64 {
    event.token().map_or(0, Token::get)
}

fn of_one_lease(a: &Event, b: &Event) -> bool {
    a.resource == b.resource && a.token() == b.token()
}

/// The index of the next grant of the resource of an event.
fn next_grant(events: &[Event], index: usize) -> Option<usize> {
    let next = |other: &usize| is_grant(&events[*other]) && of_resource(events, index, *other);
    (index + 1..events.len()).find(next)
}

fn of_resource(events: &[Event], one: usize, other: usize) -> bool {
    events[one].resource == events[other].resource
}

/// The deadline of the lease that an event names, by all that comes before the index `upto`.
fn end_of(events: &[Event], index: usize, upto: usize) -> u64 {
    events[index].token().map_or(0, |token| deadline(events, upto, events[index].resource, token))
}

/// How many calls may have ended the lease of an event, or cut it short, before the index `upto`.
fn ends(events: &[Event], index: usize, upto: usize) -> usize {
    use Outcome::{Closing, Dropped, Released, Revoked};
    let named = |event: &&Event| of_one_lease(event, &events[index]);
    let end = |event: &&Event| {
        matches!(event.outcome, Released { .. } | Dropped { .. } | Revoked { .. } | Closing { .. })
    };
    events[..upto].iter().filter(named).filter(end).count()
}

#[test]
fn a_corruption_of_a_grant_is_found() {
    corrupt(&Corruption {
        name: "a token is granted again",
        places: |events, index| is_grant(&events[index]) && next_grant(events, index).is_some(),
        at: |events, index| {
            let next = next_grant(events, index).unwrap();
            events[next].outcome = granted(number(&events[index]), 5);
        },
        finds: |violation| matches!(violation, Violation::TokenTwice { .. }),
    });
    corrupt(&Corruption {
        name: "two leases swap tokens",
        places: |events, index| is_grant(&events[index]) && next_grant(events, index).is_some(),
        at: |events, index| {
            let next = events[next_grant(events, index).unwrap()];
            let one = events[index];
            for event in events.iter_mut() {
                if of_one_lease(event, &one) {
                    event.outcome = with_token(event.outcome, number(&next));
                } else if of_one_lease(event, &next) {
                    event.outcome = with_token(event.outcome, number(&one));
                }
            }
        },
        finds: |violation| matches!(violation, Violation::TokenOrder { .. }),
    });
    corrupt(&Corruption {
        name: "one who was refused is granted",
        places: |events, index| matches!(events[index].outcome, Outcome::Refused { by: Some(_) }),
        at: |events, index| events[index].outcome = granted(number(&events[index]) + 1, 5),
        finds: |violation| matches!(violation, Violation::Overlap { .. }),
    });
    corrupt(&Corruption {
        name: "a term is cut short",
        places: |events, index| {
            let used = |event: &Event| {
                of_one_lease(event, &events[index])
                    && matches!(event.outcome, Outcome::Checked { .. } | Outcome::Renewed { .. })
            };
            is_grant(&events[index]) && events[index + 1..].iter().any(used)
        },
        at: |events, index| events[index].outcome = granted(number(&events[index]), 0),
        finds: |violation| matches!(violation, Violation::Outlived { .. }),
    });
}

#[test]
fn a_lease_that_is_made_longer_is_found() {
    /// The next grant is another holder's, and came by the deadline's passing.
    fn lapsed_into(events: &[Event], index: usize) -> bool {
        next_grant(events, index).is_some_and(|next| {
            events[next].holder != lessee(events, index) && ends(events, index, next) == 0
        })
    }
    fn lessee(events: &[Event], index: usize) -> leasehold::HolderId {
        let grant = |event: &&Event| is_grant(event) && of_one_lease(event, &events[index]);
        events.iter().find(grant).unwrap().holder
    }
    let finds: fn(&Violation) -> bool =
        |violation| matches!(violation, Violation::Overlap { .. } | Violation::LostEarly { .. });
    corrupt(&Corruption {
        name: "a grant is for longer",
        places: |events, index| is_grant(&events[index]) && lapsed_into(events, index),
        at: |events, index| {
            let next = next_grant(events, index).unwrap();
            let term = events[next].before - events[index].before;
            events[index].outcome = granted(number(&events[index]), term);
        },
        finds,
    });
    corrupt(&Corruption {
        name: "a renewal is for longer",
        places: |events, index| {
            matches!(events[index].outcome, Outcome::Renewed { .. }) && lapsed_into(events, index)
        },
        at: |events, index| {
            let next = next_grant(events, index).unwrap();
            let term = events[next].before - events[index].before;
            events[index].outcome = renewed(number(&events[index]), term);
        },
        finds,
    });
    corrupt(&Corruption {
        name: "a release did not take place",
        places: |events, index| {
            matches!(events[index].outcome, Outcome::Released { .. })
                && next_grant(events, index).is_some_and(|next| {
                    events[next].holder != lessee(events, index)
                        && events[next].after <= end_of(events, index, index)
                        && ends(events, index, next) == 1
                })
        },
        at: |events, index| events[index].outcome = Outcome::Refused { by: None },
        finds,
    });
}

#[test]
fn a_false_success_is_found() {
    corrupt(&Corruption {
        name: "what was lost succeeds",
        places: |events, index| {
            use Outcome::{CheckLost, ReleaseLost, RenewLost};
            let outcome = events[index].outcome;
            matches!(outcome, CheckLost { .. } | RenewLost { .. } | ReleaseLost { .. })
        },
        at: |events, index| {
            let number = number(&events[index]);
            events[index].outcome = match events[index].outcome {
                Outcome::RenewLost { .. } => renewed(number, 5),
                Outcome::ReleaseLost { .. } => released(number),
                _ => checked(number),
            };
        },
        finds: |violation| {
            use Violation::{EndedTwice, Outlived, RenewedClosing, Revived, Superseded};
            matches!(
                violation,
                Outlived { .. }
                    | Superseded { .. }
                    | Revived { .. }
                    | EndedTwice { .. }
                    | RenewedClosing { .. }
            )
        },
    });
}

#[test]
fn a_use_of_a_token_out_of_its_time_is_found() {
    corrupt(&Corruption {
        name: "a check succeeds after the next grant",
        places: |events, index| is_grant(&events[index]) && next_grant(events, index).is_some(),
        at: |events, index| {
            let next = next_grant(events, index).unwrap();
            let event = Event { outcome: checked(number(&events[index])), ..events[next] };
            insert(events, next + 1, event);
        },
        finds: |violation| matches!(violation, Violation::Superseded { .. }),
    });
    corrupt(&Corruption {
        name: "a check succeeds before the grant",
        places: |events, index| is_grant(&events[index]),
        at: |events, index| {
            let event = Event { outcome: checked(number(&events[index])), ..events[index] };
            insert(events, index, event);
        },
        finds: |violation| matches!(violation, Violation::Ungranted { grant: Some(_), .. }),
    });
    corrupt(&Corruption {
        name: "a check of a token that nobody has",
        places: |events, index| matches!(events[index].outcome, Outcome::Checked { .. }),
        at: |events, index| events[index].outcome = checked(1_000_000),
        finds: |violation| matches!(violation, Violation::Ungranted { grant: None, .. }),
    });
    corrupt(&Corruption {
        name: "a release succeeds again",
        places: |events, index| matches!(events[index].outcome, Outcome::Released { .. }),
        at: |events, index| insert(events, index + 1, events[index]),
        finds: |violation| matches!(violation, Violation::EndedTwice { .. }),
    });
    corrupt(&Corruption {
        name: "a closing lease is renewed",
        places: |events, index| matches!(events[index].outcome, Outcome::RenewRefused { .. }),
        at: |events, index| events[index].outcome = renewed(number(&events[index]), 5),
        finds: |violation| matches!(violation, Violation::RenewedClosing { .. }),
    });
}

#[test]
fn a_false_loss_is_found() {
    corrupt(&Corruption {
        name: "what was valid is lost",
        places: |events, index| {
            use Outcome::{Checked, Released, Renewed};
            matches!(events[index].outcome, Checked { .. } | Renewed { .. } | Released { .. })
                && events[index].after < end_of(events, index, index)
        },
        at: |events, index| {
            let number = number(&events[index]);
            events[index].outcome = match events[index].outcome {
                Outcome::Renewed { .. } => renew_lost(number),
                Outcome::Released { .. } => release_lost(number),
                _ => check_lost(number),
            };
        },
        finds: |violation| matches!(violation, Violation::LostEarly { .. }),
    });
}

#[test]
fn a_record_that_runs_backwards_is_found() {
    corrupt(&Corruption {
        name: "the clock steps back",
        places: |_, _| true,
        at: |events, index| events[index].after -= 1,
        finds: |violation| matches!(violation, Violation::Malformed { .. }),
    });
}

fn with_token(outcome: Outcome, number: u64) -> Outcome {
    match outcome {
        Outcome::Granted { term_ticks, .. } => granted(number, term_ticks),
        Outcome::Refused { .. } => refused(number),
        Outcome::Renewed { term_ticks, .. } => renewed(number, term_ticks),
        Outcome::RenewRefused { .. } => renew_refused(number),
        Outcome::RenewLost { .. } => renew_lost(number),
        Outcome::Released { .. } => released(number),
        Outcome::ReleaseLost { .. } => release_lost(number),
        Outcome::Dropped { .. } => dropped(number),
        Outcome::Checked { .. } => checked(number),
        Outcome::CheckLost { .. } => check_lost(number),
        Outcome::Revoked { .. } => revoked(number),
        Outcome::Closing { grace_ticks, .. } => closing(number, grace_ticks),
        other => panic!("{other} is unknown here"),
    }
}

/// How many resources it tells of; prints how long the check takes.
fn check_timed(name: &str, events: &[Event]) -> u64 {
    let start = std::time::Instant::now();
    let summary = Checker::new().check(events).unwrap_or_else(|violation| panic!("{violation}"));
    println!("{name}, {} resources: {:?}", summary.resources, start.elapsed());
    assert_eq!(summary.events(), u64::try_from(events.len()).unwrap());
    summary.resources
}

/// Many events in one check: a million with `LEASEHOLD_FULL=1`, for which a release build is meant.
/// `--nocapture` shows how long it takes.
#[test]
fn a_million_events() {
    let full = std::env::var_os("LEASEHOLD_FULL").is_some_and(|value| value == "1");
    let thousands = if full { 1_000 } else { 20 };
    for (name, width) in [("one by one", 0), ("overlapping", 3_000)] {
        // Each thousand is of three resources of its own, and comes after the one before.
        let mut many: Vec<Event> = Vec::new();
        for seed in 0..thousands {
            let (place, tick) = many.last().map_or((0, 0), |last| (last.returned, last.after));
            many.extend(history(seed, 1_000, width).into_iter().map(|event| Event {
                resource: event.resource + 3 * seed,
                began: event.began + place,
                returned: event.returned + place,
                before: event.before + tick,
                after: event.after + tick,
                ..event
            }));
        }
        assert_eq!(check_timed(name, &many), 3 * thousands);
        assert_eq!(check_timed(name, &history(1, 1_000 * thousands, width)), 3);
    }
}
