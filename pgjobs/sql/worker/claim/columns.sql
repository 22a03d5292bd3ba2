-- The fields of ClaimedJob. The time since the job could run is NULL, unknown, for one that
-- was put back; enqueued_at counts for the first attempt of the first life. Last what it
-- gets of jobs before it, which most jobs do not ask for, and what it did before if it goes
-- on. (date_part, because extract computes with the digits of a numeric.)
id, task, args::text, kwargs::text, queue_name, priority, attempts, failures,
max_attempts, crashes, max_crashes, timeout, life, lease_token, enqueued_at,
pgjobs_ends_for_others(keys) IS TRUE, dependencies IS NOT NULL, turn, meta::text,
date_part('epoch', now() - greatest(run_after,
    CASE WHEN life = 1 AND attempts = 1 THEN enqueued_at END)),
keep,
CASE WHEN keys ?| '{results,masked}' THEN pgjobs_results_of(keys) END,
CASE WHEN attempts > failures + crashes + 1 THEN pgjobs_resume(id) END
