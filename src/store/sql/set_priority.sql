-- Gives waiting jobs another priority.
SELECT c.id FROM /* schema */set_priority($1, $3::smallint, $2) AS c
