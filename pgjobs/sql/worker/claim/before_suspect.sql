-- A job with one crash left runs alone, so the claim ends before it unless it comes
-- first.
SELECT greatest((SELECT count(*) FROM eligible WHERE place < suspect.place), 1)
FROM eligible AS suspect WHERE is_suspect
ORDER BY place LIMIT 1
