-- Decide which of the jobs that wait become READY.
--
-- Only one worker at a time runs this, in one statement. It tries to get an advisory
-- lock and never waits for it. PostgreSQL releases the lock with the statement's
-- commit. The rows of pgjobs_job alone decide, so nothing can disagree with them:
--
-- - A *line* is the jobs that wait for one thing: "lock door" (ordered), "mutex door",
--   "limit mail", "rate mail", "predecessor". Jobs in "undecided" need a worker's
--   Python to find or enqueue a dependency first.
-- - "arrived" has the jobs that no admission has looked at yet. Those of paused and
--   unserved queues go to "unserved mail", where they take no room and no time, until
--   the sweep finds the queue served. "unlinked" has the jobs that come after other
--   jobs. An admission looks for these predecessors in whatever queue, before they may
--   be deleted. "unknown" has those that wait for something else (see pgjobs_knows).
-- - "left" and "recorded" have the jobs that have ended, or have become SCHEDULED
--   again, and whose keys and successors no admission has looked at yet.
--
-- An admission looks at the jobs that arrived and left, and at the heads of the lines
-- whose keys these have freed. So its work grows with what happened, not with the
-- number of jobs that wait. What it does not get done it leaves as it is, or in a note
-- (pgjobs_note), for the next admission.
--
-- An admission begins with what its worker has to record: the jobs `recorded_ids` have
-- succeeded, and need not stand in the line "recorded".
--
-- Parameters: the caller will claim up to `room` jobs of the `served` queues, and need
-- not be notified of these. `served` is NULL if the caller serves all queues except the
-- `excluded`. If it `claims`, it knows of no READY job, and this claims for it what
-- becomes free.
--
-- Results: `claimed` has the jobs that this claimed, one array each, and NULL if there
-- are none. `recorded` has the lease tokens of the successes that were stored, with or
-- without an admission. `admitted` is NULL if another worker admits right now. `ended`
-- has the jobs that this admission ended. `has_more` means that there is more to do at
-- once, `is_blocked` that there will be when other transactions release the rows that
-- they hold.
--
-- PostgreSQL's statistics of a queue are always outdated. The settings leave the
-- planner one plan, the walk along an index.
CREATE OR REPLACE FUNCTION pgjobs_admit(
    worker bigint, recorded_ids bigint[], lease_tokens bigint[], return_values text[],
    most integer, seconds double precision, sweeps boolean,
    INOUT after_queue text, INOUT after_line text, INOUT after_link bigint,
    room integer, served text[], excluded text[], claims boolean,
    OUT claimed json[], OUT recorded bigint[], OUT admitted integer, OUT ended bigint[],
    OUT has_more boolean, OUT is_blocked boolean, OUT met_undecided boolean
) LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '20ms'
SET search_path FROM CURRENT
AS $$
DECLARE
    deadline timestamptz := clock_timestamp() + make_interval(secs => seconds);
    -- Only this level shows what others have committed since the statement began.
    -- The class of the lock is "pgjk" in ASCII.
    may_admit CONSTANT boolean :=
        current_setting('transaction_isolation') = 'read committed'
        AND pg_try_advisory_xact_lock(x'70676a6b'::int, 0);
    found record;
    freed_keys jsonb[];
    ids bigint[] := '{}';  -- to decide about
    unseen bigint[] := '{}';  -- their rows are held
    rate_lines text[] := '{}';
    admitted_to text[] := '{}';
    linked bigint[];
    batches bigint[];
    some_arrived boolean;
    has_notes boolean;
    some_due boolean;
    may_have_left boolean;
    is_full boolean := false;  -- more may have arrived than it looks at
    has_progress boolean := false;
    number_of_notes integer := 0;  -- how many more notes there are
BEGIN
    freed_keys := '{}';
    IF recorded_ids <> '{}' THEN
        found := pgjobs_record(
            worker, recorded_ids, lease_tokens, return_values, may_admit
        );
        recorded := found.recorded;
        freed_keys := found.freed_keys;
        linked := found.linked;
        batches := found.batches;
    END IF;
    IF NOT may_admit THEN
        RETURN;
    END IF;
    ended := '{}';
    has_more := false;
    IF coalesce(linked, batches) IS NOT NULL THEN
        found := pgjobs_follow(linked, batches, most);
        ids := found.followers;
        ended := found.ended;
        has_progress := ids <> '{}';
    END IF;
    met_undecided := false;
    IF sweeps THEN
        found := pgjobs_sweep(4 * most, after_line, after_link);
        after_line := found.after_line;
        after_link := found.after_link;
        ids := ids || found.followers;
        freed_keys := freed_keys || found.freed_keys;
        ended := ended || found.ended;
        has_more := found.has_more;
        met_undecided := EXISTS (SELECT FROM pgjobs_job WHERE line = 'undecided');
    END IF;
    SELECT EXISTS (SELECT FROM pgjobs_job WHERE line IN ('arrived', 'unlinked')),
        EXISTS (SELECT FROM pgjobs_job WHERE line IN ('recorded', 'left')),
        EXISTS (SELECT FROM pgjobs_note),
        EXISTS (SELECT FROM pgjobs_rate WHERE opens_at <= statement_timestamp())
    INTO some_arrived, may_have_left, has_notes, some_due;
    IF some_arrived THEN
        found := pgjobs_take_arrived(most, after_queue);
        -- Jobs may have arrived in the queues before those that it began with.
        has_more := has_more OR after_queue <> '';
        after_queue := found.after_queue;
        ids := ids || found.ids;
        freed_keys := freed_keys || found.freed_keys;
        ended := ended || found.ended;
        has_more := has_more OR after_queue <> '' OR found.number_unserved >= most;
        is_full := cardinality(found.ids) >= most;
        has_progress := has_progress OR found.has_linked;
    ELSE
        after_queue := '';
    END IF;
    IF has_notes THEN
        found := pgjobs_take_notes(most);
        number_of_notes := -found.number;
        has_progress := has_progress OR found.followers <> '{}';
        ids := ids || found.followers;
        freed_keys := freed_keys || found.freed_keys;
        ended := ended || found.ended;
    END IF;
    IF some_due THEN
        found := pgjobs_take_due_rates(most);
        freed_keys := freed_keys || found.freed_keys;
        rate_lines := found.rate_lines;
    END IF;
    may_have_left := may_have_left OR ended <> '{}';
    LOOP
        IF may_have_left THEN
            found := pgjobs_take_left(most);
            ids := ids || found.followers;
            freed_keys := freed_keys || found.freed_keys;
            ended := ended || found.ended;
            has_progress := has_progress OR found.followers <> '{}';
            may_have_left := found.ended <> '{}' OR found.number = most;
        END IF;
        IF freed_keys <> '{}' THEN
            ids := ids || pgjobs_next_of(freed_keys, most);
            freed_keys := '{}';
        END IF;
        EXIT WHEN ids = '{}' AND NOT may_have_left;
        IF ids <> '{}' THEN
            found := pgjobs_decide(
                ids, worker, CASE WHEN claims THEN room ELSE 0 END, served, excluded
            );
            IF cardinality(ids) > coalesce(cardinality(found.seen), 0) THEN
                ids := ARRAY(SELECT DISTINCT unnest(ids));
            END IF;
            IF cardinality(ids) > coalesce(cardinality(found.seen), 0) THEN
                number_of_notes := number_of_notes
                    + pgjobs_note_unseen(ids, coalesce(found.seen, '{}'));
                unseen := unseen || ARRAY(
                    SELECT id FROM unnest(ids) AS id
                    WHERE (id = ANY (found.seen)) IS NOT TRUE
                );
                ids := pgjobs_next_behind(unseen);
            ELSE
                ids := '{}';
            END IF;
            has_progress := has_progress OR is_full AND found.seen IS NOT NULL;
            IF found.claimed IS NOT NULL THEN
                claimed := claimed || found.claimed;
                room := room - cardinality(found.claimed);
            END IF;
            admitted_to := admitted_to || found.admitted_to;
            -- What is READY now comes before what is admitted later.
            claims := claims AND admitted_to = '{}';
            freed_keys := coalesce(found.freed_keys, '{}');
            rate_lines := rate_lines || found.rate_lines;
            met_undecided := met_undecided OR coalesce(found.met_undecided, false);
        END IF;
        IF clock_timestamp() > deadline THEN
            INSERT INTO pgjobs_note (keys) SELECT unnest(freed_keys);
            has_more := true;
            EXIT;
        END IF;
    END LOOP;
    IF rate_lines <> '{}' THEN
        PERFORM pgjobs_expect_tokens(rate_lines);
    END IF;
    admitted := cardinality(admitted_to);
    IF admitted > room OR admitted > 0 AND (served IS NOT NULL OR excluded <> '{}') THEN
        PERFORM pgjobs_notify_admitted(admitted_to, room, served, excluded);
    END IF;
    is_blocked := EXISTS (SELECT FROM pgjobs_note)
        OR EXISTS (
            SELECT FROM pgjobs_job WHERE line IN ('recorded', 'left', 'unlinked')
        );
    -- If no job has moved, other transactions hold the rows.
    has_more := has_more OR (is_full OR is_blocked)
        AND (has_progress OR ended <> '{}' OR number_of_notes < 0);
END
$$;
