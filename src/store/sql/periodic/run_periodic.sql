-- Inserts the jobs of slots of a periodic job and moves it on, if no other runner did.
SELECT r.slot, r.outcome, r.job, p.kind,
    coalesce(p.queue, (SELECT k.queue FROM /* schema */kind AS k WHERE k.name = p.kind), 'default') AS queue
FROM /* schema */run_periodic($1, $2, $3, $4, $5) AS r
CROSS JOIN /* schema */periodic AS p
WHERE p.name = $1
