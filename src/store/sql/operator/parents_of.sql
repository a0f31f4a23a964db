-- The jobs that the jobs $1 run after.
SELECT c.id AS child, p.id, p.kind, p.state, p.condition, p.outcome, p.output
FROM (SELECT DISTINCT u.id FROM unnest($1::uuid[]) AS u (id)) AS c
CROSS JOIN LATERAL /* schema */parents_of(c.id) AS p
ORDER BY c.id, p.id
