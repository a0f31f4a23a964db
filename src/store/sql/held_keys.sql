-- The jobs that claim these keys now, by the keys' places: what an insert that ignores duplicates would
-- meet. It says nothing where an audit wants to know of duplicates, which insert_each tells it. The keys are
-- asked for in a query of their own, so that their number does not call for a new plan each time.
SELECT u.place, clock_timestamp() AS answered_at, /* columns */j.*
FROM unnest((SELECT $1)::text[]) WITH ORDINALITY AS u (unique_key, place)
-- LIMIT keeps this a probe for each key, whatever the planner believes.
CROSS JOIN LATERAL (
    SELECT c.* FROM /* schema */job AS c WHERE c.unique_key = u.unique_key AND c.claims LIMIT 1
) AS j
WHERE (j.unique_until IS NULL OR j.unique_until > clock_timestamp())
    AND NOT EXISTS (SELECT FROM /* schema */duplicate_audit AS a WHERE a.stopped_at IS NULL)
