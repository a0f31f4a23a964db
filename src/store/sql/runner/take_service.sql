-- Takes the lease of the service $1 for the holder $2, named $3, or extends it, for $4 from now on.
SELECT s.is_held, s.free_in
FROM /* schema */_take_service($1, $2, $3, $4) AS s
