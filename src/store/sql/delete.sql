-- Completes runs of jobs whose rows are not kept. The parameters are those of complete.sql.
SELECT d.state, d.ended AS ids, d.discarded
FROM /* schema */_delete_runs($1, $2, $3, $4) AS d
