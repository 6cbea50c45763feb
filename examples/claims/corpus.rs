//! The files of the job, and their hashes. Nothing here knows of leases.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

/// How much is read and hashed at a time: enough for `blake3` at its full speed, and a few
/// microseconds of work, so that a worker looks at its lease in time.
pub(crate) const CHUNK_BYTES: usize = 16 * 1024;

/// The regular files below a directory, sorted. A file is known by its index.
pub(crate) struct Corpus {
    root: PathBuf,
    /// Relative to `root`, so that they are the same from anywhere.
    names: Vec<PathBuf>,
    /// Symbolic links, other things that are no regular files, and what cannot be read.
    pub(crate) skipped: u64,
}

impl Corpus {
    pub(crate) fn below(root: &Path) -> Self {
        let mut corpus = Self { root: root.to_owned(), names: Vec::new(), skipped: 0 };
        for entry in WalkDir::new(root) {
            match entry {
                Ok(entry) if entry.file_type().is_dir() => {}
                // Opened and closed again: whether a file can be read is known only by trying.
                Ok(entry) if entry.file_type().is_file() && File::open(entry.path()).is_ok() => {
                    let name =
                        entry.path().strip_prefix(root).expect("a walk stays below its root");
                    corpus.names.push(name.to_owned());
                }
                _ => corpus.skipped += 1,
            }
        }
        corpus.names.sort_unstable();
        corpus
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// The file's path below the root: its name in the lease table.
    pub(crate) fn name(&self, file: usize) -> &Path {
        &self.names[file]
    }

    /// The file of that name.
    pub(crate) fn file(&self, name: &Path) -> usize {
        let found = self.names.binary_search_by(|other| other.as_path().cmp(name));
        found.expect("only files of the corpus are leased")
    }

    /// Where the file is.
    pub(crate) fn path(&self, file: usize) -> PathBuf {
        self.root.join(&self.names[file])
    }

    /// One hash over all names and hashes, in the order of the names.
    pub(crate) fn digest(&self, hashes: &[Hashed]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        for (name, hashed) in self.names.iter().zip(hashes) {
            hash_name(&mut hasher, name);
            hasher.update(hashed.hash.as_bytes());
        }
        hasher.finalize()
    }
}

/// Adds a relative path to `hasher`: its components, each with its length in front, so that the
/// result depends neither on the platform's separator nor on where a component ends.
pub(crate) fn hash_name(hasher: &mut blake3::Hasher, name: &Path) {
    let components = || name.components().map(|component| component.as_os_str().as_encoded_bytes());
    hasher.update(&(components().count() as u64).to_le_bytes());
    for component in components() {
        hasher.update(&(component.len() as u64).to_le_bytes());
        hasher.update(component);
    }
}

/// What is committed for a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hashed {
    pub(crate) hash: blake3::Hash,
    pub(crate) bytes: u64,
}

/// Hashes the file at `path` through `buffer`. `after_read` runs after every read, the one that
/// finds the end of the file included, and stops the hashing by returning an error.
pub(crate) fn hash_file<E: From<io::Error>>(
    path: &Path,
    buffer: &mut [u8],
    mut after_read: impl FnMut() -> Result<(), E>,
) -> Result<Hashed, E> {
    let mut file = File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    loop {
        let read = match file.read(buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        hasher.update(&buffer[..read]);
        after_read()?;
        if read == 0 {
            return Ok(Hashed { hash: hasher.finalize(), bytes: hasher.count() });
        }
    }
}
