-- Sets the statement timeout of the session, or of the transaction if it is rolled back. Answers with the one before.
SELECT b.before, set_config('statement_timeout', $1, false) AS now
FROM (SELECT current_setting('statement_timeout') AS before OFFSET 0) AS b
