-- Sets whether the groups of a queue take turns with the jobs that have no group.
SELECT FROM /* schema */share_queue($1, $2)
