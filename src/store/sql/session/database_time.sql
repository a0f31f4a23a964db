-- The clock that decides.
SELECT clock_timestamp()
