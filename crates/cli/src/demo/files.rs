//! The files under a path.

use std::ffi::OsString;
use std::path::Path;

use walkdir::WalkDir;

use super::work::HashFile;
use crate::percent;
use crate::prelude::*;

/// The files under a path, and what was left out.
#[derive(Debug)]
pub(super) struct FoundFiles {
    /// The path, as [`percent`] writes it.
    pub(super) root: String,
    /// The job of each regular file, in the order of their paths.
    pub(super) jobs: Vec<HashFile>,
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
    let kind = root.metadata().map_err(failed)?.file_type();
    if !kind.is_dir() && !kind.is_file() {
        return Err(Failure::refused(format!("PATH is neither a directory nor a regular file: {shown}"), hint));
    }
    let excluded_names = exclude.iter().map(|name| percent::encode(Path::new(name))).collect();
    let mut left_out = LeftOut { excluded_names, ..LeftOut::default() };
    let (mut jobs, mut entries) = (Vec::new(), WalkDir::new(&root).into_iter());
    while let Some(entry) = entries.next() {
        match entry.and_then(|entry| Ok((entry.metadata()?, entry))) {
            // If the root cannot be read there is nothing to do, unlike with a directory below it.
            Err(error) if error.depth() == 0 => return Err(failed(error.into())),
            Err(error) => {
                let path = percent::encode(error.path().unwrap_or(&root));
                let reason = error.io_error().map_or_else(|| error.to_string(), ToString::to_string);
                left_out.unreadable.push(format!("{path}: {reason}"));
            }
            Ok((file, entry)) if file.is_file() => {
                jobs.push(HashFile { path: percent::encode(entry.path()), size: file.len() });
            }
            Ok((file, entry)) if file.is_dir() => {
                if entry.depth() > 0 && exclude.iter().any(|name| name == entry.file_name()) {
                    left_out.excluded_directories += 1;
                    entries.skip_current_dir();
                }
            }
            Ok((file, _)) if file.is_symlink() => left_out.symbolic_links += 1,
            Ok(_) => left_out.special_files += 1,
        }
    }
    jobs.sort_unstable();
    Ok(FoundFiles { root: percent::encode(&root), jobs, left_out })
}
