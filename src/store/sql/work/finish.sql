-- Ends runs in any mix of ways. $1 to $4 are those of complete.sql, $5 to $10 the outcomes, delays, errors, outputs,
-- reports and details of the errors.
SELECT f.state, f.ended AS ids, f.discarded
FROM /* schema */_finish_runs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) AS f
