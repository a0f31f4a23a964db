-- Calls the verb that replaces the marker, for an operator, and logs its jobs.
WITH changed AS MATERIALIZED (
    SELECT
        c.id, c.kind, c.queue, c.attempt, c.state, coalesce((to_jsonb(c) ->> 'refused')::boolean, false) AS refused,
        (to_jsonb(c) ->> 'holder')::uuid AS holder
    FROM /* change */ AS c
    WHERE /* within */true
)
SELECT c.*, l.* FROM changed AS c CROSS JOIN /* logged */(SELECT) AS l
