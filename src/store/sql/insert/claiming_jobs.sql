-- Which of these jobs claim their keys now.
SELECT j.id
FROM /* schema */job AS j
WHERE j.id = ANY ($1::uuid[]) AND /* schema */_not_by_partial_index(j.claims)
