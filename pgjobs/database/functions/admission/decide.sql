-- Decide about these jobs. A job without an obstacle becomes READY. The others go to
-- the line of their first obstacle. Each job that passes takes room from those behind
-- it. A job that finds its lock free but no room leaves the lock to the next in line.
-- Such keys are *freed* again. `seen` has the jobs whose rows no other transaction
-- holds.
--
-- The caller may claim up to `room` of the jobs that pass, of the `served` queues, as
-- pgjobs_claim_admitted says. Others pass to the queues `admitted_to`.
--
-- Each kind of obstacle has a function of its own, pgjobs_meet_..., which is called if
-- one of the jobs may meet it: to begin a statement takes longer than to find a key. It
-- gets the jobs and the `obstacles` so far, and looks at the jobs that have none. It
-- returns those that it holds up, as {id: {"waiting_for": ..., "line": ...,
-- "blocker": ...}}. The blocker is a job, or left out.
CREATE OR REPLACE FUNCTION pgjobs_decide(
    ids bigint[], worker bigint, room integer, served text[], excluded text[],
    OUT claimed json[], OUT seen bigint[], OUT admitted_to text[],
    OUT freed_keys jsonb[],
    OUT rate_lines text[], OUT met_undecided boolean
) LANGUAGE plpgsql AS $$
DECLARE
    at timestamptz := clock_timestamp();
    found record;
    met record;
    obstacles jsonb := '{}';
BEGIN
    -- A claim alone decides about jobs that need process units, must run alone or may
    -- have expired, and reads results and their masks: the others are *ordinary*.
    SELECT array_agg(id) FILTER (WHERE pgjobs_knows(waiting_for)) AS ids,
        array_agg(id) AS seen,
        bool_or(
            dependencies IS NOT NULL OR keys ?| ARRAY['after', 'after_batches']
        ) AS are_linked,
        bool_or(keys ? 'lock') AS are_locked,
        bool_or(keys ? 'limit_key') AS are_limited,
        bool_or(keys ? 'rate_key') AS are_rated,
        bool_and(
            process_units IS NULL AND crashes + 1 < max_crashes
            AND (expires_at IS NULL OR attempts > 0)
            AND (keys ?| '{results,masked}') IS NOT TRUE
        ) AS are_ordinary
    INTO found
    FROM (
        SELECT id, waiting_for, keys, dependencies, process_units, crashes, max_crashes,
            expires_at, attempts
        FROM pgjobs_job WHERE id = ANY (ids) AND status = 'WAITING'
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job;
    seen := found.seen;
    ids := found.ids;
    IF ids IS NULL THEN
        RETURN;
    END IF;
    IF found.are_linked THEN
        obstacles := pgjobs_meet_links(ids);
    END IF;
    IF EXISTS (SELECT FROM pgjobs_override WHERE paused_at IS NOT NULL) THEN
        obstacles := obstacles || pgjobs_meet_pauses(ids, obstacles);
    END IF;
    IF found.are_locked THEN
        obstacles := obstacles || pgjobs_meet_locks(ids, obstacles);
    END IF;
    IF found.are_limited THEN
        met := pgjobs_meet_limits(ids, obstacles);
        obstacles := obstacles || met.obstacles;
        freed_keys := met.freed_keys;
    END IF;
    IF found.are_rated THEN
        obstacles := obstacles || pgjobs_meet_rates(ids, obstacles, at);
    END IF;
    IF obstacles <> '{}' THEN
        SELECT array_agg(DISTINCT line) FILTER (WHERE starts_with(line, 'rate ')),
            bool_or(line = 'undecided')
        INTO rate_lines, met_undecided
        FROM jsonb_each(obstacles)
        CROSS JOIN LATERAL (SELECT value ->> 'line') AS own (line);
        IF found.are_limited OR found.are_rated THEN
            freed_keys := freed_keys || pgjobs_left_free(ids, obstacles);
        END IF;
    END IF;
    IF room > 0 AND found.are_ordinary THEN
        claimed := pgjobs_claim_admitted(
            ids, obstacles, worker, room, served, excluded, found.are_rated
        );
    END IF;
    IF claimed IS NULL OR obstacles <> '{}' THEN
        admitted_to := pgjobs_move(ids, obstacles);
    END IF;
END
$$;
