//! Style that can be checked by reading the files.
//!
//! - Files have fewer than 500 lines, functions fewer than 60.
//! - In `src`, synchronisation comes through `sync`, so that loom sees it.
//! - In `src`, each atomic operation has a comment that names its orderings, and why.
//! - Nothing is left for later.
//! - What documents and comments refer to exists: files, invariants, models.
//!
//! Each check is also shown a text that it must not let pass.

mod lexer;
mod sources;

use std::path::Path;

use sources::{Source, all, documents, root};

const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 60;
/// How far above an operation its comment may begin.
const COMMENT_LINES: usize = 12;
const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

fn assert_none(mut problems: Vec<String>) {
    problems.sort();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

fn library() -> impl Iterator<Item = Source> {
    all(&["src"]).into_iter()
}

// ---- length --------------------------------------------------------------------------------------

fn long_file(source: &Source) -> Option<String> {
    let lines = source.text.lines().count();
    (lines >= FILE_LINES).then(|| format!("{}: {lines} lines", source.path))
}

fn long_functions(source: &Source) -> Vec<String> {
    let code = source.code();
    let function_at = |at: usize| {
        let lines = lexer::body_lines(&code, at)?;
        let name = code[at].trim();
        (lines >= FUNCTION_LINES)
            .then(|| format!("{}:{}: {lines} lines: {name}", source.path, at + 1))
    };
    (0..code.len())
        .filter(|&at| lexer::begins_function(&code[at]))
        .filter_map(function_at)
        .collect()
}

#[test]
fn files_are_short() {
    let sources = all(&["src", "tests", "examples", "benches"]);
    assert!(sources.len() > 50, "it looks in the wrong place");
    assert_none(sources.iter().filter_map(long_file).collect());
    assert!(long_file(&Source::of("a.rs", &"\n".repeat(FILE_LINES))).is_some());
}

#[test]
fn functions_are_short() {
    let sources = all(&["src", "tests", "examples", "benches"]);
    assert_none(sources.iter().flat_map(long_functions).collect());
    let long = format!(
        "impl A {{\n    fn f<T>(a: [u8; 2]) -> T\n    {{\n{}    }}\n}}\n",
        "        g(\"}\");\n".repeat(60)
    );
    assert_eq!(long_functions(&Source::of("a.rs", &long)).len(), 1);
}

// ---- synchronisation -----------------------------------------------------------------------------

fn other_doors(source: &Source) -> Vec<String> {
    let code = source.code();
    let doors = ["std::sync", "core::sync", "loom::sync", "parking_lot::", "crossbeam_epoch::"];
    let is_door = |line: &str| doors.iter().any(|door| line.contains(door));
    let lines = code.iter().take(source.tests_from()).enumerate();
    lines
        .filter(|(_, line)| is_door(line))
        .map(|(at, line)| format!("{}:{}: {}", source.path, at + 1, line.trim()))
        .collect()
}

#[test]
fn synchronisation_comes_through_one_door() {
    let sources = library().filter(|source| !source.path.starts_with("src/sync"));
    assert_none(sources.flat_map(|source| other_doors(&source)).collect());
    assert_eq!(other_doors(&Source::of("a.rs", "use std::sync::Arc;\n// std::sync\n")).len(), 1);
    assert_eq!(other_doors(&Source::of("a.rs", "use parking_lot::Mutex;\n")).len(), 1);
}

// ---- orderings -----------------------------------------------------------------------------------

/// The orderings that a line of code names, or that its comment has to name one of.
fn orderings_of(line: &str) -> Option<Vec<&'static str>> {
    let named: Vec<_> =
        ORDERINGS.into_iter().filter(|name| line.contains(&format!("Ordering::{name}"))).collect();
    (!named.is_empty() || line.contains("compare_exchange")).then_some(named)
}

/// The comments above a line, and on it, within its function.
fn comments_above(source: &Source, code: &[String], at: usize) -> String {
    let raw: Vec<&str> = source.text.lines().collect();
    let mut text = String::new();
    for line in (at.saturating_sub(COMMENT_LINES)..=at).rev() {
        if let Some((_, comment)) = raw[line].split_once("//") {
            text = format!("{} {text}", comment.trim());
        }
        if lexer::begins_function(&code[line]) {
            break;
        }
    }
    text
}

fn has_reason(comment: &str, orderings: &[&str]) -> bool {
    let names = if orderings.is_empty() { &ORDERINGS[..] } else { orderings };
    let mentions = |name: &&str| comment.contains(*name);
    let is_named =
        if orderings.is_empty() { names.iter().any(mentions) } else { names.iter().all(mentions) };
    // A colon, and more than a word or two after it.
    let reason = comment.split_once(':').map_or(0, |(_, reason)| reason.split_whitespace().count());
    is_named && reason >= 3
}

fn bare_orderings(source: &Source) -> Vec<String> {
    let code = source.code();
    let mut problems = Vec::new();
    for (at, line) in code.iter().enumerate().take(source.tests_from()) {
        let Some(orderings) = orderings_of(line) else { continue };
        if !has_reason(&comments_above(source, &code, at), &orderings) {
            problems.push(format!("{}:{}: no reason above: {}", source.path, at + 1, line.trim()));
        }
    }
    problems
}

#[test]
fn every_ordering_has_its_reason() {
    assert_none(library().flat_map(|source| bare_orderings(&source)).collect());
    let bare = "fn f() {\n    // Acquire: of another function, and far from here.\n}\nfn g() {\n    a.load(Ordering::Acquire);\n}\n";
    assert_eq!(bare_orderings(&Source::of("a.rs", bare)).len(), 1);
    let wrong = "fn g() {\n    // Relaxed: because it was there before.\n    a.load(Ordering::Acquire);\n}\n";
    assert_eq!(bare_orderings(&Source::of("a.rs", wrong)).len(), 1);
    let idle = "fn g() {\n    // Acquire.\n    a.load(Ordering::Acquire);\n}\n";
    assert_eq!(bare_orderings(&Source::of("a.rs", idle)).len(), 1);
}

// ---- leftovers -----------------------------------------------------------------------------------

fn leftovers(source: &Source) -> Vec<String> {
    // Put together here, so that this file has none.
    let marks = [["TO", "DO"], ["FIX", "ME"], ["XX", "X"]].map(|parts| parts.concat());
    let lines = source.text.lines().enumerate();
    lines
        .filter(|(_, line)| marks.iter().any(|mark| line.contains(mark.as_str())))
        .map(|(at, line)| format!("{}:{}: {}", source.path, at + 1, line.trim()))
        .collect()
}

#[test]
fn nothing_is_left_for_later() {
    let sources =
        all(&["src", "tests", "examples", "benches", "fuzz"]).into_iter().chain(documents());
    assert_none(sources.flat_map(|source| leftovers(&source)).collect());
    let mark = ["// TO", "DO: soon"].concat();
    assert_eq!(leftovers(&Source::of("a.rs", &mark)).len(), 1);
}

// ---- references ----------------------------------------------------------------------------------

/// Paths of this repository's files that a text names.
fn paths_in(text: &str) -> impl Iterator<Item = &str> {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "_-./*<>…".contains(c);
    let words = text.split(move |c| !is_of_path(c));
    let folders = ["src/", "tests/", "docs/", "examples/", "benches/", "fuzz/"];
    words
        .map(|word| word.trim_start_matches("../").trim_end_matches('.'))
        .filter(move |word| folders.iter().any(|folder| word.starts_with(folder)))
        .filter(|word| word.ends_with(".rs") || word.ends_with(".md"))
        .filter(|word| !word.contains(['*', '<', '…']))
}

fn dangling_paths(source: &Source, root: &Path) -> Vec<String> {
    paths_in(&source.text)
        .filter(|path| !root.join(path).exists())
        .map(|path| format!("{} names {path}, which is not there", source.path))
        .collect()
}

#[test]
fn files_that_are_referred_to_exist() {
    // Not in tests: they make names up.
    let sources = all(&["src", "examples", "benches"]).into_iter().chain(documents());
    assert_none(sources.flat_map(|source| dangling_paths(&source, &root())).collect());
    let text = "See `docs/protocol.md`, [x](docs/nothing.md), src/lib.rs and `docs/*.md`.";
    assert_eq!(dangling_paths(&Source::of("a.md", text), &root()).len(), 1);
}

/// The numbers that follow a prefix in a text.
fn numbers_after<'t>(text: &'t str, prefix: &'t str) -> impl Iterator<Item = u32> + 't {
    text.split(prefix).skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

/// Tests are named after the invariants of the project, of which there are 45.
fn wrong_invariants(source: &Source) -> Vec<String> {
    let prefix = ["in", "v_"].concat();
    numbers_after(&source.text, &prefix)
        .filter(|number| !(1..=45).contains(number))
        .map(|number| format!("{}: there is no invariant {number}", source.path))
        .collect()
}

#[test]
fn tests_are_named_after_invariants_that_exist() {
    let sources = all(&["src", "tests"]);
    let prefix = ["in", "v_"].concat();
    assert!(sources.iter().any(|source| numbers_after(&source.text, &prefix).next().is_some()));
    assert_none(sources.iter().flat_map(wrong_invariants).collect());
    let wrong = ["fn in", "v_46_x() {} fn in", "v_45_y() {}"].concat();
    assert_eq!(wrong_invariants(&Source::of("a.rs", &wrong)).len(), 1);
}

/// References to the numbered invariants of the protocol.
fn wrong_protocol_invariants(source: &Source, protocol: &str) -> Vec<String> {
    let mut used: Vec<u32> = numbers_after(&source.text, "(invariant P").collect();
    used.extend(numbers_after(&source.text, "invariants P"));
    // Also where a comment breaks in between.
    used.extend(numbers_after(&source.text, "// P"));
    used.into_iter()
        .filter(|number| !protocol.contains(&format!("**P{number}. ")))
        .map(|number| format!("{}: the protocol has no P{number}", source.path))
        .collect()
}

#[test]
fn the_protocols_invariants_exist() {
    let protocol = Source::read("docs/protocol.md").text;
    assert_none(
        library().flat_map(|source| wrong_protocol_invariants(&source, &protocol)).collect(),
    );
    let wrong = Source::of("a.rs", "// So it is (invariant P99).");
    assert_eq!(wrong_protocol_invariants(&wrong, &protocol).len(), 1);
}

/// The names in the last column of a table, in backticks.
fn models_in(text: &str) -> Vec<&str> {
    let rows = text.lines().filter(|line| line.starts_with("| `") || line.starts_with("| **"));
    let last = rows.filter_map(|row| row.trim_end_matches(['|', ' ']).rsplit('|').next());
    last.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn models_that_the_orderings_name_exist() {
    let orderings = Source::read("docs/orderings.md").text;
    let tests = all(&["tests"]);
    let is_there = |model: &str| {
        let function = format!("fn {model}(");
        tests.iter().any(|test| test.path.contains("loom") && test.text.contains(&function))
    };
    let models = models_in(&orderings);
    assert!(models.len() > 3, "the table is not found");
    let missing = models.into_iter().filter(|model| !is_there(model));
    assert_none(missing.map(|model| format!("there is no model {model}")).collect());
    assert_eq!(models_in("| `a` | b | `nothing_like_it` |"), ["nothing_like_it"]);
    assert!(!is_there("nothing_like_it"));
}
