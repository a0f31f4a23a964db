-- Writes batch $2 of the counts of process $1: those of the minutes $3. Does nothing if the batch was written before.
SELECT /* schema */_write_history($1, $2, $3) AS written
