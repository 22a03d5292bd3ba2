-- Decide about these jobs. A job without an obstacle becomes READY. The others go to
-- the line of their first obstacle. Each job that passes takes room from those behind
-- it. A job that finds its lock free but no room leaves the lock to the next in line.
-- Such keys are *touched* again. `seen` has the jobs whose rows no other transaction
-- holds.
--
-- Each kind of obstacle has a function of its own, which is called if one of the
-- candidates may meet it: to begin a statement takes longer than to find a key.
CREATE OR REPLACE FUNCTION pgjobs_decide(
    ids bigint[],
    OUT seen bigint[], OUT admitted_to text[], OUT touched jsonb[],
    OUT rate_keys text[], OUT met_undecided boolean
) LANGUAGE plpgsql AS $$
DECLARE
    at timestamptz := clock_timestamp();
    found record := pgjobs_candidates(ids);
    candidates pgjobs_candidate[] := found.candidates;
BEGIN
    seen := found.seen;
    IF found.are_linked THEN
        candidates := pgjobs_meet_links(candidates);
    END IF;
    IF found.are_locked THEN
        candidates := pgjobs_meet_locks(candidates);
    END IF;
    IF found.are_limited THEN
        candidates := pgjobs_meet_limits(candidates);
    END IF;
    IF found.are_rated THEN
        candidates := pgjobs_meet_rates(candidates, at);
        PERFORM pgjobs_take_tokens(candidates, at);
    END IF;
    PERFORM pgjobs_move(candidates);
    SELECT array_agg(queue_name) FILTER (WHERE obstacle IS NULL),
        array_agg(DISTINCT rate_key) FILTER (WHERE obstacle = 'rate'),
        bool_or(obstacle = 'undecided')
    INTO admitted_to, rate_keys, met_undecided
    FROM unnest(candidates);
    IF found.are_limited OR found.are_rated THEN
        touched := pgjobs_left_free(candidates);
    END IF;
END
$$;
