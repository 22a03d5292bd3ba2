-- Record the jobs that succeeded, and claim the first ones in line.
--
-- All in one round trip and one commit. Token and owner guard the record. A guard by
-- status would tempt the planner to the index of running jobs, which looks small and is
-- slow when it is stale. Ids and tokens are two arrays: a token is drawn only once, so
-- it fits no other id, and a join would compare each pair.
--
-- The claim walks along the line of all queues and drops the jobs that the worker does
-- not serve. A job of a limited queue ends the walk, and so does the length "reach".
-- Then the claim says "has_more", and the worker goes on with claim_by_queue.sql. So no
-- look takes a line for empty without having seen its end.
\ir claim/line.sql
\ir claim/take.sql
\ir claim/end_of_line.sql
