-- The clock that decides: the transaction's time, as created_at will be.
SELECT now()
