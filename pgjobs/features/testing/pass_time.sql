-- Let seconds pass for the queue: make everything that it remembers older, or younger if
-- their number is negative. What was due before 1990 stays as it is, because a job cannot
-- be older than the year 1970.
WITH passed AS (
    SELECT make_interval(secs => %(seconds)s) AS span
),
jobs AS (
    UPDATE pgjobs_job
    SET run_after = CASE
            WHEN run_after < '1990-01-01 00:00+00' THEN run_after ELSE run_after - span
        END,
        expires_at = CASE
            WHEN expires_at < '1990-01-01 00:00+00' THEN expires_at
            ELSE expires_at - span
        END,
        unique_until = unique_until - span,
        enqueued_at = enqueued_at - span,
        started_at = started_at - span,
        last_attempted_at = last_attempted_at - span,
        finished_at = finished_at - span,
        keys = CASE WHEN keys ? 'ends_at' THEN keys || jsonb_build_object(
            'ends_at', (keys -> 'ends_at')::numeric - %(seconds)s
        ) ELSE keys END
    FROM passed
),
rates AS (
    UPDATE pgjobs_rate
    SET full_at = full_at - span, opens_at = opens_at - span, even_at = even_at - span,
        starts = CASE
            WHEN starts IS NOT NULL
                THEN ARRAY(SELECT start - span FROM unnest(starts) AS start)
        END
    FROM passed
),
waits AS (
    UPDATE pgjobs_wait
    SET deadline = deadline - span, opened_at = opened_at - span,
        ended_at = ended_at - span
    FROM passed
),
wait_notes AS (
    UPDATE pgjobs_waitnote SET due_at = due_at - span FROM passed
),
sleeps AS (
    UPDATE pgjobs_step SET finished_at = finished_at - span FROM passed
),
notes AS (
    UPDATE pgjobs_note SET keys = keys || jsonb_build_object(
        'rate_started_at', (keys -> 'rate_started_at')::float8 - %(seconds)s
    )
    WHERE keys ? 'rate_started_at'
)
UPDATE pgjobs_prerequisite
SET finished_at = finished_at - span, needed_until = needed_until - span
FROM passed
RETURNING 1
