-- Counts the jobs that wait in the demo's queue, through the index that workers fetch by.
SELECT count(*) AS waiting
FROM /* schema */job AS j
WHERE j.queue = 'demo' AND j.state = 'available'
