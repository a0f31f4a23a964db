//! What an insert does.

words! {
    field "outcome";

    /// What became of an insert, or would: the word that `insert_job` answers in SQL.
    pub enum InsertOutcome {
        /// The job was inserted.
        Inserted = "inserted",
        /// Nothing was inserted under `ignore`, and the holder stays as it is.
        Duplicate = "duplicate",
        /// Nothing was inserted under `update`, and the holder was changed in place.
        Updated = "updated",
        /// Nothing was inserted under `run_again`, and the holder starts after the insert's transaction has committed.
        Covered = "covered",
        /// Nothing was inserted, and the insert is an error that names the holder.
        Rejected = "rejected",
    }
}
