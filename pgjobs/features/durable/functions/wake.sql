-- Take due notes, and make the jobs READY that find what they wait for, or whose time is
-- over. It is a hint: the job itself takes what it finds. Return how many, whether there is
-- more to do at once, and whether an admission has to decide about some. A job that finds
-- nothing is looked at again at its deadline, by the same note.
--
-- Each statement here sees what was committed before it, so it sees whatever left a note
-- that the first one takes.
CREATE OR REPLACE FUNCTION pgjobs_wake(
    most integer, OUT woken integer, OUT has_more boolean, OUT are_keyed boolean
) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    now CONSTANT timestamptz := clock_timestamp();
    notes bigint[];
    noted_jobs bigint[];
    begun bigint[];  -- those that wait for other jobs since now
    ready bigint[];
BEGIN
    -- It need not wait for the disk: after a crash of the server either all of this has
    -- happened, or the notes are still there.
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT array_agg(id), array_agg(DISTINCT job_id) FILTER (WHERE job_id IS NOT NULL),
        array_agg(job_id) FILTER (WHERE after < 0)
    INTO notes, noted_jobs, begun
    FROM (
        SELECT id, job_id, after FROM pgjobs_waitnote WHERE due_at <= now
        ORDER BY due_at, id LIMIT most
        FOR UPDATE SKIP LOCKED
    ) AS note;
    woken := 0;
    are_keyed := false;
    has_more := coalesce(cardinality(notes) = most, false);
    IF notes IS NULL THEN
        RETURN;
    END IF;
    SELECT waiting.jobs, waiting.has_more INTO ready, has_more
    FROM pgjobs_waiting_for_noted_events(notes, most, has_more) AS waiting;
    ready := ready || pgjobs_found_something(noted_jobs);
    IF begun IS NOT NULL THEN
        ready := ready || pgjobs_closing_circles(begun);
    END IF;
    SELECT done.woken, done.are_keyed INTO woken, are_keyed
    FROM pgjobs_let_go_on(ready) AS done;
    IF woken < cardinality(ready) OR noted_jobs IS NOT NULL THEN
        PERFORM pgjobs_settle_notes(notes, ready, now);
    END IF;
END
$$;
