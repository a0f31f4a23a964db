//! The files under a path.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::exit::Failure;
use crate::percent;

/// A regular file.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct FoundFile {
    /// The absolute path, as [`percent`] writes it.
    pub(super) path: String,
    /// Its size in bytes when it was found.
    pub(super) size: u64,
}

/// The files under a path, and what was left out.
#[derive(Debug)]
pub(super) struct FoundFiles {
    /// The path, as [`percent`] writes it.
    pub(super) root: String,
    /// In the order of their paths.
    pub(super) files: Vec<FoundFile>,
    pub(super) left_out: LeftOut,
}

/// Everything under the path that gets no job, so that nothing is left out silently.
#[derive(Debug, Default, Serialize)]
pub(super) struct LeftOut {
    /// The names of directories to leave out.
    pub(super) excluded_names: Vec<String>,
    /// How many directories with such a name were left out, with everything in them.
    pub(super) excluded_directories: u64,
    /// Links are not followed, because their target may be outside or be found twice.
    pub(super) symbolic_links: u64,
    /// Sockets, pipes and devices.
    pub(super) special_files: u64,
    /// Directories that could not be read and entries that vanished, each with the reason.
    pub(super) unreadable: Vec<String>,
}

/// Finds the files in a directory and below, or takes a single file.
pub(super) fn find(path: &Path, exclude: &[OsString]) -> Result<FoundFiles, Failure> {
    let shown = percent::encode(path);
    let hint = "give a directory, or one file";
    let failed = |source| Failure::environment(format!("cannot read PATH: {shown}"), hint, source);
    let root = path.canonicalize().map_err(failed)?;
    let metadata = root.metadata().map_err(failed)?;
    let mut found = FoundFiles {
        root: percent::encode(&root),
        files: Vec::new(),
        left_out: LeftOut {
            excluded_names: exclude.iter().map(|name| percent::encode(Path::new(name))).collect(),
            ..LeftOut::default()
        },
    };
    if metadata.is_file() {
        found.files.push(FoundFile { path: found.root.clone(), size: metadata.len() });
        return Ok(found);
    }
    if !metadata.is_dir() {
        return Err(Failure::refused(format!("PATH is neither a directory nor a regular file: {shown}"), hint));
    }
    // If the root cannot be read there is nothing to do, unlike with a directory below it.
    fs::read_dir(&root).map_err(failed)?;
    let mut waiting = vec![root];
    while let Some(directory) = waiting.pop() {
        found.read_directory(&directory, exclude, &mut waiting);
    }
    found.files.sort_unstable();
    Ok(found)
}

impl FoundFiles {
    fn read_directory(&mut self, directory: &Path, exclude: &[OsString], waiting: &mut Vec<PathBuf>) {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => return self.left_out.cannot_read(directory, &error),
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.left_out.cannot_read(directory, &error);
                    continue;
                }
            };
            let path = entry.path();
            // Neither call follows a link.
            match entry.file_type().and_then(|kind| Ok((kind, entry.metadata()?.len()))) {
                Err(error) => self.left_out.cannot_read(&path, &error),
                Ok((kind, size)) if kind.is_file() => self.files.push(FoundFile { path: percent::encode(&path), size }),
                Ok((kind, _)) if kind.is_dir() => {
                    if exclude.contains(&entry.file_name()) {
                        self.left_out.excluded_directories += 1;
                    } else {
                        waiting.push(path);
                    }
                }
                // Links are not followed.
                Ok((kind, _)) if kind.is_symlink() => self.left_out.symbolic_links += 1,
                Ok(_) => self.left_out.special_files += 1,
            }
        }
    }
}

impl LeftOut {
    fn cannot_read(&mut self, path: &Path, error: &std::io::Error) {
        self.unreadable.push(format!("{}: {error}", percent::encode(path)));
    }
}
