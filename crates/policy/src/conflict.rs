//! How claims meet and end.

words! {
    member "on_conflict";

    /// The reaction of an insert to a holder of its key. The newcomer's policy decides.
    pub enum OnConflict {
        /// Return the holder, flagged as a duplicate. The default of uniqueue's own policies, of
        /// River and of Zizq.
        Ignore = "ignore",
        /// Fail with an error that names the holder. The default of OJS and Faktory.
        Reject = "reject",
        /// Cancel the holder and insert the new job, atomically. A running holder is not
        /// cancelled: that insert is rejected.
        Replace = "replace",
        /// As `Replace`, and the new job keeps the `scheduled_at` of a holder that was given a time,
        /// at its insert or by an operator, and has not started.
        ReplaceExceptSchedule = "replace_except_schedule",
        /// As `Replace`, and a running holder is cancelled as well. Its result does not count any more, and its
        /// runner is told to stop it. Its code may overlap the new job's run until it has stopped. A holder whose
        /// worker has a `complete_in` open is waited for, since it may complete.
        Preempt = "preempt",
        /// Change the holder in place while it waits, as the policy's [`Update`](crate::Update) says: its args, and
        /// its schedule. Its id and its claim stay. A holder that runs or is final is not changed: that insert is
        /// rejected.
        Update = "update",
        /// Return the holder, and see to it that it starts after the insert's transaction has committed: the waiting
        /// holder is locked against a start until then. A holder that started already does not count, so the scope
        /// must be without `running`. A holder of another policy that runs or is final is not changed: that insert is
        /// rejected.
        RunAgain = "run_again",
    }
}

words! {
    member "on_reentry";

    /// The reaction of a job that comes back into its unique states (a retry, a snooze, a rescue, a
    /// promotion) while another job claims its key. Its own policy decides.
    pub enum OnReentry {
        /// Go on without the claim: no job is ever lost because of a key. The default.
        GoOn = "go_on",
        /// Discard the job that comes back, with the reason, as River does.
        Discard = "discard",
    }
}

words! {
    member "until";

    /// Faktory's `unique_until`: which event ends a claim for good.
    pub enum Until {
        /// Success alone: the claim covers all states but `completed`, so it outlives a job that
        /// is discarded or cancelled.
        Success = "success",
        /// The start: the fetch gives the claim up for good, and a retry does not take it back.
        Start = "start",
    }
}
