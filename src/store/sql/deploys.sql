-- The deploys since $1, the oldest first: the latest hundred.
SELECT d.at, d.version
FROM (
    SELECT l.at, l.version FROM /* schema */deploy AS l WHERE l.at >= $1 ORDER BY l.at DESC LIMIT 100
) AS d
ORDER BY d.at
