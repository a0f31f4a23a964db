//! The checksums of migrations, as refinery writes them to the history of a schema.

/// The version and the checksum of each migration.
#[cfg(feature = "migrate")]
pub(super) fn known(migrations: &[(&str, &str)]) -> Vec<(i32, String)> {
    // A test migrates, so each name has refinery's form.
    let read = |(name, sql): &(&str, &str)| refinery::Migration::unapplied(name, sql).ok();
    migrations.iter().filter_map(read).map(|known| (known.version(), known.checksum().to_string())).collect()
}

/// Checksums are refinery's, and without it no migration has one.
#[cfg(not(feature = "migrate"))]
pub(super) const fn known(_: &[(&str, &str)]) -> Vec<(i32, String)> {
    Vec::new()
}
