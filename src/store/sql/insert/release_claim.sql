-- Makes the holder of a key give up its claim for good. Answers with the holder, if there was one.
SELECT /* schema */release_claim($1) AS id
