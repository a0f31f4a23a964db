-- Gives waiting jobs another priority.
WITH changed AS MATERIALIZED (
    SELECT c.*, false AS refused FROM /* schema */set_priority($1, $8::smallint, $7) AS c WHERE /* within */true
)
SELECT c.*, l.* FROM changed AS c CROSS JOIN /* logged */(SELECT) AS l
