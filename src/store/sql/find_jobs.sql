-- Finds the jobs that a test expects, each with the criteria that it misses. Every job meets a criterion that is null.
-- With $11 only the jobs that meet all criteria.
WITH judged AS (
    SELECT
        j.*,
        array_remove(ARRAY[
            CASE WHEN j.kind <> $1::text THEN 'kind' END,
            CASE WHEN j.queue <> $2::text THEN 'queue' END,
            CASE WHEN NOT j.args @> $3::jsonb THEN 'args' END,
            CASE WHEN NOT j.meta @> $4::jsonb THEN 'meta' END,
            CASE WHEN j.state::text <> $5::text THEN 'state' END,
            CASE WHEN j.priority <> $6::smallint THEN 'priority' END,
            CASE WHEN abs(extract(epoch FROM j.scheduled_at - $7::timestamptz)) > 1 THEN 'scheduled_at' END,
            CASE
                WHEN abs(extract(epoch FROM j.scheduled_at - j.created_at - $8::interval)) > 1 THEN 'scheduled_in'
            END,
            CASE WHEN j.unique_key IS DISTINCT FROM $9::text AND $9 IS NOT NULL THEN 'unique_key' END,
            CASE WHEN j.id <> $10::uuid THEN 'id' END,
            CASE WHEN j.group_key IS DISTINCT FROM $13::text AND $13 IS NOT NULL THEN 'group' END
        ], NULL) AS misses
    FROM /* schema */job AS j
)
SELECT
    /* columns */j.*,
    j.misses, count(*) OVER () AS total
FROM judged AS j
WHERE NOT $11 OR j.misses = '{}'
ORDER BY cardinality(j.misses), 'kind' = ANY (j.misses), j.created_at, j.id
LIMIT $12
