-- Holds queues ($1), or of those with a group in $2 that group, for so long ($3): as workers said.
SELECT /* schema */_hold_back($1, $2, $3)
