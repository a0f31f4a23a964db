-- After a fetch of these queues ($2) by the runner $1 failed: tries the next jobs of the given kinds ($3), or these ($4), and
-- sets those aside that are at fault. $5 to $8: whether a size may be the reason, the time of this statement, the error, what the
-- runner remembers. The last row has no id and what the runner remembers now.
SELECT s.id, s.is_tried, s.problem, s.memory
FROM /* schema */_set_aside($1, $2, $3, $4, $5, $6, $7, $8) AS s
