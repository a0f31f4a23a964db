-- How a queue is set. Of one without a row nothing is set.
SELECT /* schema */_queue_settings($1, q)
FROM (SELECT) AS one
LEFT JOIN /* schema */queue AS q ON q.name = $1
