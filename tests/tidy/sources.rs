//! The files that are looked at.

use std::fs;
use std::path::{Path, PathBuf};

use crate::lexer;

pub(crate) struct Source {
    /// From the root of the repository, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn of(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    pub(crate) fn read(path: &str) -> Self {
        let text = fs::read_to_string(root().join(path));
        Self::of(path, &text.unwrap_or_else(|error| panic!("{path}: {error}")))
    }

    /// Its lines, without comments and literals.
    pub(crate) fn code(&self) -> Vec<String> {
        lexer::code_of(&self.text)
    }

    /// The line from which on there are only tests.
    pub(crate) fn tests_from(&self) -> usize {
        if self.path.ends_with("tests.rs") {
            return 0;
        }
        let is_mark = |line: &str| line.starts_with("#[cfg(all(test") || line == "#[cfg(test)]";
        self.text.lines().position(is_mark).unwrap_or(usize::MAX)
    }
}

pub(crate) fn root() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

/// The Rust files below some folders; one that is not there has none.
pub(crate) fn all(folders: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    for folder in folders {
        collect(&root().join(folder), &mut found);
    }
    found
}

fn collect(folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("a folder of this repository can be read").path();
        // What cargo-fuzz builds and finds.
        let is_made = ["target", "corpus", "artifacts"].iter().any(|made| path.ends_with(made));
        if path.is_dir() && !is_made {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(Source::read(&relative(&path)));
        }
    }
}

fn relative(path: &Path) -> String {
    let path = path.strip_prefix(root()).expect("found below the root");
    path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// The documents.
pub(crate) fn documents() -> impl Iterator<Item = Source> {
    let pages = ["guide", "limits", "orderings", "performance", "protocol"];
    let pages = pages.map(|page| Source::read(&format!("docs/{page}.md")));
    pages.into_iter().chain(["README.md", "CHANGELOG.md"].map(Source::read))
}
