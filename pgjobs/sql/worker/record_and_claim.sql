-- Record successes, and claim the first jobs in line.
--
-- All in one round trip and one commit.
--
-- The claim walks along the line of all queues and drops the jobs that the worker does
-- not serve. A job of a limited queue ends the walk, and so does the length "reach".
-- Then the claim says "has_more", and the worker goes on with claim_by_queue.sql. So no
-- look takes a line for empty without having seen its end.
WITH recorded AS (
    \ir record/success.sql
    RETURNING lease_token, line
),
\ir claim/line.sql
\ir claim/pick.sql
\ir claim/take.sql
\ir claim/end_of_line.sql
