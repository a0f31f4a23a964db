-- The jobs of the given kinds ($3, null: of any), except those in $4, that a fetch from the heads of these queues
-- ($1), each up to its free slots ($2), would take now, and the first sixteen of each sort.
SELECT n.id, n.queue
FROM /* schema */_next_jobs($1, $2, $3, $4) AS n
