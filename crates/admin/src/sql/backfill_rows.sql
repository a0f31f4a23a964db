-- The next page of a backfill, which pages through all jobs by id: those after `after` up to `last`, at most `limit`; with `ids`
-- only those. Of the page, the fields of a key, the present claim and the present group of each job of `kind` that is not
-- final, or is final in one of `states`. Always a row: the number of jobs in the page, its last id and the time.
/* planned anew */
WITH scanned AS MATERIALIZED (
    SELECT j.id
    FROM /* schema */job AS j
    WHERE j.id > ($1::jsonb ->> 'after')::uuid
        AND j.id <= ($1::jsonb ->> 'last')::uuid
        AND (
            $1::jsonb ->> 'ids' IS NULL
            OR j.id = ANY (ARRAY(SELECT i.id::uuid FROM jsonb_array_elements_text($1::jsonb -> 'ids') AS i (id)))
        )
    ORDER BY j.id
    LIMIT ($1::jsonb ->> 'limit')::bigint
),
stretch AS MATERIALIZED (
    SELECT (SELECT count(*) FROM scanned) AS scanned, (SELECT w.id FROM scanned AS w ORDER BY w.id DESC LIMIT 1) AS reached
)
SELECT s.scanned, s.reached, clock_timestamp() AS now, CASE WHEN r.id IS NOT NULL THEN to_jsonb(r) END AS job
FROM stretch AS s
LEFT JOIN LATERAL (
    SELECT
        j.id, j.queue, j.state, j.args, j.meta, j.attempt, j.created_at, j.scheduled_at, j.scheduled_at AS due,
        j.attempted_at IS NOT NULL AS was_attempted, j.unique_key, j.unique_states, j.unique_until, j.until_start,
        j.discard_on_reentry, j.unique_yielded, j.group_key, j.group_limit, j.in_order, j.updates
    FROM /* schema */job AS j
    WHERE j.id = ANY (ARRAY(SELECT w.id FROM scanned AS w))
        AND j.kind = $1::jsonb ->> 'kind'
        AND (j.finalized_at IS NULL OR $1::jsonb -> 'states' ? j.state::text)
) AS r ON true
ORDER BY r.id
