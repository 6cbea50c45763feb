//! What the command line says, checked before anything starts.

use std::env;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;

use crate::faults::Faults;

pub(crate) const HELP: &str = "\
Hash every file below DIR with a pool of workers that crash, hang and forget, and show that leases
and fencing tokens still get each file committed exactly once.

Usage: claims [OPTIONS] [DIR]

Arguments:
  DIR              The directory to hash [default: the crate sources in cargo's registry cache]

Options:
  --workers N      How many workers share the job, 1 to 256 [default: 8]
  --seed N         What the faults are drawn from [default: 1]
  --crash PERCENT  How many attempts end with the worker, in mid-file [default: 1]
  --hang PERCENT   How many attempts sleep past the term, then commit late [default: 1]
  --forget PERCENT How many attempts leave their lease unreleased [default: 1]
  --term-ms N      The term of a lease in milliseconds, 1 to 60000 [default: 50]
  --help           Print this

Exit status: 0 if every file was committed once and the digest is that of a plain loop, 1 if not or
if a file could not be read, 2 if the arguments are wrong.
";

/// What is asked for.
pub(crate) enum Command {
    Help,
    Run(Args),
}

/// A run, as asked for.
pub(crate) struct Args {
    pub(crate) dir: PathBuf,
    pub(crate) workers: usize,
    pub(crate) term: Duration,
    pub(crate) faults: Faults,
}

/// Reads the command line; the error is a sentence for the user.
pub(crate) fn parse(mut parser: lexopt::Parser) -> Result<Command, String> {
    let mut dir = None;
    let (mut workers, mut seed, mut term_ms) = (8, 1, 50);
    let (mut crash, mut hang, mut forget) = (1, 1, 1);
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        match argument {
            Long("workers") => workers = number(&mut parser, "--workers", 1..=256)?,
            Long("seed") => seed = number(&mut parser, "--seed", 0..=u64::MAX)?,
            Long("crash") => crash = number(&mut parser, "--crash", 0..=99)?,
            Long("hang") => hang = number(&mut parser, "--hang", 0..=99)?,
            Long("forget") => forget = number(&mut parser, "--forget", 0..=99)?,
            Long("term-ms") => term_ms = number(&mut parser, "--term-ms", 1..=60_000)?,
            Long("help") | Short('h') => return Ok(Command::Help),
            Value(value) if dir.is_none() => dir = Some(PathBuf::from(value)),
            Value(value) => {
                return Err(format!("only one DIR can be hashed, and {value:?} is a second"));
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    let faulty = crash + hang + forget;
    if faulty > 99 {
        return Err(format!(
            "--crash, --hang and --forget add up to {faulty} per cent; more than 99 would leave \
             hardly an attempt that succeeds"
        ));
    }
    Ok(Command::Run(Args {
        dir: existing(dir)?,
        workers: usize::try_from(workers).expect("at most 256"),
        term: Duration::from_millis(term_ms),
        faults: Faults { seed, crash, hang, forget },
    }))
}

/// The value of `option`, a whole number within `range`.
fn number(
    parser: &mut lexopt::Parser,
    option: &str,
    range: RangeInclusive<u64>,
) -> Result<u64, String> {
    let value = parser.value().map_err(|error| error.to_string())?;
    let number = value.to_str().and_then(|text| text.parse().ok());
    number.filter(|number| range.contains(number)).ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        format!("{option} takes a whole number from {least} to {most}, not {value:?}")
    })
}

/// The directory that was named, or else the one that whoever built this has.
fn existing(named: Option<PathBuf>) -> Result<PathBuf, String> {
    let dir = match named {
        Some(dir) => dir,
        None => registry_sources().ok_or("there is no home directory to look in: name a DIR")?,
    };
    if dir.is_dir() {
        Ok(dir)
    } else {
        Err(format!("{} is not a directory: name another DIR", dir.display()))
    }
}

fn registry_sources() -> Option<PathBuf> {
    let cargo_home = match env::var_os("CARGO_HOME").filter(|home| !home.is_empty()) {
        Some(home) => PathBuf::from(home),
        None => env::home_dir()?.join(".cargo"),
    };
    Some(cargo_home.join("registry").join("src"))
}
