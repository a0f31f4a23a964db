-- The number of jobs of each queue and state, estimated from about $1 pages of the table.
SELECT e.queue, e.state, e.jobs FROM /* schema */_estimated_jobs($1) AS e
