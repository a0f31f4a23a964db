-- Waits for a turn at fetching many jobs of the queue $1, for about $2 at most.
SELECT /* schema */take_turn($1, $2) AS is_taken
