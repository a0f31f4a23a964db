-- Which of these jobs nobody else has locked.
SELECT j.id
FROM /* schema */job AS j
WHERE j.id = ANY ($1::uuid[])
FOR NO KEY UPDATE SKIP LOCKED
