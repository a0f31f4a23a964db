-- Writes the counts $3 of process $1 as batch $2. Does nothing if the batch was written before.
SELECT /* schema */_write_history($1, $2, $3) AS written
