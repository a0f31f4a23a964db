-- Adds up to $1 counts of calls in SQL to the history, and deletes old rows of the history, up to $1 of each span.
SELECT /* schema */_tend_history($1) AS tended
