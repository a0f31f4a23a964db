-- Takes out a runner that stopped in order.
DELETE FROM /* schema */runner AS r
WHERE r.id = $1
