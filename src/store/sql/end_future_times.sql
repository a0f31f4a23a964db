-- Ends what a clock that has gone back since would let last too long. Answers with the number of rows.
SELECT /* schema */_end_future_times()
