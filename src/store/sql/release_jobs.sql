-- Lets pending jobs go: available, or scheduled where their time has not come.
SELECT c.id FROM /* schema */release_jobs($1, $2) AS c
