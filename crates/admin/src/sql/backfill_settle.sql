-- Ends a batch of a backfill: each job of the array $1 is discarded at a re-entry that fails where `discard_on_reentry` says
-- so, and cancelled where it has a `holder`, the job that claims its key.
/* planned anew */
UPDATE /* schema */job AS j
SET discard_on_reentry = g.discard_on_reentry,
    state = CASE WHEN g.holder IS NULL THEN j.state ELSE 'cancelled' END,
    finalized_at = CASE WHEN g.holder IS NULL THEN j.finalized_at ELSE clock_timestamp() END,
    replaced_by = CASE WHEN g.holder IS NULL THEN j.replaced_by ELSE g.holder END,
    errors = CASE
        WHEN g.holder IS NULL THEN j.errors
        ELSE /* schema */_with_error(
            j.errors,
            j.attempt,
            clock_timestamp(),
            'cancelled by a backfill: job ' || g.holder || ' claims the unique key'
        )
    END
FROM jsonb_to_recordset($1::jsonb) AS g (id uuid, discard_on_reentry boolean, holder uuid)
WHERE j.id = g.id
RETURNING j.id
