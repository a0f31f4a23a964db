-- Which of these jobs exist and are not completed.
SELECT j.id
FROM /* schema */job AS j
WHERE j.id = ANY ($1::uuid[])
    AND j.state <> 'completed'
