-- Decide about these jobs. A job without an obstacle becomes READY. The others go to
-- the line of their first obstacle. Each job that passes takes room from those behind
-- it. A job that finds its lock free but no room leaves the lock to the next in line.
-- Such keys are *touched* again. `seen` has the jobs whose rows no other transaction
-- holds.
--
-- The caller may claim up to `room` of the jobs that pass, of the `served` queues, as
-- pgjobs_claim_admitted says. They are in `claimed`, and the others in `admitted_to`.
--
-- Each kind of obstacle has a function of its own, which is called if one of the
-- candidates may meet it: to begin a statement takes longer than to find a key.
CREATE OR REPLACE FUNCTION pgjobs_decide(
    ids bigint[], worker bigint, room integer, served text[], excluded text[],
    OUT claimed json[], OUT seen bigint[], OUT admitted_to text[], OUT touched jsonb[],
    OUT rate_keys text[], OUT met_undecided boolean
) LANGUAGE plpgsql AS $$
DECLARE
    at timestamptz := clock_timestamp();
    found record := pgjobs_candidates(ids);
    candidates pgjobs_candidate[] := found.candidates;
    met record;
    others pgjobs_candidate[];  -- that are not claimed
BEGIN
    seen := found.seen;
    IF found.are_linked THEN
        candidates := pgjobs_meet_links(candidates);
    END IF;
    IF found.are_locked THEN
        candidates := pgjobs_meet_locks(candidates);
    END IF;
    IF found.are_limited THEN
        met := pgjobs_meet_limits(candidates);
        candidates := met.candidates;
        touched := met.touched;
    END IF;
    IF found.are_rated THEN
        candidates := pgjobs_meet_rates(candidates, at);
    END IF;
    IF room > 0 AND found.are_ordinary THEN
        claimed := pgjobs_claim_admitted(candidates, worker, room, served, excluded);
        IF found.are_rated AND claimed IS NOT NULL THEN
            PERFORM pgjobs_count_claimed(candidates);
        END IF;
    END IF;
    others := candidates;
    IF claimed IS NOT NULL THEN
        others := ARRAY(
            SELECT candidate FROM unnest(candidates) AS candidate
            WHERE obstacle IS NOT NULL
        );
    END IF;
    IF cardinality(others) > 0 THEN
        PERFORM pgjobs_move(others);
        SELECT array_agg(queue_name) FILTER (WHERE obstacle IS NULL),
            array_agg(DISTINCT rate_key) FILTER (WHERE obstacle = 'rate'),
            bool_or(obstacle = 'undecided')
        INTO admitted_to, rate_keys, met_undecided
        FROM unnest(others);
    END IF;
    IF found.are_limited OR found.are_rated THEN
        touched := touched || pgjobs_left_free(candidates);
    END IF;
END
$$;
