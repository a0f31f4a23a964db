-- Ends a batch of a backfill: jobs $1 are discarded at a re-entry that fails where $2 says so, and those
-- of them that are among $3 are cancelled, because the jobs $4 claim their keys.
UPDATE /* schema */job AS j
SET discard_on_reentry = g.discard_on_reentry,
    state = CASE WHEN c.holder IS NULL THEN j.state ELSE 'cancelled' END,
    finalized_at = CASE WHEN c.holder IS NULL THEN j.finalized_at ELSE clock_timestamp() END,
    replaced_by = CASE WHEN c.holder IS NULL THEN j.replaced_by ELSE c.holder END,
    errors = CASE
        WHEN c.holder IS NULL THEN j.errors
        ELSE /* schema */_with_error(
            j.errors,
            j.attempt,
            clock_timestamp(),
            'cancelled by a backfill: job ' || c.holder || ' claims the unique key'
        )
    END
FROM unnest($1::uuid[], $2::boolean[]) AS g (id, discard_on_reentry)
LEFT JOIN unnest($3::uuid[], $4::uuid[]) AS c (id, holder) ON c.id = g.id
WHERE j.id = g.id
