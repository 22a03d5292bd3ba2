"""What changed in the functions of the database; freeze.py wrote it."""

from django.db import migrations

from pgjobs.database.install import InstallSQL

CHANGES = {
    "function pgjobs_admit": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_admit(
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
    touched jsonb[];
    ids bigint[] := '{}';  -- to decide about
    unseen bigint[] := '{}';  -- their rows are held
    rate_keys text[] := '{}';
    admitted_to text[] := '{}';
    linked bigint[];
    batches bigint[];
    some_arrived boolean;
    some_noted boolean;
    some_due boolean;
    may_have_left boolean;
    is_full boolean := false;  -- more may have arrived than it looks at
    has_progress boolean := false;
    number_noted integer := 0;  -- how many more notes there are
BEGIN
    touched := '{}';
    IF recorded_ids <> '{}' THEN
        found := pgjobs_record(
            worker, recorded_ids, lease_tokens, return_values, may_admit
        );
        recorded := found.recorded;
        touched := found.touched;
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
    SELECT EXISTS (SELECT FROM pgjobs_job WHERE line IN ('arrived', 'unlinked')),
        EXISTS (SELECT FROM pgjobs_job WHERE line IN ('recorded', 'left')),
        EXISTS (SELECT FROM pgjobs_note),
        EXISTS (SELECT FROM pgjobs_rate WHERE opens_at <= statement_timestamp())
    INTO some_arrived, may_have_left, some_noted, some_due;
    IF some_arrived THEN
        found := pgjobs_take_arrived(most, after_queue);
        after_queue := found.after_queue;
        ids := ids || found.ids;
        touched := touched || found.touched;
        ended := ended || found.ended;
        has_more := after_queue <> '';
        is_full := cardinality(found.ids) >= most;
        has_progress := has_progress OR found.has_linked;
    END IF;
    IF some_noted THEN
        found := pgjobs_take_notes(most);
        number_noted := -found.number;
        has_progress := has_progress OR found.followers <> '{}';
        ids := ids || found.followers;
        touched := touched || found.touched;
        ended := ended || found.ended;
    END IF;
    IF some_due THEN
        rate_keys := pgjobs_take_due_rates(most);
        touched := touched || ARRAY(
            SELECT jsonb_build_object('rate_key', key, 'rate_burst', most)
            FROM unnest(rate_keys) AS key
        );
    END IF;
    met_undecided := false;
    IF sweeps THEN
        found := pgjobs_sweep(4 * most, after_line, after_link);
        after_line := found.after_line;
        after_link := found.after_link;
        ids := ids || found.followers;
        touched := touched || found.touched;
        ended := ended || found.ended;
        met_undecided := EXISTS (SELECT FROM pgjobs_job WHERE line = 'undecided');
    END IF;
    may_have_left := may_have_left OR ended <> '{}';
    LOOP
        IF may_have_left THEN
            found := pgjobs_take_left(most);
            ids := ids || found.followers;
            touched := touched || found.touched;
            ended := ended || found.ended;
            has_progress := has_progress OR found.followers <> '{}';
            may_have_left := found.ended <> '{}' OR found.number = most;
        END IF;
        IF touched <> '{}' THEN
            ids := ids || pgjobs_next_in_lines(touched, most);
            touched := '{}';
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
                number_noted := number_noted
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
            touched := coalesce(found.touched, '{}');
            rate_keys := rate_keys || found.rate_keys;
            met_undecided := met_undecided OR coalesce(found.met_undecided, false);
        END IF;
        IF clock_timestamp() > deadline THEN
            INSERT INTO pgjobs_note (keys) SELECT unnest(touched);
            has_more := true;
            EXIT;
        END IF;
    END LOOP;
    IF rate_keys <> '{}' THEN
        PERFORM pgjobs_expect_tokens(rate_keys);
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
        AND (has_progress OR ended <> '{}' OR number_noted < 0);
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_admit(
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
""",
    ),
    "function pgjobs_bring_back": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_bring_back(lines text[], most integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    number integer;
    first record;
    served text[];
BEGIN
    -- The jobs of a line have one queue, unless SQL has moved some to another queue.
    SELECT array_agg(job.line) AS lines, array_agg(job.queue_name) AS queues
    INTO first
    FROM unnest(lines) AS wanted (line)
    CROSS JOIN LATERAL (
        (
            SELECT line, queue_name FROM pgjobs_job WHERE line = wanted.line
            ORDER BY line, queue_name LIMIT 1
        )
        UNION
        (
            SELECT line, queue_name FROM pgjobs_job WHERE line = wanted.line
            ORDER BY line DESC, queue_name DESC LIMIT 1
        )
    ) AS job
    WHERE starts_with(wanted.line, 'unserved ');
    served := pgjobs_served_of(first.queues);
    UPDATE pgjobs_job SET line = 'arrived'
    WHERE id = ANY (ARRAY(
        SELECT job.id
        FROM unnest(first.lines, first.queues) AS aside (line, name)
        CROSS JOIN LATERAL (
            SELECT id FROM pgjobs_job
            WHERE line = aside.line AND queue_name = aside.name
            LIMIT most
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS job
        WHERE aside.name = ANY (served)
        LIMIT most
    ));
    GET DIAGNOSTICS number = ROW_COUNT;
    RETURN number;
END
$$;
""",
    ),
    "function pgjobs_carry_rates": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_carry_rates(ids bigint[], at timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE pgjobs_rate
    SET starts = ARRAY[at], counts = ARRAY[greatest(0, least(burst, ceil(
            extract(epoch FROM full_at - at)::float8 / step
        )))::integer]
    FROM (
        SELECT DISTINCT ON (name) keys ->> 'rate_key' AS name,
            (keys -> 'rate_interval')::float8 AS step,
            (keys -> 'rate_burst')::integer AS burst
        FROM pgjobs_job WHERE id = ANY (ids) AND keys ? 'rate_key'
        ORDER BY name, step DESC
    ) AS job
    -- By its index, also where the planner expects an empty table.
    WHERE key = ANY (ARRAY(
            SELECT keys ->> 'rate_key' FROM pgjobs_job WHERE id = ANY (ids)
        ))
        AND key = name AND starts IS NULL;
END
$$;
""",
    ),
    "function pgjobs_claim_admitted": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_claim_admitted(
    candidates pgjobs_candidate[],
    worker bigint, room integer, served text[], excluded text[]
) RETURNS json[] LANGUAGE plpgsql AS $$
DECLARE
    claimed json[];
    ids bigint[];
    may_claim boolean;
BEGIN
    SELECT array_agg(id), count(*) <= room AND bool_and(
            coalesce(queue_name = ANY (served), true)
            AND NOT queue_name = ANY (excluded)
            AND NOT EXISTS (
                SELECT FROM pgjobs_queue
                WHERE name = queue_name
                    AND (paused_at IS NOT NULL OR max_running IS NOT NULL)
                OFFSET 0
            )
        )
    INTO ids, may_claim
    FROM unnest(candidates)
    WHERE obstacle IS NULL;
    IF may_claim AND ids IS NOT NULL THEN
        WITH begun AS (
            UPDATE pgjobs_job
            SET status = 'RUNNING',
                attempts = least(attempts, 2147483646) + 1,
                lease_token = nextval('pgjobs_lease_token'),
                worker_id = worker,
                started_at = coalesce(started_at, clock_timestamp()),
                last_attempted_at = clock_timestamp(),
                waiting_for = NULL,
                blocked_by_id = NULL,
                line = NULL,
                -- As in pgjobs_move: it may come back to the queue.
                turn = CASE
                    WHEN starts_with(line, 'limit ') THEN nextval('pgjobs_turn')
                    ELSE turn
                END
            WHERE id = ANY (ids)
            RETURNING json_build_array(
                id, task, args::text, kwargs::text, queue_name, priority, attempts,
                failures, max_attempts, crashes, max_crashes, timeout, life,
                lease_token, enqueued_at, keys IS NOT NULL, dependencies IS NOT NULL,
                turn, meta::text,
                extract(epoch FROM now() - greatest(run_after,
                    CASE WHEN attempts = 2 - life THEN enqueued_at END))::float8
            ) AS row
        )
        SELECT array_agg(row) INTO claimed FROM begun;
    END IF;
    RETURN claimed;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_claim_admitted(
    ids bigint[], obstacles jsonb,
    worker bigint, room integer, served text[], excluded text[], are_rated boolean
) RETURNS json[] LANGUAGE plpgsql AS $$
DECLARE
    claimed json[];
    free bigint[];
    may_claim boolean;
BEGIN
    SELECT array_agg(id), count(*) <= room AND bool_and(
            coalesce(queue_name = ANY (served), true)
            AND NOT queue_name = ANY (excluded)
            AND NOT EXISTS (
                SELECT FROM pgjobs_queue
                WHERE name = queue_name
                    AND (paused_at IS NOT NULL OR max_running IS NOT NULL)
                OFFSET 0
            )
        )
    INTO free, may_claim
    FROM pgjobs_job
    WHERE id = ANY (ids) AND NOT obstacles ? id::text;
    IF may_claim AND free IS NOT NULL THEN
        WITH begun AS (
            UPDATE pgjobs_job
            SET status = 'RUNNING',
                attempts = least(attempts, 2147483646) + 1,
                lease_token = CASE
                    WHEN lease_token < nextval('pgjobs_lease_token')
                        THEN currval('pgjobs_lease_token')
                    ELSE pgjobs_token_beyond(lease_token)
                END,
                worker_id = worker,
                started_at = coalesce(started_at, clock_timestamp()),
                last_attempted_at = clock_timestamp(),
                waiting_for = NULL,
                blocked_by_id = NULL,
                line = NULL,
                -- As in pgjobs_move: it may come back to the queue.
                turn = CASE
                    WHEN starts_with(line, 'limit ') THEN nextval('pgjobs_turn')
                    ELSE turn
                END
            WHERE id = ANY (free)
            RETURNING json_build_array(
                id, task, args::text, kwargs::text, queue_name, priority, attempts,
                failures, max_attempts, crashes, max_crashes, timeout, life,
                lease_token, enqueued_at, pgjobs_ends_for_others(keys) IS TRUE,
                dependencies IS NOT NULL,
                turn, meta::text,
                0::float8  -- it could not run before
            ) AS row
        )
        SELECT array_agg(row) INTO claimed FROM begun;
        IF are_rated THEN
            PERFORM pgjobs_count_claimed(free);
        END IF;
    END IF;
    RETURN claimed;
END
$$;
""",
    ),
    "function pgjobs_count_claimed": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_count_claimed(ids bigint[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgjobs_count_starts(array_agg(pgjobs_keys_now(task, keys) || jsonb_build_object(
        'rate_started_at', extract(epoch FROM clock_timestamp())
    )))
    FROM pgjobs_job
    WHERE id = ANY (ids) AND keys ? 'rate_key'
    HAVING count(*) > 0;
END
$$;
""",
    ),
    "function pgjobs_count_starts": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_count_starts(counted jsonb[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    at timestamptz := clock_timestamp();
BEGIN
    INSERT INTO pgjobs_rate AS rate
        (key, full_at, starts, counts, even_at, shortest, longest)
    SELECT key, at + make_interval(secs => max(period)) + make_interval(secs => sum(step)),
        array_agg(started_at ORDER BY started_at), array_agg(1),
        max(started_at + make_interval(secs => later * step)),
        min(period), max(period)
    FROM (
        SELECT *, count(*) OVER (
                PARTITION BY key ORDER BY started_at DESC ROWS UNBOUNDED PRECEDING
            ) AS later
        FROM (
            SELECT start.keys ->> 'rate_key' AS key,
                least(at, to_timestamp((start.keys -> 'rate_started_at')::float8))
                    AS started_at,
                interval * pgjobs_rate_number(start.keys) AS period,
                -- Rounded up: a time has whole microseconds.
                CASE
                    WHEN interval < 1e-4 THEN interval
                    ELSE ceil(interval * 1e6) / 1e6
                END AS step
            FROM unnest(counted) AS start (keys)
            CROSS JOIN LATERAL (
                SELECT (start.keys -> 'rate_interval')::float8
            ) AS own (interval)
        ) AS start
    ) AS start
    GROUP BY key
    ON CONFLICT (key) DO UPDATE SET
        full_at = greatest(
            at + make_interval(secs => greatest(rate.longest, excluded.longest)),
            excluded.even_at
        ),
        -- All steps of these starts: what full_at has beyond the period.
        even_at = greatest(
            least(coalesce(rate.even_at, rate.full_at), at + make_interval(
                secs => greatest(rate.longest, excluded.longest)
            )) + (
                excluded.full_at - at - make_interval(secs => excluded.longest)
            ),
            excluded.even_at
        ),
        shortest = least(rate.shortest, excluded.shortest),
        longest = greatest(rate.longest, excluded.longest),
        (starts, counts) = (
            SELECT merged.starts, merged.counts
            FROM pgjobs_merge_starts(
                coalesce(rate.starts, '{}') || excluded.starts,
                coalesce(rate.counts, '{}') || excluded.counts,
                least(rate.shortest, excluded.shortest),
                greatest(rate.longest, excluded.longest), at
            ) AS merged
        );
END
$$;
""",
    ),
    "function pgjobs_decide": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_decide(
    ids bigint[], worker bigint, room integer, served text[], excluded text[],
    OUT claimed json[], OUT seen bigint[], OUT admitted_to text[], OUT touched jsonb[],
    OUT rate_keys text[], OUT met_undecided boolean
) LANGUAGE plpgsql AS $$
DECLARE
    at timestamptz := clock_timestamp();
    found record := pgjobs_candidates(ids);
    candidates pgjobs_candidate[] := found.candidates;
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
        candidates := pgjobs_meet_limits(candidates);
    END IF;
    IF found.are_rated THEN
        candidates := pgjobs_meet_rates(candidates, at);
        PERFORM pgjobs_take_tokens(candidates, at);
    END IF;
    IF room > 0 AND found.are_ordinary THEN
        claimed := pgjobs_claim_admitted(candidates, worker, room, served, excluded);
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
        touched := pgjobs_left_free(candidates);
    END IF;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_decide(
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
""",
    ),
    "function pgjobs_expect_tokens": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_expect_tokens(rate_keys text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE pgjobs_rate AS rate SET opens_at = (
        SELECT pgjobs_rate_opens_at(
            full_at, (keys ->> 'rate_interval')::double precision,
            (keys ->> 'rate_burst')::integer, 1, full_at
        )
        FROM pgjobs_heads(ARRAY[pgjobs_line('rate', rate.key)], '{1}')
    )
    WHERE key = ANY (rate_keys);
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_expect_tokens(rate_lines text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    at timestamptz := clock_timestamp();
BEGIN
    INSERT INTO pgjobs_rate AS rate (
        key, full_at, opens_at, starts, counts, even_at, shortest, longest
    )
    SELECT state.key, at,
        pgjobs_rate_opens(
            state.starts, state.counts, state.even_at, number, period, burst,
            taken + 1, at
        ),
        '{}', '{}', at, period, period
    FROM (
        SELECT array_agg(line) AS lines, array_agg(1) AS ones
        FROM (SELECT DISTINCT unnest(rate_lines)) AS rate (line)
    ) AS wanted
    CROSS JOIN LATERAL pgjobs_heads(lines, ones) AS head
    CROSS JOIN LATERAL (
        SELECT pgjobs_rate_number(head.keys) AS number,
            (head.keys -> 'rate_interval')::float8 AS step,
            (head.keys -> 'rate_burst')::integer AS burst
        OFFSET 0
    ) AS own
    CROSS JOIN LATERAL (SELECT number * step AS period) AS that
    CROSS JOIN LATERAL pgjobs_rate_states(
        ARRAY[head.keys ->> 'rate_key'], 2147483647
    ) AS state
    ON CONFLICT (key) DO UPDATE SET opens_at = excluded.opens_at,
        even_at = least(
            coalesce(rate.even_at, rate.full_at),
            at + make_interval(secs => greatest(rate.longest, excluded.longest))
        ),
        full_at = least(
            rate.full_at,
            at + make_interval(secs => greatest(rate.longest, excluded.longest))
        ),
        shortest = least(rate.shortest, excluded.shortest),
        longest = greatest(rate.longest, excluded.longest),
        starts = ARRAY(SELECT least(start, at) FROM unnest(rate.starts) AS start),
        counts = coalesce(rate.counts, '{}');
END
$$;
""",
    ),
    "function pgjobs_heads": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_heads(lines text[], numbers integer[])
RETURNS TABLE (line text, id bigint, keys jsonb) LANGUAGE plpgsql STABLE AS $$
DECLARE
    first record;
BEGIN
    IF 1 = ALL (numbers) THEN
        SELECT array_agg(head.line) AS lines, array_agg(head.id) AS ids,
            array_agg(head.keys) AS keys, array_agg(head.queue_name) AS queues,
            bool_or(has_more_queues) AS are_mixed
        INTO first
        FROM unnest(lines) AS wanted (line)
        CROSS JOIN LATERAL (
            SELECT job.line, job.id, job.keys, queue_name, EXISTS (
                    SELECT FROM pgjobs_job AS other
                    WHERE other.line = job.line AND other.queue_name > job.queue_name
                ) AS has_more_queues
            FROM pgjobs_job AS job
            WHERE job.line = wanted.line
            ORDER BY job.line, queue_name, priority DESC, turn LIMIT 1
        ) AS head;
        IF NOT first.are_mixed THEN
            RETURN QUERY
            SELECT head.line, head.id, head.keys
            FROM unnest(first.lines, first.ids, first.keys, first.queues)
                AS head (line, id, keys, queue_name)
            WHERE queue_name = ANY (ARRAY(
                SELECT name FROM (
                    SELECT DISTINCT unnest(first.queues) OFFSET 0
                ) AS queue (name)
                WHERE pgjobs_is_served(name)
            ));
        END IF;
        IF first.are_mixed IS NOT TRUE THEN
            RETURN;
        END IF;
    END IF;
    RETURN QUERY SELECT * FROM pgjobs_heads_by_queue(lines, numbers);
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_heads(lines text[], numbers integer[])
RETURNS TABLE (
    line text, id bigint, keys jsonb, priority smallint, turn bigint, place bigint
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    first record;
    served text[];
    mixed text[] := '{}';  -- lines with jobs that are skipped
    is_changed CONSTANT boolean := pgjobs_changes_flow();
BEGIN
    SELECT array_agg(wanted.line) AS lines, array_agg(id) AS ids,
        array_agg(keys) AS keys, array_agg(priority) AS priorities,
        array_agg(turn) AS turns, array_agg(place) AS places,
        array_agg(queue_name) AS queues
    INTO first
    FROM unnest(lines, numbers) AS wanted (line, number)
    CROSS JOIN LATERAL (
        SELECT *, row_number() OVER () AS place
        FROM (
            SELECT id, priority, turn, queue_name, CASE
                    WHEN is_changed THEN pgjobs_keys_now(task, keys) ELSE keys
                END AS keys
            FROM pgjobs_job AS job
            -- The second condition is the index's own.
            WHERE job.line = wanted.line AND job.line LIKE '% %'
            ORDER BY job.line, priority DESC, turn LIMIT number
        ) AS job
    ) AS head;
    served := pgjobs_served_of(first.queues);
    -- The index does not have the jobs of this line.
    IF 'arrived' = ANY (lines) OR NOT first.queues <@ served THEN
        mixed := ARRAY['arrived'] || ARRAY(
            SELECT line FROM unnest(first.lines, first.queues) AS head (line, queue_name)
            WHERE NOT queue_name = ANY (served)
        );
        RETURN QUERY
        WITH RECURSIVE hop (line, number, queue_name) AS (
            SELECT line, number, (
                SELECT queue_name FROM pgjobs_job AS job WHERE job.line = wanted.line
                ORDER BY queue_name LIMIT 1
            )
            FROM unnest(lines, numbers) AS wanted (line, number)
            WHERE line = ANY (mixed)
            UNION ALL
            SELECT line, number, (
                SELECT queue_name FROM pgjobs_job AS job
                WHERE job.line = hop.line AND job.queue_name > hop.queue_name
                ORDER BY queue_name LIMIT 1
            )
            FROM hop WHERE queue_name IS NOT NULL
        )
        SELECT line, id, keys, priority, turn, place
        FROM (
            SELECT hop.line, number, job.*, row_number() OVER (
                    PARTITION BY hop.line ORDER BY priority DESC, turn
                ) AS place
            FROM hop
            CROSS JOIN LATERAL (
                SELECT id, priority, turn, CASE
                        WHEN is_changed THEN pgjobs_keys_now(task, keys) ELSE keys
                    END AS keys
                FROM pgjobs_job AS job
                WHERE job.line = hop.line AND job.queue_name = hop.queue_name
                ORDER BY priority DESC, turn LIMIT number
            ) AS job
            -- The question is asked once, however many lines a queue is in. IS TRUE lets
            -- the planner hash the answers: it would compare each queue with all of them.
            WHERE (queue_name IN (
                SELECT unnest(pgjobs_served_of(ARRAY(SELECT queue_name FROM hop)))
            )) IS TRUE
        ) AS ranked
        WHERE place <= number;
    END IF;
    RETURN QUERY
    SELECT * FROM unnest(
        first.lines, first.ids, first.keys, first.priorities, first.turns, first.places
    ) AS head (line)
    WHERE NOT line = ANY (mixed);
END
$$;
""",
    ),
    "function pgjobs_knows": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_knows(waiting_for text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT waiting_for IN ('predecessor', 'dependency', 'lock', 'limit', 'rate')
$$;
""",
    ),
    "function pgjobs_left_free": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_left_free(candidates pgjobs_candidate[])
RETURNS jsonb[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT jsonb_strip_nulls(jsonb_build_object(
            'lock', CASE WHEN obstacle IN ('limit', 'rate') THEN lock END,
            'limit_key', CASE
                WHEN obstacle = 'rate'
                    OR obstacle <> 'limit' AND starts_with(line, 'limit ')
                    THEN limit_key
            END,
            'rate_key', CASE WHEN starts_with(line, 'rate ') THEN rate_key END,
            'rate_burst', CASE WHEN starts_with(line, 'rate ') THEN rate_burst END
        ))
        FROM unnest(candidates) AS candidate
        WHERE line <> pgjobs_line_of(candidate) AND line ~ '^(limit|rate) '
            OR obstacle IN ('limit', 'rate')
            AND (lock IS NOT NULL OR obstacle = 'rate' AND limit_key IS NOT NULL)
            AND (
                line IS DISTINCT FROM pgjobs_line_of(candidate)
                OR id IN (SELECT blocker FROM unnest(candidates))
                OR limit_key IN (
                    SELECT other.limit_key FROM unnest(candidates) AS other
                    WHERE other.obstacle = 'limit'
                )
            )
    );
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_left_free(ids bigint[], obstacles jsonb)
RETURNS jsonb[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        WITH job AS MATERIALIZED (
            SELECT id, line, keys, own.value ->> 'line' AS next_line,
                split_part(own.value ->> 'line', ' ', 1) AS met,
                (own.value ->> 'blocker')::bigint AS blocker
            FROM pgjobs_job
            CROSS JOIN LATERAL (SELECT obstacles -> id::text) AS own (value)
            WHERE id = ANY (ids) AND own.value IS NOT NULL
        )
        SELECT jsonb_strip_nulls(jsonb_build_object(
            'lock', CASE WHEN met IN ('limit', 'rate') THEN keys -> 'lock' END,
            'limit_key', CASE
                WHEN met = 'rate' OR met <> 'limit' AND starts_with(line, 'limit ')
                    THEN keys -> 'limit_key'
            END,
            'rate_key', CASE WHEN starts_with(line, 'rate ') THEN keys -> 'rate_key' END
        ))
        FROM job
        WHERE line <> next_line AND line ~ '^(limit|rate) '
            OR (
                met IN ('limit', 'rate') AND keys ? 'lock'
                OR met = 'rate' AND keys ? 'limit_key'
            )
            AND (
                line <> next_line
                OR id IN (SELECT blocker FROM job)
                OR keys ->> 'limit_key' IN (
                    SELECT keys ->> 'limit_key' FROM job AS other
                    WHERE other.met = 'limit'
                )
            )
    );
END
$$;
""",
    ),
    "function pgjobs_meet_limits": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_meet_limits(candidates pgjobs_candidate[])
RETURNS pgjobs_candidate[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT ROW(
            id, queue_name, priority, turn, line, lock, is_ordered, limit_key,
            max_running, rate_key, rate_interval, rate_burst,
            CASE
                WHEN obstacle IS NULL AND bool_or(running + number > max_running)
                    OVER same_limit THEN 'limit'
                ELSE obstacle
            END,
            blocker
        )::pgjobs_candidate
        FROM (
            SELECT *, first_value(
                    CASE
                        WHEN number = 1 AND obstacle IS NULL AND limit_key IS NOT NULL
                            THEN (
                                SELECT count(*) FROM (
                                    SELECT FROM pgjobs_job
                                    WHERE keys IS NOT NULL
                                        AND keys ->> 'limit_key' = placed.limit_key
                                        AND status IN ('READY', 'RUNNING')
                                    LIMIT placed.max_running
                                ) AS place
                            )
                    END
                ) OVER same_limit AS running
            FROM (
                SELECT *, row_number() OVER (
                        PARTITION BY obstacle IS NULL, limit_key
                        ORDER BY priority DESC, turn
                    ) AS number
                FROM unnest(candidates)
            ) AS placed
            WINDOW same_limit AS (
                PARTITION BY obstacle IS NULL, limit_key ORDER BY priority DESC, turn
            )
        ) AS counted
        WINDOW same_limit AS (
            PARTITION BY obstacle IS NULL, limit_key ORDER BY priority DESC, turn
        )
    );
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_meet_limits(
    ids bigint[], INOUT obstacles jsonb, OUT freed_keys jsonb[]
) LANGUAGE plpgsql AS $$
DECLARE
    is_changed CONSTANT boolean := pgjobs_changes_flow();
BEGIN
    WITH job AS MATERIALIZED (
        SELECT id, priority, turn, keys ->> 'limit_key' AS key,
            (CASE WHEN is_changed THEN pgjobs_keys_now(task, keys) ELSE keys END
                -> 'max_running')::integer AS allows,
            pgjobs_line('limit', keys ->> 'limit_key') AS own_line,
            line <> pgjobs_line('limit', keys ->> 'limit_key') AS comes_from_elsewhere
        FROM pgjobs_job
        WHERE id = ANY (ids) AND keys ? 'limit_key' AND NOT obstacles ? id::text
    ),
    -- Mostly there is no line. To ask for it costs less than to look for its first job.
    joined AS (
        SELECT array_agg(line) AS lines, array_agg(1) AS ones
        FROM (SELECT DISTINCT own_line FROM job WHERE comes_from_elsewhere) AS own (line)
        WHERE EXISTS (SELECT FROM pgjobs_job WHERE pgjobs_job.line = own.line OFFSET 0)
        HAVING count(*) > 0
    ),
    placed AS (
        SELECT *, count(id) OVER same_limit AS number,
            bool_or(id IS NULL) OVER same_limit AND comes_from_elsewhere AS is_behind
        FROM (
            SELECT * FROM job
            UNION ALL
            SELECT NULL, priority, turn, keys ->> 'limit_key', NULL, line, NULL
            FROM joined CROSS JOIN LATERAL pgjobs_heads(lines, ones)
        ) AS either
        WINDOW same_limit AS (PARTITION BY key ORDER BY priority DESC, turn, id)
    ),
    counted AS (
        SELECT *, number + max(
                CASE
                    WHEN number = 1 THEN (
                        SELECT count(*) FROM (
                            SELECT FROM pgjobs_job
                            WHERE keys IS NOT NULL AND keys ->> 'limit_key' = placed.key
                                AND status IN ('READY', 'RUNNING')
                            LIMIT placed.allows
                        ) AS place
                    )
                END
            ) OVER same_limit AS running,
            first_value(allows) OVER same_limit AS first_allows
        FROM placed WHERE id IS NOT NULL
        WINDOW same_limit AS (PARTITION BY key ORDER BY priority DESC, turn, id)
    )
    SELECT coalesce(
            jsonb_object_agg(
                id, jsonb_build_object('waiting_for', 'limit', 'line', own_line)
            ) FILTER (WHERE is_full OR is_held_up),
            '{}'
        ),
        coalesce(
            array_agg(jsonb_build_object('limit_key', key)) FILTER (
                WHERE NOT is_full AND (is_behind OR running > first_allows)
            ),
            '{}'
        )
    INTO obstacles, freed_keys
    FROM (
        SELECT *, bool_or(is_behind) OVER same_limit AS is_held_up,
            bool_or(running > allows) OVER same_limit AS is_full
        FROM counted
        WINDOW same_limit AS (PARTITION BY key ORDER BY priority DESC, turn, id)
    ) AS met;
END
$$;
""",
    ),
    "function pgjobs_meet_links": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_meet_links(candidates pgjobs_candidate[])
RETURNS pgjobs_candidate[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT ROW(
            candidate.id, candidate.queue_name, candidate.priority, candidate.turn,
            candidate.line, lock, is_ordered, limit_key, max_running, rate_key,
            rate_interval, rate_burst,
            CASE
                WHEN link.obstacle IS NOT NULL THEN link.obstacle
                WHEN dependencies IS NOT NULL
                    AND pgjobs_lacks_dependency(dependencies) THEN 'undecided'
                WHEN is_linked AND NOT pgjobs_is_served(candidate.queue_name)
                    THEN 'unserved'
            END,
            link.predecessor_id
        )::pgjobs_candidate
        FROM unnest(candidates) AS candidate
        CROSS JOIN LATERAL (
            SELECT dependencies, dependencies IS NOT NULL
                OR keys ?| ARRAY['after', 'after_batches'] AS is_linked
            FROM pgjobs_job WHERE pgjobs_job.id = candidate.id
            OFFSET 0  -- asked for each: no join with all jobs
        ) AS job
        LEFT JOIN LATERAL (
            SELECT predecessor_id,
                CASE needs WHEN 'dependency' THEN needs ELSE 'predecessor' END
                    AS obstacle
            FROM pgjobs_predecessor
            WHERE job.is_linked AND job_id = candidate.id AND is_open
            ORDER BY needs = 'dependency', predecessor_id LIMIT 1
        ) AS link ON true
    );
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_meet_links(ids bigint[]) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT coalesce(jsonb_object_agg(met.id, to_jsonb(met)), '{}')
        FROM (
            SELECT job.id, predecessor_id AS blocker,
                CASE
                    WHEN needs = 'dependency' OR needs IS NULL AND is_undecided
                        THEN 'dependency'
                    WHEN needs IS NOT NULL THEN 'predecessor'
                    ELSE waiting_for  -- and unserved
                END AS waiting_for,
                CASE
                    WHEN needs IS NOT NULL THEN 'predecessor'
                    WHEN is_undecided THEN 'undecided'
                    ELSE pgjobs_line('unserved', queue_name)
                END AS line
            FROM pgjobs_job AS job
            LEFT JOIN LATERAL (
                SELECT predecessor_id, needs FROM pgjobs_predecessor
                WHERE job_id = job.id AND is_open
                ORDER BY needs = 'dependency', predecessor_id LIMIT 1
            ) AS link ON true
            CROSS JOIN LATERAL (
                SELECT needs IS NULL AND dependencies IS NOT NULL
                    AND pgjobs_lacks_dependency(dependencies)
                OFFSET 0  -- asked once, although it is used three times
            ) AS own (is_undecided)
            WHERE job.id = ANY (ids)
                AND (dependencies IS NOT NULL OR keys ?| ARRAY['after', 'after_batches'])
                AND (
                    needs IS NOT NULL OR is_undecided
                    OR NOT pgjobs_is_served(queue_name)
                )
        ) AS met
    );
END
$$;
""",
    ),
    "function pgjobs_meet_locks": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_meet_locks(candidates pgjobs_candidate[])
RETURNS pgjobs_candidate[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT ROW(
            id, queue_name, priority, turn, line, lock, is_ordered, limit_key,
            max_running, rate_key, rate_interval, rate_burst,
            CASE WHEN loses THEN 'lock' ELSE obstacle END,
            CASE WHEN loses THEN coalesce(holder_id, first_id) ELSE blocker END
        )::pgjobs_candidate
        FROM (
            SELECT *, obstacle IS NULL AND lock IS NOT NULL
                    AND (holder_id IS NOT NULL OR first_id <> id) AS loses
            FROM (
                SELECT *, first_value(id) OVER (
                        PARTITION BY obstacle IS NULL AND holder_id IS NULL, lock
                        ORDER BY priority DESC, turn
                    ) AS first_id
                FROM unnest(candidates) AS candidate
                CROSS JOIN LATERAL (
                    SELECT coalesce(
                        (
                            SELECT job.id FROM pgjobs_job AS job
                            WHERE keys IS NOT NULL AND keys ->> 'lock' = candidate.lock
                                AND status IN ('READY', 'RUNNING')
                        ),
                        (
                            SELECT first.id FROM (
                                SELECT job.id FROM pgjobs_job AS job
                                WHERE keys IS NOT NULL
                                    AND keys ->> 'lock'
                                        BETWEEN candidate.lock AND candidate.lock
                                    AND (keys ->> 'is_ordered')
                                        IS DISTINCT FROM 'false'
                                    AND status IN ('WAITING', 'SCHEDULED')
                                ORDER BY keys ->> 'lock', job.id LIMIT 1
                            ) AS first
                            WHERE is_ordered AND first.id < candidate.id
                        )
                    )
                    OFFSET 0  -- asked once, although it is used twice
                ) AS holder (holder_id)
            ) AS placed
        ) AS decided
    );
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_meet_locks(ids bigint[], obstacles jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT coalesce(jsonb_object_agg(met.id, to_jsonb(met)), '{}')
        FROM (
            SELECT id, 'lock' AS waiting_for, coalesce(holder_id, first_id) AS blocker,
                pgjobs_line(
                    CASE WHEN is_ordered THEN 'lock' ELSE 'mutex' END, lock
                ) AS line
            FROM (
                SELECT *, first_value(id) OVER (
                        PARTITION BY holder_id IS NULL, lock ORDER BY priority DESC, turn
                    ) AS first_id
                FROM (
                    SELECT id, priority, turn, keys ->> 'lock' AS lock,
                        keys ->> 'is_ordered' IS DISTINCT FROM 'false' AS is_ordered
                    FROM pgjobs_job
                    WHERE id = ANY (ids) AND keys ? 'lock' AND NOT obstacles ? id::text
                ) AS job
                CROSS JOIN LATERAL (
                    SELECT coalesce(
                        (
                            SELECT other.id FROM pgjobs_job AS other
                            WHERE keys IS NOT NULL AND keys ->> 'lock' = job.lock
                                AND status IN ('READY', 'RUNNING')
                        ),
                        (
                            SELECT first.id FROM (
                                SELECT other.id FROM pgjobs_job AS other
                                WHERE keys IS NOT NULL
                                    AND keys ->> 'lock' BETWEEN job.lock AND job.lock
                                    AND (keys ->> 'is_ordered')
                                        IS DISTINCT FROM 'false'
                                    AND status IN ('WAITING', 'SCHEDULED')
                                ORDER BY keys ->> 'lock', other.id LIMIT 1
                            ) AS first
                            WHERE is_ordered AND first.id < job.id
                        )
                    )
                    OFFSET 0  -- asked once, although it is used twice
                ) AS holder (holder_id)
            ) AS placed
            WHERE holder_id IS NOT NULL OR first_id <> id
        ) AS met
    );
END
$$;
""",
    ),
    "function pgjobs_meet_rates": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_meet_rates(
    candidates pgjobs_candidate[], at timestamptz
) RETURNS pgjobs_candidate[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT ROW(
            id, queue_name, priority, turn, line, lock, is_ordered, limit_key,
            max_running, rate_key, rate_interval, rate_burst,
            CASE
                WHEN obstacle IS NULL AND pgjobs_rate_opens_at(
                        full_at, rate_interval, rate_burst, number, at
                    ) > at
                    THEN 'rate'
                ELSE obstacle
            END,
            blocker
        )::pgjobs_candidate
        FROM (
            SELECT *, row_number() OVER (
                    PARTITION BY obstacle IS NULL, rate_key
                    ORDER BY priority DESC, turn
                ) AS number,
                (SELECT full_at FROM pgjobs_rate WHERE key = rate_key) AS full_at
            FROM unnest(candidates)
        ) AS placed
    );
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_meet_rates(
    ids bigint[], obstacles jsonb, at timestamptz
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    is_changed CONSTANT boolean := pgjobs_changes_flow();
    rate_keys text[];
    heads bigint[];
BEGIN
    SELECT array_agg(DISTINCT keys ->> 'rate_key') INTO rate_keys
    FROM pgjobs_job
    WHERE id = ANY (ids) AND keys ? 'rate_key' AND NOT obstacles ? id::text;
    IF rate_keys IS NULL THEN
        RETURN '{}';
    END IF;
    PERFORM pgjobs_carry_rates(ids, at);
    heads := ARRAY(
        SELECT id FROM pgjobs_job
        WHERE id = ANY (ARRAY(
                SELECT head.id
                FROM (
                    SELECT array_agg(pgjobs_line('rate', key)) AS lines,
                        array_agg(1) AS ones
                    FROM unnest(rate_keys) AS key
                ) AS wanted
                CROSS JOIN LATERAL pgjobs_heads(lines, ones) AS head
                WHERE NOT head.id = ANY (ids)
            ))
            AND status = 'WAITING'
        FOR NO KEY UPDATE SKIP LOCKED
    );
    RETURN (
        WITH state AS MATERIALIZED (
            SELECT * FROM pgjobs_rate_states(rate_keys, 2147483647)
        ),
        job AS MATERIALIZED (
            SELECT id, priority, turn, id = ANY (heads) AS is_head,
                keys ->> 'rate_key' AS rate_key, pgjobs_rate_number(own.now) AS number,
                (own.now -> 'rate_interval')::float8 AS step,
                (own.now -> 'rate_burst')::integer AS burst
            FROM pgjobs_job
            CROSS JOIN LATERAL (
                SELECT CASE WHEN is_changed THEN pgjobs_keys_now(task, keys) ELSE keys END
                OFFSET 0
            ) AS own (now)
            WHERE id = ANY (ids || heads) AND keys ? 'rate_key'
                AND NOT obstacles ? id::text
        ),
        placed AS (
            SELECT *, count(*) FILTER (WHERE NOT is_head) OVER same_rate AS place
            FROM job
            WINDOW same_rate AS (PARTITION BY rate_key ORDER BY priority DESC, turn, id)
        )
        SELECT coalesce(
            jsonb_object_agg(id, jsonb_build_object(
                'waiting_for', 'rate', 'line', pgjobs_line('rate', rate_key)
            )) FILTER (WHERE is_held_up AND NOT is_head),
            '{}'
        )
        FROM (
            SELECT placed.*, bool_or(
                    is_head OR pgjobs_rate_opens(
                        starts, counts, even_at, number, number * step, burst,
                        taken + place, at
                    ) > at
                ) OVER same_rate AS is_held_up
            FROM placed JOIN state ON state.key = rate_key
            WINDOW same_rate AS (PARTITION BY rate_key ORDER BY priority DESC, turn, id)
        ) AS met
    );
END
$$;
""",
    ),
    "function pgjobs_merge_starts": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_merge_starts(
    INOUT starts timestamptz[], INOUT counts integer[],
    shortest double precision, longest double precision, at timestamptz
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT coalesce(array_agg(last_start ORDER BY last_start), '{}'),
        coalesce(array_agg(number ORDER BY last_start), '{}')
    INTO starts, counts
    FROM (
        SELECT max(last_start) AS last_start,
            least(sum(number), 2147483647)::integer AS number
        FROM (
            SELECT last_start, number, power(2::float8, floor(ln(greatest(
                    shortest, extract(epoch FROM at - last_start)::float8
                ) / 64) / ln(2::float8))) AS width
            FROM (
                SELECT least(start, at), number
                FROM unnest(starts, counts) AS slice (start, number)
                WHERE number > 0
            ) AS slice (last_start, number)
            WHERE last_start > at - make_interval(secs => longest)
        ) AS slice
        GROUP BY width, floor(extract(epoch FROM last_start)::float8 / width)
    ) AS slice;
END
$$;
""",
    ),
    "function pgjobs_move": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_move(candidates pgjobs_candidate[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM set_config('pgjobs.admits', 'on', true);  -- as in record.sql
    UPDATE pgjobs_job AS job
    SET status = CASE WHEN obstacle IS NULL THEN 'READY' ELSE 'WAITING' END,
        waiting_for = CASE obstacle
            WHEN 'undecided' THEN 'dependency'
            WHEN 'unserved' THEN job.waiting_for
            ELSE obstacle
        END,
        blocked_by_id = blocker,
        line = next_line,
        -- Behind the jobs enqueued while it waited, so that limit keys take turns.
        turn = CASE
            WHEN obstacle IS NULL AND starts_with(job.line, 'limit ')
                THEN nextval('pgjobs_turn')
            ELSE job.turn
        END
    FROM (
        SELECT obstacle, blocker, line,
            CASE WHEN obstacle IS NOT NULL THEN pgjobs_line_of(candidate) END
                AS next_line,
            (SELECT ctid FROM pgjobs_job WHERE pgjobs_job.id = candidate.id) AS place
        FROM unnest(candidates) AS candidate
        OFFSET 0
    ) AS decided
    WHERE job.ctid = place AND decided.line IS DISTINCT FROM next_line;
    PERFORM set_config('pgjobs.admits', '', true);
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_move(
    ids bigint[], obstacles jsonb, OUT admitted_to text[]
) LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM set_config('pgjobs.admits', 'on', true);  -- as in record.sql
    WITH moved AS (
        UPDATE pgjobs_job AS job
        SET status = CASE WHEN met IS NULL THEN 'READY' ELSE 'WAITING' END,
            waiting_for = met ->> 'waiting_for',
            blocked_by_id = (met ->> 'blocker')::bigint,
            line = met ->> 'line',
            -- It could run from now on, however long it has waited for that.
            run_after = CASE WHEN met IS NULL THEN clock_timestamp() ELSE run_after END,
            -- Behind the jobs enqueued while it waited, so that limit keys alternate.
            turn = CASE
                WHEN met IS NULL AND starts_with(line, 'limit ')
                    THEN nextval('pgjobs_turn')
                ELSE turn
            END
        FROM (
            SELECT obstacles -> wanted.id::text AS met, (
                    SELECT ctid FROM pgjobs_job
                    WHERE pgjobs_job.id = wanted.id AND status = 'WAITING'
                ) AS place
            FROM unnest(ids) AS wanted (id)
            OFFSET 0
        ) AS decided
        WHERE job.ctid = place AND line IS DISTINCT FROM met ->> 'line'
        RETURNING status, queue_name
    )
    SELECT array_agg(queue_name) FILTER (WHERE status = 'READY') INTO admitted_to
    FROM moved;
    PERFORM set_config('pgjobs.admits', '', true);
END
$$;
""",
    ),
    "function pgjobs_next_behind": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_next_behind(unseen bigint[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT head.id
        FROM (
            SELECT array_agg(line) AS lines, array_agg(2 * number) AS numbers
            FROM (
                SELECT line, count(*)::integer AS number
                FROM (
                    SELECT line FROM pgjobs_job
                    WHERE id = ANY (unseen) AND status = 'WAITING'
                    OFFSET 0  -- or the planner would walk over all that have a line
                ) AS job
                WHERE line ~ '^(arrived$|mutex |limit |rate )'
                GROUP BY line
            ) AS held
        ) AS held
        CROSS JOIN LATERAL pgjobs_heads(held.lines, numbers) AS head
        WHERE NOT head.id = ANY (unseen)
    );
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_next_behind(unseen bigint[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT head.id
        FROM (
            SELECT array_agg(line) AS lines, array_agg(2 * number) AS numbers
            FROM (
                SELECT line, count(*)::integer AS number
                FROM (
                    SELECT line FROM pgjobs_job
                    WHERE id = ANY (unseen) AND status = 'WAITING'
                    OFFSET 0  -- or the planner would walk over all that have a line
                ) AS job
                WHERE line = 'arrived'
                    OR line LIKE '% %' AND line !~ '^(lock|unserved) '
                GROUP BY line
            ) AS held
        ) AS held
        CROSS JOIN LATERAL pgjobs_heads(held.lines, numbers) AS head
        WHERE NOT head.id = ANY (unseen)
    );
END
$$;
""",
    ),
    "function pgjobs_next_of": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_next_of(freed_keys jsonb[], most integer)
RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    ids bigint[];
    ordered text[];  -- free locks: the ids decide
    shared text[];  -- lines of keys that may have room for several jobs
    lines text[];
    numbers integer[];
BEGIN
    SELECT array_agg(key) FILTER (WHERE kind = 'lock'),
        array_agg(line) FILTER (WHERE kind NOT IN ('lock', 'mutex')),
        array_agg(line) FILTER (WHERE kind = 'mutex'),
        array_agg(1) FILTER (WHERE kind = 'mutex')
    INTO ordered, shared, lines, numbers
    FROM (
        SELECT DISTINCT kind, key, pgjobs_line(kind, key)
        FROM unnest(freed_keys) AS freed_keys (keys)
        CROSS JOIN LATERAL (
            VALUES ('lock', keys ->> 'lock'), ('mutex', keys ->> 'lock'),
                ('limit', keys ->> 'limit_key'), ('rate', keys ->> 'rate_key')
        ) AS own (kind, key)
        WHERE key IS NOT NULL
    ) AS own (kind, key, line)
    -- OFFSET 0: asked for each line, so that there is no join with all jobs.
    WHERE EXISTS (SELECT FROM pgjobs_job AS job WHERE job.line = own.line OFFSET 0)
        AND (kind IN ('lock', 'mutex') AND EXISTS (
            SELECT FROM pgjobs_job
            WHERE keys IS NOT NULL AND keys ->> 'lock' = own.key
                AND status IN ('READY', 'RUNNING')
            OFFSET 0
        )) IS NOT TRUE;
    IF ordered IS NOT NULL THEN
        ids := ARRAY(
            SELECT id
            FROM unnest(ordered) AS free (lock)
            CROSS JOIN LATERAL (
                SELECT id, line, queue_name FROM pgjobs_job
                WHERE keys IS NOT NULL
                    -- An equation would let the planner walk the primary key.
                    AND keys ->> 'lock' BETWEEN free.lock AND free.lock
                    AND (keys ->> 'is_ordered') IS DISTINCT FROM 'false'
                    AND status IN ('WAITING', 'SCHEDULED')
                ORDER BY keys ->> 'lock', id LIMIT 1
            ) AS first
            WHERE line = pgjobs_line('lock', lock) AND pgjobs_is_served(queue_name)
        );
    END IF;
    IF shared IS NOT NULL THEN
        -- The first in line says how many fit, as mostly all in a line agree. The next
        -- one comes along if it may fit all the same, because it allows more jobs. Then
        -- pgjobs_meet_limits asks for those behind it, too.
        SELECT ids || array_agg(id) FILTER (WHERE number = 1),
            lines || array_agg(line) FILTER (WHERE number > 1),
            numbers || array_agg(least(number, most)) FILTER (WHERE number > 1)
        INTO ids, lines, numbers
        FROM (
            SELECT line, id, CASE
                    WHEN is_limit AND (room > 1 OR room = 1 AND next_allows > allows)
                        THEN room + 1
                    ELSE room
                END AS number
            FROM (
                SELECT line, id, keys, place, starts_with(line, 'limit ') AS is_limit,
                    (keys -> 'max_running')::integer AS allows,
                    lead((keys -> 'max_running')::integer)
                        OVER (PARTITION BY line ORDER BY place) AS next_allows
                FROM pgjobs_heads(shared, array_fill(2, ARRAY[cardinality(shared)]))
            ) AS head
            CROSS JOIN LATERAL (
                SELECT CASE
                    WHEN is_limit THEN allows - (
                        SELECT count(*)::integer FROM (
                            SELECT FROM pgjobs_job
                            WHERE keys IS NOT NULL
                                AND keys ->> 'limit_key' = head.keys ->> 'limit_key'
                                AND status IN ('READY', 'RUNNING')
                            LIMIT allows
                        ) AS place
                    )
                    ELSE (
                        -- If the first has to wait, it comes alone where it is not known
                        -- yet until when, or where that is earlier than was known.
                        SELECT CASE
                            WHEN next_at <= at THEN least(number, burst)
                            ELSE ((opens_at <= next_at + interval '1 ms') IS NOT TRUE)::integer
                        END
                        FROM (
                            SELECT pgjobs_rate_number(keys), (keys -> 'rate_burst')::integer
                            OFFSET 0
                        ) AS own (number, burst)
                        CROSS JOIN LATERAL (
                            SELECT opens_at, pgjobs_rate_opens(
                                    starts, counts, even_at, number,
                                    number * (keys -> 'rate_interval')::float8, burst,
                                    taken + 1, at
                                ) AS next_at
                            FROM pgjobs_rate_states(
                                ARRAY[keys ->> 'rate_key'], 2147483647
                            )
                            OFFSET 0
                        ) AS state
                    )
                END
                OFFSET 0  -- counted once, although it is used several times
            ) AS own (room)
            WHERE place = 1
        ) AS first;
    END IF;
    IF lines IS NOT NULL THEN
        ids := ids || ARRAY(SELECT id FROM pgjobs_heads(lines, numbers));
    END IF;
    RETURN coalesce(ids, '{}');
END
$$;
""",
    ),
    "function pgjobs_note_deleted": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_note_deleted() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF OLD.keys IS NOT NULL AND (OLD.finished_at IS NULL OR OLD.line IS NOT NULL)
    THEN
        PERFORM pgjobs_leave_note(OLD.id, OLD.keys);
    END IF;
    IF (
            OLD.keys ?| ARRAY['after', 'after_batches']
            OR OLD.dependencies IS NOT NULL
        )
        AND has_table_privilege('pgjobs_predecessor', 'SELECT')
        AND has_table_privilege('pgjobs_predecessor', 'DELETE')
    THEN
        DELETE FROM pgjobs_predecessor AS link WHERE link.job_id = OLD.id;
    END IF;
    IF OLD.dependencies IS NOT NULL THEN
        PERFORM pgjobs_provide(OLD.id);
    END IF;
    RETURN NULL;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_note_deleted() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF pgjobs_ends_for_others(OLD.keys)
        AND (OLD.finished_at IS NULL OR OLD.line IS NOT NULL)
    THEN
        PERFORM pgjobs_leave_note(OLD.id, OLD.keys);
    END IF;
    IF (
            OLD.keys ?| ARRAY['after', 'after_batches']
            OR OLD.dependencies IS NOT NULL
        )
        AND has_table_privilege('pgjobs_predecessor', 'SELECT')
        AND has_table_privilege('pgjobs_predecessor', 'DELETE')
    THEN
        DELETE FROM pgjobs_predecessor AS link WHERE link.job_id = OLD.id;
    END IF;
    IF OLD.dependencies IS NOT NULL THEN
        PERFORM pgjobs_provide(OLD.id);
    END IF;
    RETURN NULL;
END
$$;
""",
    ),
    "function pgjobs_note_started": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_note_started() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    keys jsonb := NEW.keys;
BEGIN
    IF NOT has_table_privilege('pgjobs_note', 'INSERT') THEN
        RETURN NULL;
    END IF;
    IF has_table_privilege('pgjobs_override', 'SELECT') AND pgjobs_changes_flow() THEN
        keys := pgjobs_keys_now(NEW.task, keys);
    END IF;
    INSERT INTO pgjobs_note (keys) VALUES (jsonb_build_object(
        'rate_key', keys -> 'rate_key',
        'rate_interval', keys -> 'rate_interval',
        'rate_burst', keys -> 'rate_burst',
        'rate_number', keys -> 'rate_number',
        'rate_started_at', extract(epoch FROM NEW.last_attempted_at)
    ));
    RETURN NULL;
END
$$;
""",
    ),
    "function pgjobs_queue_changed": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_queue_changed() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF NEW.line = 'recorded' THEN
        RETURN NEW;
    END IF;
    CASE
    WHEN NEW.finished_at IS NOT NULL THEN
        IF OLD.finished_at IS NULL THEN
            NEW.line := CASE WHEN NEW.keys IS NOT NULL THEN 'left' END;
        END IF;
    WHEN NEW.status = 'READY' THEN
        IF OLD.status = 'READY'
            -- The mark that others wait for its end changes nothing else.
            AND coalesce(OLD.keys, '{}') - 'has_successors'
                = coalesce(NEW.keys, '{}') - 'has_successors'
            AND OLD.dependencies IS NOT DISTINCT FROM NEW.dependencies
        THEN
            RETURN NEW;
        END IF;
        NEW.line := NULL;
        NEW.blocked_by_id := NULL;
        NEW.waiting_for := pgjobs_first_obstacle(NEW.keys, NEW.dependencies);
        IF NEW.waiting_for IS NOT NULL THEN
            NEW.status := 'WAITING';
            NEW.line := pgjobs_first_line(NEW.keys);
        END IF;
    WHEN NEW.status = 'SCHEDULED' THEN
        IF OLD.status <> 'SCHEDULED' THEN
            NEW.line := CASE OLD.line WHEN 'unlinked' THEN 'unlinked' ELSE 'left' END;
        END IF;
    WHEN NEW.status = 'WAITING' THEN
        IF OLD.status <> 'WAITING' THEN
            NEW.line := pgjobs_first_line(NEW.keys);
        END IF;
    ELSE
        NULL;
    END CASE;
    RETURN NEW;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_queue_changed() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF NEW.line = 'recorded' THEN
        RETURN NEW;
    END IF;
    -- It has gone on since it was suspended, and is to begin once more. What is released
    -- before it began has not gone on.
    IF NEW.keys ? 'rate_aside'
        AND (NEW.keys -> 'rate_aside' -> 'attempts')::integer <> NEW.attempts
        AND (
            NEW.status = 'SCHEDULED' OR NEW.life > OLD.life
            OR NEW.failures > OLD.failures OR NEW.crashes > OLD.crashes
        )
    THEN
        NEW.keys := pgjobs_rate_again(NEW.keys);
    END IF;
    IF NEW.keys ? 'deadline' AND NEW.finished_at IS NULL THEN
        NEW.keys := pgjobs_keys_of_life(OLD, NEW);
    END IF;
    CASE
    -- What a job of a task with `chunk` has in its keys holds it up nowhere.
    WHEN num_nonnulls(
        nullif(NEW.keys - '{chunk_by,chunk_wait}'::text[], '{}'), NEW.dependencies,
        NEW.line, NEW.waiting_for
    ) = 0 THEN
        NULL;
    WHEN NEW.finished_at IS NOT NULL THEN
        IF OLD.finished_at IS NULL THEN
            NEW.line := CASE WHEN pgjobs_ends_for_others(NEW.keys) THEN 'left' END;
            IF OLD.waiting_for IN ('answer', 'event', 'jobs') THEN
                PERFORM pgjobs_forget_waits(OLD.id);
            END IF;
        END IF;
    WHEN NEW.status = 'READY' THEN
        IF OLD.status = 'READY'
            -- The mark that others wait for its end changes nothing else, nor its own.
            AND coalesce(OLD.keys, '{}') - ARRAY['has_successors', 'ends_at']
                = coalesce(NEW.keys, '{}') - ARRAY['has_successors', 'ends_at']
            AND OLD.dependencies IS NOT DISTINCT FROM NEW.dependencies
        THEN
            RETURN NEW;
        END IF;
        NEW.line := NULL;
        NEW.blocked_by_id := NULL;
        NEW.waiting_for := pgjobs_first_obstacle(NEW.keys, NEW.dependencies);
        IF NEW.waiting_for IS NOT NULL THEN
            NEW.status := 'WAITING';
            NEW.line := pgjobs_first_line(NEW.keys);
        END IF;
    WHEN NEW.status = 'SCHEDULED' THEN
        IF OLD.status <> 'SCHEDULED' THEN
            NEW.line := CASE OLD.line WHEN 'unlinked' THEN 'unlinked' ELSE 'left' END;
        END IF;
    WHEN NEW.status = 'WAITING' THEN
        IF OLD.status <> 'WAITING' THEN
            -- No admission has anything to do for a task that waits and holds no key.
            NEW.line := CASE
                WHEN OLD.status = 'RUNNING'
                    AND pgjobs_first_obstacle(NEW.keys, NULL) IS NULL THEN 'unknown'
                ELSE pgjobs_first_line(NEW.keys)
            END;
        END IF;
    ELSE
        NULL;
    END CASE;
    -- It was admitted and has not started: its place is free again.
    IF OLD.status = 'READY' AND NEW.status <> 'READY' AND OLD.keys ? 'rate_key' THEN
        PERFORM pgjobs_leave_note(NULL, jsonb_build_object(
            'rate_key', OLD.keys -> 'rate_key'
        ));
    END IF;
    IF NEW.status = 'READY' AND OLD.status <> 'READY'
        AND has_table_privilege('pgjobs_override', 'SELECT')
    THEN
        NEW.line := pgjobs_paused_line(NEW.task, NULL);
        -- A snapshot of before may not see a pause; that of an admission does.
        IF NEW.line IS NULL
            AND current_setting('transaction_isolation') <> 'read committed'
        THEN
            NEW.line := 'arrived';
        END IF;
        IF NEW.line IS NOT NULL THEN
            NEW.status := 'WAITING';
            NEW.waiting_for := 'limit';
        END IF;
    END IF;
    RETURN NEW;
END
$$;
""",
    ),
    "function pgjobs_queue_inserted": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_queue_inserted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status = 'WAITING' OR NEW.run_after > statement_timestamp()
        OR NEW.keys ?| ARRAY['batch_id', 'after', 'after_batches']
    THEN
        IF NEW.keys ? 'batch_id' THEN
            NEW.batch_id := NEW.keys ->> 'batch_id';
        END IF;
        IF NEW.status = 'WAITING' THEN
            NEW.line := 'unlinked';  -- an admission finds out what it waits for
            RETURN NEW;
        END IF;
        IF NEW.run_after > statement_timestamp() THEN
            NEW.status := 'SCHEDULED';
            IF NEW.keys ?| ARRAY['after', 'after_batches'] THEN
                NEW.line := 'unlinked';  -- its predecessors may be gone when it is due
            END IF;
            RETURN NEW;
        END IF;
        IF NEW.keys ?| ARRAY['after', 'after_batches'] THEN
            NEW.waiting_for := 'predecessor';
            NEW.status := 'WAITING';
            NEW.line := 'unlinked';
            RETURN NEW;
        END IF;
    END IF;
    -- Most come here with one question asked: each takes time for each row.
    NEW.waiting_for := CASE
        WHEN NEW.dependencies -> 'needs' <> '[]' THEN 'dependency'
        WHEN NEW.keys ? 'lock' THEN 'lock'
        WHEN NEW.keys ? 'limit_key' THEN 'limit'
        WHEN NEW.keys ? 'rate_key' THEN 'rate'
    END;
    IF NEW.waiting_for IS NOT NULL THEN
        NEW.status := 'WAITING';
        NEW.line := 'arrived';
    END IF;
    RETURN NEW;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_queue_inserted() RETURNS trigger
LANGUAGE plpgsql STABLE AS $$
DECLARE
    enqueued_in jsonb;
BEGIN
    IF coalesce(NEW.status NOT IN ('READY', 'WAITING'), true)
        OR NEW.status = 'WAITING' AND NEW.line IS NOT NULL
        OR NEW.status = 'READY' AND NEW.run_after <= statement_timestamp()
        AND num_nonnulls(NEW.keys, NEW.dependencies) = 0
    THEN
        RETURN NEW;
    END IF;
    IF NEW.keys ? 'waits_for' AND NOT NEW.keys ? 'enqueued_in' THEN
        EXECUTE pg_catalog.format('SELECT %I.pgjobs_enqueued_in()', TG_TABLE_SCHEMA)
        INTO enqueued_in;
        NEW.keys := NEW.keys || enqueued_in;
    END IF;
    IF NEW.keys ? 'deadline' AND NOT NEW.keys ?| ARRAY['ends_at', 'after', 'after_batches']
        AND coalesce(NEW.dependencies -> 'needs', '[]') = '[]'
        AND jsonb_typeof(NEW.keys -> 'deadline') = 'number'
    THEN
        NEW.keys := NEW.keys || jsonb_build_object(
            'ends_at', extract(epoch FROM greatest(NEW.run_after, statement_timestamp()))
                + (NEW.keys -> 'deadline')::numeric
        );
    END IF;
    IF NEW.keys ? 'chunk_wait' AND NEW.run_after IS NULL
        AND jsonb_typeof(NEW.keys -> 'chunk_wait') = 'number'
    THEN
        NEW.run_after := NEW.enqueued_at + make_interval(
            secs => least((NEW.keys -> 'chunk_wait')::numeric, 86400)::float8
        );
    END IF;
    IF NEW.status = 'WAITING' OR NEW.run_after > statement_timestamp()
        OR NEW.keys ?| ARRAY['batch_id', 'after', 'after_batches']
    THEN
        IF NEW.keys ? 'batch_id' THEN
            NEW.batch_id := NEW.keys ->> 'batch_id';
        END IF;
        IF NEW.status = 'WAITING' THEN
            NEW.line := 'unlinked';  -- an admission finds out what it waits for
            RETURN NEW;
        END IF;
        IF NEW.run_after > statement_timestamp() THEN
            NEW.status := 'SCHEDULED';
            IF NEW.keys ?| ARRAY['after', 'after_batches'] THEN
                NEW.line := 'unlinked';  -- its predecessors may be gone when it is due
            END IF;
            RETURN NEW;
        END IF;
        IF NEW.keys ?| ARRAY['after', 'after_batches'] THEN
            NEW.waiting_for := 'predecessor';
            NEW.status := 'WAITING';
            NEW.line := 'unlinked';
            RETURN NEW;
        END IF;
    END IF;
    -- Most come here with one question asked: each takes time for each row.
    NEW.waiting_for := CASE
        WHEN NEW.dependencies -> 'needs' <> '[]' THEN 'dependency'
        WHEN NEW.keys ? 'lock' THEN 'lock'
        WHEN NEW.keys ? 'limit_key' THEN 'limit'
        WHEN NEW.keys ? 'rate_key' THEN 'rate'
    END;
    IF NEW.waiting_for IS NOT NULL THEN
        NEW.status := 'WAITING';
        NEW.line := 'arrived';
    END IF;
    RETURN NEW;
END
$$;
""",
    ),
    "function pgjobs_rate_number": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_rate_number(keys jsonb) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN (keys -> 'rate_number')::text ~ '^[1-9][0-9]{0,8}$'
            AND (keys -> 'rate_number')::numeric * (keys -> 'rate_interval')::numeric
                <= 3153600000
            THEN (keys -> 'rate_number')::integer
        ELSE (keys -> 'rate_burst')::integer
    END
$$;
""",
    ),
    "function pgjobs_rate_opens": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_rate_opens(
    starts timestamptz[], counts integer[], even_at timestamptz,
    number integer, period double precision, burst integer,
    extra bigint, at timestamptz
) RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    opens_at timestamptz := at;
    total bigint := extra;
BEGIN
    IF total > number THEN
        opens_at := at + make_interval(secs => period);
    ELSE
        FOR place IN REVERSE coalesce(cardinality(starts), 0) .. 1 LOOP
            total := total + counts[place];
            IF total > number THEN
                opens_at := greatest(at, least(starts[place], at)
                    + make_interval(secs => period));
                EXIT;
            END IF;
        END LOOP;
    END IF;
    IF burst < number THEN
        opens_at := greatest(
            opens_at,
            greatest(
                least(
                    coalesce(even_at, at),  -- none has started
                    at + make_interval(secs => period * burst / number)
                ),
                at
            ) + make_interval(secs => period / number * (extra - burst))
        );
    END IF;
    RETURN opens_at;
END
$$;
""",
    ),
    "function pgjobs_rate_states": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_rate_states(rate_keys text[], most integer)
RETURNS TABLE (
    key text, starts timestamptz[], counts integer[], even_at timestamptz,
    opens_at timestamptz, taken bigint
) LANGUAGE sql STABLE AS $$
    SELECT wanted.key, coalesce(rate.starts, '{}'), coalesce(rate.counts, '{}'),
        coalesce(rate.even_at, rate.full_at), rate.opens_at,
        (
            SELECT count(*) FROM (
                SELECT FROM pgjobs_job AS job
                WHERE job.keys ? 'rate_key' AND job.keys ->> 'rate_key' = wanted.key
                    AND job.status = 'READY'
                LIMIT most
            ) AS ready
        ) + coalesce(started.number, 0)
    FROM unnest(rate_keys) AS wanted (key)
    LEFT JOIN LATERAL (
        SELECT * FROM pgjobs_rate WHERE pgjobs_rate.key = wanted.key
        OFFSET 0  -- by its index, also where the planner expects an empty table
    ) AS rate ON true
    LEFT JOIN (
        SELECT note.keys ->> 'rate_key' AS key, count(*) AS number
        FROM pgjobs_note AS note WHERE note.keys ? 'rate_started_at'
        GROUP BY 1
    ) AS started ON started.key = wanted.key
$$;
""",
    ),
    "function pgjobs_record": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_record(
    worker bigint, ids bigint[], lease_tokens bigint[], return_values text[],
    admits boolean,
    OUT recorded bigint[], OUT touched jsonb[], OUT linked bigint[],
    OUT batches bigint[]
) LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM set_config('pgjobs.admits', 'on', true);
    WITH stored AS (
        UPDATE pgjobs_job
        SET status = 'SUCCESSFUL',
            finished_at = clock_timestamp(),
            return_value = return_values[
                array_position(lease_tokens, lease_token)
            ]::jsonb,
            reason = '',
            line = CASE WHEN keys IS NOT NULL AND NOT admits THEN 'recorded' END,
            worker_id = NULL,
            worker_name = (SELECT name FROM pgjobs_worker AS own WHERE own.id = worker)
        WHERE id = ANY (ids) AND lease_token = ANY (lease_tokens)
            AND worker_id = worker
        RETURNING id, lease_token, keys, batch_id
    )
    SELECT array_agg(lease_token),
        coalesce(
            array_agg(keys) FILTER (WHERE keys ?| ARRAY['lock', 'limit_key']), '{}'
        ),
        array_agg(id) FILTER (WHERE keys ? 'has_successors'),
        array_agg(DISTINCT batch_id) FILTER (WHERE batch_id IS NOT NULL)
    INTO recorded, touched, linked, batches
    FROM stored;
    PERFORM set_config('pgjobs.admits', '', true);
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_record(
    worker bigint, ids bigint[], lease_tokens bigint[], return_values text[],
    admits boolean,
    OUT recorded bigint[], OUT freed_keys jsonb[], OUT linked bigint[],
    OUT batches bigint[]
) LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM set_config('pgjobs.admits', 'on', true);
    WITH stored AS (
        UPDATE pgjobs_job
        SET status = 'SUCCESSFUL',
            finished_at = clock_timestamp(),
            return_value = return_values[
                array_position(lease_tokens, lease_token)
            ]::jsonb,
            reason = '',
            line = CASE
                WHEN pgjobs_ends_for_others(keys) AND NOT admits THEN 'recorded'
            END,
            worker_id = NULL,
            worker_name = (SELECT name FROM pgjobs_worker AS own WHERE own.id = worker)
        WHERE id = ANY (ids) AND lease_token = ANY (lease_tokens)
            AND worker_id = worker
        RETURNING id, lease_token, keys, batch_id
    )
    SELECT array_agg(lease_token),
        coalesce(
            array_agg(keys) FILTER (WHERE keys ?| ARRAY['lock', 'limit_key']), '{}'
        ),
        array_agg(id) FILTER (WHERE keys ? 'has_successors'),
        array_agg(DISTINCT batch_id) FILTER (WHERE batch_id IS NOT NULL)
    INTO recorded, freed_keys, linked, batches
    FROM stored;
    PERFORM set_config('pgjobs.admits', '', true);
END
$$;
""",
    ),
    "function pgjobs_return_starts": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_return_starts(returned jsonb[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    start record;
BEGIN
    FOR start IN
        SELECT keys ->> 'rate_key' AS key, count(*) AS number,
            to_timestamp((keys -> 'rate_returned_at')::float8) AS at,
            max((keys -> 'rate_interval')::float8) AS step
        FROM unnest(returned) AS note (keys) GROUP BY 1, at
    LOOP
        UPDATE pgjobs_rate AS rate
        SET counts[place] = greatest(0, counts[place] - start.number),
            even_at = least(even_at, greatest(
                even_at - make_interval(secs => start.number * start.step),
                (
                    SELECT max(last + make_interval(secs => later * start.step))
                    FROM (
                        SELECT last, sum(left_over) OVER (ORDER BY slice.place DESC)
                            AS later, left_over
                        FROM unnest(starts, counts)
                            WITH ORDINALITY AS slice (last, number, place)
                        CROSS JOIN LATERAL (SELECT slice.number - CASE slice.place
                            WHEN found.place THEN start.number ELSE 0
                        END) AS own (left_over)
                        WHERE slice.place >= found.place
                    ) AS slice
                    WHERE left_over > 0
                )
            )),
            opens_at = CASE WHEN opens_at IS NOT NULL THEN clock_timestamp() END
        FROM (
            SELECT key, (
                    SELECT place FROM unnest(starts) WITH ORDINALITY AS slice (last, place)
                    WHERE last >= start.at - interval '1 ms' ORDER BY place LIMIT 1
                ) AS place
            FROM pgjobs_rate WHERE key = start.key
        ) AS found
        WHERE rate.key = found.key AND place IS NOT NULL;
    END LOOP;
END
$$;
""",
    ),
    "function pgjobs_set_aside": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_set_aside(
    queues text[], served text[], most integer
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    number integer := 0;
BEGIN
    IF cardinality(served) < cardinality(queues) THEN
        UPDATE pgjobs_job SET line = pgjobs_line('unserved', queue_name)
        WHERE id = ANY (ARRAY(
            SELECT job.id
            FROM unnest(queues) AS queue (name)
            CROSS JOIN LATERAL (
                SELECT id FROM pgjobs_job
                WHERE line = 'arrived' AND queue_name = queue.name
                LIMIT most
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS job
            WHERE NOT queue.name = ANY (served)
            LIMIT most
        ));
        GET DIAGNOSTICS number = ROW_COUNT;
    END IF;
    RETURN number;
END
$$;
""",
    ),
    "function pgjobs_sweep": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_sweep(
    most integer, INOUT after_line text, INOUT after_link bigint,
    OUT touched jsonb[], OUT followers bigint[], OUT ended bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    lines text[];
    links bigint[];
    predecessors bigint[];
    batches bigint[];
BEGIN
    lines := ARRAY(
        WITH RECURSIVE hop (name, number) AS (
            (SELECT line, 1 FROM pgjobs_job WHERE line > after_line ORDER BY line LIMIT 1)
            UNION ALL
            SELECT (
                SELECT line FROM pgjobs_job WHERE line > hop.name ORDER BY line LIMIT 1
            ), number + 1
            FROM hop WHERE hop.name IS NOT NULL AND number < most
        )
        SELECT name FROM hop WHERE name IS NOT NULL
    );
    touched := ARRAY(
        SELECT sample.keys FROM unnest(lines) AS name
        CROSS JOIN LATERAL (
            SELECT keys FROM pgjobs_job WHERE line = name LIMIT 1
        ) AS sample
        WHERE sample.keys IS NOT NULL
    );
    SELECT array_agg(id),
        array_agg(DISTINCT predecessor_id) FILTER (WHERE predecessor_id IS NOT NULL),
        array_agg(DISTINCT batch_id) FILTER (WHERE batch_id IS NOT NULL)
    INTO links, predecessors, batches
    FROM (
        SELECT id, predecessor_id, batch_id FROM pgjobs_predecessor
        WHERE is_open AND id > 0 AND id > after_link ORDER BY id LIMIT most
    ) AS link;
    SELECT * INTO followers, ended
    FROM pgjobs_close_links(predecessors, batches, most);
    UPDATE pgjobs_job
    SET status = 'WAITING',
        waiting_for = pgjobs_first_obstacle(keys, dependencies)
    WHERE id = ANY (ARRAY(
        SELECT job.id FROM unnest(touched) AS key
        CROSS JOIN LATERAL (
            SELECT id FROM pgjobs_job
            WHERE keys IS NOT NULL AND keys ->> 'lock' = key ->> 'lock'
                AND keys ->> 'is_ordered' = 'false'
                AND status IN ('READY', 'RUNNING') AND status || '' = 'READY'
                AND NOT pgjobs_is_served(queue_name)
            UNION ALL
            SELECT id FROM pgjobs_job
            WHERE keys IS NOT NULL AND keys ->> 'limit_key' = key ->> 'limit_key'
                AND status IN ('READY', 'RUNNING') AND status || '' = 'READY'
                AND NOT pgjobs_is_served(queue_name)
        ) AS job
        LIMIT most
    ))
        AND status || '' = 'READY';  -- see sql/worker/claim/pick.sql
    after_line := CASE WHEN cardinality(lines) = most THEN lines[most] ELSE '' END;
    after_link := CASE WHEN cardinality(links) = most THEN links[most] ELSE 0 END;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_sweep(
    most integer, INOUT after_line text, INOUT after_link bigint,
    OUT freed_keys jsonb[], OUT followers bigint[], OUT ended bigint[],
    OUT has_more boolean
) LANGUAGE plpgsql AS $$
DECLARE
    lines text[];
    links bigint[];
    predecessors bigint[];
    batches bigint[];
BEGIN
    lines := ARRAY(
        WITH RECURSIVE hop (name, number) AS (
            (SELECT line, 1 FROM pgjobs_job WHERE line > after_line ORDER BY line LIMIT 1)
            UNION ALL
            SELECT (
                SELECT line FROM pgjobs_job WHERE line > hop.name ORDER BY line LIMIT 1
            ), number + 1
            FROM hop WHERE hop.name IS NOT NULL AND number < most
        )
        SELECT name FROM hop WHERE name IS NOT NULL
    );
    freed_keys := ARRAY(
        SELECT sample.keys FROM unnest(lines) AS name
        CROSS JOIN LATERAL (
            SELECT keys FROM pgjobs_job WHERE line = name LIMIT 1
        ) AS sample
        WHERE sample.keys IS NOT NULL AND NOT starts_with(name, 'unserved ')
    );
    has_more := pgjobs_bring_back(lines, most) >= most;
    SELECT array_agg(id),
        array_agg(DISTINCT predecessor_id) FILTER (WHERE predecessor_id IS NOT NULL),
        array_agg(DISTINCT batch_id) FILTER (WHERE batch_id IS NOT NULL)
    INTO links, predecessors, batches
    FROM (
        SELECT id, predecessor_id, batch_id FROM pgjobs_predecessor
        WHERE is_open AND id > 0 AND id > after_link ORDER BY id LIMIT most
    ) AS link;
    SELECT * INTO followers, ended
    FROM pgjobs_close_links(predecessors, batches, most);
    UPDATE pgjobs_job
    SET status = 'WAITING',
        waiting_for = pgjobs_first_obstacle(keys, dependencies)
    WHERE id = ANY (ARRAY(
        SELECT job.id FROM unnest(freed_keys) AS key
        CROSS JOIN LATERAL (
            SELECT id FROM pgjobs_job
            WHERE keys IS NOT NULL AND keys ->> 'lock' = key ->> 'lock'
                AND keys ->> 'is_ordered' = 'false'
                AND status IN ('READY', 'RUNNING') AND status || '' = 'READY'
                AND NOT pgjobs_is_served(queue_name)
            UNION ALL
            SELECT id FROM pgjobs_job
            WHERE keys IS NOT NULL AND keys ->> 'limit_key' = key ->> 'limit_key'
                AND status IN ('READY', 'RUNNING') AND status || '' = 'READY'
                AND NOT pgjobs_is_served(queue_name)
            UNION ALL
            SELECT id FROM pgjobs_job
            WHERE keys ? 'rate_key' AND keys ->> 'rate_key' = key ->> 'rate_key'
                AND status = 'READY' AND NOT pgjobs_is_served(queue_name)
        ) AS job
        LIMIT most
    ))
        AND status || '' = 'READY';  -- see sql/worker/claim/pick.sql
    after_line := CASE WHEN cardinality(lines) = most THEN lines[most] ELSE '' END;
    after_link := CASE WHEN cardinality(links) = most THEN links[most] ELSE 0 END;
END
$$;
""",
    ),
    "function pgjobs_take_arrived": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_take_arrived(
    most integer, INOUT after_queue text, OUT ids bigint[], OUT touched jsonb[],
    OUT ended bigint[], OUT has_linked boolean
) LANGUAGE plpgsql AS $$
DECLARE
    followers bigint[];
    most_queues CONSTANT integer := 100;
    queues text[] := ARRAY(
        WITH RECURSIVE queue (name, number) AS (
            (
                SELECT queue_name, 1 FROM pgjobs_job
                WHERE line = 'arrived' AND queue_name > after_queue
                ORDER BY queue_name LIMIT 1
            )
            UNION ALL
            SELECT (
                SELECT queue_name FROM pgjobs_job
                WHERE line = 'arrived' AND queue_name > queue.name
                ORDER BY queue_name LIMIT 1
            ), number + 1
            FROM queue WHERE queue.name IS NOT NULL AND number < most_queues
        )
        SELECT name FROM queue WHERE name IS NOT NULL
    );
BEGIN
    ids := ARRAY(
        SELECT id FROM pgjobs_job WHERE line = 'unlinked'
        LIMIT most FOR NO KEY UPDATE SKIP LOCKED
    );
    has_linked := ids <> '{}';
    ids := ids || ARRAY(
        SELECT head.id
        FROM unnest(queues) AS queue (name)
        CROSS JOIN LATERAL (
            SELECT id, priority, turn, row_number() OVER () AS place
            FROM (
                SELECT id, priority, turn FROM pgjobs_job
                WHERE line = 'arrived' AND queue_name = queue.name
                ORDER BY priority DESC, turn LIMIT most
            ) AS first
        ) AS head
        WHERE pgjobs_is_served(queue.name)
        -- Each queue has its share: thousands that arrive in one delay no other queue.
        ORDER BY place > most / cardinality(queues), priority DESC, turn LIMIT most
    );
    after_queue := CASE
        WHEN cardinality(queues) = most_queues THEN queues[most_queues] ELSE ''
    END;
    SELECT * INTO followers, ended FROM pgjobs_link_arrived(ids, most);
    -- A job that is due later needed only its links. (The status is compared as in
    -- sql/worker/claim/pick.sql.)
    UPDATE pgjobs_job SET line = NULL
    WHERE id = ANY (ids) AND status || '' = 'SCHEDULED';
    -- Others may have waited longer for the same keys. (In an ordered lock the ids
    -- decide.)
    touched := ARRAY(
        SELECT keys FROM pgjobs_job
        WHERE id = ANY (ids) AND (
            keys ?| ARRAY['limit_key', 'rate_key'] OR keys ->> 'is_ordered' = 'false'
        )
    );
    ids := ids || followers;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_take_arrived(
    most integer, INOUT after_queue text, OUT ids bigint[], OUT freed_keys jsonb[],
    OUT ended bigint[], OUT has_linked boolean, OUT number_unserved integer
) LANGUAGE plpgsql AS $$
DECLARE
    followers bigint[];
    most_queues CONSTANT integer := 100;
    queues text[] := ARRAY(
        WITH RECURSIVE queue (name, number) AS (
            (
                SELECT queue_name, 1 FROM pgjobs_job
                WHERE line = 'arrived' AND queue_name > after_queue
                ORDER BY queue_name LIMIT 1
            )
            UNION ALL
            SELECT (
                SELECT queue_name FROM pgjobs_job
                WHERE line = 'arrived' AND queue_name > queue.name
                ORDER BY queue_name LIMIT 1
            ), number + 1
            FROM queue WHERE queue.name IS NOT NULL AND number < most_queues
        )
        SELECT name FROM queue WHERE name IS NOT NULL
    );
    served text[] := pgjobs_served_of(queues);
BEGIN
    ids := ARRAY(
        SELECT id FROM pgjobs_job WHERE line = 'unlinked'
        LIMIT most FOR NO KEY UPDATE SKIP LOCKED
    );
    has_linked := ids <> '{}';
    ids := ids || ARRAY(
        SELECT head.id
        FROM unnest(served) AS queue (name)
        CROSS JOIN LATERAL (
            SELECT id, priority, turn, row_number() OVER () AS place
            FROM (
                SELECT id, priority, turn FROM pgjobs_job
                WHERE line = 'arrived' AND queue_name = queue.name
                ORDER BY priority DESC, turn LIMIT most
            ) AS first
        ) AS head
        -- Each queue has its share: thousands that arrive in one delay no other queue.
        ORDER BY place > most / greatest(cardinality(served), 1), priority DESC, turn LIMIT most
    );
    number_unserved := pgjobs_set_aside(queues, served, most);
    after_queue := CASE
        WHEN cardinality(queues) = most_queues THEN queues[most_queues] ELSE ''
    END;
    SELECT * INTO followers, ended FROM pgjobs_link_arrived(ids, most);
    -- A job that is due later needed only its links, and so did one that waits for
    -- something else. (The status is compared as in sql/worker/claim/pick.sql.)
    UPDATE pgjobs_job SET line = CASE status WHEN 'WAITING' THEN 'unknown' END
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_job
        WHERE id = ANY (ids)
            AND (status || '' = 'SCHEDULED' OR NOT pgjobs_knows(waiting_for))
        FOR NO KEY UPDATE SKIP LOCKED
    ));
    -- Others may have waited longer for the same keys. (In an ordered lock the ids
    -- decide.)
    freed_keys := ARRAY(
        SELECT keys FROM pgjobs_job
        WHERE id = ANY (ids) AND (
            keys ?| ARRAY['limit_key', 'rate_key'] OR keys ->> 'is_ordered' = 'false'
        )
    );
    ids := ids || followers;
END
$$;
""",
    ),
    "function pgjobs_take_due_rates": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_take_due_rates(most integer, OUT rate_keys text[])
LANGUAGE plpgsql AS $$
BEGIN
    WITH due AS (
        UPDATE pgjobs_rate SET opens_at = NULL
        WHERE key = ANY (ARRAY(
            SELECT key FROM pgjobs_rate WHERE opens_at <= statement_timestamp()
            ORDER BY opens_at LIMIT most
        ))
        RETURNING key
    )
    SELECT coalesce(array_agg(key), '{}') INTO rate_keys FROM due;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_take_due_rates(
    most integer, OUT freed_keys jsonb[], OUT rate_lines text[]
) LANGUAGE plpgsql AS $$
BEGIN
    WITH due AS (
        UPDATE pgjobs_rate SET opens_at = NULL
        WHERE key = ANY (ARRAY(
            SELECT key FROM pgjobs_rate WHERE opens_at <= statement_timestamp()
            ORDER BY opens_at LIMIT most
        ))
        RETURNING key
    )
    SELECT coalesce(array_agg(jsonb_build_object('rate_key', key)), '{}'),
        coalesce(array_agg(pgjobs_line('rate', key)), '{}')
    INTO freed_keys, rate_lines
    FROM due;
END
$$;
""",
    ),
    "function pgjobs_take_left": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_take_left(
    most integer, OUT number integer,
    OUT touched jsonb[], OUT followers bigint[], OUT ended bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    linked bigint[];
    batches bigint[];
BEGIN
    followers := '{}';
    ended := '{}';
    WITH taken AS (
        UPDATE pgjobs_job SET line = NULL
        WHERE id = ANY (ARRAY(
            SELECT id FROM pgjobs_job WHERE line IN ('recorded', 'left')
            LIMIT most FOR NO KEY UPDATE SKIP LOCKED
        ))
        RETURNING id, keys, batch_id, finished_at
    )
    SELECT count(*),
        coalesce(
            array_agg(keys) FILTER (WHERE keys ?| ARRAY['lock', 'limit_key']), '{}'
        ),
        array_agg(id) FILTER (
            WHERE keys ? 'has_successors' AND finished_at IS NOT NULL
        ),
        array_agg(DISTINCT batch_id) FILTER (
            WHERE batch_id IS NOT NULL AND finished_at IS NOT NULL
        )
    INTO number, touched, linked, batches
    FROM taken;
    IF coalesce(linked, batches) IS NOT NULL THEN
        SELECT found.followers, found.ended INTO followers, ended
        FROM pgjobs_follow(linked, batches, most) AS found;
    END IF;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_take_left(
    most integer, OUT number integer,
    OUT freed_keys jsonb[], OUT followers bigint[], OUT ended bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    linked bigint[];
    batches bigint[];
BEGIN
    followers := '{}';
    ended := '{}';
    WITH taken AS (
        UPDATE pgjobs_job SET line = NULL
        WHERE id = ANY (ARRAY(
            SELECT id FROM pgjobs_job WHERE line IN ('recorded', 'left')
            LIMIT most FOR NO KEY UPDATE SKIP LOCKED
        ))
        RETURNING id, keys, batch_id, finished_at
    )
    SELECT count(*),
        coalesce(
            array_agg(keys) FILTER (WHERE keys ?| ARRAY['lock', 'limit_key']), '{}'
        ),
        array_agg(id) FILTER (
            WHERE keys ? 'has_successors' AND finished_at IS NOT NULL
        ),
        array_agg(DISTINCT batch_id) FILTER (
            WHERE batch_id IS NOT NULL AND finished_at IS NOT NULL
        )
    INTO number, freed_keys, linked, batches
    FROM taken;
    IF coalesce(linked, batches) IS NOT NULL THEN
        SELECT found.followers, found.ended INTO followers, ended
        FROM pgjobs_follow(linked, batches, most) AS found;
    END IF;
END
$$;
""",
    ),
    "function pgjobs_take_notes": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_take_notes(
    most integer, OUT number integer,
    OUT touched jsonb[], OUT followers bigint[], OUT ended bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    ids bigint[];
    batches bigint[];
BEGIN
    followers := '{}';
    ended := '{}';
    WITH note AS (
        DELETE FROM pgjobs_note
        WHERE id = ANY (ARRAY(SELECT id FROM pgjobs_note ORDER BY id LIMIT most))
        RETURNING job_id, keys
    )
    SELECT count(*), array_agg(job_id) FILTER (WHERE job_id IS NOT NULL),
        array_agg((keys ->> 'batch_id')::bigint) FILTER (WHERE keys ? 'batch_id'),
        coalesce(array_agg(keys) FILTER (WHERE keys IS NOT NULL), '{}')
    INTO number, ids, batches, touched FROM note;
    IF coalesce(ids, batches) IS NOT NULL THEN
        number := number - pgjobs_mark(ids);
        SELECT pgjobs_take_notes.number - found.number, found.followers, found.ended
        INTO number, followers, ended
        FROM pgjobs_follow(ids, batches, most) AS found;
    END IF;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_take_notes(
    most integer, OUT number integer,
    OUT freed_keys jsonb[], OUT followers bigint[], OUT ended bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    ids bigint[];
    batches bigint[];
    starts jsonb[];
BEGIN
    followers := '{}';
    ended := '{}';
    WITH note AS (
        DELETE FROM pgjobs_note
        WHERE id = ANY (ARRAY(SELECT id FROM pgjobs_note ORDER BY id LIMIT most))
        RETURNING job_id, keys
    )
    SELECT count(*), array_agg(job_id) FILTER (WHERE job_id IS NOT NULL),
        array_agg((keys ->> 'batch_id')::bigint) FILTER (WHERE keys ? 'batch_id'),
        array_agg(keys) FILTER (WHERE keys ?| ARRAY['rate_started_at', 'rate_returned_at']),
        coalesce(array_agg(keys) FILTER (WHERE NOT keys ? 'rate_started_at'), '{}')
    INTO number, ids, batches, starts, freed_keys FROM note;
    IF starts IS NOT NULL THEN
        PERFORM pgjobs_take_starts(starts);
    END IF;
    IF coalesce(ids, batches) IS NOT NULL THEN
        number := number - pgjobs_mark(ids);
        SELECT pgjobs_take_notes.number - found.number, found.followers, found.ended
        INTO number, followers, ended
        FROM pgjobs_follow(ids, batches, most) AS found;
    END IF;
END
$$;
""",
    ),
    "function pgjobs_take_starts": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_take_starts(notes jsonb[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    begun jsonb[];
    returned jsonb[];
BEGIN
    SELECT array_agg(keys) FILTER (WHERE keys ? 'rate_started_at'),
        array_agg(keys) FILTER (WHERE keys ? 'rate_returned_at')
    INTO begun, returned
    FROM unnest(notes) AS note (keys);
    IF begun IS NOT NULL THEN
        PERFORM pgjobs_count_starts(begun);
    END IF;
    IF returned IS NOT NULL THEN
        PERFORM pgjobs_return_starts(returned);
    END IF;
END
$$;
""",
    ),
    "function pgjobs_audit_act": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_audit_act(act text, job_id bigint, note text)
RETURNS void LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    INSERT INTO pgjobs_auditentry (actor, via, act, model, object_id, number, note)
    VALUES (session_user, 'SQL', act, 'job', job_id, 1, left(coalesce(note, ''), 2000));
$$;
""",
    ),
    "function pgjobs_cancel": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_cancel(id bigint, reason text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pgjobs_cancel_jobs(ARRAY[id], reason)) THEN
        RETURN false;
    END IF;
    PERFORM pgjobs_note_act('cancel', id, reason);
    RETURN true;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_cancel(id bigint, reason text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    cancelled CONSTANT bigint := (
        SELECT done.id FROM pgjobs_cancel_jobs(ARRAY[pgjobs_cancel.id], reason) AS done
    );
BEGIN
    IF cancelled IS NULL THEN
        RETURN false;
    END IF;
    PERFORM pgjobs_audit_act('cancel', cancelled, reason);
    RETURN true;
END
$$;
""",
    ),
    "function pgjobs_check_options": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_check_options(
    priority integer, queue_name text, run_after timestamptz
) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    option text;
    fault text;
BEGIN
    IF priority NOT BETWEEN -100 AND 100 THEN
        option := 'priority';
        fault := format(
            'must be a whole number between -100 and 100, got %s', priority
        );
    ELSIF queue_name !~ '^[^,[:cntrl:]]{1,200}$' OR queue_name ~ '^ | $' THEN
        option := 'queue_name';
        fault := format(
            'must be 1 to 200 characters without commas or control characters, and '
            'not begin or end with a space, got ''%s''', queue_name
        );
    ELSIF run_after < '1970-01-01 00:00+00' OR run_after >= '9999-01-01 00:00+00'
    THEN
        option := 'run_after';
        fault := format('must lie in the years 1970 to 9998, got %s', run_after);
    ELSE
        RETURN;
    END IF;
    RAISE EXCEPTION '% %.', option, fault
        USING ERRCODE = '22023', COLUMN = option,
            HINT = 'NULL leaves it as the task declares it.';
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_check_options(
    priority integer, queue_name text, run_after timestamptz, keep text
) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    option text;
    fault text;
BEGIN
    IF priority NOT BETWEEN -100 AND 100 THEN
        option := 'priority';
        fault := format(
            'must be a whole number between -100 and 100, got %s', priority
        );
    ELSIF queue_name !~ '^[^,[:cntrl:]]{1,200}$' OR queue_name ~ '^ | $' THEN
        option := 'queue_name';
        fault := format(
            'must be 1 to 200 characters without commas or control characters, and '
            'not begin or end with a space, got ''%s''', queue_name
        );
    ELSIF run_after < '1970-01-01 00:00+00' OR run_after >= '9999-01-01 00:00+00'
    THEN
        option := 'run_after';
        fault := format('must lie in the years 1970 to 9998, got %s', run_after);
    ELSIF keep NOT IN ('all', 'failed') THEN
        option := 'keep';
        fault := format('must be ''all'' or ''failed'', got ''%s''', keep);
    ELSE
        RETURN;
    END IF;
    RAISE EXCEPTION '% %.', option, fault
        USING ERRCODE = '22023', COLUMN = option,
            HINT = 'NULL leaves it as the task declares it.';
END
$$;
""",
    ),
    "function pgjobs_enqueue": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_enqueue(
    task text, arguments jsonb DEFAULT '{}',
    priority integer DEFAULT NULL, queue_name text DEFAULT NULL,
    run_after timestamptz DEFAULT NULL, unique_key text DEFAULT NULL,
    lock text DEFAULT NULL, meta jsonb DEFAULT NULL
) RETURNS TABLE (id bigint) LANGUAGE plpgsql ROWS 1
SET search_path FROM CURRENT
AS $$
DECLARE
    definition pgjobs_taskdefinition := pgjobs_definition(task);
    options jsonb := definition.options;
    expanded jsonb[];
    batch jsonb;  -- what `keys` says of it
    job pgjobs_job;
BEGIN
    IF jsonb_typeof(arguments) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'Invalid arguments for %: arguments: must be a JSON object, '
            'got %.', definition.name, coalesce(pgjobs_shortened(arguments), 'NULL')
            USING ERRCODE = CASE
                    WHEN arguments IS NULL THEN '22004' ELSE '22023'
                END,
                COLUMN = 'arguments', HINT = pgjobs_usage(definition.parameters);
    END IF;
    PERFORM pgjobs_check_options(priority, queue_name, run_after),
        pgjobs_check_meta(meta);
    -- Options with the name of a column are its value, but for those that depend on the
    -- arguments.
    job := jsonb_populate_record(
        job, options - '{dependencies, keys, unique_for, unique_key}'::text[]
    );
    job.args := '[]';
    job.meta := meta;
    job.task := definition.name;
    job.queue_name := coalesce(queue_name, job.queue_name);
    job.priority := coalesce(priority, job.priority);
    job.run_after := run_after;
    job.expires_at := coalesce(run_after, statement_timestamp())
        + make_interval(secs => (options -> 'expires')::double precision);
    IF options ? 'write_all' THEN
        expanded := pgjobs_expanded(definition, arguments);
        IF expanded IS NOT NULL THEN
            INSERT INTO pgjobs_batch AS new (description) VALUES (definition.name)
            RETURNING jsonb_build_object('batch_id', new.id) INTO batch;
        END IF;
    END IF;
    FOREACH arguments IN ARRAY coalesce(expanded, ARRAY[arguments]) LOOP
        job.kwargs := pgjobs_checked_arguments(definition, arguments);
        job.keys := batch;
        IF lock IS NOT NULL OR options ? 'keys' THEN
            job.keys := coalesce(batch, '{}')
                || pgjobs_keys(definition, job.kwargs, lock);
        END IF;
        IF unique_key IS NOT NULL OR options ? 'on_conflict' THEN
            job.unique_key := coalesce(
                pgjobs_checked_key('unique_key', unique_key),
                pgjobs_unique_key(definition, job.kwargs)
            );
            job.unique_for := coalesce(options ->> 'unique_for', 'unfinished');
            job.unique_until := statement_timestamp() + make_interval(
                secs => (options -> 'unique_period')::double precision
            );
        END IF;
        id := pgjobs_insert(job, coalesce(options ->> 'on_conflict', 'return'));
        CONTINUE WHEN id IS NULL;
        RETURN NEXT;
    END LOOP;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_enqueue(
    task text, arguments jsonb DEFAULT '{}',
    priority integer DEFAULT NULL, queue_name text DEFAULT NULL,
    run_after timestamptz DEFAULT NULL, unique_key text DEFAULT NULL,
    lock text DEFAULT NULL, meta jsonb DEFAULT NULL, keep text DEFAULT NULL
) RETURNS TABLE (id bigint) LANGUAGE plpgsql ROWS 1
SET search_path FROM CURRENT
AS $$
DECLARE
    definition pgjobs_taskdefinition := pgjobs_definition(task);
    options jsonb := definition.options;
    expanded jsonb[];
    batch jsonb;  -- what `keys` says of it
    job pgjobs_job;
BEGIN
    IF options ? 'encrypted' THEN
        RAISE EXCEPTION 'SQL cannot enqueue %: its arguments are encrypted.',
            definition.name
            USING ERRCODE = '0A000', COLUMN = 'task', HINT = 'Enqueue it from Python, '
                'which has a key. Or enqueue a task that gets an id, and enqueues it.';
    END IF;
    IF jsonb_typeof(arguments) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'Invalid arguments for %: arguments: must be a JSON object, '
            'got %.', definition.name, coalesce(pgjobs_shortened(arguments), 'NULL')
            USING ERRCODE = CASE
                    WHEN arguments IS NULL THEN '22004' ELSE '22023'
                END,
                COLUMN = 'arguments', HINT = pgjobs_usage(definition.parameters);
    END IF;
    PERFORM pgjobs_check_options(priority, queue_name, run_after, keep),
        pgjobs_check_meta(meta);
    -- Options with the name of a column are its value, but for those that depend on the
    -- arguments.
    job := jsonb_populate_record(
        job, options - '{dependencies, keys, unique_for, unique_key}'::text[]
    );
    job.args := '[]';
    job.meta := meta;
    job.task := definition.name;
    job.queue_name := coalesce(queue_name, job.queue_name);
    job.priority := coalesce(priority, job.priority);
    job.keep := coalesce(keep, job.keep);
    job.run_after := run_after;
    job.expires_at := coalesce(run_after, statement_timestamp())
        + make_interval(secs => (options -> 'expires')::double precision);
    IF options ? 'write_all' THEN
        expanded := pgjobs_expanded(definition, arguments);
        IF expanded IS NOT NULL THEN
            INSERT INTO pgjobs_batch AS new (description) VALUES (definition.name)
            RETURNING jsonb_build_object('batch_id', new.id) INTO batch;
        END IF;
    END IF;
    FOREACH arguments IN ARRAY coalesce(expanded, ARRAY[arguments]) LOOP
        job.kwargs := pgjobs_checked_arguments(definition, arguments);
        IF lock IS NOT NULL OR unique_key IS NOT NULL OR options ?| '{keys, on_conflict}'
        THEN
            arguments := pgjobs_key_form(definition.parameters, job.kwargs);
        END IF;
        job.keys := batch;
        IF lock IS NOT NULL OR options ? 'keys' THEN
            job.keys := coalesce(batch, '{}')
                || pgjobs_keys(definition, arguments, lock);
        END IF;
        IF unique_key IS NOT NULL OR options ? 'on_conflict' THEN
            job.unique_key := coalesce(
                pgjobs_checked_key('unique_key', unique_key),
                pgjobs_unique_key(definition, arguments)
            );
            job.unique_for := coalesce(options ->> 'unique_for', 'unfinished');
            job.unique_until := statement_timestamp() + make_interval(
                secs => (options -> 'unique_period')::double precision
            );
        END IF;
        id := pgjobs_insert(job, coalesce(options ->> 'on_conflict', 'return'));
        CONTINUE WHEN id IS NULL;
        RETURN NEXT;
    END LOOP;
END
$$;
""",
    ),
    "function pgjobs_insert": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_insert(job pgjobs_job, on_conflict text)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    inserted bigint;
BEGIN
    LOOP
        INSERT INTO pgjobs_job (task, args, kwargs, queue_name, priority, max_attempts, max_crashes, timeout, process_units, dependencies, meta, run_after, expires_at, keys, unique_key, unique_for, unique_until)
        SELECT task, args, kwargs, queue_name, priority, max_attempts, max_crashes, timeout, process_units, dependencies, meta, run_after, expires_at, keys, unique_key, unique_for, unique_until FROM (SELECT job.*) AS given
        ON CONFLICT (unique_key, unique_for)
            WHERE unique_key IS NOT NULL
                AND pgjobs_holds_key(
                    unique_for, unique_until, status, attempts, finished_at
                )
            DO NOTHING
        RETURNING id INTO inserted;
        IF NOT FOUND THEN
            inserted := pgjobs_conflict(job, on_conflict);
        END IF;
        IF inserted IS DISTINCT FROM 0 THEN
            RETURN inserted;
        END IF;
    END LOOP;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_insert(job pgjobs_job, on_conflict text)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    inserted bigint;
BEGIN
    LOOP
        INSERT INTO pgjobs_job (task, args, kwargs, queue_name, priority, max_attempts, max_crashes, timeout, process_units, dependencies, meta, keep, run_after, expires_at, keys, unique_key, unique_for, unique_until)
        SELECT task, args, kwargs, queue_name, priority, max_attempts, max_crashes, timeout, process_units, dependencies, meta, keep, run_after, expires_at, keys, unique_key, unique_for, unique_until FROM (SELECT job.*) AS given
        ON CONFLICT (unique_key, unique_for)
            WHERE unique_key IS NOT NULL
                AND pgjobs_holds_key(
                    unique_for, unique_until, status, attempts, finished_at
                )
            DO NOTHING
        RETURNING id INTO inserted;
        IF NOT FOUND THEN
            inserted := pgjobs_conflict(job, on_conflict);
        END IF;
        IF inserted IS DISTINCT FROM 0 THEN
            RETURN inserted;
        END IF;
    END LOOP;
END
$$;
""",
    ),
    "function pgjobs_retry": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_retry(id bigint) RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pgjobs_retry_jobs(ARRAY[id])) THEN
                RETURN false;
            END IF;
            PERFORM pgjobs_note_act('retry', id, NULL);
            RETURN true;
        EXCEPTION WHEN unique_violation THEN
            -- Another job took the unique key first; the next try sees that job.
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE;
            END IF;
        END;
    END LOOP;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_retry(
    id bigint, keep_steps boolean DEFAULT false, until text DEFAULT NULL
) RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    LOOP
        BEGIN
            IF keep_steps OR until IS NOT NULL THEN
                PERFORM pgjobs_retry_keeping(ARRAY[id], until);
            ELSE
                PERFORM pgjobs_retry_jobs(ARRAY[id]);
            END IF;
            IF NOT FOUND THEN
                RETURN false;
            END IF;
            PERFORM pgjobs_audit_act('retry', id, NULL);
            RETURN true;
        EXCEPTION WHEN unique_violation THEN
            -- Another job took the unique key first; the next try sees that job.
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE;
            END IF;
        END;
    END LOOP;
END
$$;
""",
    ),
    "function pgjobs_checked_array": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_checked_array(
    schema jsonb, value jsonb, OUT stored jsonb, OUT fault text
) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    SELECT coalesce(jsonb_agg(checked.stored ORDER BY place), '[]'),
        string_agg(
            format('[%s] ', place - 1) || checked.fault, '; ' ORDER BY place
        )
    INTO stored, fault
    FROM jsonb_array_elements(value) WITH ORDINALITY AS item (each, place)
    CROSS JOIN LATERAL pgjobs_checked(
        coalesce(
            schema -> 'prefixItems' -> (place - 1)::integer, schema -> 'items', '{}'
        ),
        each
    ) AS checked;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_checked_array(
    schema jsonb, value jsonb, OUT stored jsonb, OUT fault text
) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    SELECT coalesce(jsonb_agg(checked.stored ORDER BY place), '[]'),
        string_agg(
            format('[%s] ', place - 1) || checked.fault, '; ' ORDER BY place
        )
    INTO stored, fault
    FROM jsonb_array_elements(value) WITH ORDINALITY AS item (each, place)
    CROSS JOIN LATERAL pgjobs_checked(
        coalesce(
            schema -> 'prefixItems' -> (place - 1)::integer, schema -> 'items', '{}'
        ),
        each
    ) AS checked;
    IF fault IS NULL AND schema ? 'uniqueItems' THEN  -- a set: it has one order
        SELECT coalesce(
            jsonb_agg(each ORDER BY pgjobs_json_text(each) COLLATE "C"), '[]'
        )
        INTO stored
        FROM (
            SELECT DISTINCT each FROM jsonb_array_elements(stored) AS item (each)
        ) AS member;
    END IF;
END
$$;
""",
    ),
    "function pgjobs_in_utc": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_in_utc(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    moment timestamp;
    fraction text;
BEGIN
    IF value !~ '[-+][0-9]{2}:[0-9]{2}$' THEN
        RETURN value;
    END IF;
    moment := value::timestamptz AT TIME ZONE 'UTC';
    IF moment < '0001-01-01' OR moment >= '10000-01-01' THEN
        RETURN value;
    END IF;
    fraction := to_char(moment, 'US');
    RETURN to_char(moment, 'YYYY-MM-DD"T"HH24:MI:SS') || CASE
        WHEN fraction <> '000000' THEN '.' || fraction ELSE ''
    END || 'Z';
END
$$;
""",
    ),
    "function pgjobs_plain_decimal": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_plain_decimal(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    part CONSTANT text[] := regexp_match(
        replace(value, '_', ''),
        '^ *([-+]?)([0-9]*)(?:[.]([0-9]*))?(?:[eE]([-+]?[0-9]+))? *$'
    );
    mark CONSTANT text := CASE WHEN part[1] = '-' THEN '-' ELSE '' END;
    decimals CONSTANT text := coalesce(part[3], '');
    digits CONSTANT text := ltrim(part[2] || decimals, '0');
    significant CONSTANT text := rtrim(digits, '0');
    places CONSTANT numeric := coalesce(part[4], '0')::numeric
        - length(decimals) + length(digits) - length(significant);
    padded text;
BEGIN
    IF significant = '' THEN
        RETURN '0';
    ELSIF abs(places) > 50 THEN
        RETURN mark || significant || 'E' || places::text;
    ELSIF places >= 0 THEN
        RETURN mark || significant || repeat('0', places::integer);
    END IF;
    padded := lpad(
        significant, greatest(length(significant), 1 - places::integer), '0'
    );
    RETURN mark || left(padded, places::integer) || '.'
        || right(padded, -places::integer);
END
$$;
""",
    ),
    "function pgjobs_halved_call": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_halved_call(
    chunk jsonb, life integer, attempts integer
) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF chunk ->> 'attempt' = format('%s:%s', life, attempts)
        AND chunk ->> 'place' ~ '^[1-9][0-9]{0,8}$'
        AND chunk ->> 'members' ~ '^[1-9][0-9]{0,8}$' AND chunk ->> 'members' <> '1'
    THEN
        RETURN jsonb_build_object(
            'attempt', chunk -> 'attempt', 'alone', chunk -> 'attempt',
            'call', chunk -> 'call', 'first', chunk -> 'first',
            'part', format(
                '%s.%s', chunk ->> 'call',
                (
                    2 * ((chunk -> 'place')::bigint - 1) >= (chunk -> 'members')::bigint
                )::integer
            )
        ) || CASE WHEN chunk ? 'ids' THEN jsonb_build_object('ids', chunk -> 'ids')
            ELSE '{}' END;
    END IF;
    RETURN NULL;
END
$$;
""",
    ),
    "function pgjobs_note_ended_worker": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_note_ended_worker() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    given text := nullif(current_setting('pgjobs.ends', true), '');
BEGIN
    IF given = 'caller' THEN
        RETURN NULL;
    END IF;
    INSERT INTO pgjobs_endedworker
        (worker_id, name, host, pid, queues, excluded, version, started_at, how)
    VALUES
        (OLD.id, OLD.name, OLD.host, OLD.pid, OLD.queues, OLD.excluded, OLD.version,
         OLD.started_at, coalesce(given, 'lost'));
    RETURN NULL;
EXCEPTION WHEN insufficient_privilege THEN
    -- A role of an older version: rescues matter more.
    RETURN NULL;
END
$$;
""",
    ),
    "function pgjobs_answer": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_answer(id bigint, name text, value jsonb)
RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF EXISTS (
        SELECT FROM pgjobs_job AS job
        WHERE job.id = pgjobs_newest(pgjobs_answer.id) AND job.keys ? 'encrypted'
    ) THEN
        RAISE EXCEPTION 'SQL cannot answer job %: its answers are encrypted.', id
            USING ERRCODE = '0A000', COLUMN = 'id',
                HINT = 'Answer it from Python, by job.answer(...), or on its page.';
    END IF;
    RETURN pgjobs_store_answer(id, name, value, NULL, NULL);
END
$$;
""",
    ),
    "function pgjobs_awaited_names": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_awaited_names(stem text) RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE hop (name) AS (
            (
                SELECT name FROM pgjobs_awaitedevent
                WHERE name >= stem ORDER BY name LIMIT 1
            )
            UNION ALL
            SELECT (
                SELECT name FROM pgjobs_awaitedevent
                WHERE name > hop.name ORDER BY name LIMIT 1
            )
            FROM hop WHERE starts_with(hop.name, stem)
        )
        SELECT name FROM hop WHERE starts_with(name, stem)
    );
END
$$;
""",
    ),
    "function pgjobs_check_answer": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_check_answer(answer_name text, answer jsonb, schema jsonb)
RETURNS jsonb LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    most CONSTANT integer := 64000;  -- bytes, as of the result of a step
    checked record;
BEGIN
    IF length(answer_name) BETWEEN 1 AND 200 IS NOT TRUE THEN
        RAISE EXCEPTION 'The name of an answer must be 1 to 200 characters, got %.',
            coalesce(quote_literal(left(answer_name, 100)), 'NULL')
            USING ERRCODE = '22023', COLUMN = 'name';
    END IF;
    IF answer IS NULL OR answer = 'null' THEN
        RAISE EXCEPTION 'An answer cannot be null: None says that the time is over.'
            USING ERRCODE = '22004', COLUMN = 'value';
    END IF;
    IF pgjobs_json_size(answer, most) > most THEN
        RAISE EXCEPTION 'The answer is % bytes of JSON, more than the % that are stored.',
            pgjobs_json_size(answer, most), most
            USING ERRCODE = '22023', COLUMN = 'value';
    END IF;
    IF schema IS NULL THEN
        RETURN answer;
    END IF;
    SELECT * INTO checked FROM pgjobs_checked(schema, answer);
    IF checked.fault IS NOT NULL THEN
        RAISE EXCEPTION 'Invalid answer to %: %.', quote_literal(answer_name), checked.fault
            USING ERRCODE = '22023', COLUMN = 'value';
    END IF;
    RETURN checked.stored;
END
$$;
""",
    ),
    "function pgjobs_circle_with": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_circle_with(job bigint, others bigint[], most integer)
RETURNS bigint[] LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET search_path FROM CURRENT
AS $$
DECLARE
    level bigint[] := ARRAY(SELECT DISTINCT pgjobs_newest(id) FROM unnest(others) AS id);
    seen bigint[] := level;
    waiting bigint[] := '{}';
    waited_for bigint[] := '{}';
    found record;
BEGIN
    WHILE level <> '{}' AND cardinality(seen) < most LOOP
        SELECT coalesce(array_agg(id), '{}') AS ids, coalesce(array_agg(other), '{}') AS others
        INTO found
        FROM (
            SELECT each.id, pgjobs_newest(next.id) AS other
            FROM (
                SELECT id, keys, keys ->> 'lock' AS lock,
                    keys ->> 'is_ordered' IS DISTINCT FROM 'false' AS is_ordered
                FROM pgjobs_job
                WHERE id = ANY (level) AND id <> job AND finished_at IS NULL
                OFFSET 0
            ) AS each
            CROSS JOIN LATERAL (
                SELECT predecessor_id FROM pgjobs_predecessor
                WHERE job_id = each.id AND is_open AND predecessor_id IS NOT NULL
                UNION ALL
                SELECT named.id::bigint
                FROM jsonb_array_elements_text(each.keys -> 'after') AS named (id)
                UNION ALL
                SELECT member.id
                FROM (
                    SELECT batch_id FROM pgjobs_predecessor
                    WHERE job_id = each.id AND is_open AND batch_id IS NOT NULL
                    UNION ALL
                    SELECT named.id::bigint
                    FROM jsonb_array_elements_text(each.keys -> 'after_batches')
                        AS named (id)
                ) AS batch
                JOIN pgjobs_job AS member ON member.batch_id = batch.batch_id
                UNION ALL
                SELECT ahead.id FROM pgjobs_job AS ahead
                WHERE ahead.keys ->> 'lock' = each.lock
                    AND ahead.status IN ('READY', 'RUNNING')
                    AND ahead.id < each.id AND each.is_ordered
                UNION ALL
                SELECT ahead.id FROM pgjobs_job AS ahead
                WHERE ahead.keys ->> 'lock' = each.lock
                    AND ahead.status = ANY (ARRAY['WAITING', 'SCHEDULED'])
                    AND ahead.keys ->> 'is_ordered' IS DISTINCT FROM 'false'
                    AND ahead.id < each.id AND ahead.attempts > 0 AND each.is_ordered
            ) AS next (id)
            LIMIT most
        ) AS edge;
        waiting := waiting || found.ids;
        waited_for := waited_for || found.others;
        level := ARRAY(SELECT unnest(found.others) EXCEPT SELECT unnest(seen));
        seen := seen || level;
    END LOOP;
    IF NOT job = ANY (seen) THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        WITH RECURSIVE circle (id) AS (
            SELECT job
            UNION
            SELECT edge.id
            FROM circle
            JOIN unnest(waiting, waited_for) AS edge (id, other) ON edge.other = circle.id
        )
        SELECT id FROM circle
    );
END
$$;
""",
    ),
    "function pgjobs_closing_circles": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_closing_circles(ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    most CONSTANT integer := 1000;
BEGIN
    IF ids IS NULL THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        SELECT DISTINCT refused.id
        FROM pgjobs_job AS job
        JOIN pgjobs_wait AS wait
            ON wait.job_id = job.id AND wait.life = job.life AND wait.ended_at IS NULL
        CROSS JOIN LATERAL (
            SELECT other.id FROM pgjobs_job AS other
            WHERE other.id = ANY (pgjobs_circle_with(
                    job.id, ARRAY(SELECT jsonb_array_elements_text(asked)::bigint), most
                ))
                AND other.status || '' = 'WAITING' AND other.waiting_for = 'jobs'
            ORDER BY other.id DESC LIMIT 1
        ) AS refused
        WHERE job.id = ANY (ids) AND job.status || '' = 'WAITING'
            AND job.waiting_for = 'jobs' AND wait.kind = 'jobs'
            AND (
                job.batch_id IS NOT NULL OR job.keys ?| ARRAY['lock', 'has_successors']
                OR EXISTS (
                    SELECT FROM pgjobs_predecessor AS link
                    WHERE link.predecessor_id = job.id AND link.is_open
                    OFFSET 0
                )
            )
    );
END
$$;
""",
    ),
    "function pgjobs_cluster": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_cluster() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT system_identifier FROM pg_catalog.pg_control_system());
EXCEPTION WHEN insufficient_privilege OR undefined_function THEN
    RETURN 0;
END
$$;
""",
    ),
    "function pgjobs_continue_as": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_continue_as(
    job bigint, token bigint, worker bigint, name_of_worker text, stores jsonb
) RETURNS TABLE (lease_token bigint, status text) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    old pgjobs_job;
    successor bigint;
BEGIN
    SELECT * INTO old FROM pgjobs_job AS each
    WHERE each.id = job AND each.lease_token = token AND each.worker_id = worker
    FOR UPDATE;
    IF old.id IS NULL THEN
        RETURN;
    END IF;
    IF old.cancel_requested_at IS NOT NULL THEN
        INSERT INTO pgjobs_attempt (
            job_id, life, number, worker_name, started_at, finished_at, outcome, message
        )
        VALUES (
            old.id, old.life, old.attempts, name_of_worker, old.last_attempted_at,
            clock_timestamp(), 'CANCELLED', old.reason
        )
        ON CONFLICT DO NOTHING;
        UPDATE pgjobs_job AS each
        SET status = 'CANCELLED', finished_at = clock_timestamp(), worker_id = NULL
        WHERE each.id = old.id;
        RETURN QUERY SELECT token, 'CANCELLED';
        RETURN;
    END IF;
    successor := nextval('pgjobs_job_id_seq');
    UPDATE pgjobs_job AS each
    SET status = 'SUCCESSFUL', finished_at = clock_timestamp(), worker_id = NULL,
        worker_name = name_of_worker,
        reason = format('It goes on as job %s.', successor),
        keys = coalesce(old.keys, '{}') - ARRAY['batch_id', 'on_success', 'on_failure']
            || jsonb_build_object('continued_as', successor),
        batch_id = NULL, dependencies = NULL, unique_until = NULL
    WHERE each.id = old.id;
    IF old.dependencies IS NOT NULL THEN
        DELETE FROM pgjobs_prerequisite WHERE job_id = old.id;
    END IF;
    PERFORM pgjobs_insert_successor(old, successor, stores);
    PERFORM pgjobs_hand_on(old, successor);
    RETURN QUERY SELECT token, 'CONTINUED';
END
$$;
""",
    ),
    "function pgjobs_counts": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_counts(enqueued_in jsonb, transaction bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT transaction = (enqueued_in -> 'transaction')::bigint
        OR NOT pg_visible_in_snapshot(
            transaction::text::xid8, (enqueued_in ->> 'snapshot')::pg_snapshot
        )
$$;
""",
    ),
    "function pgjobs_drop_waited_links": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_drop_waited_links(ids bigint[]) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    links CONSTANT bigint[] := ARRAY(
        SELECT link.id FROM unnest(ids) AS given (id)
        CROSS JOIN LATERAL (
            SELECT id FROM pgjobs_predecessor
            WHERE job_id = given.id AND needs = 'end' AND predecessor_id IS NOT NULL
            OFFSET 0
        ) AS link
    );
    of_chains bigint[];
BEGIN
    IF links = '{}' THEN
        RETURN;
    END IF;
    WITH chained AS (
        UPDATE pgjobs_predecessor AS link
        SET is_open = false, needs = coalesce(job.keys ->> 'needs', 'success')
        FROM pgjobs_job AS job
        WHERE link.id = ANY (links) AND job.id = link.job_id
            AND EXISTS (
                SELECT FROM jsonb_array_elements_text(job.keys -> 'after') AS after (id)
                WHERE link.predecessor_id IN (after.id::bigint, pgjobs_newest(after.id::bigint))
            )
        RETURNING link.id
    )
    SELECT array_agg(id) INTO of_chains FROM chained;
    DELETE FROM pgjobs_predecessor
    WHERE id = ANY (links) AND id <> ALL (coalesce(of_chains, '{}'));
END
$$;
""",
    ),
    "function pgjobs_end_lives": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_end_lives(most integer, only_jobs bigint[], skipped bigint[])
RETURNS SETOF bigint LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    UPDATE pgjobs_job SET keys = keys || pgjobs_ends_at(keys, clock_timestamp())
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_job
        WHERE keys ? 'deadline' AND finished_at IS NULL
            AND (keys ? 'ends_at' OR status <> 'SCHEDULED'
                AND coalesce(waiting_for, '') NOT IN ('predecessor', 'dependency'))
            AND keys -> 'ends_at' IS NULL AND jsonb_typeof(keys -> 'deadline') = 'number'
            AND NOT id = ANY (skipped)
        LIMIT most
        FOR NO KEY UPDATE SKIP LOCKED
    ));
    RETURN QUERY
    UPDATE pgjobs_job
    SET status = 'FAILED',
        finished_at = clock_timestamp(),
        reason = 'The deadline of the job is over.',
        waiting_for = NULL,
        blocked_by_id = NULL
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_job
        WHERE keys ? 'deadline' AND finished_at IS NULL
            AND (keys ? 'ends_at' OR status <> 'SCHEDULED'
                AND coalesce(waiting_for, '') NOT IN ('predecessor', 'dependency'))
            AND keys -> 'ends_at' <= to_jsonb(extract(epoch FROM statement_timestamp()))
            AND status <> 'RUNNING'
            AND (only_jobs IS NULL OR id = ANY (only_jobs)) AND NOT id = ANY (skipped)
        ORDER BY keys -> 'ends_at'
        LIMIT most
        FOR NO KEY UPDATE SKIP LOCKED
    ))
    RETURNING id;
END
$$;
""",
    ),
    "function pgjobs_end_wait": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_end_wait(
    job pgjobs_job, wait_name text, ways jsonb, taken record
) RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    number integer;
BEGIN
    INSERT INTO pgjobs_step (job_id, life, name, return_value, attempt, finished_at)
    VALUES (job.id, job.life, wait_name, taken.stored, job.attempts, clock_timestamp())
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE pgjobs_wait
    SET ended_at = clock_timestamp(),
        event_id = CASE WHEN label = coalesce(taken.label, '') THEN taken.event_id END
    WHERE job_id = job.id AND life = job.life AND name = wait_name;
    GET DIAGNOSTICS number = ROW_COUNT;
    IF number < jsonb_array_length(ways)
        AND coalesce(taken.label, taken.event_id::text) IS NOT NULL
    THEN
        INSERT INTO pgjobs_wait (
            job_id, life, name, label, kind, event, aggregate_id, deadline, ended_at,
            event_id
        )
        SELECT job.id, job.life, wait_name, coalesce(label, ''), kind, event,
            aggregate_id, clock_timestamp(), clock_timestamp(),
            CASE WHEN label IS NOT DISTINCT FROM taken.label THEN taken.event_id END
        FROM jsonb_to_recordset(ways) AS way (
            label text, kind text, event text, aggregate_id text
        )
        -- Not of any: no event is taken twice.
        ON CONFLICT (job_id, life, name, label) DO NOTHING;
    END IF;
    DELETE FROM pgjobs_waitnote
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_waitnote WHERE job_id = job.id FOR UPDATE SKIP LOCKED
    ));
    IF ways @? '$[*] ? (@.kind == "jobs")' THEN
        PERFORM pgjobs_drop_waited_links(ARRAY[job.id]);
    END IF;
    RETURN true;
END
$$;
""",
    ),
    "function pgjobs_ends_at": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_ends_at(keys jsonb, begins_at timestamptz) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN jsonb_typeof(keys -> 'deadline') = 'number' THEN jsonb_build_object(
            'ends_at', extract(epoch FROM begins_at) + (keys -> 'deadline')::numeric
        )
        ELSE '{}'
    END
$$;
""",
    ),
    "function pgjobs_ends_of": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_ends_of(ids jsonb, OUT value jsonb, OUT since timestamptz)
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    SELECT coalesce(jsonb_agg(
            jsonb_build_object(
                'id', named.id::bigint, 'status', CASE
                    WHEN job.keys ? 'continued_as' THEN 'GONE'
                    ELSE coalesce(job.status, 'GONE')
                END,
                'value', job.return_value, 'reason', coalesce(job.reason, '')
            ) || CASE  -- by which an encrypted result opens
                WHEN job.keys ? 'encrypted'
                    THEN jsonb_build_object('by', job.keys #> '{encrypted,by}')
                ELSE '{}'
            END ORDER BY named.place
        ), '[]'),
        coalesce(max(job.finished_at), clock_timestamp())
    INTO value, since
    FROM jsonb_array_elements_text(ids) WITH ORDINALITY AS named (id, place)
    LEFT JOIN pgjobs_job AS job ON job.id = pgjobs_newest(named.id::bigint)
    HAVING bool_or(job.id IS NOT NULL AND job.finished_at IS NULL) IS NOT TRUE;
END
$$;
""",
    ),
    "function pgjobs_enqueued_in": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_enqueued_in() RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN jsonb_build_object('enqueued_in', jsonb_build_object(
        'snapshot', pg_current_snapshot()::text,
        'transaction', pg_current_xact_id()::text::bigint,
        'cluster', pgjobs_cluster()
    ));
END
$$;
""",
    ),
    "function pgjobs_event_for": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_event_for(
    job pgjobs_job, wanted text, wanted_aggregate text
) RETURNS bigint LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    enqueued_in CONSTANT jsonb := job.keys -> 'enqueued_in';
    own_cluster CONSTANT bigint := coalesce((enqueued_in -> 'cluster')::bigint, -1);
    -- All transactions below were over, and what they committed was seen.
    lowest CONSTANT bigint := split_part(enqueued_in ->> 'snapshot', ':', 1)::bigint;
    is_pattern CONSTANT boolean := right(wanted, 2) = '.*';
    names CONSTANT text[] := CASE
        WHEN NOT is_pattern THEN ARRAY[wanted]
        ELSE pgjobs_awaited_names(left(wanted, -1))
    END;
    taken CONSTANT bigint[] := ARRAY(
        SELECT event_id FROM pgjobs_wait
        WHERE job_id = job.id AND life IN (0, job.life) AND event_id IS NOT NULL
    );
    oldest bigint;
BEGIN
    IF wanted_aggregate IS NULL THEN
        SELECT event_id INTO oldest
        FROM unnest(names) AS given (name)
        CROSS JOIN LATERAL (
            SELECT event_id, transaction FROM pgjobs_awaitedevent AS awaited
            WHERE awaited.name = given.name AND cluster = own_cluster
                AND transaction >= lowest AND pgjobs_counts(enqueued_in, transaction)
                AND event_id <> ALL (taken)
            ORDER BY transaction, event_id LIMIT 1
        ) AS first
        ORDER BY transaction, event_id LIMIT 1;
    ELSE
        SELECT event_id INTO oldest
        FROM unnest(names) AS given (name)
        CROSS JOIN LATERAL (
            SELECT event_id, transaction FROM pgjobs_awaitedevent AS awaited
            WHERE awaited.name = given.name AND aggregate_id = wanted_aggregate
                AND cluster = own_cluster AND transaction >= lowest
                AND pgjobs_counts(enqueued_in, transaction)
                AND event_id <> ALL (taken)
            ORDER BY transaction, event_id LIMIT 1
        ) AS first
        ORDER BY transaction, event_id LIMIT 1;
    END IF;
    IF oldest IS NULL THEN
        SELECT event.id INTO oldest
        FROM unnest(names) AS given (name)
        CROSS JOIN LATERAL (
            SELECT event_id, aggregate_id FROM pgjobs_awaitedevent AS awaited
            WHERE awaited.name = given.name AND cluster < own_cluster
            UNION ALL
            SELECT event_id, aggregate_id FROM pgjobs_awaitedevent AS awaited
            WHERE awaited.name = given.name AND cluster > own_cluster
        ) AS elsewhere
        JOIN pgjobs_event AS event ON event.id = elsewhere.event_id
        WHERE event.published_at >= job.enqueued_at AND event.id <> ALL (taken)
            AND coalesce(
                elsewhere.aggregate_id = wanted_aggregate, wanted_aggregate IS NULL
            )
        ORDER BY event.id LIMIT 1;
    END IF;
    RETURN oldest;
END
$$;
""",
    ),
    "function pgjobs_find_awaited": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_find_awaited(
    seconds double precision, most integer, before bigint,
    OUT number integer, OUT further bigint, OUT known text
) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    slice CONSTANT integer := 5 * most;
    older bigint[];
    missed bigint[];
BEGIN
    number := 0;
    SELECT max(synced_at)::text INTO known
    FROM pgjobs_taskdefinition WHERE options ? 'waits_for';
    IF known IS NULL THEN
        RETURN;
    END IF;
    older := ARRAY(
        SELECT id FROM pgjobs_event WHERE id < before ORDER BY id DESC LIMIT slice
    );
    missed := ARRAY(
        SELECT event.id
        FROM (
            SELECT id, name FROM pgjobs_event
            WHERE published_at > clock_timestamp() - make_interval(secs => seconds)
            UNION
            SELECT id, name FROM pgjobs_event WHERE id = ANY (older)
        ) AS event
        WHERE NOT EXISTS (
                SELECT FROM pgjobs_awaitedevent WHERE event_id = event.id OFFSET 0
            )
            AND EXISTS (
                SELECT FROM pgjobs_taskdefinition
                WHERE options ? 'waits_for'
                    AND options -> 'waits_for' ?| pgjobs_patterns(event.name)
            )
        LIMIT most
    );
    INSERT INTO pgjobs_awaitedevent (event_id, name, aggregate_id, cluster, transaction)
    SELECT id, name, aggregate_id, -2, 0 FROM pgjobs_event WHERE id = ANY (missed)
    ON CONFLICT DO NOTHING;
    INSERT INTO pgjobs_waitnote (event_id) SELECT unnest(missed);
    number := cardinality(missed);
    further := CASE WHEN number = most THEN before ELSE older[slice] END;
END
$$;
""",
    ),
    "function pgjobs_first_way": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_first_way(
    job pgjobs_job, wait_name text, ways jsonb,
    OUT label text, OUT answer jsonb, OUT event_id bigint, OUT stored jsonb
) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    SELECT way.label, there.answer || jsonb_build_object('label', way.label),
        there.event_id,
        CASE
            WHEN way.label IS NULL THEN there.stored
            WHEN there.stored IS NOT NULL
                THEN jsonb_build_object('label', way.label, 'value', there.stored)
        END
    INTO label, answer, event_id, stored
    FROM jsonb_to_recordset(ways) AS way (
        label text, kind text, event text, aggregate_id text, jobs jsonb
    )
    CROSS JOIN LATERAL (
        SELECT to_jsonb(given) AS answer, NULL::bigint AS event_id,
            given.value AS stored, given.answered_at AS since
        FROM pgjobs_answer AS given
        WHERE way.kind = 'answer' AND given.job_id = job.id AND given.life = job.life
            AND given.name = coalesce(way.label, wait_name)
        UNION ALL
        SELECT NULL, event.id, to_jsonb(event.id), event.published_at
        FROM (
            SELECT CASE
                WHEN way.kind = 'event'
                    THEN pgjobs_event_for(job, way.event, way.aggregate_id)
            END AS found_id
        ) AS event_found
        JOIN pgjobs_event AS event ON event.id = found_id
        UNION ALL
        SELECT NULL, NULL, ends.value, ends.since
        FROM pgjobs_ends_of(way.jobs) AS ends
        WHERE way.kind = 'jobs' AND ends.value IS NOT NULL
    ) AS there
    ORDER BY
        there.answer IS NULL AND EXISTS (
            SELECT FROM pgjobs_wait AS wait
            WHERE wait.job_id = job.id AND wait.life = job.life AND wait.name = wait_name
        ),
        there.since, way.label
    LIMIT 1;
END
$$;
""",
    ),
    "function pgjobs_forget_waits": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_forget_waits(job bigint) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF NOT has_table_privilege('pgjobs_wait', 'DELETE') THEN
        RETURN;
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM pgjobs_note_waiting(ARRAY[job]);
        RETURN;
    END IF;
    DELETE FROM pgjobs_wait
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_wait WHERE job_id = job AND ended_at IS NULL
        FOR UPDATE SKIP LOCKED
    ));
    DELETE FROM pgjobs_waitnote
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_waitnote WHERE job_id = job FOR UPDATE SKIP LOCKED
    ));
    PERFORM pgjobs_drop_waited_links(ARRAY[job]);
END
$$;
""",
    ),
    "function pgjobs_found_something": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_found_something(ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF ids IS NULL THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        SELECT job.id FROM pgjobs_job AS job
        WHERE job.id = ANY (ids) AND job.status || '' = 'WAITING'
            AND EXISTS (
                SELECT FROM pgjobs_wait AS wait
                WHERE wait.job_id = job.id AND wait.life = job.life
                    AND wait.ended_at IS NULL
                    AND (
                        wait.deadline <= clock_timestamp()
                        OR CASE wait.kind
                            WHEN 'answer' THEN EXISTS (
                                SELECT FROM pgjobs_answer AS answer
                                WHERE answer.job_id = job.id AND answer.life = job.life
                                    AND answer.name
                                        = coalesce(nullif(wait.label, ''), wait.name)
                            )
                            WHEN 'event' THEN pgjobs_event_for(
                                job, wait.event, wait.aggregate_id
                            ) IS NOT NULL
                            WHEN 'jobs' THEN (
                                SELECT value FROM pgjobs_ends_of(wait.asked)
                            ) IS NOT NULL
                        END
                    )
                OFFSET 0  -- asked for each: few rows belong to a job
            )
    );
END
$$;
""",
    ),
    "function pgjobs_hand_on": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_hand_on(old pgjobs_job, successor bigint) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    UPDATE pgjobs_answer AS answer SET job_id = successor, life = 1
    WHERE job_id = old.id AND life = old.life
        AND NOT EXISTS (
            SELECT FROM pgjobs_wait AS wait
            WHERE wait.job_id = old.id AND wait.life = old.life
                AND ended_at IS NOT NULL
                AND coalesce(nullif(label, ''), wait.name) = answer.name
        )
        AND NOT EXISTS (
            SELECT FROM pgjobs_step AS step
            WHERE step.job_id = old.id AND step.life = old.life
                AND step.name = answer.name
        );
    INSERT INTO pgjobs_wait (
        job_id, life, name, kind, event, deadline, opened_at, ended_at, event_id
    )
    SELECT successor, 0, event_id::text, kind, event, deadline, opened_at, ended_at,
        event_id
    FROM pgjobs_wait
    WHERE job_id = old.id AND life IN (0, old.life) AND EXISTS (
        SELECT FROM pgjobs_awaitedevent AS known
        WHERE known.event_id = pgjobs_wait.event_id
        OFFSET 0  -- asked for each
    );
    DELETE FROM pgjobs_wait
    WHERE job_id = old.id AND life IN (0, old.life)
        AND (life = 0 OR ended_at IS NULL);
    UPDATE pgjobs_delivery SET job_id = successor WHERE job_id = old.id;
    UPDATE pgjobs_tick SET job_id = successor WHERE job_id = old.id;
END
$$;
""",
    ),
    "function pgjobs_has_code_of": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_has_code_of(worker bigint, other bigint)
RETURNS boolean LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM pgjobs_worker AS this JOIN pgjobs_worker AS that USING (version)
        WHERE this.id = worker AND that.id = other AND version <> ''
    );
END
$$;
""",
    ),
    "function pgjobs_insert_successor": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_insert_successor(
    old pgjobs_job, successor bigint, stores jsonb
) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    next pgjobs_job := old;
    lost CONSTANT text[] := ARRAY[
        'after', 'after_batches', 'needs', 'version', 'waits_for', 'deadline', 'ends_at',
        'results_taken'
    ];
BEGIN
    next.id := successor;
    next.turn := nextval('pgjobs_turn');
    next.args := (stores ->> 'args')::jsonb;
    next.kwargs := (stores ->> 'kwargs')::jsonb;
    IF stores ? 'meta' THEN
        next.meta := coalesce(old.meta, '{}') || (
            SELECT jsonb_object_agg(name, left_there || new_key)
            FROM jsonb_each(stores -> 'meta') AS each (name, left_there)
            CROSS JOIN jsonb_build_object('key', format('%s:1', successor)) AS new_key
        );
    END IF;
    next.keys := coalesce(pgjobs_rate_again(old.keys), '{}') - lost || (stores -> 'keys')
        || jsonb_build_object('first_id', coalesce(old.keys -> 'first_id', to_jsonb(old.id)));
    next.status := 'READY';
    next.life := 1;
    next.lease_token := 0;
    next.attempts := 0;
    next.failures := 0;
    next.crashes := 0;
    next.reason := '';
    next.worker_id := NULL;
    next.started_at := NULL;
    next.last_attempted_at := NULL;
    next.run_after := statement_timestamp();  -- it waits from now on
    next.expires_at := NULL;
    INSERT INTO pgjobs_job SELECT next.*
    ON CONFLICT (unique_key, unique_for)
        WHERE unique_key IS NOT NULL
            AND pgjobs_holds_key(
                unique_for, unique_until, status, attempts, finished_at
            )
        DO NOTHING;
    IF FOUND THEN
        RETURN;
    END IF;
    next.unique_key := NULL;
    next.unique_for := NULL;
    next.unique_until := NULL;
    INSERT INTO pgjobs_job SELECT next.*;
    INSERT INTO pgjobs_progress (job_id, log, updated_at)
    VALUES (
        successor,
        format(
            E'%s Another job holds the unique key %L of job %s, which goes on without.\n',
            clock_timestamp()::timestamp(3), old.unique_key, old.id
        ),
        clock_timestamp()
    );
END
$$;
""",
    ),
    "function pgjobs_is_accepted": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_is_accepted(answer jsonb, ways jsonb)
RETURNS boolean LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    schema jsonb;
    checked record;
BEGIN
    IF answer ->> 'answered_by' IS NOT NULL THEN
        RETURN false;
    END IF;
    schema := (
        SELECT way -> 'asked' -> 'schema' FROM jsonb_array_elements(ways) AS way
        WHERE way ->> 'kind' = 'answer' AND way -> 'asked' -> 'is_plain' = 'true'
            AND way ->> 'label' IS NOT DISTINCT FROM answer ->> 'label'
        LIMIT 1
    );
    IF schema IS NULL THEN
        RETURN false;
    END IF;
    SELECT * INTO checked FROM pgjobs_checked(schema, answer -> 'value');
    RETURN checked.fault IS NULL AND checked.stored = answer -> 'value';
END
$$;
""",
    ),
    "function pgjobs_is_asleep": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_is_asleep(
    job bigint, of_life integer, due_at timestamptz
) RETURNS boolean LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM pgjobs_step
        WHERE job_id = job AND life = of_life AND finished_at = due_at
    );
END
$$;
""",
    ),
    "function pgjobs_is_waited_for": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_is_waited_for(awaited_event bigint) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    awaited pgjobs_awaitedevent;
BEGIN
    SELECT * INTO awaited FROM pgjobs_awaitedevent WHERE event_id = awaited_event;
    IF awaited.event_id IS NULL THEN
        RETURN false;
    END IF;
    -- Life 0: see hand_on.sql.
    RETURN EXISTS (SELECT FROM pgjobs_wait WHERE event_id = awaited_event AND life > 0)
        OR EXISTS (
            SELECT FROM unnest(pgjobs_patterns(awaited.name)) AS pattern
            CROSS JOIN LATERAL (
                (
                    SELECT job_id FROM pgjobs_wait AS wait
                    WHERE wait.event = pattern AND aggregate_id IS NULL
                        AND ended_at IS NULL
                )
                UNION ALL
                (
                    SELECT job_id FROM pgjobs_wait AS wait
                    WHERE wait.event = pattern AND aggregate_id = awaited.aggregate_id
                        AND ended_at IS NULL
                )
            ) AS wait
            JOIN pgjobs_job AS job ON job.id = wait.job_id AND job.finished_at IS NULL
        )
        OR pgjobs_may_be_taken(
            awaited.name, (SELECT published_at FROM pgjobs_event WHERE id = awaited_event)
        );
END
$$;
""",
    ),
    "function pgjobs_keys_of_life": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_keys_of_life(before pgjobs_job, after pgjobs_job)
RETURNS jsonb LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    ends_at CONSTANT jsonb := pgjobs_ends_at(
        after.keys, greatest(after.run_after, clock_timestamp())
    );
BEGIN
    RETURN CASE
        WHEN after.status = 'WAITING' AND before.status <> 'WAITING'
            AND after.waiting_for IN ('predecessor', 'dependency')
            THEN after.keys - 'ends_at'
        WHEN after.life > before.life THEN after.keys || ends_at
        -- It was made due earlier, and has not begun.
        WHEN after.attempts = 0 AND before.status = 'SCHEDULED'
            AND after.keys -> 'ends_at' > ends_at -> 'ends_at'
            THEN after.keys || ends_at
        ELSE after.keys
    END;
END
$$;
""",
    ),
    "function pgjobs_let_go_on": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_let_go_on(
    ids bigint[], OUT woken integer, OUT are_keyed boolean
) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    waits_for_jobs bigint[];
    notified text;
BEGIN
    -- The transaction that holds a row now may be ending its job, or not.
    WITH held AS MATERIALIZED (
        SELECT id, waiting_for FROM pgjobs_job
        -- The status is compared as in sql/worker/claim/pick.sql.
        WHERE id = ANY (ids) AND status || '' = 'WAITING'
            AND waiting_for IN ('answer', 'event', 'jobs')
        ORDER BY id
        FOR NO KEY UPDATE SKIP LOCKED
    ),
    done AS (
        UPDATE pgjobs_job SET status = 'READY', run_after = clock_timestamp()
        WHERE id = ANY (ARRAY(SELECT id FROM held))
        RETURNING queue_name, status
    )
    SELECT count(*), bool_or(status = 'WAITING') IS TRUE,
        (SELECT array_agg(id) FROM held WHERE waiting_for = 'jobs'),
        (
            SELECT string_agg(pg_notify(channel, queue)::text, '') FROM (
                SELECT DISTINCT queue_name, CASE status
                    WHEN 'READY' THEN 'pgjobs' ELSE 'pgjobs_admission'
                END
                FROM done
            ) AS queue (queue, channel)
        )
    INTO woken, are_keyed, waits_for_jobs, notified
    FROM done;
    IF waits_for_jobs IS NOT NULL THEN  -- or an admission holds them up
        PERFORM pgjobs_drop_waited_links(waits_for_jobs);
    END IF;
END
$$;
""",
    ),
    "function pgjobs_locked_waits": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_locked_waits(job bigint, of_life integer, wait_name text)
RETURNS bigint[] LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN ARRAY(
        SELECT id FROM pgjobs_wait
        WHERE job_id = job AND life = of_life AND name = wait_name
        ORDER BY id
        FOR UPDATE SKIP LOCKED
    );
END
$$;
""",
    ),
    "function pgjobs_mark_step": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_mark_step(id bigint, name text, value jsonb)
RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    job pgjobs_job;
    was_pending boolean;
BEGIN
    SELECT * INTO job FROM pgjobs_job AS each
    WHERE each.id = pgjobs_mark_step.id AND each.worker_id IS NULL
        AND (each.attempts > 0 OR each.life > 1)
    FOR NO KEY UPDATE;
    IF job.id IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO pgjobs_step AS step
        (job_id, life, name, return_value, attempt, finished_at)
    VALUES (
        job.id, job.life, pgjobs_mark_step.name, nullif(value, 'null'), job.attempts,
        clock_timestamp()
    )
    ON CONFLICT ON CONSTRAINT pgjobs_step_once DO UPDATE
    SET finished_at = excluded.finished_at, return_value = excluded.return_value
    WHERE step.finished_at > excluded.finished_at;  -- a sleep
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE pgjobs_wait AS wait SET ended_at = clock_timestamp()
    WHERE wait.job_id = job.id AND wait.life = job.life
        AND wait.name = pgjobs_mark_step.name AND wait.ended_at IS NULL;
    PERFORM pgjobs_let_go_on(ARRAY[job.id]);
    -- Whatever makes a job due ends its sleep, also one of another name.
    UPDATE pgjobs_job AS each SET status = 'READY', run_after = clock_timestamp()
    WHERE each.id = job.id AND each.status || '' = 'SCHEDULED'
        AND NOT pgjobs_is_asleep(job.id, job.life, each.run_after);
    IF FOUND THEN
        PERFORM pg_notify(channel, job.queue_name)
        FROM unnest(ARRAY['pgjobs', 'pgjobs_admission']) AS channel;
    END IF;
    RETURN true;
END
$$;
""",
    ),
    "function pgjobs_may_be_taken": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_may_be_taken(name text, published_at timestamptz)
RETURNS boolean LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    patterns CONSTANT text[] := pgjobs_patterns(name);
BEGIN
    RETURN EXISTS (
        WITH RECURSIVE hop (digest, waits_for, since) AS (
            (
                SELECT md5(keys ->> 'waits_for'), keys -> 'waits_for', enqueued_at
                FROM pgjobs_job
                WHERE keys ? 'waits_for' AND finished_at IS NULL
                    AND coalesce(waiting_for, '') NOT IN ('answer', 'event', 'jobs')
                ORDER BY md5(keys ->> 'waits_for'), enqueued_at LIMIT 1
            )
            UNION ALL
            SELECT next.*
            FROM hop
            CROSS JOIN LATERAL (
                SELECT md5(keys ->> 'waits_for'), keys -> 'waits_for', enqueued_at
                FROM pgjobs_job
                WHERE keys ? 'waits_for' AND finished_at IS NULL
                    AND coalesce(waiting_for, '') NOT IN ('answer', 'event', 'jobs')
                    AND md5(keys ->> 'waits_for') > hop.digest
                ORDER BY md5(keys ->> 'waits_for'), enqueued_at LIMIT 1
            ) AS next
        )
        SELECT FROM hop
        WHERE waits_for ?| patterns AND since <= published_at + interval '1 day'
    );
END
$$;
""",
    ),
    "function pgjobs_note_awaited": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_note_awaited(
    event_id bigint, event_name text, aggregate_id text
) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET search_path FROM CURRENT
AS $$
DECLARE
    most CONSTANT integer := 10;  -- jobs that it lets go on
    patterns CONSTANT text[] := pgjobs_patterns(event_name);
    woken integer := 0;
BEGIN
    IF NOT EXISTS (
        SELECT FROM pgjobs_taskdefinition
        WHERE options ? 'waits_for'
            AND options -> 'waits_for' ?| patterns
    ) THEN
        RETURN;
    END IF;
    INSERT INTO pgjobs_awaitedevent (event_id, name, aggregate_id, cluster, transaction)
    VALUES (
        event_id, event_name, aggregate_id, pgjobs_cluster(),
        pg_current_xact_id()::text::bigint
    )
    ON CONFLICT DO NOTHING;
    INSERT INTO pgjobs_waitnote (event_id) VALUES (pgjobs_note_awaited.event_id);
    IF statement_timestamp() = transaction_timestamp()
        AND current_setting('transaction_isolation') = 'read committed'
        AND has_table_privilege('pgjobs_job', 'UPDATE')
    THEN
        woken := (
            SELECT done.woken
            FROM pgjobs_waits_for(event_name, aggregate_id, 0, most) AS waits
            CROSS JOIN LATERAL pgjobs_let_go_on(waits.jobs) AS done
            WHERE cardinality(waits.jobs) < most
        );
    END IF;
    PERFORM pg_notify('pgjobs_wake', CASE WHEN woken > 0 THEN 'soon' ELSE '' END);
END
$$;
""",
    ),
    "function pgjobs_note_waiting": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_note_waiting(ids bigint[]) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO pgjobs_waitnote (job_id) SELECT unnest(ids);
    PERFORM pg_notify('pgjobs_wake', '');
END
$$;
""",
    ),
    "function pgjobs_open_waits": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_open_waits(
    jobs bigint[], lives integer[], names text[], all_ways jsonb[], ends timestamptz[],
    worker bigint
) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off
SET search_path FROM CURRENT
AS $$
DECLARE
    first_deadlines timestamptz[];
    have_rows boolean;
    asks record;
    others bigint[];
BEGIN
    IF jobs IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(before.first_deadline ORDER BY number), bool_or(has_rows)
    INTO first_deadlines, have_rows
    FROM unnest(jobs, lives, names) WITH ORDINALITY AS given (job, life, name, number)
    CROSS JOIN LATERAL (
        SELECT count(*) > 0 AS has_rows, min(deadline) FILTER (
            WHERE wait.life = given.life AND wait.name = given.name
        ) AS first_deadline
        FROM pgjobs_wait AS wait
        WHERE wait.job_id = given.job AND wait.life <= given.life AND ended_at IS NULL
    ) AS before;
    IF have_rows THEN
        DELETE FROM pgjobs_wait
        WHERE id = ANY (ARRAY(
            SELECT wait.id
            FROM unnest(jobs, lives, names, all_ways) AS given (job, life, name, ways)
            JOIN pgjobs_wait AS wait ON wait.job_id = given.job
                AND wait.life <= given.life AND wait.ended_at IS NULL
            WHERE NOT EXISTS (
                SELECT FROM jsonb_to_recordset(given.ways) AS way (
                    label text, kind text, event text, aggregate_id text, asked jsonb,
                    jobs jsonb
                )
                WHERE wait.life = given.life
                    AND wait.name = given.name AND wait.label = coalesce(way.label, '')
                    AND ROW(wait.kind, wait.event, wait.aggregate_id, wait.asked)
                        IS NOT DISTINCT FROM ROW(
                            way.kind, way.event, way.aggregate_id,
                            coalesce(way.jobs, way.asked)
                        )
            )
            FOR UPDATE OF wait SKIP LOCKED
        ));
    END IF;
    INSERT INTO pgjobs_wait
        (job_id, life, name, label, kind, event, aggregate_id, asked, permission, deadline,
        worker_id)
    SELECT job, life, name, coalesce(label, ''), kind, event, aggregate_id,
        coalesce(way.jobs, way.asked),
        CASE kind
            WHEN 'answer' THEN coalesce(way.asked ->> 'permission', 'pgjobs.answer_job')
        END,
        coalesce(first_deadline, ends_at), worker
    FROM unnest(jobs, lives, names, all_ways, ends, first_deadlines)
        AS given (job, life, name, ways, ends_at, first_deadline)
    CROSS JOIN jsonb_to_recordset(given.ways) AS way (
        label text, kind text, event text, aggregate_id text, asked jsonb, jobs jsonb
    )
    ON CONFLICT DO NOTHING;
    INSERT INTO pgjobs_waitnote (job_id, due_at, after)
    SELECT job,
        clock_timestamp() + CASE
            WHEN first_deadline IS NULL THEN '0' ELSE interval '1 second'
        END,
        CASE WHEN ways @? '$[*].jobs' THEN -1 ELSE 0 END  -- it may close a circle
    FROM unnest(jobs, all_ways, first_deadlines) AS given (job, ways, first_deadline);
    FOR asks IN
        SELECT job, ways FROM unnest(jobs, all_ways) AS given (job, ways)
        WHERE ways @? '$[*].jobs'
    LOOP
        -- As of a chain, so that an admission notices the ends of the others.
        others := ARRAY(
            SELECT DISTINCT pgjobs_newest(
                jsonb_array_elements_text(way -> 'jobs')::bigint
            )
            FROM jsonb_array_elements(asks.ways) AS way
        );
        INSERT INTO pgjobs_predecessor (job_id, predecessor_id, needs)
        SELECT asks.job, unnest(others), 'end'
        -- It had ended, and was retried; or it is in the job's own chain.
        ON CONFLICT (job_id, predecessor_id) DO UPDATE SET is_open = true, needs = 'end'
        WHERE pgjobs_predecessor.needs <> 'dependency';
        PERFORM pgjobs_mark(others);
    END LOOP;
END
$$;
""",
    ),
    "function pgjobs_patterns": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_patterns(name text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    parts CONSTANT text[] := string_to_array(name, '.');
    patterns text[] := ARRAY[name];
BEGIN
    FOR number IN 1 .. coalesce(cardinality(parts), 0) - 1 LOOP
        patterns := patterns || (array_to_string(parts[:number], '.') || '.*');
    END LOOP;
    RETURN patterns;
END
$$;
""",
    ),
    "function pgjobs_rate_again": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_rate_again(keys jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT keys - 'rate_aside' || coalesce((keys -> 'rate_aside') - 'attempts', '{}')
$$;
""",
    ),
    "function pgjobs_rate_aside": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_rate_aside(keys jsonb, attempts integer)
RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT keys - rate || jsonb_build_object('rate_aside', (
            SELECT jsonb_object_agg(key, value)
            FROM jsonb_each(keys || coalesce(keys -> 'rate_aside', '{}'))
            WHERE key = ANY (rate)
        ) || jsonb_build_object('attempts', attempts))
    FROM (
        SELECT ARRAY['rate_key', 'rate_interval', 'rate_burst', 'rate_number']
    ) AS own (rate)
$$;
""",
    ),
    "function pgjobs_resume": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_resume(of_job bigint) RETURNS text LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    most CONSTANT integer := 64000;  -- bytes, as of the result of a step
    job pgjobs_job;
    asks record;
    taken record;
BEGIN
    SELECT * INTO job FROM pgjobs_job WHERE id = of_job;
    SELECT min(name) AS name, jsonb_agg(jsonb_build_object(
            'label', nullif(label, ''), 'kind', kind, 'event', event,
            'aggregate_id', aggregate_id, 'asked', asked,
            'jobs', CASE kind WHEN 'jobs' THEN asked END
        )) AS ways
    INTO asks
    FROM (
        SELECT * FROM pgjobs_wait
        WHERE job_id = job.id AND life = job.life AND ended_at IS NULL
        FOR UPDATE SKIP LOCKED
    ) AS locked
    HAVING min(name) = max(name)
        AND bool_and(
            worker_id = job.worker_id OR pgjobs_has_code_of(job.worker_id, worker_id)
        )
        AND count(*) = (
            SELECT count(*) FROM pgjobs_wait
            WHERE job_id = job.id AND life = job.life AND ended_at IS NULL
        );
    IF FOUND THEN
        SELECT * INTO taken FROM pgjobs_first_way(job, asks.name, asks.ways);
        IF taken.stored IS NOT NULL
            AND (taken.answer IS NULL OR pgjobs_is_accepted(taken.answer, asks.ways))
        THEN
            PERFORM pgjobs_end_wait(job, asks.name, asks.ways, taken);
        END IF;
    END IF;
    RETURN (
        SELECT jsonb_build_object('steps', steps, 'events', events)
        FROM (
            SELECT coalesce(jsonb_object_agg(name, return_value::text), '{}') AS steps
            FROM pgjobs_step WHERE job_id = job.id AND life = job.life
            HAVING coalesce(sum(pg_column_size(return_value)), 0) <= most
        ) AS done,
        (
            SELECT coalesce(jsonb_object_agg(known.id, to_jsonb(known)), '{}') AS events
            FROM pgjobs_wait AS wait
            JOIN pgjobs_event AS known ON known.id = wait.event_id
            WHERE wait.job_id = job.id AND wait.life = job.life
            HAVING coalesce(sum(pg_column_size(known.payload)), 0) <= most
        ) AS took
    );
END
$$;
""",
    ),
    "function pgjobs_retry_keeping": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_retry_keeping(ids bigint[], until text)
RETURNS SETOF bigint LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    -- A retry counts from 0 again.
    attempts_before CONSTANT jsonb := (
        SELECT jsonb_object_agg(id, attempts) FROM pgjobs_job WHERE id = ANY (ids)
    );
    retried CONSTANT bigint[] := ARRAY(SELECT pgjobs_retry_jobs(ids));
BEGIN
    WITH kept AS MATERIALIZED (
        SELECT step.*, job.life AS new_life
        FROM unnest(retried) AS given (id)
        JOIN pgjobs_job AS job ON job.id = given.id
        CROSS JOIN LATERAL (
            SELECT * FROM pgjobs_step
            WHERE job_id = job.id AND life = job.life - 1 OFFSET 0
        ) AS step
        WHERE (
                step.finished_at <= clock_timestamp()
                OR step.attempt < (attempts_before -> step.job_id::text)::integer
            )
            AND (step.return_value IS NOT NULL OR NOT EXISTS (
                SELECT FROM pgjobs_wait AS wait
                WHERE wait.job_id = step.job_id AND wait.life = step.life
                    AND wait.name = step.name
            ))
            AND coalesce(step.id < (
                SELECT id FROM pgjobs_step AS last
                WHERE last.job_id = step.job_id AND last.life = step.life
                    AND last.name = until
            ), true)
    ),
    copied AS (
        INSERT INTO pgjobs_step
            (job_id, life, name, return_value, attempt, finished_at, kept_from)
        SELECT job_id, new_life, name, return_value, attempt,
            least(finished_at, clock_timestamp()),
            coalesce(min(kept_from) OVER (PARTITION BY job_id), life)
        FROM kept
        ORDER BY id
    ),
    answered AS (
        INSERT INTO pgjobs_answer
            (job_id, life, name, value, answered_by, answered_at)
        SELECT answer.job_id, answer.life + 1, answer.name, answer.value,
            answer.answered_by, answer.answered_at
        FROM unnest(retried) AS given (id)
        JOIN pgjobs_job AS job ON job.id = given.id
        CROSS JOIN LATERAL (
            SELECT * FROM pgjobs_answer
            WHERE job_id = job.id AND life = job.life - 1 OFFSET 0
        ) AS answer
        WHERE NOT EXISTS (
                SELECT FROM pgjobs_step AS step
                WHERE step.job_id = answer.job_id AND step.life = answer.life
                    AND step.name IN (answer.name, until)
                    AND step.finished_at <= clock_timestamp()
            )
            AND NOT EXISTS (
                SELECT FROM pgjobs_wait AS wait
                WHERE wait.job_id = answer.job_id AND wait.life = answer.life
                    AND wait.ended_at IS NOT NULL
                    AND coalesce(nullif(wait.label, ''), wait.name) = answer.name
            )
    )
    INSERT INTO pgjobs_wait
        (job_id, life, name, label, kind, event, aggregate_id, asked, deadline,
         opened_at, ended_at, event_id)
    SELECT wait.job_id, kept.new_life, wait.name, wait.label, wait.kind, wait.event,
        wait.aggregate_id, wait.asked, wait.deadline, wait.opened_at, wait.ended_at,
        wait.event_id
    FROM kept
    JOIN pgjobs_wait AS wait
        ON wait.job_id = kept.job_id AND wait.life = kept.life AND wait.name = kept.name;
    RETURN QUERY SELECT unnest(retried);
END
$$;
""",
    ),
    "function pgjobs_settle_ended": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_settle_ended(ids bigint[]) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    ended CONSTANT bigint[] := ARRAY(
        SELECT id FROM pgjobs_job WHERE id = ANY (ids) AND finished_at IS NOT NULL
        ORDER BY id
        FOR NO KEY UPDATE SKIP LOCKED
    );
BEGIN
    DELETE FROM pgjobs_wait
    WHERE id = ANY (ARRAY(
        SELECT wait.id FROM unnest(ended) AS given (id)
        CROSS JOIN LATERAL (
            SELECT id FROM pgjobs_wait WHERE job_id = given.id AND ended_at IS NULL
            FOR UPDATE SKIP LOCKED
        ) AS wait
    ));
    PERFORM pgjobs_drop_waited_links(ended);
END
$$;
""",
    ),
    "function pgjobs_settle_notes": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_settle_notes(
    notes bigint[], ready bigint[], now timestamptz
) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    ended bigint[];
BEGIN
    -- A job that was to be woken and still waits is held by another transaction. (That of
    -- a noted event has no note of its own for this.)
    INSERT INTO pgjobs_waitnote (job_id, due_at)
    SELECT id, now + interval '1 second' FROM pgjobs_job
    WHERE id = ANY (ready) AND status || '' = 'WAITING'
        AND waiting_for IN ('answer', 'event', 'jobs');
    WITH examined AS MATERIALIZED (
        SELECT note.id, note.job_id, its_wait.*
        FROM pgjobs_waitnote AS note
        LEFT JOIN LATERAL (
            SELECT min(wait.deadline) AS deadline,
                bool_or(job.status || '' = 'WAITING' AND job.id <> ALL (ready)) AS is_asking
            FROM pgjobs_wait AS wait
            JOIN pgjobs_job AS job ON job.id = wait.job_id AND job.life = wait.life
            WHERE wait.job_id = note.job_id AND wait.ended_at IS NULL
                AND job.finished_at IS NULL
        ) AS its_wait ON true
        WHERE note.id = ANY (notes) AND note.job_id IS NOT NULL
    ),
    -- One note is enough for a job.
    kept AS MATERIALIZED (
        SELECT DISTINCT ON (job_id) id, job_id, deadline, is_asking FROM examined
        WHERE deadline IS NOT NULL ORDER BY job_id, id
    ),
    put_off AS (
        UPDATE pgjobs_waitnote AS note
        SET after = 0, due_at = greatest(
            kept.deadline,
            now + CASE WHEN is_asking THEN interval '1 second' ELSE interval '1 hour' END
        )
        FROM kept WHERE note.id = kept.id
    ),
    deleted AS (
        DELETE FROM pgjobs_waitnote
        WHERE id = ANY (ARRAY(SELECT id FROM examined WHERE id NOT IN (SELECT id FROM kept)))
    )
    SELECT array_agg(job_id) INTO ended FROM examined WHERE deadline IS NULL;
    IF ended IS NOT NULL THEN
        PERFORM pgjobs_settle_ended(ended);
    END IF;
END
$$;
""",
    ),
    "function pgjobs_store_answer": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_store_answer(
    job bigint, answer_name text, answer jsonb, answered_by text, of_life integer
) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET search_path FROM CURRENT
AS $$
DECLARE
    newest bigint := job;
    its_life integer;
    asked record;  -- of the rows of the wait: those of this name, and of its other labels
BEGIN
    LOOP
        SELECT life INTO its_life FROM pgjobs_job
        WHERE id = newest AND finished_at IS NULL
            AND (newest <> job OR life = coalesce(of_life, life))
        FOR KEY SHARE;
        EXIT WHEN FOUND;
        IF pgjobs_newest(job) IS NOT DISTINCT FROM newest THEN
            PERFORM pgjobs_check_answer(answer_name, answer, NULL);
            RETURN false;
        END IF;
        newest := pgjobs_newest(job);
    END LOOP;
    job := newest;
    SELECT count(*) > 0 AS has_asked,
        min(name) FILTER (WHERE label <> '' AND is_named AND ended_at IS NULL) AS several,
        coalesce(bool_or(is_named AND ended_at IS NOT NULL), false) AS is_over,
        (array_agg(wait.asked -> 'schema') FILTER (
            WHERE is_named AND kind = 'answer' AND ended_at IS NULL
        ))[1] AS schema
    INTO asked
    FROM (
        SELECT *, coalesce(nullif(label, ''), name) = answer_name AS is_named
        FROM pgjobs_wait
        WHERE job_id = job AND life = its_life AND (
            coalesce(nullif(label, ''), name) = answer_name OR name = (
                SELECT name FROM pgjobs_wait
                WHERE job_id = job AND life = its_life AND label = answer_name
                    AND ended_at IS NULL
                LIMIT 1
            )
        )
        ORDER BY id
        FOR NO KEY UPDATE
    ) AS wait;
    -- What Python has encrypted, for a job with the mark, only its worker can check.
    answer := pgjobs_check_answer(answer_name, answer, CASE
        WHEN jsonb_typeof(answer -> 'pgjobs_encrypted') = 'string' AND EXISTS (
            SELECT FROM pgjobs_job WHERE id = job AND keys ? 'encrypted'
        ) THEN NULL
        ELSE asked.schema
    END);
    IF asked.is_over THEN
        RETURN false;
    END IF;
    IF asked.several IS NOT NULL THEN
        UPDATE pgjobs_wait SET kind = kind
        WHERE job_id = job AND life = its_life AND name = asked.several
            AND kind = 'answer';
    END IF;
    INSERT INTO pgjobs_answer (job_id, life, name, value, answered_by)
    SELECT job, its_life, answer_name, answer, answered_by
    WHERE NOT EXISTS (
        SELECT FROM pgjobs_step
        WHERE job_id = job AND life = its_life AND name = answer_name
    ) AND (asked.several IS NULL OR NOT EXISTS (
        SELECT FROM pgjobs_wait AS wait
        JOIN pgjobs_answer AS other
            ON other.job_id = job AND other.life = its_life AND other.name = wait.label
        WHERE wait.job_id = job AND wait.life = its_life AND wait.name = asked.several
    ))
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF NOT asked.has_asked OR current_setting('transaction_isolation') <> 'read committed'
        OR (SELECT woken FROM pgjobs_let_go_on(ARRAY[job])) = 0
    THEN
        PERFORM pgjobs_note_waiting(ARRAY[job]);
    END IF;
    RETURN true;
END
$$;
""",
    ),
    "function pgjobs_take_wait": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_take_wait(
    id bigint, token bigint, wait_name text, ways jsonb, accepted bigint,
    reads_steps boolean,
    OUT state text, OUT stored jsonb, OUT answer jsonb, OUT steps jsonb
) LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET search_path FROM CURRENT
AS $$
DECLARE
    job pgjobs_job;
    taken record;
BEGIN
    SELECT * INTO job FROM pgjobs_job AS each
    WHERE each.id = pgjobs_take_wait.id AND each.lease_token = token
        AND each.worker_id IS NOT NULL;
    IF NOT FOUND THEN
        state := 'lost';
        RETURN;
    END IF;
    IF reads_steps THEN
        SELECT coalesce(jsonb_object_agg(step.name, step.return_value::text), '{}')
        INTO steps
        FROM pgjobs_step AS step
        WHERE step.job_id = job.id AND step.life = job.life;
        IF steps ? wait_name THEN
            state := 'done';
            RETURN;
        END IF;
    END IF;
    SELECT * INTO taken FROM pgjobs_first_way(job, wait_name, ways);
    IF taken.answer IS NOT NULL
        AND (taken.answer -> 'id')::bigint IS DISTINCT FROM accepted
        AND NOT pgjobs_is_accepted(taken.answer, ways)
    THEN
        state := 'offered';
        answer := taken.answer;
        RETURN;
    END IF;
    state := CASE
        WHEN taken.stored IS NOT NULL THEN 'taken'
        WHEN EXISTS (
            SELECT FROM pgjobs_wait AS wait
            WHERE wait.job_id = job.id AND wait.life = job.life
                AND wait.name = wait_name AND wait.deadline <= clock_timestamp()
        ) THEN 'over'
        ELSE 'open'
    END;
    IF state = 'open' THEN
        RETURN;
    END IF;
    PERFORM FROM pgjobs_job AS each
    WHERE each.id = job.id AND each.lease_token = token AND each.worker_id IS NOT NULL
    FOR KEY SHARE;
    IF NOT FOUND THEN
        state := 'lost';
        RETURN;
    END IF;
    IF cardinality(pgjobs_locked_waits(job.id, job.life, wait_name)) <> (
        SELECT count(*) FROM pgjobs_wait AS wait
        WHERE wait.job_id = job.id AND wait.life = job.life AND wait.name = wait_name
    ) THEN
        state := 'open';
        RETURN;
    END IF;
    IF state = 'over' THEN
        -- An answer may have come just before the lock. Then the job looks again soon.
        SELECT * INTO taken FROM pgjobs_first_way(job, wait_name, ways);
        IF taken.stored IS NOT NULL THEN
            state := 'open';
            RETURN;
        END IF;
    END IF;
    stored := taken.stored;
    IF NOT pgjobs_end_wait(job, wait_name, ways, taken) THEN
        state := 'done';
    END IF;
END
$$;
""",
    ),
    "function pgjobs_waiting_for_noted_events": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_waiting_for_noted_events(
    notes bigint[], most integer, INOUT has_more boolean, OUT jobs bigint[]
) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    note record;
    batch bigint[];
    last bigint;
BEGIN
    jobs := '{}';
    FOR note IN
        SELECT waitnote.id, waitnote.after, awaited.name, awaited.aggregate_id
        FROM pgjobs_waitnote AS waitnote
        LEFT JOIN pgjobs_awaitedevent AS awaited USING (event_id)
        WHERE waitnote.id = ANY (notes) AND waitnote.event_id IS NOT NULL
    LOOP
        SELECT waits.jobs, waits.last INTO batch, last
        FROM pgjobs_waits_for(note.name, note.aggregate_id, note.after, most) AS waits;
        jobs := jobs || coalesce(batch, '{}');
        IF cardinality(batch) = most THEN
            UPDATE pgjobs_waitnote SET after = last WHERE id = note.id;
            has_more := true;
        ELSE
            DELETE FROM pgjobs_waitnote WHERE id = note.id;
        END IF;
    END LOOP;
END
$$;
""",
    ),
    "function pgjobs_waits_for": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_waits_for(
    name text, of_aggregate text, after bigint, most integer,
    OUT jobs bigint[], OUT last bigint
) LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    SELECT array_agg(wait.job_id), max(wait.id)
    INTO jobs, last
    FROM (
        SELECT each.id, each.job_id
        FROM unnest(pgjobs_patterns(name)) AS pattern
        CROSS JOIN LATERAL (
            (
                SELECT id, job_id FROM pgjobs_wait
                WHERE event = pattern AND aggregate_id IS NULL
                    AND ended_at IS NULL AND id > after
                ORDER BY event, aggregate_id, id LIMIT most
            )
            UNION ALL
            (
                SELECT id, job_id FROM pgjobs_wait
                WHERE event = pattern
                    AND aggregate_id = of_aggregate COLLATE "default"
                    AND ended_at IS NULL AND id > after
                ORDER BY event, aggregate_id, id LIMIT most
            )
        ) AS each
        ORDER BY each.id LIMIT most
    ) AS wait;
END
$$;
""",
    ),
    "function pgjobs_wake": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_wake(
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
""",
    ),
    "function pgjobs_check_subscription": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_check_subscription() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO pgjobs_job (task, queue_name, priority, max_attempts, max_crashes, timeout, process_units, expires_at, keys)
    SELECT task, queue_name, priority, max_attempts, max_crashes, timeout, process_units,
        clock_timestamp() + make_interval(secs => expires_in), keys
    FROM (SELECT NEW.*) AS subscription;
    RAISE 'It could be inserted.' USING ERRCODE = 'PJ000';
EXCEPTION WHEN SQLSTATE 'PJ000' THEN
    RETURN NULL;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_check_subscription() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO pgjobs_job (id, task, queue_name, priority, max_attempts, max_crashes, timeout, process_units, expires_at, keys)
    SELECT 9223372036854775807, task, queue_name, priority, max_attempts, max_crashes, timeout, process_units,
        clock_timestamp() + make_interval(secs => expires_in), keys
    FROM (SELECT NEW.*) AS subscription;
    RAISE 'It could be inserted.' USING ERRCODE = 'PJ000';
EXCEPTION WHEN SQLSTATE 'PJ000' THEN
    RETURN NULL;
END
$$;
""",
    ),
    "function pgjobs_publish": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_publish(
    name text,
    payload jsonb DEFAULT '{}',
    aggregate_id text DEFAULT NULL,
    correlation_id text DEFAULT NULL,
    meta jsonb DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    event pgjobs_event;
    -- All definitions say the same.
    most CONSTANT integer := (
        SELECT (options -> 'max_argument_bytes')::integer FROM pgjobs_taskdefinition
        WHERE gone_at IS NULL LIMIT 1
    );
    handlers bigint;
    made bigint;
BEGIN
    PERFORM pgjobs_check_event('name', name, false),
        pgjobs_check_event('aggregate_id', aggregate_id, true),
        pgjobs_check_event('correlation_id', correlation_id, true);
    IF name ~ '[*[:space:][:cntrl:]]' THEN
        RAISE EXCEPTION 'The name of an event must be without spaces and *, got %.',
            quote_literal(name)
            USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Publish a name such as tle.refreshed; tasks subscribe to '
                    'tle.*';
    END IF;
    IF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        RAISE EXCEPTION 'The payload of an event must be a JSON object, got %.',
            coalesce(left(payload::text, 100), 'NULL')
            USING ERRCODE = CASE
                WHEN payload IS NULL THEN '22004' ELSE '22023'
            END,
                HINT = 'Its handlers get it as arguments, by their names: '
                    '{"satellite_id": 5}';
    END IF;
    IF pgjobs_json_size(payload, most) > most THEN
        RAISE EXCEPTION 'The payload of an event is % bytes of JSON, more than the % '
            'that PGJOBS[''MAX_ARGUMENT_BYTES''] allows.',
            pgjobs_json_size(payload, most), most
            USING ERRCODE = '22023', COLUMN = 'payload';
    END IF;
    PERFORM pgjobs_check_meta(meta);
    handlers := (SELECT count(*) FROM pgjobs_handlers(name));
    INSERT INTO pgjobs_event
        (name, payload, aggregate_id, correlation_id, handlers, meta)
    VALUES (name, payload, aggregate_id, correlation_id, handlers, meta)
    RETURNING * INTO event;
    IF handlers > 0 THEN
        made := (SELECT count(*) FROM pgjobs_deliver(ARRAY[event], 'published', NULL));
        IF made <> handlers THEN  -- subscriptions were changed a moment ago
            UPDATE pgjobs_event SET handlers = made WHERE id = event.id;
        END IF;
    END IF;
    RETURN event.id;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_publish(
    name text,
    payload jsonb DEFAULT '{}',
    aggregate_id text DEFAULT NULL,
    correlation_id text DEFAULT NULL,
    meta jsonb DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    event pgjobs_event;
    -- All definitions say the same.
    most CONSTANT integer := (
        SELECT (options -> 'max_argument_bytes')::integer FROM pgjobs_taskdefinition
        WHERE gone_at IS NULL LIMIT 1
    );
    handlers bigint;
    made bigint;
BEGIN
    PERFORM pgjobs_check_event('name', name, false),
        pgjobs_check_event('aggregate_id', aggregate_id, true),
        pgjobs_check_event('correlation_id', correlation_id, true);
    IF name ~ '[*[:space:][:cntrl:]]' THEN
        RAISE EXCEPTION 'The name of an event must be without spaces and *, got %.',
            quote_literal(name)
            USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Publish a name such as tle.refreshed; tasks subscribe to '
                    'tle.*';
    END IF;
    IF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
        RAISE EXCEPTION 'The payload of an event must be a JSON object, got %.',
            coalesce(left(payload::text, 100), 'NULL')
            USING ERRCODE = CASE
                WHEN payload IS NULL THEN '22004' ELSE '22023'
            END,
                HINT = 'Its handlers get it as arguments, by their names: '
                    '{"satellite_id": 5}';
    END IF;
    IF pgjobs_json_size(payload, most) > most THEN
        RAISE EXCEPTION 'The payload of an event is % bytes of JSON, more than the % '
            'that PGJOBS[''MAX_ARGUMENT_BYTES''] allows.',
            pgjobs_json_size(payload, most), most
            USING ERRCODE = '22023', COLUMN = 'payload';
    END IF;
    PERFORM pgjobs_check_meta(meta);
    handlers := (SELECT count(*) FROM pgjobs_handlers(name));
    INSERT INTO pgjobs_event
        (name, payload, aggregate_id, correlation_id, handlers, meta)
    VALUES (name, payload, aggregate_id, correlation_id, handlers, meta)
    RETURNING * INTO event;
    IF handlers > 0 THEN
        made := (SELECT count(*) FROM pgjobs_deliver(ARRAY[event], 'published', NULL));
        IF made <> handlers THEN  -- subscriptions were changed a moment ago
            UPDATE pgjobs_event SET handlers = made WHERE id = event.id;
        END IF;
    END IF;
    PERFORM pgjobs_note_awaited(event.id, event.name, event.aggregate_id);
    RETURN event.id;
END
$$;
""",
    ),
    "function pgjobs_check_job": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_check_job() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fault text := CASE
        WHEN jsonb_typeof(NEW.args) <> 'array' THEN 'args must be an array'
        WHEN jsonb_typeof(NEW.kwargs) <> 'object' THEN 'kwargs must be an object'
        WHEN length(NEW.task) NOT BETWEEN 1 AND 200
            THEN 'task must be 1 to 200 characters'
        WHEN jsonb_typeof(NEW.meta) <> 'object' OR octet_length(NEW.meta::text) > 4000
            THEN 'meta must be an object of no more than 4000 bytes of JSON'
        WHEN NEW.status = 'RUNNING' AND TG_OP = 'INSERT'
            THEN 'none is inserted as RUNNING, only workers make jobs run'
        WHEN NEW.priority NOT BETWEEN -100 AND 100
            THEN 'priority must be from -100 to 100'
        -- NaN and infinity are larger than anything.
        WHEN NEW.timeout <= 0 OR NEW.timeout > 3153600000
            THEN 'timeout must be positive, and no more than 100 years'
        -- Addresses have no sign.
        WHEN NEW.id < 1 THEN 'id must be at least 1'
        WHEN NEW.process_units < 1 THEN 'process_units must be at least 1'
        WHEN least(NEW.max_attempts, NEW.max_crashes) < 1
            THEN 'max_attempts and max_crashes must be at least 1'
        WHEN NEW.life NOT BETWEEN 1 AND 1000000000
            THEN 'life can only rise, from 1 to 1000000000'
        WHEN least(
                NEW.run_after, NEW.expires_at, NEW.enqueued_at,
                NEW.cancel_requested_at
            ) < '1970-01-01 00:00+00'
            OR greatest(
                NEW.run_after, NEW.expires_at, NEW.enqueued_at,
                NEW.cancel_requested_at
            ) >= '9999-01-01 00:00+00'
            THEN 'all times must be from 1970 to 9998'
    END;
BEGIN
    -- Most jobs have nothing of what follows. One question costs less than one for each
    -- part, because PostgreSQL prepares an expression once in each transaction that comes
    -- to it.
    IF fault IS NULL AND NEW.queue_name = 'default'
        AND num_nonnulls(
            NEW.unique_key, NEW.unique_for, NEW.unique_until, NEW.keys, NEW.dependencies
        ) = 0
        AND greatest(pg_column_size(NEW.args), pg_column_size(NEW.kwargs)) <= 2000
    THEN
        RETURN NULL;
    END IF;
    IF pg_column_size(NEW.kwargs) > 2000 OR pg_column_size(NEW.args) > 2000 THEN
        -- A worker's statement has a largest size.
        IF octet_length(NEW.args::text) + octet_length(NEW.kwargs::text) > 50000000 THEN
            fault := 'args and kwargs must be no more than 50 MB of JSON';
        END IF;
    END IF;
    IF fault IS NULL AND NEW.queue_name <> 'default' THEN
        IF length(NEW.queue_name) > 200 OR NEW.queue_name
            !~ '^[^ ,[:cntrl:]]([^,[:cntrl:]]*[^ ,[:cntrl:]])?$'
        THEN
            fault := 'queue_name must be 1 to 200 characters, without commas and '
                'control characters, and not begin or end with a space';
        END IF;
    END IF;
    IF fault IS NULL
        AND num_nonnulls(NEW.unique_key, NEW.unique_for, NEW.unique_until) > 0
    THEN
        fault := CASE
            WHEN length(NEW.unique_key) NOT BETWEEN 1 AND 500
                THEN 'unique_key must be 1 to 500 characters'
            WHEN num_nonnulls(NEW.unique_key, NEW.unique_for) = 1
                THEN 'unique_key and unique_for belong together'
            WHEN NEW.unique_for NOT IN ('unfinished', 'waiting', 'period')
                THEN 'unique_for must be unfinished, waiting or period'
            WHEN NEW.unique_until IS NOT NULL
                AND NEW.unique_for IS DISTINCT FROM 'period'
                THEN 'unique_until needs unique_for = period'
        END;
    END IF;
    -- These call no function of ours by a bare name: the search path is
    -- that of the statement that writes the job.
    IF fault IS NULL AND NEW.keys IS NOT NULL THEN
        fault := CASE
            WHEN jsonb_typeof(NEW.keys) <> 'object' THEN 'keys must be an object'
            WHEN pg_column_size(NEW.keys) > 1900
                AND octet_length(NEW.keys::text) > 200000
                THEN 'keys must be no more than 200 kB of JSON'
            WHEN jsonb_typeof(NEW.keys -> 'lock') <> 'string'
                OR length(NEW.keys ->> 'lock') NOT BETWEEN 1 AND 500
                THEN 'keys: lock must be a text of 1 to 500 characters'
        END;
        -- Many jobs with keys have only a lock. Each question takes time for each row.
        IF fault IS NULL AND NEW.keys ?| ARRAY[
            'is_ordered', 'on_success', 'on_failure', 'limit_key', 'max_running',
            'rate_key', 'rate_interval', 'rate_burst', 'after', 'after_batches',
            'needs', 'batch_id'
        ] THEN
            fault := CASE
                WHEN jsonb_typeof(NEW.keys -> 'is_ordered') <> 'boolean'
                    THEN 'keys: is_ordered must be true or false'
                -- Nothing else may keep the job's end from being stored.
                WHEN length(NEW.keys ->> 'on_success') NOT BETWEEN 1 AND 200
                    OR length(NEW.keys ->> 'on_failure') NOT BETWEEN 1 AND 200
                    THEN 'keys: on_success and on_failure must be names of tasks'
            END;
            IF fault IS NULL AND NEW.keys ?| ARRAY['limit_key', 'max_running'] THEN
                fault := CASE
                    WHEN NOT NEW.keys ?& ARRAY['limit_key', 'max_running']
                        THEN 'keys: limit_key and max_running belong together'
                    WHEN jsonb_typeof(NEW.keys -> 'limit_key') <> 'string'
                        OR length(NEW.keys ->> 'limit_key') NOT BETWEEN 1 AND 500
                        THEN 'keys: limit_key must be a text of 1 to 500 characters'
                    WHEN jsonb_typeof(NEW.keys -> 'max_running') <> 'number'
                        THEN 'keys: max_running must be a whole number from 1'
                    WHEN (NEW.keys -> 'max_running')::numeric
                            NOT BETWEEN 1 AND 2147483647
                        OR scale((NEW.keys -> 'max_running')::numeric) > 0
                        THEN 'keys: max_running must be a whole number from 1'
                END;
            END IF;
            IF fault IS NULL
                AND NEW.keys ?| ARRAY['rate_key', 'rate_interval', 'rate_burst']
            THEN
                fault := CASE
                    WHEN NOT NEW.keys
                            ?& ARRAY['rate_key', 'rate_interval', 'rate_burst']
                        THEN 'keys: rate_key, rate_interval and rate_burst belong '
                            'together'
                    WHEN jsonb_typeof(NEW.keys -> 'rate_key') <> 'string'
                        OR length(NEW.keys ->> 'rate_key') NOT BETWEEN 1 AND 500
                        THEN 'keys: rate_key must be a text of 1 to 500 characters'
                    WHEN (NEW.keys -> 'rate_burst')::text !~ '^[1-9][0-9]{0,9}$'
                        OR (NEW.keys -> 'rate_burst')::bigint > 2147483647
                        THEN 'keys: rate_burst must be a whole number from 1'
                    WHEN jsonb_typeof(NEW.keys -> 'rate_interval') <> 'number'
                        OR (NEW.keys -> 'rate_interval')::numeric < 1e-100
                        OR (NEW.keys -> 'rate_interval')::numeric
                            * (NEW.keys -> 'rate_burst')::numeric > 3153600000
                        THEN 'keys: rate_interval must be positive, and a burst last '
                            '100 years at most'
                END;
            END IF;
            IF fault IS NULL
                AND NEW.keys ?| ARRAY['after', 'after_batches', 'needs', 'batch_id']
            THEN
                fault := CASE
                    WHEN jsonb_typeof(NEW.keys -> 'needs') <> 'string'
                        OR NEW.keys ->> 'needs' NOT IN ('success', 'end', 'failure')
                        THEN 'keys: needs must be success, end or failure'
                    WHEN (NEW.keys -> 'batch_id')::text !~ '^[1-9][0-9]{0,17}$'
                        THEN 'keys: batch_id must be an id'
                    WHEN jsonb_typeof(NEW.keys -> 'after') <> 'array'
                        OR jsonb_typeof(NEW.keys -> 'after_batches') <> 'array'
                        OR EXISTS (
                            SELECT FROM jsonb_array_elements(
                                coalesce(NEW.keys -> 'after', '[]')
                                    || coalesce(NEW.keys -> 'after_batches', '[]')
                            ) AS item (id)
                            WHERE id::text !~ '^[1-9][0-9]{0,17}$'
                        )
                        THEN 'keys: after and after_batches must be arrays of ids'
                    -- So predecessors cannot form a circle.
                    WHEN jsonb_path_exists(
                        NEW.keys, '$.after[*] ? (@ >= $id)',
                        jsonb_build_object('id', NEW.id)
                    )
                        THEN 'keys: after can only name jobs that were enqueued before'
                END;
            END IF;
        END IF;
    END IF;
    IF fault IS NULL AND NEW.dependencies IS NOT NULL THEN
        fault := CASE
            WHEN jsonb_typeof(NEW.dependencies -> 'needs') IS DISTINCT FROM 'array'
                OR jsonb_typeof(NEW.dependencies -> 'provides')
                    IS DISTINCT FROM 'array'
                OR pg_column_size(NEW.dependencies) > 1900
                AND octet_length(NEW.dependencies::text) > 200000
                OR EXISTS (
                    SELECT FROM (
                        SELECT each, each -> 'within'
                        FROM jsonb_array_elements(NEW.dependencies -> 'needs') AS each
                        UNION ALL
                        SELECT each, each -> 'for'
                        FROM jsonb_array_elements(
                            NEW.dependencies -> 'provides'
                        ) AS each
                    ) AS item (each, seconds)
                    WHERE jsonb_typeof(each -> 'key') IS DISTINCT FROM 'string'
                        OR length(each ->> 'key') NOT BETWEEN 1 AND 500
                        OR jsonb_typeof(seconds) IS DISTINCT FROM 'number'
                        OR seconds <> '0'
                        AND seconds::numeric NOT BETWEEN 1e-100 AND 3153600000
                )
                THEN 'dependencies must be {"needs": [{"key": ..., "within": ...}], '
                    '"provides": [{"key": ..., "for": ...}]}'
        END;
        IF fault IS NULL
            AND (TG_OP = 'UPDATE' OR NEW.dependencies -> 'provides' <> '[]')
        THEN
            EXECUTE pg_catalog.format(
                'SELECT %I.pgjobs_provide($1)', TG_TABLE_SCHEMA
            ) USING NEW.id;
        END IF;
    END IF;
    IF fault IS NOT NULL THEN
        RAISE 'This is no job: %.', fault
            USING ERRCODE = 'check_violation', CONSTRAINT = 'pgjobs_is_job';
    END IF;
    RETURN NULL;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_check_job() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fault text := CASE
        WHEN jsonb_typeof(NEW.args) <> 'array' THEN 'args must be an array'
        WHEN jsonb_typeof(NEW.kwargs) <> 'object' THEN 'kwargs must be an object'
        WHEN length(NEW.task) NOT BETWEEN 1 AND 200
            THEN 'task must be 1 to 200 characters'
        WHEN jsonb_typeof(NEW.meta) <> 'object' OR octet_length(NEW.meta::text) > 4000
            THEN 'meta must be an object of no more than 4000 bytes of JSON'
        WHEN NEW.status = 'RUNNING' AND TG_OP = 'INSERT'
            THEN 'none is inserted as RUNNING, only workers make jobs run'
        WHEN NEW.priority NOT BETWEEN -100 AND 100
            THEN 'priority must be from -100 to 100'
        -- NaN and infinity are larger than anything.
        WHEN NEW.timeout <= 0 OR NEW.timeout > 3153600000
            THEN 'timeout must be positive, and no more than 100 years'
        -- Addresses have no sign.
        WHEN NEW.id < 1 THEN 'id must be at least 1'
        WHEN NEW.keep NOT IN ('all', 'failed', 'worker')
            THEN 'keep must be all, failed or worker'
        WHEN NEW.process_units < 1 THEN 'process_units must be at least 1'
        WHEN least(NEW.max_attempts, NEW.max_crashes) < 1
            THEN 'max_attempts and max_crashes must be at least 1'
        WHEN NEW.life NOT BETWEEN 1 AND 1000000000
            THEN 'life can only rise, from 1 to 1000000000'
        WHEN least(
                NEW.run_after, NEW.expires_at, NEW.enqueued_at,
                NEW.cancel_requested_at
            ) < '1970-01-01 00:00+00'
            OR greatest(
                NEW.run_after, NEW.expires_at, NEW.enqueued_at,
                NEW.cancel_requested_at
            ) >= '9999-01-01 00:00+00'
            THEN 'all times must be from 1970 to 9998'
    END;
BEGIN
    -- Most jobs have nothing of what follows. One question costs less than one for each
    -- part, because PostgreSQL prepares an expression once in each transaction that comes
    -- to it.
    IF fault IS NULL AND NEW.queue_name = 'default'
        AND num_nonnulls(
            NEW.unique_key, NEW.unique_for, NEW.unique_until, NEW.keys, NEW.dependencies
        ) = 0
        AND greatest(pg_column_size(NEW.args), pg_column_size(NEW.kwargs)) <= 2000
    THEN
        RETURN NULL;
    END IF;
    IF pg_column_size(NEW.kwargs) > 2000 OR pg_column_size(NEW.args) > 2000 THEN
        -- A worker's statement has a largest size.
        IF octet_length(NEW.args::text) + octet_length(NEW.kwargs::text) > 50000000 THEN
            fault := 'args and kwargs must be no more than 50 MB of JSON';
        END IF;
    END IF;
    IF fault IS NULL AND NEW.queue_name <> 'default' THEN
        IF length(NEW.queue_name) > 200 OR NEW.queue_name
            !~ '^[^ ,[:cntrl:]]([^,[:cntrl:]]*[^ ,[:cntrl:]])?$'
        THEN
            fault := 'queue_name must be 1 to 200 characters, without commas and '
                'control characters, and not begin or end with a space';
        END IF;
    END IF;
    IF fault IS NULL
        AND num_nonnulls(NEW.unique_key, NEW.unique_for, NEW.unique_until) > 0
    THEN
        fault := CASE
            WHEN length(NEW.unique_key) NOT BETWEEN 1 AND 500
                THEN 'unique_key must be 1 to 500 characters'
            WHEN num_nonnulls(NEW.unique_key, NEW.unique_for) = 1
                THEN 'unique_key and unique_for belong together'
            WHEN NEW.unique_for NOT IN ('unfinished', 'waiting', 'period')
                THEN 'unique_for must be unfinished, waiting or period'
            WHEN NEW.unique_until IS NOT NULL
                AND NEW.unique_for IS DISTINCT FROM 'period'
                THEN 'unique_until needs unique_for = period'
        END;
    END IF;
    -- These call no function of ours by a bare name: the search path is
    -- that of the statement that writes the job.
    IF fault IS NULL AND NEW.keys IS NOT NULL THEN
        fault := CASE
            WHEN jsonb_typeof(NEW.keys) <> 'object' THEN 'keys must be an object'
            WHEN pg_column_size(NEW.keys) > 1900
                AND octet_length(NEW.keys::text) > 200000
                THEN 'keys must be no more than 200 kB of JSON'
            WHEN jsonb_typeof(NEW.keys -> 'lock') <> 'string'
                OR length(NEW.keys ->> 'lock') NOT BETWEEN 1 AND 500
                THEN 'keys: lock must be a text of 1 to 500 characters'
        END;
        -- Many jobs with keys have only a lock. Each question takes time for each row.
        IF fault IS NULL AND NEW.keys ?| ARRAY[
            'is_ordered', 'on_success', 'on_failure', 'limit_key', 'max_running',
            'rate_key', 'rate_interval', 'rate_burst', 'after', 'after_batches',
            'needs', 'batch_id', 'results', 'masked', 'chunk_by', 'chunk_wait'
        ] THEN
            fault := CASE
                WHEN jsonb_typeof(NEW.keys -> 'is_ordered') <> 'boolean'
                    THEN 'keys: is_ordered must be true or false'
                -- Nothing else may keep the job's end from being stored.
                WHEN length(NEW.keys ->> 'on_success') NOT BETWEEN 1 AND 200
                    OR length(NEW.keys ->> 'on_failure') NOT BETWEEN 1 AND 200
                    THEN 'keys: on_success and on_failure must be names of tasks'
                WHEN jsonb_typeof(NEW.keys -> 'masked') <> 'array'
                    THEN 'keys: masked must be a list of names of arguments'
                WHEN jsonb_typeof(NEW.keys -> 'chunk_by') <> 'array'
                    THEN 'keys: chunk_by must be a list of names of arguments'
                WHEN jsonb_typeof(NEW.keys -> 'chunk_wait') <> 'number'
                    OR (NEW.keys ->> 'chunk_wait')::numeric NOT BETWEEN 0 AND 86400
                    THEN 'keys: chunk_wait must be seconds, at most a day'
            END;
            IF fault IS NULL AND NEW.keys ? 'results' THEN
                EXECUTE pg_catalog.format(
                    'SELECT %I.pgjobs_fault_of_results($1)', TG_TABLE_SCHEMA
                ) INTO fault USING NEW.keys;
            END IF;
            IF fault IS NULL AND NEW.keys ?| ARRAY['limit_key', 'max_running'] THEN
                fault := CASE
                    WHEN NOT NEW.keys ?& ARRAY['limit_key', 'max_running']
                        THEN 'keys: limit_key and max_running belong together'
                    WHEN jsonb_typeof(NEW.keys -> 'limit_key') <> 'string'
                        OR length(NEW.keys ->> 'limit_key') NOT BETWEEN 1 AND 500
                        THEN 'keys: limit_key must be a text of 1 to 500 characters'
                    WHEN jsonb_typeof(NEW.keys -> 'max_running') <> 'number'
                        THEN 'keys: max_running must be a whole number from 1'
                    WHEN (NEW.keys -> 'max_running')::numeric
                            NOT BETWEEN 1 AND 2147483647
                        OR scale((NEW.keys -> 'max_running')::numeric) > 0
                        THEN 'keys: max_running must be a whole number from 1'
                END;
            END IF;
            IF fault IS NULL
                AND NEW.keys ?| ARRAY['rate_key', 'rate_interval', 'rate_burst']
            THEN
                fault := CASE
                    WHEN NOT NEW.keys
                            ?& ARRAY['rate_key', 'rate_interval', 'rate_burst']
                        THEN 'keys: rate_key, rate_interval and rate_burst belong '
                            'together'
                    WHEN jsonb_typeof(NEW.keys -> 'rate_key') <> 'string'
                        OR length(NEW.keys ->> 'rate_key') NOT BETWEEN 1 AND 500
                        THEN 'keys: rate_key must be a text of 1 to 500 characters'
                    WHEN (NEW.keys -> 'rate_burst')::text !~ '^[1-9][0-9]{0,9}$'
                        OR (NEW.keys -> 'rate_burst')::bigint > 2147483647
                        THEN 'keys: rate_burst must be a whole number from 1'
                    WHEN jsonb_typeof(NEW.keys -> 'rate_interval') <> 'number'
                        OR (NEW.keys -> 'rate_interval')::numeric < 1e-100
                        OR (NEW.keys -> 'rate_interval')::numeric
                            * (NEW.keys -> 'rate_burst')::numeric > 3153600000
                        THEN 'keys: rate_interval must be positive, and a burst last '
                            '100 years at most'
                END;
            END IF;
            IF fault IS NULL
                AND NEW.keys ?| ARRAY['after', 'after_batches', 'needs', 'batch_id']
            THEN
                fault := CASE
                    WHEN jsonb_typeof(NEW.keys -> 'needs') <> 'string'
                        OR NEW.keys ->> 'needs' NOT IN ('success', 'end', 'failure')
                        THEN 'keys: needs must be success, end or failure'
                    WHEN (NEW.keys -> 'batch_id')::text !~ '^[1-9][0-9]{0,17}$'
                        THEN 'keys: batch_id must be an id'
                    WHEN jsonb_typeof(NEW.keys -> 'after') <> 'array'
                        OR jsonb_typeof(NEW.keys -> 'after_batches') <> 'array'
                        OR EXISTS (
                            SELECT FROM jsonb_array_elements(
                                coalesce(NEW.keys -> 'after', '[]')
                                    || coalesce(NEW.keys -> 'after_batches', '[]')
                            ) AS item (id)
                            WHERE id::text !~ '^[1-9][0-9]{0,17}$'
                        )
                        THEN 'keys: after and after_batches must be arrays of ids'
                    -- So predecessors cannot form a circle.
                    WHEN jsonb_path_exists(
                        NEW.keys, '$.after[*] ? (@ >= $id)',
                        jsonb_build_object('id', NEW.id)
                    )
                        THEN 'keys: after can only name jobs that were enqueued before'
                END;
            END IF;
        END IF;
    END IF;
    IF fault IS NULL AND NEW.dependencies IS NOT NULL THEN
        fault := CASE
            WHEN jsonb_typeof(NEW.dependencies -> 'needs') IS DISTINCT FROM 'array'
                OR jsonb_typeof(NEW.dependencies -> 'provides')
                    IS DISTINCT FROM 'array'
                OR pg_column_size(NEW.dependencies) > 1900
                AND octet_length(NEW.dependencies::text) > 200000
                OR EXISTS (
                    SELECT FROM (
                        SELECT each, each -> 'within'
                        FROM jsonb_array_elements(NEW.dependencies -> 'needs') AS each
                        UNION ALL
                        SELECT each, each -> 'for'
                        FROM jsonb_array_elements(
                            NEW.dependencies -> 'provides'
                        ) AS each
                    ) AS item (each, seconds)
                    WHERE jsonb_typeof(each -> 'key') IS DISTINCT FROM 'string'
                        OR length(each ->> 'key') NOT BETWEEN 1 AND 500
                        OR jsonb_typeof(seconds) IS DISTINCT FROM 'number'
                        OR seconds <> '0'
                        AND seconds::numeric NOT BETWEEN 1e-100 AND 3153600000
                )
                THEN 'dependencies must be {"needs": [{"key": ..., "within": ...}], '
                    '"provides": [{"key": ..., "for": ...}]}'
        END;
        IF fault IS NULL
            AND (TG_OP = 'UPDATE' OR NEW.dependencies -> 'provides' <> '[]')
        THEN
            EXECUTE pg_catalog.format(
                'SELECT %I.pgjobs_provide($1)', TG_TABLE_SCHEMA
            ) USING NEW.id;
        END IF;
    END IF;
    IF fault IS NOT NULL THEN
        RAISE 'This is no job: %.', fault
            USING ERRCODE = 'check_violation', CONSTRAINT = 'pgjobs_is_job';
    END IF;
    RETURN NULL;
END
$$;
""",
    ),
    "function pgjobs_ends_for_others": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_ends_for_others(keys jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT keys - '{version,waits_for,enqueued_in,deadline,ends_at,'
        'isolated,masked,encrypted,chunk_by,chunk_wait}'::text[] <> '{}'
$$;
""",
    ),
    "function pgjobs_enqueue_refused": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_enqueue_refused(
    task text, arguments jsonb, meta jsonb
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    definition pgjobs_taskdefinition;
    options jsonb;
    job pgjobs_job;
BEGIN
    SELECT * INTO definition FROM pgjobs_taskdefinition AS known
    WHERE name = task OR known.options -> 'aliases' ? task
    ORDER BY gone_at IS NULL DESC, name = task DESC, gone_at DESC
    LIMIT 1;
    IF NOT FOUND THEN
        INSERT INTO pgjobs_job (task, kwargs, meta) VALUES (task, arguments, meta);
        RETURN;
    END IF;
    options := definition.options;
    IF definition.gone_at IS NOT NULL THEN
        BEGIN
            arguments := pgjobs_checked_arguments(definition, arguments);
        EXCEPTION WHEN data_exception THEN
            NULL;  -- they are stored as they are, and a worker says so
        END;
    END IF;
    job := jsonb_populate_record(
        job, options - '{dependencies, keys, unique_for, unique_key}'::text[]
    );
    job.task := task;
    job.args := '[]';
    job.kwargs := arguments;
    job.meta := meta;
    job.expires_at := statement_timestamp()
        + make_interval(secs => (options -> 'expires')::double precision);
    IF options ? 'keys' THEN
        job.keys := pgjobs_keys(definition, arguments, NULL);
    END IF;
    IF options ? 'on_conflict' THEN
        job.unique_key := pgjobs_unique_key(definition, arguments);
        job.unique_for := coalesce(options ->> 'unique_for', 'unfinished');
        job.unique_until := statement_timestamp() + make_interval(
            secs => (options -> 'unique_period')::double precision
        );
    END IF;
    PERFORM pgjobs_insert(job, coalesce(options ->> 'on_conflict', 'return'));
END
$$;
""",
    ),
    "function pgjobs_follow_up": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_follow_up(job_id bigint, follow_up text, meta jsonb)
RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pgjobs_enqueue(
        follow_up, jsonb_build_object('job_id', job_id),
        meta => meta || jsonb_build_object('parent_id', job_id)
    );
EXCEPTION WHEN OTHERS THEN
    INSERT INTO pgjobs_job (task, kwargs)
    VALUES (follow_up, jsonb_build_object('job_id', job_id));
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_follow_up(job_id bigint, follow_up text, meta jsonb)
RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    arguments CONSTANT jsonb := jsonb_build_object('job_id', job_id);
    parent CONSTANT jsonb := jsonb_build_object('parent_id', job_id);
    longest_wait CONSTANT text := current_setting('lock_timeout');
    fault text;
BEGIN
    meta := meta - 'metadata';
    meta := CASE
        WHEN octet_length((meta || parent)::text) > 4000 THEN parent
        ELSE meta || parent
    END;
    -- A worker's other jobs would wait with it for a unique key.
    IF current_setting('application_name') LIKE 'pgjobs:loop:%' THEN
        PERFORM set_config('lock_timeout', '50ms', true);
    END IF;
    BEGIN
        BEGIN
            PERFORM pgjobs_enqueue(follow_up, arguments, meta => meta);
        EXCEPTION WHEN data_exception THEN
            PERFORM pgjobs_enqueue_refused(follow_up, arguments, meta);
        END;
    EXCEPTION WHEN transaction_rollback OR lock_not_available OR insufficient_resources
        OR operator_intervention OR system_error OR connection_exception
    THEN
        RAISE;
    WHEN OTHERS THEN
        fault := SQLERRM;
    END;
    PERFORM set_config('lock_timeout', longest_wait, true);
    IF fault IS NOT NULL THEN
        fault := format('Its follow-up %s was not enqueued: %s', follow_up, fault);
        RAISE WARNING 'pgjobs: job %: %', job_id, fault;
        UPDATE pgjobs_job AS ended
        SET reason = left(concat_ws(E'\n', nullif(reason, ''), fault), 1000)
        WHERE id = job_id;
    END IF;
END
$$;
""",
    ),
    "function pgjobs_jobs_deleted": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_jobs_deleted() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    ids CONSTANT bigint[] := ARRAY(SELECT id FROM deleted);
BEGIN
    IF ids = '{}' THEN
        RETURN NULL;
    END IF;
    IF has_table_privilege('pgjobs_attempt', 'DELETE') THEN
        DELETE FROM pgjobs_attempt WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_progress', 'DELETE') THEN
        DELETE FROM pgjobs_progress WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_step', 'DELETE') THEN
        DELETE FROM pgjobs_step WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_tick', 'DELETE') THEN
        DELETE FROM pgjobs_tick WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_delivery', 'DELETE') THEN
        DELETE FROM pgjobs_delivery WHERE job_id = ANY (ids);
    END IF;
    RETURN NULL;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_jobs_deleted() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    ids CONSTANT bigint[] := ARRAY(SELECT id FROM deleted);
BEGIN
    IF ids = '{}' THEN
        RETURN NULL;
    END IF;
    IF has_table_privilege('pgjobs_attempt', 'DELETE') THEN
        DELETE FROM pgjobs_attempt WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_progress', 'DELETE') THEN
        DELETE FROM pgjobs_progress WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_step', 'DELETE') THEN
        DELETE FROM pgjobs_step WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_wait', 'DELETE') THEN
        DELETE FROM pgjobs_wait WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_answer', 'DELETE') THEN
        DELETE FROM pgjobs_answer WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_tick', 'DELETE') THEN
        DELETE FROM pgjobs_tick WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_delivery', 'DELETE') THEN
        DELETE FROM pgjobs_delivery WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_batch', 'UPDATE')
        AND current_setting('pgjobs.moves', true) IS DISTINCT FROM 'on'
        AND EXISTS (
            SELECT FROM deleted WHERE batch_id IS NOT NULL AND status <> 'SUCCESSFUL'
        )
    THEN
        -- What is left of a batch must not end better than all of it.
        WITH lost AS MATERIALIZED (
            SELECT batch_id, bool_or(status = 'FAILED') AS any_failed FROM deleted
            WHERE batch_id IS NOT NULL AND status <> 'SUCCESSFUL'
            GROUP BY batch_id
        ),
        held AS MATERIALIZED (
            SELECT id, outcome_of_deleted FROM pgjobs_batch
            WHERE id = ANY (ARRAY(SELECT batch_id FROM lost))
            ORDER BY id
            FOR NO KEY UPDATE
        )
        UPDATE pgjobs_batch AS batch
        SET outcome_of_deleted =
            CASE WHEN any_failed THEN 'FAILED' ELSE 'CANCELLED' END
        FROM held JOIN lost ON lost.batch_id = held.id
        WHERE batch.id = held.id AND batch.id = ANY (ARRAY(SELECT id FROM held))
            AND (
                held.outcome_of_deleted = ''
                OR held.outcome_of_deleted = 'CANCELLED' AND any_failed
            );
    END IF;
    RETURN NULL;
END
$$;
""",
    ),
    "function pgjobs_jobs_truncated": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_jobs_truncated() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    DELETE FROM pgjobs_attempt;
    DELETE FROM pgjobs_progress;
    DELETE FROM pgjobs_step;
    DELETE FROM pgjobs_tick WHERE job_id IS NOT NULL;
    DELETE FROM pgjobs_delivery WHERE job_id IS NOT NULL;
    DELETE FROM pgjobs_predecessor;
    DELETE FROM pgjobs_batch;
    DELETE FROM pgjobs_note;
    DELETE FROM pgjobs_prerequisite;
    RETURN NULL;
END
$$;
""",
    ),
    "function pgjobs_newest": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_newest(job bigint) RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    first jsonb;
    goes_on boolean;
BEGIN
    SELECT keys -> 'first_id', coalesce(keys ? 'continued_as', false)
    INTO first, goes_on
    FROM pgjobs_job WHERE id = job;
    IF NOT goes_on THEN
        RETURN job;
    END IF;
    RETURN coalesce(
        (
            SELECT id FROM pgjobs_job
            WHERE keys ? 'first_id'
                AND keys -> 'first_id' = coalesce(first, to_jsonb(job))
            ORDER BY id DESC LIMIT 1
        ),
        job
    );
END
$$;
""",
    ),
    "function pgjobs_notify_changed": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_notify_changed() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    follow_up text;
BEGIN
    -- An admission itself notifies of the jobs that it makes READY. A job whose
    -- dependencies are known has provided something if it has ended, now or before.
    IF OLD.status = NEW.status OR (
        NEW.finished_at IS NULL AND OLD.status <> 'WAITING'
        OR NEW.line = 'left' OR NEW.awaited
        OR NEW.keys ?| ARRAY['on_success', 'on_failure']
        OR NEW.dependencies IS NOT NULL
        AND coalesce(OLD.finished_at, NEW.finished_at) IS NOT NULL
    ) IS NOT TRUE
    THEN
        RETURN NULL;
    END IF;
    IF NEW.line IN ('arrived', 'unlinked', 'left') THEN
        PERFORM pg_catalog.pg_notify('pgjobs_admission', NEW.queue_name);
    END IF;
    IF NEW.status IN ('READY', 'SCHEDULED') THEN
        PERFORM pg_catalog.pg_notify('pgjobs', NEW.queue_name);
    END IF;
    IF NEW.awaited AND NEW.finished_at IS NOT NULL THEN
        PERFORM pg_catalog.pg_notify('pgjobs_finished', NEW.id::text);
    END IF;
    IF NEW.dependencies IS NOT NULL THEN
        EXECUTE pg_catalog.format('SELECT %I.pgjobs_provide($1)', TG_TABLE_SCHEMA)
            USING NEW.id;
    END IF;
    IF NEW.finished_at IS NOT NULL AND OLD.finished_at IS NULL THEN
        follow_up := NEW.keys ->> CASE NEW.status
            WHEN 'SUCCESSFUL' THEN 'on_success' WHEN 'FAILED' THEN 'on_failure'
        END;
        IF follow_up IS NOT NULL THEN
            EXECUTE pg_catalog.format(
                'SELECT %I.pgjobs_follow_up($1, $2, $3)', TG_TABLE_SCHEMA
            ) USING NEW.id, follow_up, NEW.meta;
        END IF;
    END IF;
    RETURN NULL;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_notify_changed() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    follow_up text;
BEGIN
    IF NEW.life = OLD.life AND (
        NEW.attempts < OLD.attempts
        OR OLD.finished_at IS NOT NULL AND NEW.finished_at IS NULL
        AND (OLD.status, NEW.status) <> ('CANCELLED', 'WAITING')
    ) THEN
        RAISE 'Job % cannot go back from % to % within its life.',
            OLD.id, OLD.status, NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'pgjobs_is_job',
                HINT = 'To run a finished job again, call job.retry() or '
                    'pgjobs_retry(id).';
    END IF;
    -- An admission itself notifies of the jobs that it makes READY. A job whose
    -- dependencies are known has provided something if it has ended, now or before.
    IF OLD.status = NEW.status OR (
        NEW.finished_at IS NULL AND OLD.status <> 'WAITING'
        OR NEW.line = 'left' OR NEW.awaited
        OR NEW.keys ?| ARRAY['on_success', 'on_failure']
        OR NEW.dependencies IS NOT NULL
        AND coalesce(OLD.finished_at, NEW.finished_at) IS NOT NULL
    ) IS NOT TRUE
    THEN
        RETURN NULL;
    END IF;
    IF NEW.line IN ('arrived', 'unlinked', 'left') THEN
        PERFORM pg_catalog.pg_notify('pgjobs_admission', NEW.queue_name);
    END IF;
    IF NEW.status IN ('READY', 'SCHEDULED') THEN
        PERFORM pg_catalog.pg_notify('pgjobs', NEW.queue_name);
    END IF;
    IF NEW.awaited AND NEW.finished_at IS NOT NULL THEN
        PERFORM pg_catalog.pg_notify('pgjobs_finished', NEW.id::text);
    END IF;
    IF NEW.dependencies IS NOT NULL THEN
        EXECUTE pg_catalog.format('SELECT %I.pgjobs_provide($1)', TG_TABLE_SCHEMA)
            USING NEW.id;
    END IF;
    IF NEW.finished_at IS NOT NULL AND OLD.finished_at IS NULL THEN
        follow_up := NEW.keys ->> CASE NEW.status
            WHEN 'SUCCESSFUL' THEN 'on_success' WHEN 'FAILED' THEN 'on_failure'
        END;
        IF follow_up IS NOT NULL THEN
            EXECUTE pg_catalog.format(
                'SELECT %I.pgjobs_follow_up($1, $2, $3)', TG_TABLE_SCHEMA
            ) USING NEW.id, follow_up, NEW.meta;
        END IF;
    END IF;
    RETURN NULL;
END
$$;
""",
    ),
    "function pgjobs_notify_inserted": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_notify_inserted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_notify(
        CASE WHEN waits THEN 'pgjobs_admission' ELSE 'pgjobs' END, queue.name
    )
    FROM (
        SELECT DISTINCT line IS NOT NULL, status = 'READY', queue_name FROM inserted
    ) AS queue (waits, is_ready, name)
    WHERE pg_catalog.current_setting('pgjobs.notifies', true) IS DISTINCT FROM 'off'
        AND CASE
            WHEN NOT is_ready THEN true
            -- No worker looks by itself ("pgjl" in ASCII).
            WHEN pg_catalog.pg_try_advisory_lock(1885825644, 0)
                THEN pg_catalog.pg_advisory_unlock(1885825644, 0)
            -- From here on, until its end, the transaction may be silent ("pgjm").
            WHEN NOT pg_catalog.pg_try_advisory_xact_lock_shared(1885825645, 0)
                THEN true
            -- A worker of all queues, or of this one, is to be notified ("pgjn").
            WHEN NOT pg_catalog.pg_try_advisory_lock(
                1885825646, pg_catalog.hashtext('')
            )
                THEN true
            WHEN NOT pg_catalog.pg_advisory_unlock(
                1885825646, pg_catalog.hashtext('')
            )
                THEN true
            WHEN NOT pg_catalog.pg_try_advisory_lock(
                1885825646, pg_catalog.hashtext(name)
            )
                THEN true
            ELSE NOT pg_catalog.pg_advisory_unlock(
                1885825646, pg_catalog.hashtext(name)
            )
        END;
    RETURN NULL;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_notify_inserted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_notify(
        CASE WHEN waits THEN 'pgjobs_admission' ELSE 'pgjobs' END, queue.name
    )
    FROM (
        SELECT DISTINCT line IS NOT NULL, status = 'READY', queue_name FROM inserted
    ) AS queue (waits, is_ready, name)
    WHERE pg_catalog.current_setting('pgjobs.notifies', true) IS DISTINCT FROM 'off'
        AND CASE
            WHEN NOT is_ready THEN true
            -- No worker polls ("pgjl" in ASCII).
            WHEN pg_catalog.pg_try_advisory_lock(1885825644, 0)
                THEN pg_catalog.pg_advisory_unlock(1885825644, 0)
            -- From here on, until its end, the transaction may be silent ("pgjm").
            WHEN NOT pg_catalog.pg_try_advisory_xact_lock_shared(1885825645, 0)
                THEN true
            -- A worker of all queues, or of this one, is to be notified ("pgjn").
            WHEN NOT pg_catalog.pg_try_advisory_lock(
                1885825646, pg_catalog.hashtext('')
            )
                THEN true
            WHEN NOT pg_catalog.pg_advisory_unlock(
                1885825646, pg_catalog.hashtext('')
            )
                THEN true
            WHEN NOT pg_catalog.pg_try_advisory_lock(
                1885825646, pg_catalog.hashtext(name)
            )
                THEN true
            ELSE NOT pg_catalog.pg_advisory_unlock(
                1885825646, pg_catalog.hashtext(name)
            )
        END;
    RETURN NULL;
END
$$;
""",
    ),
    "function pgjobs_put_back_since": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_put_back_since(reason text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT least(
        substring(
            reason FROM ' Put back since (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\.$'
        ),
        to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
    )
$$;
""",
    ),
    "function pgjobs_token_beyond": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_token_beyond(token bigint) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF token < 4611686018427387904
        AND has_sequence_privilege('pgjobs_lease_token', 'SELECT')
        AND has_sequence_privilege('pgjobs_lease_token', 'UPDATE')
    THEN
        PERFORM pg_advisory_xact_lock(x'70676a74'::int, 0);
        PERFORM setval('pgjobs_lease_token', token)
        FROM pgjobs_lease_token WHERE last_value < token;
    END IF;
    RETURN nextval('pgjobs_lease_token');
END
$$;
""",
    ),
    "function pgjobs_undone": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_undone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE 'Job % cannot go back: from % (life %, attempts %) to % (life %, attempts %).',
        OLD.id, OLD.status, OLD.life, OLD.attempts, NEW.status, NEW.life, NEW.attempts
        USING ERRCODE = 'check_violation', CONSTRAINT = 'pgjobs_is_job',
            HINT = 'The row was written with older values, as save() of an instance '
                'does. To run a finished job again, call job.retry() or '
                'pgjobs_retry(id).';
END
$$;
""",
    ),
    "function pgjobs_needed": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_needed(ids bigint[], parents bigint[])
RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    needed bigint[];
    referred bigint[];
    tables text;
BEGIN
    -- To look through more of them would take longer than to store the jobs.
    IF (
        SELECT count(*) > 1000
        FROM (SELECT FROM pgjobs_job WHERE line = 'unlinked' LIMIT 1001) AS named
    ) THEN
        RETURN ids;
    END IF;
    needed := ARRAY(
        SELECT predecessor_id FROM pgjobs_predecessor WHERE predecessor_id = ANY (ids)
        UNION ALL
        SELECT last_job_id FROM pgjobs_schedule
        WHERE last_job_id IS NOT NULL AND last_job_id = ANY (ids)
        UNION ALL
        SELECT job_id FROM pgjobs_delivery WHERE job_id = ANY (ids)
        UNION ALL
        SELECT after.id::bigint
        FROM (SELECT keys FROM pgjobs_job WHERE line = 'unlinked') AS unlinked
        CROSS JOIN LATERAL jsonb_array_elements_text(keys -> 'after') AS after (id)
        UNION ALL
        -- Another job has enqueued it, which may yet wait for its end. The step that has
        -- done so may not be stored yet.
        SELECT job.id FROM pgjobs_job AS job
        WHERE job.id = ANY (parents)
            AND job.meta ->> 'parent_id' ~ '^[0-9]{1,18}$'
            AND EXISTS (
                SELECT FROM pgjobs_job AS parent
                WHERE parent.id = (job.meta ->> 'parent_id')::bigint
                    AND parent.finished_at IS NULL
                OFFSET 0
            )
        UNION ALL
        -- A process waits for it: see queue/waiting.py.
        SELECT id FROM unnest(ids) AS each (id)
        WHERE (id % 2147483648)::oid IN (
            SELECT objid FROM pg_catalog.pg_locks
            WHERE locktype = 'advisory' AND classid = '1885825635'::oid
                AND objsubid = 2
        )
    );
    -- Tables of the project, whatever ON DELETE says.
    SELECT string_agg(
        CASE
            WHEN has_table_privilege(reference.conrelid, 'SELECT') THEN format(
                'SELECT %1$I FROM %2$s WHERE %1$I = ANY ($1)',
                attribute.attname, reference.conrelid::regclass
            )
            ELSE 'SELECT unnest($1)'
        END,
        ' UNION ALL '
    )
    INTO tables
    FROM pg_catalog.pg_trigger AS made
    JOIN pg_catalog.pg_constraint AS reference ON reference.oid = made.tgconstraint
    JOIN pg_catalog.pg_attribute AS attribute
        ON attribute.attrelid = reference.conrelid
        AND attribute.attnum = reference.conkey[1]
    WHERE made.tgrelid = 'pgjobs_job'::regclass AND made.tgisinternal
        AND made.tgtype::integer & 8 <> 0;  -- it fires for DELETE
    IF tables IS NOT NULL THEN
        EXECUTE format('SELECT ARRAY(%s)', tables) INTO referred USING ids;
    END IF;
    RETURN needed || referred;
END
$$;
""",
    ),
    "function pgjobs_record_or_delete": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_record_or_delete(
    worker bigint, named text, ids bigint[], lease_tokens bigint[],
    return_values text[], deletable bigint[],
    OUT tokens bigint[], OUT has_keys boolean
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    held bigint[];
    places tid[];
    parents bigint[];
    needed bigint[];
    low bigint;
    high bigint;
    may_be_needed boolean;
    have_rows boolean;
    said text;
    number bigint;
BEGIN
    tokens := '{}';
    has_keys := false;
    IF current_setting('transaction_isolation') = 'read committed' THEN
        SELECT array_agg(id), array_agg(ctid), coalesce(array_agg(lease_token), '{}'),
            array_agg(id) FILTER (WHERE has_parent), min(id), max(id)
        INTO held, places, tokens, parents, low, high
        FROM (
            SELECT id, ctid, lease_token, meta ? 'parent_id' AS has_parent
            FROM pgjobs_job
            WHERE id = ANY (deletable)
                AND worker_id = worker
                AND num_nonnulls(dependencies, batch_id, unique_until) = 0
                AND pgjobs_ends_for_others(keys) IS NOT TRUE
                AND NOT awaited
            FOR UPDATE SKIP LOCKED
        ) AS free;
        -- Ids and tokens are sorted, and mostly it locks all. To look for each token among
        -- all of them would take longer than the rest.
        IF tokens <> lease_tokens AND tokens <> '{}' THEN
            SELECT array_agg(id), array_agg(place), coalesce(array_agg(token), '{}')
            INTO held, places, tokens
            FROM unnest(held, places, tokens) AS each (id, place, token)
            WHERE token = ANY (lease_tokens);
        END IF;
    END IF;
    IF tokens <> '{}' THEN
        SELECT
            -- Jobs that name others in `after`, which no admission has seen.
            EXISTS (SELECT FROM pgjobs_job WHERE line = 'unlinked')
            OR EXISTS (
                SELECT FROM pgjobs_predecessor WHERE predecessor_id BETWEEN low AND high
            )
            OR EXISTS (
                SELECT FROM pgjobs_schedule
                WHERE last_job_id IS NOT NULL AND last_job_id BETWEEN low AND high
            )
            OR EXISTS (SELECT FROM pgjobs_delivery WHERE job_id BETWEEN low AND high)
            -- The constraint of a table of the project has a trigger here.
            OR EXISTS (
                SELECT FROM pg_catalog.pg_trigger
                WHERE tgrelid = 'pgjobs_job'::regclass AND tgisinternal
            ),
            EXISTS (SELECT FROM pgjobs_attempt WHERE job_id BETWEEN low AND high)
            OR EXISTS (SELECT FROM pgjobs_progress WHERE job_id BETWEEN low AND high)
            OR EXISTS (SELECT FROM pgjobs_step WHERE job_id BETWEEN low AND high)
            OR EXISTS (SELECT FROM pgjobs_wait WHERE job_id BETWEEN low AND high)
            OR EXISTS (SELECT FROM pgjobs_answer WHERE job_id BETWEEN low AND high)
            OR EXISTS (SELECT FROM pgjobs_tick WHERE job_id BETWEEN low AND high)
        INTO may_be_needed, have_rows;
        -- A process that waits for a job has this lock, too ("pgja" in ASCII): see
        -- queue/waiting.py. What is locked and at once unlocked was only asked for.
        IF pg_try_advisory_lock(1885825633, 0) THEN
            may_be_needed := NOT pg_advisory_unlock(1885825633, 0) OR may_be_needed;
        ELSE
            may_be_needed := true;
        END IF;
        IF may_be_needed OR parents IS NOT NULL THEN
            needed := pgjobs_needed(held, parents);
            SELECT array_agg(place), coalesce(array_agg(token), '{}')
            INTO places, tokens
            FROM unnest(held, places, tokens) AS each (id, place, token)
            WHERE NOT id = ANY (needed);
        END IF;
    END IF;
    IF tokens <> '{}' THEN
        IF NOT have_rows THEN  -- so triggers.sql need not look for them
            said := set_config('pgjobs.deletes', 'rows', true);
        END IF;
        DELETE FROM pgjobs_job WHERE ctid = ANY (places);
        GET DIAGNOSTICS number = ROW_COUNT;
        said := set_config('pgjobs.deletes', '', true);
        IF number <> cardinality(tokens) THEN
            RAISE 'A trigger of the project keeps rows of pgjobs_job.';
        END IF;
    END IF;
    -- The rest is stored as in sql/worker/record/success.sql.
    IF cardinality(tokens) < cardinality(ids) THEN
        WITH recorded AS (
            UPDATE pgjobs_job
            SET status = 'SUCCESSFUL',
                finished_at = clock_timestamp(),
                return_value = return_values[
                    array_position(lease_tokens, lease_token)
                ]::jsonb,
                reason = '',
                line = CASE WHEN pgjobs_ends_for_others(keys) THEN 'recorded' END,
                worker_id = NULL,
                worker_name = named,
                -- What the setting of the worker said.
                keep = CASE WHEN id = ANY (deletable) THEN 'failed' ELSE keep END
            WHERE worker_id = worker
                AND id = ANY (ids)
                AND lease_token = ANY (lease_tokens)
            RETURNING lease_token, line
        )
        SELECT tokens || coalesce(array_agg(lease_token), '{}'),
            coalesce(bool_or(line IS NOT NULL), false)
        INTO tokens, has_keys
        FROM recorded;
    END IF;
END
$$;
""",
    ),
    "function pgjobs_key_form": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_key_form(schema jsonb, value jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    is_set CONSTANT boolean := schema ? 'uniqueItems';
BEGIN
    IF schema::text !~ '"(date-time|decimal)"' OR schema ? 'x-checked-by' THEN
        RETURN value;
    ELSIF schema ->> 'format' = 'decimal' THEN
        RETURN to_jsonb(pgjobs_plain_decimal(value #>> '{}'));
    ELSIF schema ->> 'format' = 'date-time' THEN
        RETURN to_jsonb(pgjobs_in_utc(value #>> '{}'));
    ELSIF schema ? 'anyOf' THEN
        RETURN pgjobs_key_form(each, value)
        FROM jsonb_array_elements(schema -> 'anyOf') WITH ORDINALITY AS item (each, place)
        CROSS JOIN LATERAL pgjobs_checked(each, value) AS checked
        WHERE checked.fault IS NULL
        ORDER BY place LIMIT 1;
    ELSIF schema ->> 'type' = 'array' THEN
        RETURN coalesce(
            jsonb_agg(
                form ORDER BY
                    CASE WHEN is_set THEN pgjobs_json_text(form) END COLLATE "C", place
            ),
            '[]'
        )
        FROM jsonb_array_elements(value) WITH ORDINALITY AS item (each, place)
        CROSS JOIN LATERAL pgjobs_key_form(
            coalesce(
                schema -> 'prefixItems' -> (place - 1)::integer, schema -> 'items', '{}'
            ),
            each
        ) AS form;
    END IF;
    RETURN coalesce(
        jsonb_object_agg(
            key,
            pgjobs_key_form(
                coalesce(
                    schema -> 'properties' -> key, schema -> 'additionalProperties',
                    '{}'
                ),
                member.value
            )
        ),
        '{}'
    )
    FROM jsonb_each(pgjobs_key_form.value) AS member;
END
$$;
""",
    ),
    "function pgjobs_keys": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_keys(
    definition pgjobs_taskdefinition, arguments jsonb, lock text
) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    keys jsonb := definition.options -> 'keys';
    option text;
BEGIN
    IF lock IS NOT NULL THEN
        keys := coalesce(keys, '{}') || jsonb_build_object(
            'lock', pgjobs_checked_key('lock', lock),
            'is_ordered', definition.options ->> 'lock_mode' = 'ordered'
        );
    END IF;
    FOREACH option IN ARRAY ARRAY['lock', 'limit_key', 'rate_key'] LOOP
        CONTINUE WHEN jsonb_typeof(keys -> option) IS DISTINCT FROM 'object';
        keys := keys || jsonb_build_object(
            option,
            pgjobs_filled_in(definition.name, option, keys -> option, arguments)
        );
    END LOOP;
    RETURN keys;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_keys(
    definition pgjobs_taskdefinition, arguments jsonb, lock text
) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    keys jsonb := definition.options -> 'keys';
    option text;
BEGIN
    IF lock IS NOT NULL THEN
        keys := coalesce(keys, '{}') || jsonb_build_object(
            'lock', pgjobs_checked_key('lock', lock),
            'is_ordered', definition.options ->> 'lock_mode' = 'ordered'
        );
    END IF;
    FOR option IN
        SELECT key FROM jsonb_each(keys) WHERE jsonb_typeof(value) = 'object'
    LOOP
        keys := keys || jsonb_build_object(
            option,
            pgjobs_filled_in(definition.name, option, keys -> option, arguments)
        );
    END LOOP;
    RETURN keys;
END
$$;
""",
    ),
    "function pgjobs_replace_held": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_replace_held(
    unique_keys text[], unique_fors text[], args jsonb[], kwargs jsonb[], keys jsonb[],
    dependencies jsonb[], run_after timestamptz[], expires_at timestamptz[],
    meta jsonb[]
) RETURNS SETOF bigint LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    -- One look-up for each key, however few jobs the planner expects.
    WITH found AS MATERIALIZED (
        SELECT new.*, (
                SELECT id FROM pgjobs_job AS job
                WHERE job.unique_key = new.unique_key
                    AND job.unique_for = new.unique_for
                    AND pgjobs_holds_key(
                        job.unique_for, job.unique_until, job.status, job.attempts,
                        job.finished_at
                    )
            ) AS id
        FROM unnest(
            unique_keys, unique_fors, args, kwargs, keys, dependencies, run_after,
            expires_at, meta
        ) AS new (
            unique_key, unique_for, args, kwargs, keys, dependencies, run_after,
            expires_at, meta
        )
    ),
    held AS MATERIALIZED (
        SELECT id FROM pgjobs_job AS job
        WHERE id = ANY (ARRAY(SELECT id FROM found))
            AND pgjobs_holds_key(
                job.unique_for, job.unique_until, job.status, job.attempts,
                job.finished_at
            )
            AND job.status IN ('READY', 'SCHEDULED', 'WAITING')
            AND job.attempts = 0
        ORDER BY id
        FOR NO KEY UPDATE
    ),
    -- Other arguments may have other dependencies.
    forgotten AS (
        DELETE FROM pgjobs_predecessor
        WHERE job_id = ANY (ARRAY(SELECT id FROM held)) AND needs = 'dependency'
    ),
    -- What comes before and after the job stays.
    links (names) AS (
        VALUES (
            ARRAY['after', 'after_batches', 'needs', 'batch_id', 'has_successors']
        )
    ),
    replaced AS (
        UPDATE pgjobs_job AS job
        SET waiting_for = NULL,
            blocked_by_id = NULL,
            (args, kwargs, dependencies, meta, keys, run_after, expires_at, status) = (
                SELECT new.args, new.kwargs, new.dependencies, new.meta,
                    nullif(
                        coalesce(new.keys, '{}') - names || coalesce(
                            (
                                SELECT jsonb_object_agg(key, value)
                                FROM jsonb_each(job.keys) WHERE key = ANY (names)
                            ),
                            '{}'
                        ),
                        '{}'
                    ),
                    new.run_after, new.expires_at,
                    CASE
                        WHEN new.run_after > statement_timestamp() THEN 'SCHEDULED'
                        ELSE 'READY'
                    END
                FROM found AS new CROSS JOIN links WHERE new.id = job.id
            )
        WHERE id = ANY (ARRAY(SELECT id FROM held))
        RETURNING job.id, job.queue_name
    )
    -- A job that stays SCHEDULED may be due earlier than workers know.
    SELECT id FROM replaced CROSS JOIN LATERAL pg_notify('pgjobs', queue_name)
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_replace_held(
    unique_keys text[], unique_fors text[], args jsonb[], kwargs jsonb[], keys jsonb[],
    dependencies jsonb[], run_after timestamptz[], expires_at timestamptz[],
    meta jsonb[]
) RETURNS SETOF bigint LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    -- One look-up for each key, however few jobs the planner expects.
    WITH found AS MATERIALIZED (
        SELECT new.*, (
                SELECT id FROM pgjobs_job AS job
                WHERE job.unique_key = new.unique_key
                    AND job.unique_for = new.unique_for
                    AND pgjobs_holds_key(
                        job.unique_for, job.unique_until, job.status, job.attempts,
                        job.finished_at
                    )
            ) AS id
        FROM unnest(
            unique_keys, unique_fors, args, kwargs, keys, dependencies, run_after,
            expires_at, meta
        ) AS new (
            unique_key, unique_for, args, kwargs, keys, dependencies, run_after,
            expires_at, meta
        )
    ),
    held AS MATERIALIZED (
        SELECT id FROM pgjobs_job AS job
        WHERE id = ANY (ARRAY(SELECT id FROM found))
            AND pgjobs_holds_key(
                job.unique_for, job.unique_until, job.status, job.attempts,
                job.finished_at
            )
            AND job.status IN ('READY', 'SCHEDULED', 'WAITING')
            AND job.attempts = 0
        ORDER BY id
        FOR NO KEY UPDATE
    ),
    -- Other arguments may have other dependencies.
    forgotten AS (
        DELETE FROM pgjobs_predecessor
        WHERE job_id = ANY (ARRAY(SELECT id FROM held)) AND needs = 'dependency'
    ),
    -- What comes before and after the job stays.
    links (names) AS (
        VALUES (
            ARRAY[
                'after', 'after_batches', 'needs', 'batch_id', 'has_successors', 'place'
            ]
        )
    ),
    replaced AS (
        UPDATE pgjobs_job AS job
        SET waiting_for = NULL,
            blocked_by_id = NULL,
            (args, kwargs, dependencies, meta, keys, run_after, expires_at, status) = (
                SELECT new.args, new.kwargs, new.dependencies, new.meta,
                    nullif(
                        coalesce(new.keys, '{}') - names || coalesce(
                            (
                                SELECT jsonb_object_agg(key, value)
                                FROM jsonb_each(job.keys) WHERE key = ANY (names)
                            ),
                            '{}'
                        ),
                        '{}'
                    ),
                    new.run_after, new.expires_at,
                    CASE
                        WHEN new.run_after > statement_timestamp() THEN 'SCHEDULED'
                        ELSE 'READY'
                    END
                FROM found AS new CROSS JOIN links WHERE new.id = job.id
            )
        WHERE id = ANY (ARRAY(SELECT id FROM held))
        RETURNING job.id, job.queue_name
    )
    -- A job that stays SCHEDULED may be due earlier than workers know.
    SELECT id FROM replaced CROSS JOIN LATERAL pg_notify('pgjobs', queue_name)
$$;
""",
    ),
    "function pgjobs_changes_flow": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_changes_flow() RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM pgjobs_override
        WHERE max_running IS NOT NULL OR rate_number IS NOT NULL
    )
$$;
""",
    ),
    "function pgjobs_end_overrides": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_end_overrides(most integer) RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    number integer;
BEGIN
    WITH ended AS (
        DELETE FROM pgjobs_override
        WHERE id = ANY (ARRAY(
            SELECT id FROM pgjobs_override WHERE until <= clock_timestamp()
            LIMIT most FOR UPDATE SKIP LOCKED
        ))
        RETURNING id, kind, key, until
    ),
    entry AS (
        INSERT INTO pgjobs_auditentry (actor, via, act, model, object_id, number, chosen)
        SELECT 'pgjobs', 'SQL', 'end', 'override', id, 1, kind || ' ' || key
        FROM ended
    )
    SELECT count(*) INTO number FROM ended;
    RETURN number;
END
$$;
""",
    ),
    "function pgjobs_hold_ready": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_hold_ready(
    INOUT after_priority integer, INOUT after_turn bigint, most integer,
    OUT number_held integer, OUT has_more boolean, OUT has_skipped boolean
) LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET search_path FROM CURRENT
AS $$
DECLARE
    found record;
    number_of_keyed integer;
BEGIN
    SELECT array_agg(id) FILTER (WHERE line IS NOT NULL AND keys IS NULL) AS plain,
        array_agg(id) FILTER (WHERE line IS NOT NULL AND keys IS NOT NULL) AS keyed,
        count(*) = most AS has_more,
        (array_agg(priority ORDER BY place DESC))[1] AS priority,
        (array_agg(turn ORDER BY place DESC))[1] AS turn
    INTO found
    FROM (
        SELECT id, keys, priority, turn, pgjobs_paused_line(task, keys) AS line,
            row_number() OVER () AS place
        FROM (
            -- LIKE: the condition of the index.
            (
                SELECT id, task, keys, priority, turn FROM pgjobs_job
                WHERE status LIKE 'READY%'
                    AND priority = after_priority AND turn > after_turn
                ORDER BY priority DESC, turn LIMIT most
            )
            UNION ALL
            (
                SELECT id, task, keys, priority, turn FROM pgjobs_job
                WHERE status LIKE 'READY%' AND priority < after_priority
                ORDER BY priority DESC, turn LIMIT most
            )
            LIMIT most
        ) AS walked
        OFFSET 0
    ) AS job;
    has_more := found.has_more;
    after_priority := coalesce(found.priority, after_priority);
    after_turn := coalesce(found.turn, after_turn);
    PERFORM set_config('pgjobs.admits', 'on', true);
    UPDATE pgjobs_job
    SET status = 'WAITING', waiting_for = 'limit', line = pgjobs_paused_line(task, NULL)
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_job WHERE id = ANY (found.plain)
        FOR NO KEY UPDATE SKIP LOCKED
    ))
        AND status || '' = 'READY';  -- see sql/worker/claim/pick.sql
    GET DIAGNOSTICS number_held = ROW_COUNT;
    PERFORM set_config('pgjobs.admits', '', true);
    UPDATE pgjobs_job
    SET status = 'WAITING',
        waiting_for = coalesce(pgjobs_first_obstacle(keys, dependencies), 'limit')
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_job WHERE id = ANY (found.keyed)
        FOR NO KEY UPDATE SKIP LOCKED
    ))
        AND status || '' = 'READY';
    GET DIAGNOSTICS number_of_keyed = ROW_COUNT;
    number_held := number_held + number_of_keyed;
    has_skipped := number_held < coalesce(cardinality(found.plain), 0)
        + coalesce(cardinality(found.keyed), 0);
END
$$;
""",
    ),
    "function pgjobs_keys_now": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_keys_now(task text, keys jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    changed record;
BEGIN
    IF (keys ?| ARRAY['limit_key', 'rate_key']) IS NOT TRUE THEN
        RETURN keys;
    END IF;
    SELECT (array_agg(max_running ORDER BY own.place)
            FILTER (WHERE max_running IS NOT NULL AND own.kind <> 'rate'))[1]
            AS max_running,
        (array_agg(rate_number ORDER BY own.place)
            FILTER (WHERE rate_number IS NOT NULL AND own.kind <> 'limit'))[1]
            AS rate_number,
        (array_agg(rate_seconds ORDER BY own.place)
            FILTER (WHERE rate_number IS NOT NULL AND own.kind <> 'limit'))[1]
            AS rate_seconds
    INTO changed
    FROM (
        VALUES (1, 'limit', keys ->> 'limit_key'), (2, 'rate', keys ->> 'rate_key'),
            (3, 'task', task)
    ) AS own (place, kind, key)
    CROSS JOIN LATERAL (
        SELECT * FROM pgjobs_override AS override
        WHERE override.kind = own.kind AND override.key = own.key
            AND (until IS NULL OR until > clock_timestamp())
        OFFSET 0
    ) AS override;
    IF changed.max_running IS NOT NULL AND keys ? 'limit_key' THEN
        keys := keys || jsonb_build_object('max_running', changed.max_running);
    END IF;
    IF changed.rate_number IS NOT NULL AND keys ? 'rate_key' THEN
        keys := keys || jsonb_build_object(
            'rate_number', changed.rate_number,
            'rate_interval', changed.rate_seconds / changed.rate_number,
            -- What is paced stays so, and what is not paced is not.
            'rate_burst', CASE
                WHEN (keys -> 'rate_burst')::integer < pgjobs_rate_number(keys)
                    THEN least((keys -> 'rate_burst')::integer, changed.rate_number)
                ELSE changed.rate_number
            END
        );
    END IF;
    RETURN keys;
END
$$;
""",
    ),
    "function pgjobs_let_go": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_let_go(most integer) RETURNS integer
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET search_path FROM CURRENT
AS $$
DECLARE
    number integer;
BEGIN
    UPDATE pgjobs_job SET line = 'arrived'
    WHERE id = ANY (ARRAY(
        SELECT job.id
        FROM (
            WITH RECURSIVE hop (line) AS (
                (
                    SELECT line FROM pgjobs_job
                    WHERE line > 'paused ' AND line < 'paused!' ORDER BY line LIMIT 1
                )
                UNION ALL
                SELECT (
                    SELECT line FROM pgjobs_job
                    WHERE line > hop.line AND line < 'paused!' ORDER BY line LIMIT 1
                )
                FROM hop WHERE hop.line IS NOT NULL
            )
            SELECT line FROM hop
            -- Not by EXISTS: each line would be compared with each pause.
            WHERE line IS NOT NULL AND line NOT IN (
                SELECT pgjobs_line('paused', kind || ' ' || key) FROM pgjobs_override
                WHERE paused_at IS NOT NULL
                    AND (until IS NULL OR until > clock_timestamp())
            )
        ) AS ended
        CROSS JOIN LATERAL (
            SELECT id FROM pgjobs_job WHERE line = ended.line
            ORDER BY line, queue_name, priority DESC, turn LIMIT most
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS job
        LIMIT most
    ));
    GET DIAGNOSTICS number = ROW_COUNT;
    IF number > 0 THEN
        PERFORM pg_notify('pgjobs_admission', '');
    END IF;
    RETURN number;
END
$$;
""",
    ),
    "function pgjobs_meet_pauses": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_meet_pauses(ids bigint[], obstacles jsonb)
RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT coalesce(
            jsonb_object_agg(
                id, jsonb_build_object('waiting_for', 'limit', 'line', own.line)
            ),
            '{}'
        )
        FROM pgjobs_job AS job
        CROSS JOIN LATERAL (
            SELECT pgjobs_paused_line(job.task, job.keys) OFFSET 0
        ) AS own (line)
        WHERE id = ANY (ids) AND NOT obstacles ? id::text AND own.line IS NOT NULL
    );
END
$$;
""",
    ),
    "function pgjobs_paused_line": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_paused_line(task text, keys jsonb) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT pgjobs_line('paused', own.kind || ' ' || own.key)
        FROM (
            VALUES ('task', task), ('lock', keys ->> 'lock'),
                ('limit', keys ->> 'limit_key'), ('rate', keys ->> 'rate_key')
        ) AS own (kind, key)
        CROSS JOIN LATERAL (
            SELECT FROM pgjobs_override AS override
            WHERE override.kind = own.kind AND override.key = own.key
                AND paused_at IS NOT NULL
                AND (until IS NULL OR until > clock_timestamp())
            OFFSET 0
        ) AS pause
        LIMIT 1
    );
END
$$;
""",
    ),
    "function pgjobs_see_pauses": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_see_pauses() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    was_seen CONSTANT boolean := current_setting('pgjobs.pauses', true) = 'on';
    is_seen boolean := true;
BEGIN
    -- Before it looks it has a number, by which workers wait for it: see note_pauses.sql.
    PERFORM pg_current_xact_id();
    IF current_setting('transaction_isolation') = 'read committed'
        AND has_table_privilege('pgjobs_override', 'SELECT')
    THEN
        is_seen := EXISTS (
            SELECT FROM pgjobs_override
            WHERE kind = 'task' AND paused_at IS NOT NULL
                AND (until IS NULL OR until > clock_timestamp())
        );
    END IF;
    IF is_seen <> coalesce(was_seen, false) THEN
        PERFORM set_config(
            'pgjobs.pauses', CASE WHEN is_seen THEN 'on' ELSE '' END, true
        );
    END IF;
    RETURN NULL;
END
$$;
""",
    ),
    "function pgjobs_stop_job": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_stop_job() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    is_sure boolean := false;
BEGIN
    IF NEW.status <> 'READY' THEN
        RETURN NEW;
    END IF;
    IF has_table_privilege('pgjobs_override', 'SELECT') THEN
        NEW.line := pgjobs_paused_line(NEW.task, NULL);
        is_sure := current_setting('transaction_isolation') = 'read committed';
    END IF;
    IF NEW.line IS NULL AND NOT is_sure THEN
        NEW.line := 'arrived';
    END IF;
    IF NEW.line IS NOT NULL THEN
        NEW.status := 'WAITING';
        NEW.waiting_for := 'limit';
    END IF;
    RETURN NEW;
END
$$;
""",
    ),
    "function pgjobs_batch_outcome": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_batch_outcome(
    batch bigint, OUT outcome text, OUT culprit bigint, OUT failed bigint
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    failed := pgjobs_batch_has(batch, 'FAILED');
    IF coalesce(
        pgjobs_batch_has(batch, 'READY'),
        pgjobs_batch_has(batch, 'RUNNING'),
        pgjobs_batch_has(batch, 'WAITING'),
        pgjobs_batch_has(batch, 'SCHEDULED')
    ) IS NOT NULL THEN
        outcome := 'UNFINISHED';
    ELSE
        culprit := coalesce(failed, pgjobs_batch_has(batch, 'CANCELLED'));
        outcome := CASE
            WHEN failed IS NOT NULL THEN 'FAILED'
            WHEN culprit IS NOT NULL THEN 'CANCELLED'
            WHEN EXISTS (SELECT FROM pgjobs_batch WHERE id = batch) THEN 'SUCCESSFUL'
            ELSE 'GONE'  -- or it never existed
        END;
    END IF;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_batch_outcome(
    batch bigint, OUT outcome text, OUT culprit bigint, OUT failed bigint
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    of_deleted text;
BEGIN
    failed := pgjobs_batch_has(batch, 'FAILED');
    IF coalesce(
        pgjobs_batch_has(batch, 'READY'),
        pgjobs_batch_has(batch, 'RUNNING'),
        pgjobs_batch_has(batch, 'WAITING'),
        pgjobs_batch_has(batch, 'SCHEDULED')
    ) IS NOT NULL THEN
        outcome := 'UNFINISHED';
    ELSE
        culprit := coalesce(failed, pgjobs_batch_has(batch, 'CANCELLED'));
        SELECT outcome_of_deleted INTO of_deleted FROM pgjobs_batch WHERE id = batch;
        outcome := CASE
            WHEN failed IS NOT NULL OR of_deleted = 'FAILED' THEN 'FAILED'
            WHEN culprit IS NOT NULL OR of_deleted = 'CANCELLED' THEN 'CANCELLED'
            WHEN of_deleted IS NOT NULL THEN 'SUCCESSFUL'
            ELSE 'GONE'  -- or it never existed
        END;
    END IF;
END
$$;
""",
    ),
    "function pgjobs_close_links": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_close_links(
    ids bigint[], batches bigint[], most integer,
    OUT followers bigint[], OUT ended bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    unmet_links jsonb;
BEGIN
    ended := '{}';
    WITH resolved AS MATERIALIZED (
        (SELECT link.id AS link_id, link.job_id, link.needs, link.batch_id, outcome,
            link.predecessor_id AS culprit
        FROM (
            SELECT given.id, coalesce(job.status, 'GONE') AS outcome
            FROM unnest(ids) AS given (id)
            LEFT JOIN LATERAL (
                SELECT id, status, finished_at FROM pgjobs_job
                WHERE pgjobs_job.id = given.id
                OFFSET 0  -- asked for each: no join with all jobs
            ) AS job ON true
            WHERE job.id IS NULL OR job.finished_at IS NOT NULL
        ) AS predecessor
        CROSS JOIN LATERAL (
            SELECT * FROM pgjobs_predecessor AS each
            WHERE each.predecessor_id = predecessor.id AND each.is_open
            LIMIT most
        ) AS link
        LIMIT most)
        UNION ALL
        (SELECT link.id, link.job_id, link.needs, link.batch_id,
            CASE outcome WHEN 'UNFINISHED' THEN 'FAILED' ELSE outcome END,
            coalesce(culprit, failed)
        FROM unnest(batches) AS given (id)
        CROSS JOIN LATERAL pgjobs_batch_outcome(given.id)
        CROSS JOIN LATERAL (
            SELECT * FROM pgjobs_predecessor AS each
            WHERE each.batch_id = given.id AND each.is_open
                AND (
                    outcome <> 'UNFINISHED'
                    OR each.needs = 'failure' AND failed IS NOT NULL
                )
            LIMIT most
        ) AS link
        LIMIT most)
    ),
    -- Another transaction may hold the row of a follower; then its link stays open.
    held AS MATERIALIZED (
        SELECT id, finished_at FROM pgjobs_job
        WHERE id = ANY (ARRAY(SELECT job_id FROM resolved))
        FOR NO KEY UPDATE SKIP LOCKED
    ),
    closed AS (
        UPDATE pgjobs_predecessor SET is_open = false
        WHERE id = ANY (ARRAY(
            SELECT link_id FROM resolved
            WHERE job_id IN (SELECT id FROM held)
                OR NOT EXISTS (
                    SELECT FROM pgjobs_job WHERE id = resolved.job_id OFFSET 0
                )
        ))
    ),
    unmet AS MATERIALIZED (
        SELECT DISTINCT ON (job_id) resolved.* FROM resolved
        WHERE NOT pgjobs_meets(needs, outcome)
            AND job_id IN (SELECT id FROM held WHERE finished_at IS NULL)
        ORDER BY job_id, link_id
    )
    SELECT ARRAY(
            SELECT id FROM held
            WHERE finished_at IS NULL AND id NOT IN (SELECT job_id FROM unmet)
        ),
        (SELECT jsonb_agg(to_jsonb(unmet)) FROM unmet)
    INTO followers, unmet_links;
    -- Rare, and a statement of its own: to begin an UPDATE costs more than all the rest.
    IF unmet_links IS NOT NULL THEN
        ended := pgjobs_end_unmet(unmet_links);
    END IF;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_close_links(
    ids bigint[], batches bigint[], most integer,
    OUT followers bigint[], OUT ended bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    unmet_links jsonb;
    waiting bigint[];
    going_on bigint[];
BEGIN
    ended := '{}';
    WITH resolved AS MATERIALIZED (
        (SELECT link.id AS link_id, link.job_id, link.needs, link.batch_id, outcome,
            link.predecessor_id AS culprit
        FROM (
            SELECT given.id, CASE
                    WHEN goes_on IS NOT TRUE AND job.id IS NOT NULL THEN job.status
                    WHEN pgjobs_newest(given.id) = given.id THEN 'GONE'
                    ELSE 'GOES_ON'
                END AS outcome
            FROM unnest(ids) AS given (id)
            LEFT JOIN LATERAL (
                SELECT id, status, finished_at, keys ? 'continued_as' AS goes_on
                FROM pgjobs_job
                WHERE pgjobs_job.id = given.id
                OFFSET 0  -- asked for each: no join with all jobs
            ) AS job ON true
            WHERE job.id IS NULL OR job.finished_at IS NOT NULL
        ) AS predecessor
        CROSS JOIN LATERAL (
            SELECT * FROM pgjobs_predecessor AS each
            WHERE each.predecessor_id = predecessor.id AND each.is_open
            LIMIT most
        ) AS link
        LIMIT most)
        UNION ALL
        (SELECT link.id, link.job_id, link.needs, link.batch_id,
            CASE outcome WHEN 'UNFINISHED' THEN 'FAILED' ELSE outcome END,
            coalesce(culprit, failed)
        FROM unnest(batches) AS given (id)
        CROSS JOIN LATERAL pgjobs_batch_outcome(given.id)
        CROSS JOIN LATERAL (
            SELECT * FROM pgjobs_predecessor AS each
            WHERE each.batch_id = given.id AND each.is_open
                AND (
                    outcome <> 'UNFINISHED'
                    OR each.needs = 'failure' AND failed IS NOT NULL
                )
            LIMIT most
        ) AS link
        LIMIT most)
    ),
    -- Another transaction may hold the row of a follower; then its link stays open.
    held AS MATERIALIZED (
        SELECT id, finished_at, waiting_for FROM pgjobs_job
        WHERE id = ANY (ARRAY(SELECT job_id FROM resolved))
        FOR NO KEY UPDATE SKIP LOCKED
    ),
    closed AS (
        UPDATE pgjobs_predecessor SET is_open = false
        WHERE id = ANY (ARRAY(
            SELECT link_id FROM resolved
            WHERE outcome <> 'GOES_ON' AND job_id IN (SELECT id FROM held)
                OR NOT EXISTS (
                    SELECT FROM pgjobs_job WHERE id = resolved.job_id OFFSET 0
                )
        ))
    ),
    unmet AS MATERIALIZED (
        SELECT DISTINCT ON (job_id) resolved.* FROM resolved
        WHERE NOT pgjobs_meets(needs, outcome) AND outcome <> 'GOES_ON'
            AND job_id IN (SELECT id FROM held WHERE finished_at IS NULL)
        ORDER BY job_id, link_id
    )
    SELECT ARRAY(
            SELECT id FROM held
            WHERE finished_at IS NULL AND id NOT IN (SELECT job_id FROM unmet)
        ),
        (SELECT jsonb_agg(to_jsonb(unmet)) FROM unmet),
        (SELECT array_agg(id) FROM held WHERE waiting_for = 'jobs'),
        (
            SELECT array_agg(link_id) FROM resolved
            WHERE outcome = 'GOES_ON' AND job_id IN (SELECT id FROM held)
        )
    INTO followers, unmet_links, waiting, going_on;
    IF going_on IS NOT NULL THEN
        PERFORM pgjobs_move_links(going_on);
    END IF;
    IF waiting IS NOT NULL THEN  -- their tasks wait for these ends
        PERFORM pgjobs_note_waiting(waiting);
    END IF;
    -- Rare, and a statement of its own: to begin an UPDATE costs more than all the rest.
    IF unmet_links IS NOT NULL THEN
        ended := pgjobs_end_unmet(unmet_links);
    END IF;
END
$$;
""",
    ),
    "function pgjobs_link_arrived": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_link_arrived(
    ids bigint[], most integer, OUT followers bigint[], OUT ended bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    linked bigint[] := ARRAY(
        SELECT id FROM pgjobs_job
        WHERE id = ANY (ids) AND (line = 'unlinked' OR dependencies IS NOT NULL)
    );
    predecessors bigint[];
    batches bigint[];
BEGIN
    followers := '{}';
    ended := '{}';
    IF linked = '{}' THEN
        RETURN;
    END IF;
    INSERT INTO pgjobs_predecessor (job_id, predecessor_id, batch_id, needs)
    SELECT id, predecessor_id, named.batch_id, coalesce(keys ->> 'needs', 'success')
    FROM pgjobs_job AS job
    CROSS JOIN LATERAL (
        SELECT each.id::bigint, NULL::bigint
        FROM jsonb_array_elements_text(keys -> 'after') AS each (id)
        UNION ALL
        SELECT NULL::bigint, each.id::bigint
        FROM jsonb_array_elements_text(keys -> 'after_batches') AS each (id)
    ) AS named (predecessor_id, batch_id)
    WHERE id = ANY (linked)
    ON CONFLICT DO NOTHING;
    SELECT coalesce(array_agg(DISTINCT predecessor_id), '{}'),
        coalesce(array_agg(DISTINCT batch_id), '{}')
    INTO predecessors, batches
    FROM (
        SELECT predecessor_id, batch_id, is_open FROM pgjobs_predecessor
        WHERE job_id = ANY (linked)
        OFFSET 0  -- or the planner would walk over all open links
    ) AS link
    WHERE is_open;
    PERFORM pgjobs_mark(predecessors);
    SELECT found.followers, found.ended INTO followers, ended
    FROM pgjobs_follow(predecessors, batches, most) AS found;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_link_arrived(
    ids bigint[], most integer, OUT followers bigint[], OUT ended bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    linked bigint[] := ARRAY(
        SELECT id FROM pgjobs_job
        WHERE id = ANY (ids) AND (line = 'unlinked' OR dependencies IS NOT NULL)
    );
    predecessors bigint[];
    batches bigint[];
BEGIN
    followers := '{}';
    ended := '{}';
    IF linked = '{}' THEN
        RETURN;
    END IF;
    INSERT INTO pgjobs_predecessor (
        job_id, predecessor_id, batch_id, needs, gives_result
    )
    SELECT id, predecessor_id, named.batch_id, coalesce(keys ->> 'needs', 'success'),
        keys ? 'results'
    FROM pgjobs_job AS job
    CROSS JOIN LATERAL (
        SELECT each.id::bigint, NULL::bigint
        FROM jsonb_array_elements_text(keys -> 'after') AS each (id)
        UNION ALL
        SELECT NULL::bigint, each.id::bigint
        FROM jsonb_array_elements_text(keys -> 'after_batches') AS each (id)
    ) AS named (predecessor_id, batch_id)
    WHERE id = ANY (linked)
    ON CONFLICT DO NOTHING;
    SELECT coalesce(array_agg(DISTINCT predecessor_id), '{}'),
        coalesce(array_agg(DISTINCT batch_id), '{}')
    INTO predecessors, batches
    FROM (
        SELECT predecessor_id, batch_id, is_open FROM pgjobs_predecessor
        WHERE job_id = ANY (linked)
        OFFSET 0  -- or the planner would walk over all open links
    ) AS link
    WHERE is_open;
    PERFORM pgjobs_mark(predecessors);
    SELECT found.followers, found.ended INTO followers, ended
    FROM pgjobs_follow(predecessors, batches, most) AS found;
END
$$;
""",
    ),
    "function pgjobs_move_links": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_move_links(links bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    moved bigint[];
BEGIN
    WITH given AS MATERIALIZED (
        SELECT id, job_id, pgjobs_newest(predecessor_id) AS newest
        FROM pgjobs_predecessor WHERE id = ANY (links) AND is_open
    ),
    single AS MATERIALIZED (
        SELECT DISTINCT ON (job_id, newest) id, newest FROM given
        WHERE NOT EXISTS (
            SELECT FROM pgjobs_predecessor AS other
            WHERE other.job_id = given.job_id AND other.predecessor_id = newest
            OFFSET 0  -- asked for each link
        )
        ORDER BY job_id, newest, id
    ),
    changed AS (
        UPDATE pgjobs_predecessor AS link
        SET (predecessor_id, is_open) = (
            SELECT coalesce(max(newest), link.predecessor_id), count(*) = 1
            FROM single WHERE single.id = link.id
        )
        WHERE id = ANY (ARRAY(SELECT id FROM given))
    )
    SELECT array_agg(DISTINCT newest) INTO moved FROM given;
    PERFORM pgjobs_mark(moved);
    PERFORM pgjobs_leave_open(moved, NULL);
END
$$;
""",
    ),
    "function pgjobs_reason_of_end": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_reason_of_end(
    needs text, outcome text, culprit bigint, batch bigint
) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT format('%s: %s %s.',
        CASE needs WHEN 'dependency' THEN 'Failed' ELSE 'Cancelled' END,
        CASE
            WHEN needs = 'failure' AND batch IS NOT NULL
                THEN 'no job of batch ' || batch
            WHEN outcome = 'GONE' AND batch IS NOT NULL THEN 'batch ' || batch
            WHEN batch IS NOT NULL THEN format('job %s of batch %s', culprit, batch)
            WHEN needs = 'dependency' THEN 'dependency job ' || culprit
            ELSE 'predecessor job ' || culprit
        END,
        CASE
            WHEN needs = 'failure' OR outcome = 'FAILED' THEN 'failed'
            WHEN outcome = 'CANCELLED' THEN 'was cancelled'
            ELSE 'is gone'
        END
    )
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_reason_of_end(
    needs text, outcome text, culprit bigint, batch bigint
) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT format('%s: %s %s.',
        CASE needs WHEN 'dependency' THEN 'Failed' ELSE 'Cancelled' END,
        CASE
            WHEN needs = 'failure' AND batch IS NOT NULL
                THEN 'no job of batch ' || batch
            WHEN outcome = 'GONE' AND batch IS NOT NULL THEN 'batch ' || batch
            WHEN batch IS NOT NULL AND culprit IS NULL
                THEN 'a job that was deleted from batch ' || batch
            WHEN batch IS NOT NULL THEN format('job %s of batch %s', culprit, batch)
            WHEN needs = 'dependency' THEN 'dependency job ' || culprit
            ELSE 'predecessor job ' || culprit
        END,
        CASE
            WHEN needs <> 'failure' AND outcome <> 'GONE' AND culprit IS NULL
                THEN 'had not succeeded'
            WHEN needs = 'failure' OR outcome = 'FAILED' THEN 'failed'
            WHEN outcome = 'CANCELLED' THEN 'was cancelled'
            ELSE 'is gone'
        END
    )
$$;
""",
    ),
    "function pgjobs_revive": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_revive(ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH RECURSIVE lost (id, batch_id) AS (
        SELECT id, batch_id FROM pgjobs_job WHERE id = ANY (ids)
        UNION
        SELECT job.id, job.batch_id
        FROM lost
        CROSS JOIN LATERAL (
            -- The order makes the planner take the index that begins with the column.
            -- It would read all of another one, in which that comes second.
            (
                SELECT job_id FROM pgjobs_predecessor WHERE predecessor_id = lost.id
                ORDER BY is_open, job_id OFFSET 0
            )
            UNION ALL
            (
                SELECT job_id FROM pgjobs_predecessor WHERE batch_id = lost.batch_id
                ORDER BY is_open, job_id OFFSET 0
            )
        ) AS link
        CROSS JOIN LATERAL (
            SELECT id, batch_id FROM pgjobs_job
            WHERE id = link.job_id AND status = 'CANCELLED'
                AND blocked_by_id = lost.id
            OFFSET 0
        ) AS job
    ),
    cancelled AS MATERIALIZED (
        SELECT id
        FROM pgjobs_job
        WHERE id = ANY (ARRAY(SELECT id FROM lost)) AND status = 'CANCELLED'
        ORDER BY id
        FOR NO KEY UPDATE
    ),
    allowed AS MATERIALIZED (
        SELECT id FROM pgjobs_retake_keys(ARRAY(SELECT id FROM cancelled)) AS id
    ),
    -- The next admission looks again at what had ended for a job before.
    opened AS (
        UPDATE pgjobs_predecessor SET is_open = true
        WHERE job_id = ANY (ARRAY(SELECT id FROM allowed))
    ),
    linked AS (
        UPDATE pgjobs_predecessor AS link
        SET is_open = EXISTS (
                SELECT FROM pgjobs_job
                WHERE id = link.predecessor_id
                    AND (finished_at IS NULL OR id IN (SELECT id FROM allowed))
                OFFSET 0
            ) OR EXISTS (
                SELECT FROM pgjobs_job
                WHERE batch_id = link.batch_id
                    AND (finished_at IS NULL OR id IN (SELECT id FROM allowed))
                OFFSET 0
            )
        WHERE job_id = ANY (ids)
        RETURNING job_id, is_open
    )
    UPDATE pgjobs_job
    SET status = 'WAITING',
        waiting_for = 'predecessor',
        finished_at = NULL,
        expires_at = NULL,
        reason = '',
        unique_until = CASE WHEN unique_until > clock_timestamp() THEN unique_until END
    WHERE id = ANY (
            ARRAY(
                SELECT id FROM allowed
                UNION ALL
                SELECT job_id FROM linked WHERE is_open
            )
        )
        AND status IN ('CANCELLED', 'READY');
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_revive(ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH RECURSIVE lost (id, batch_id) AS (
        SELECT id, batch_id FROM pgjobs_job WHERE id = ANY (ids)
        UNION
        SELECT job.id, job.batch_id
        FROM lost
        CROSS JOIN LATERAL (
            -- The order makes the planner take the index that begins with the column.
            -- It would read all of another one, in which that comes second.
            (
                SELECT job_id FROM pgjobs_predecessor WHERE predecessor_id = lost.id
                ORDER BY is_open, job_id OFFSET 0
            )
            UNION ALL
            (
                SELECT job_id FROM pgjobs_predecessor WHERE batch_id = lost.batch_id
                ORDER BY is_open, job_id OFFSET 0
            )
        ) AS link
        CROSS JOIN LATERAL (
            SELECT id, batch_id FROM pgjobs_job
            WHERE id = link.job_id AND status = 'CANCELLED'
                AND blocked_by_id = lost.id
            OFFSET 0
        ) AS job
    ),
    cancelled AS MATERIALIZED (
        SELECT id
        FROM pgjobs_job
        WHERE id = ANY (ARRAY(SELECT id FROM lost)) AND status = 'CANCELLED'
        ORDER BY id
        FOR NO KEY UPDATE
    ),
    allowed AS MATERIALIZED (
        SELECT id FROM pgjobs_retake_keys(ARRAY(SELECT id FROM cancelled)) AS id
    ),
    -- The next admission looks again at what had ended for a job before, but for what
    -- was pruned since: an admission has seen how that ended.
    opened AS (
        UPDATE pgjobs_predecessor AS link SET is_open = true
        WHERE job_id = ANY (ARRAY(SELECT id FROM allowed))
            AND (
                EXISTS (
                    SELECT FROM pgjobs_job WHERE id = link.predecessor_id OFFSET 0
                )
                OR EXISTS (
                    SELECT FROM pgjobs_batch WHERE id = link.batch_id OFFSET 0
                )
            )
    ),
    linked AS (
        UPDATE pgjobs_predecessor AS link
        SET is_open = EXISTS (
                SELECT FROM pgjobs_job
                WHERE id = link.predecessor_id
                    AND (finished_at IS NULL OR id IN (SELECT id FROM allowed))
                OFFSET 0
            ) OR EXISTS (
                SELECT FROM pgjobs_job
                WHERE batch_id = link.batch_id
                    AND (finished_at IS NULL OR id IN (SELECT id FROM allowed))
                OFFSET 0
            )
        WHERE job_id = ANY (ids)
        RETURNING job_id, is_open
    )
    UPDATE pgjobs_job
    SET status = 'WAITING',
        waiting_for = 'predecessor',
        finished_at = NULL,
        expires_at = NULL,
        reason = '',
        unique_until = CASE WHEN unique_until > clock_timestamp() THEN unique_until END
    WHERE id = ANY (
            ARRAY(
                SELECT id FROM allowed
                UNION ALL
                SELECT job_id FROM linked WHERE is_open
            )
        )
        AND status IN ('CANCELLED', 'READY');
END
$$;
""",
    ),
    "function pgjobs_is_served": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_is_served(queue text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM pgjobs_worker
        WHERE lease_until > statement_timestamp()
            AND CASE
                WHEN queues <> '' THEN queue = ANY (string_to_array(queues, ','))
                ELSE excluded = ''
                    OR NOT queue = ANY (string_to_array(excluded, ','))
            END
    ) AND NOT EXISTS (
        SELECT FROM pgjobs_queue WHERE name = queue AND paused_at IS NOT NULL
    );
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_is_served(queue text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM pgjobs_worker
        WHERE lease_until > statement_timestamp() AND wanted = ''
            AND CASE
                WHEN queues <> '' THEN queue = ANY (string_to_array(queues, ','))
                ELSE excluded = ''
                    OR NOT queue = ANY (string_to_array(excluded, ','))
            END
    ) AND NOT EXISTS (
        SELECT FROM pgjobs_queue WHERE name = queue AND paused_at IS NOT NULL
    );
END
$$;
""",
    ),
    "function pgjobs_room": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_room(queue text) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    -- The class of these locks: "pgjq" in ASCII.
    IF NOT pg_catalog.pg_try_advisory_xact_lock(
        1885825649, pg_catalog.hashtext(queue)
    ) THEN
        RETURN 0;
    END IF;
    RETURN (
        SELECT greatest(
            max_running - (
                SELECT count(*) FROM pgjobs_job
                WHERE status = 'RUNNING' AND queue_name = queue
            ),
            0
        )
        FROM pgjobs_queue WHERE name = queue
    );
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_room(queue text) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    -- The class of these locks: "pgjq" in ASCII.
    IF NOT pg_catalog.pg_try_advisory_xact_lock(
        1885825649, pg_catalog.hashtext(queue)
    ) THEN
        RETURN 0;
    END IF;
    RETURN (
        SELECT greatest(
            max_running - (
                SELECT count(*) FROM pgjobs_job
                WHERE status = 'RUNNING' AND queue_name = queue
                    -- A call of many jobs counts as one, by its first.
                    AND (
                        chunk ->> 'first' <> id::text
                        AND chunk ->> 'attempt' = life || ':' || attempts
                    ) IS NOT TRUE
            ),
            0
        )
        FROM pgjobs_queue WHERE name = queue
    );
END
$$;
""",
    ),
    "function pgjobs_served_of": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_served_of(names text[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT name FROM (SELECT DISTINCT unnest(names) OFFSET 0) AS queue (name)
        WHERE CASE
                WHEN EXISTS (
                    SELECT FROM pgjobs_worker
                    WHERE lease_until > statement_timestamp()
                        AND wanted = '' AND queues = '' AND excluded = ''
                )
                    THEN NOT EXISTS (
                        SELECT FROM pgjobs_queue
                        WHERE pgjobs_queue.name = queue.name AND paused_at IS NOT NULL
                        OFFSET 0
                    )
                ELSE pgjobs_is_served(name)
            END
    );
END
$$;
""",
    ),
    "function pgjobs_ends_before": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_ends_before(entry jsonb, part text[]) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    most CONSTANT integer := 10000;
    ids bigint[];
    number integer;
    bytes bigint;
BEGIN
    ids := ARRAY(
        SELECT named.id
        FROM (
            SELECT pgjobs_newest(each.id::bigint) AS id, each.place
            FROM jsonb_array_elements_text(entry -> 'jobs')
                WITH ORDINALITY AS each (id, place)
            UNION ALL
            SELECT (each.pair ->> 1)::bigint, (each.pair ->> 0)::bigint
            FROM jsonb_array_elements(entry -> 'others') AS each (pair)
            UNION ALL
            (
                SELECT job.id, (job.keys ->> 'place')::bigint
                FROM pgjobs_job AS job
                WHERE job.batch_id = (entry ->> 'batch')::bigint
                    AND (job.keys -> 'place') IS DISTINCT FROM 'null'
                LIMIT most + 1
            )
        ) AS named
        ORDER BY named.place NULLS LAST, named.id
    );
    number := cardinality(ids);
    IF number > 1 THEN
        SELECT sum(octet_length(job.return_value::text)) INTO bytes
        FROM pgjobs_job AS job WHERE job.id = ANY (ids[:most]);
    END IF;
    IF number > most OR bytes > coalesce((entry ->> 'bytes')::numeric, 10000000) THEN
        RETURN jsonb_build_object('number', number, 'bytes_found', bytes);
    END IF;
    RETURN jsonb_build_object('ends', (
        SELECT coalesce(jsonb_agg(
            jsonb_build_object(
                'id', each.id, 'task', job.task,
                'status', coalesce(job.status, 'GONE'),
                'value', CASE
                    WHEN job.keys ? 'encrypted' THEN job.return_value
                    ELSE job.return_value #> part
                END,
                'reason', CASE
                    WHEN job.id IS NULL THEN 'The job was deleted.' ELSE job.reason
                END,
                'lacks', job.status = 'SUCCESSFUL' AND part <> '{}'
                    AND (job.return_value #> part) IS NULL
            ) || CASE
                WHEN job.keys ? 'encrypted'
                    THEN jsonb_build_object('by', job.keys #> '{encrypted,by}')
                ELSE '{}'
            END
            ORDER BY each.place
        ), '[]')
        FROM unnest(ids) WITH ORDINALITY AS each (id, place)
        LEFT JOIN LATERAL (
            SELECT * FROM pgjobs_job WHERE pgjobs_job.id = each.id OFFSET 0
        ) AS job ON true
    ));
END
$$;
""",
    ),
    "function pgjobs_fault_of_results": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_fault_of_results(keys jsonb) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    IF jsonb_typeof(keys -> 'results') <> 'object' THEN
        RETURN 'keys: results must be an object';
    END IF;
    IF EXISTS (
        SELECT FROM jsonb_each(keys -> 'results') AS named (name, entry)
        WHERE CASE
            WHEN jsonb_typeof(entry) <> 'object' THEN true
            WHEN (entry ->> 'of') IN ('result', 'results', 'outcomes') IS NOT TRUE
                THEN true
            WHEN jsonb_typeof(entry -> 'path') <> 'array' THEN true
            WHEN jsonb_typeof(entry -> 'is_one') <> 'boolean' THEN true
            WHEN (entry -> 'bytes')::text !~ '^[0-9]{1,18}$' THEN true
            WHEN num_nonnulls(entry -> 'jobs', entry -> 'batch') <> 1 THEN true
            WHEN NOT coalesce(keys -> 'after', '[]') @> coalesce(entry -> 'jobs', '[]')
                THEN true
            WHEN NOT coalesce(keys -> 'after_batches', '[]')
                @> coalesce(entry -> 'batch', '[]') THEN true
            WHEN jsonb_typeof(entry -> 'jobs') <> 'array' THEN true
            WHEN jsonb_typeof(entry -> 'others') <> 'array' THEN true
            ELSE EXISTS (
                SELECT FROM jsonb_array_elements(entry -> 'others') AS each (pair)
                WHERE pair::text !~ '^\[[0-9]{1,9}, [1-9][0-9]{0,17}\]$'
                    OR NOT coalesce(keys -> 'after', '[]') @> (pair -> 1)
            )
        END
    ) THEN
        RETURN 'keys: results must be '
            '{argument: {"of": "result", "jobs": [id]}}, with jobs of after, or '
            '"batch" with one of after_batches';
    END IF;
    IF NOT has_column_privilege('pgjobs_job', 'return_value', 'SELECT') THEN
        RETURN 'keys: results names what the role may not read: return_value';
    END IF;
    RETURN NULL;
END
$$;
""",
    ),
    "function pgjobs_renew_results": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_renew_results(ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    batches CONSTANT bigint[] := ARRAY(
        SELECT DISTINCT batch_id FROM pgjobs_job
        WHERE id = ANY (ids) AND batch_id IS NOT NULL
    );
    named CONSTANT bigint[] := ARRAY(
        SELECT link.job_id FROM unnest(ids) AS given (id)
        CROSS JOIN LATERAL (
            SELECT job_id FROM pgjobs_predecessor
            WHERE gives_result AND predecessor_id = given.id
            ORDER BY predecessor_id OFFSET 0
        ) AS link
        UNION
        SELECT link.job_id FROM unnest(batches) AS given (id)
        CROSS JOIN LATERAL (
            SELECT job_id FROM pgjobs_predecessor
            WHERE gives_result AND batch_id = given.id
            ORDER BY batch_id OFFSET 0
        ) AS link
    );
    held bigint[];
    freed jsonb[];
BEGIN
    IF named = '{}' THEN
        RETURN;
    END IF;
    held := ARRAY(
        SELECT id FROM pgjobs_job
        WHERE id = ANY (named) AND status IN ('READY', 'SCHEDULED', 'WAITING')
            AND keys ? 'results'
        ORDER BY id
        FOR NO KEY UPDATE
    );
    UPDATE pgjobs_predecessor SET is_open = true
    WHERE job_id = ANY (held) AND NOT is_open
        AND (predecessor_id = ANY (ids) OR batch_id = ANY (batches));
    -- A lock or a place under a limit that one of them had is free.
    freed := ARRAY(
        SELECT keys FROM pgjobs_job
        WHERE id = ANY (held) AND status = 'READY'
            AND keys ?| ARRAY['lock', 'limit_key']
    );
    UPDATE pgjobs_job
    SET status = CASE status WHEN 'SCHEDULED' THEN status ELSE 'WAITING' END,
        waiting_for = CASE WHEN status <> 'SCHEDULED' THEN 'predecessor' END,
        blocked_by_id = NULL,
        line = 'unlinked'
    WHERE id = ANY (held);
    PERFORM pgjobs_leave_note(NULL, each.keys) FROM unnest(freed) AS each (keys);
END
$$;
""",
    ),
    "function pgjobs_results_of": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_results_of(keys jsonb) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    -- What is masked already: see masks.py.
    found jsonb := (
        SELECT coalesce(jsonb_object_agg(each, '{"masked": true}'::jsonb), '{}')
        FROM jsonb_array_elements_text(keys -> 'masked') AS each
        WHERE each IS NOT NULL
    );
    name text;
    entry jsonb;
BEGIN
    IF keys ? 'encrypted' THEN  -- see encryption/arriving.py
        found := found || jsonb_build_object('*', keys -> 'encrypted');
    END IF;
    FOR name, entry IN SELECT * FROM jsonb_each(keys -> 'results') LOOP
        found := found || jsonb_build_object(
            name, entry || pgjobs_ends_before(
                entry, ARRAY(SELECT jsonb_array_elements_text(entry -> 'path'))
            ) || jsonb_build_object('needs', coalesce(keys ->> 'needs', 'success'))
        );
    END LOOP;
    RETURN found::text;
END
$$;
""",
    ),
    "function pgjobs_cancel_jobs": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_cancel_jobs(ids bigint[], why text)
RETURNS TABLE (id bigint, is_finished boolean) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN QUERY
    WITH unfinished AS MATERIALIZED (
        SELECT job.id FROM pgjobs_job AS job
        WHERE job.id = ANY (ids)
            AND (
                job.status IN ('READY', 'SCHEDULED', 'WAITING')
                OR job.status = 'RUNNING' AND job.cancel_requested_at IS NULL
            )
        ORDER BY job.id
        FOR NO KEY UPDATE
    ),
    cancelled AS (
        UPDATE pgjobs_job AS job
        SET status = CASE
                WHEN job.status = 'RUNNING' THEN job.status ELSE 'CANCELLED'
            END,
            finished_at = CASE
                WHEN job.status <> 'RUNNING' THEN clock_timestamp()
            END,
            cancel_requested_at = CASE
                WHEN job.status = 'RUNNING' THEN clock_timestamp()
            END,
            reason = coalesce(nullif(left(why, 1000), ''), 'Cancelled.'),
            waiting_for = NULL,
            blocked_by_id = NULL
        WHERE job.id = ANY (ARRAY(SELECT unfinished.id FROM unfinished))
        RETURNING job.id, job.worker_id
    )
    SELECT cancelled.id, cancelled.worker_id IS NULL
    FROM cancelled
    LEFT JOIN LATERAL (
        SELECT pg_notify('pgjobs_worker_' || cancelled.worker_id, 'cancel')
        WHERE cancelled.worker_id IS NOT NULL
    ) AS notified ON true;
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_cancel_jobs(ids bigint[], why text)
RETURNS TABLE (id bigint, is_finished boolean) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    number bigint;
BEGIN
    LOOP
        RETURN QUERY
        WITH unfinished AS MATERIALIZED (
            SELECT job.id FROM pgjobs_job AS job
            WHERE job.id = ANY (ids)
                AND (
                    job.status IN ('READY', 'SCHEDULED', 'WAITING')
                    OR job.status = 'RUNNING' AND job.cancel_requested_at IS NULL
                )
            ORDER BY job.id
            FOR NO KEY UPDATE
        ),
        cancelled AS (
            UPDATE pgjobs_job AS job
            SET status = CASE
                    WHEN job.status = 'RUNNING' THEN job.status ELSE 'CANCELLED'
                END,
                finished_at = CASE
                    WHEN job.status <> 'RUNNING' THEN clock_timestamp()
                END,
                cancel_requested_at = CASE
                    WHEN job.status = 'RUNNING' THEN clock_timestamp()
                END,
                reason = coalesce(nullif(left(why, 1000), ''), 'Cancelled.'),
                waiting_for = NULL,
                blocked_by_id = NULL
            WHERE job.id = ANY (ARRAY(SELECT unfinished.id FROM unfinished))
            RETURNING job.id, job.worker_id
        )
        SELECT cancelled.id, cancelled.worker_id IS NULL
        FROM cancelled
        LEFT JOIN LATERAL (
            SELECT pg_notify('pgjobs_worker_' || cancelled.worker_id, 'cancel')
            WHERE cancelled.worker_id IS NOT NULL
        ) AS notified ON true;
        GET DIAGNOSTICS number = ROW_COUNT;
        EXIT WHEN number = cardinality(ids);
        ids := ARRAY(
            SELECT DISTINCT newest
            FROM unnest(ids) AS given (old)
            CROSS JOIN LATERAL pgjobs_newest(old) AS newest
            WHERE newest <> old
        );
        EXIT WHEN ids = '{}';
    END LOOP;
END
$$;
""",
    ),
    "function pgjobs_retry_jobs": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_retry_jobs(ids bigint[]) RETURNS SETOF bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    retried bigint[];
    linked bigint[];
BEGIN
    WITH finished AS MATERIALIZED (
        SELECT id
        FROM pgjobs_job
        WHERE id = ANY (ids)
            AND status IN ('SUCCESSFUL', 'FAILED', 'CANCELLED')
            AND life < 1000000000  -- the most that a row may have
        ORDER BY id
        FOR NO KEY UPDATE
    ),
    allowed AS MATERIALIZED (
        SELECT id FROM pgjobs_retake_keys(ARRAY(SELECT id FROM finished)) AS id
    ),
    changed AS (
        UPDATE pgjobs_job AS job
        SET status = CASE
                WHEN run_after > clock_timestamp() THEN 'SCHEDULED' ELSE 'READY'
            END,
            life = life + 1,
            attempts = 0, failures = 0, crashes = 0,
            started_at = NULL, last_attempted_at = NULL, finished_at = NULL,
            expires_at = NULL, cancel_requested_at = NULL, return_value = NULL,
            reason = '', blocked_by_id = NULL, error_group = NULL,
            -- The trigger overlooks a job whose end is recorded and not yet seen.
            line = CASE line WHEN 'recorded' THEN 'left' ELSE line END,
            unique_until = CASE
                WHEN unique_until > clock_timestamp() THEN unique_until
            END
        WHERE job.id = ANY (ARRAY(SELECT id FROM allowed))
        RETURNING job.id,
            job.keys IS NOT NULL
                -- A job that ended before an admission saw its successors has no mark.
                OR EXISTS (
                    SELECT FROM pgjobs_predecessor WHERE predecessor_id = job.id
                    ORDER BY is_open, job_id OFFSET 0
                ) AS may_be_linked
    ),
    forgotten AS (
        DELETE FROM pgjobs_progress WHERE job_id = ANY (ARRAY(SELECT id FROM changed))
    )
    SELECT array_agg(id), array_agg(id) FILTER (WHERE may_be_linked)
    INTO retried, linked
    FROM changed;
    IF linked IS NOT NULL THEN
        PERFORM pgjobs_revive(linked);
    END IF;
    RETURN QUERY SELECT unnest(retried);
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_retry_jobs(ids bigint[]) RETURNS SETOF bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    retried bigint[];
    linked bigint[];
BEGIN
    WITH finished AS MATERIALIZED (
        SELECT id
        FROM pgjobs_job
        WHERE id = ANY (ids)
            AND status IN ('SUCCESSFUL', 'FAILED', 'CANCELLED')
            AND life < 1000000000  -- the most that a row may have
            AND NOT coalesce(keys ? 'continued_as', false)
        ORDER BY id
        FOR NO KEY UPDATE
    ),
    allowed AS MATERIALIZED (
        SELECT id FROM pgjobs_retake_keys(ARRAY(SELECT id FROM finished)) AS id
    ),
    changed AS (
        UPDATE pgjobs_job AS job
        SET (status, run_after) = (
                SELECT CASE
                        WHEN due_at > clock_timestamp() THEN 'SCHEDULED' ELSE 'READY'
                    END,
                    due_at
                FROM (
                    -- It waits from now on. The sleep of a task belongs to the old life.
                    SELECT CASE
                        WHEN (job.run_after > clock_timestamp()) IS TRUE
                            AND NOT pgjobs_is_asleep(job.id, job.life, job.run_after)
                            THEN job.run_after
                        ELSE clock_timestamp()
                    END
                ) AS due (due_at)
            ),
            life = life + 1,
            attempts = 0, failures = 0, crashes = 0,
            started_at = NULL, last_attempted_at = NULL, finished_at = NULL,
            expires_at = NULL, cancel_requested_at = NULL, return_value = NULL,
            reason = '', blocked_by_id = NULL, error_group = NULL,
            -- The trigger overlooks a job whose end is recorded and not yet seen.
            line = CASE line WHEN 'recorded' THEN 'left' ELSE line END,
            unique_until = CASE
                WHEN unique_until > clock_timestamp() THEN unique_until
            END
        WHERE job.id = ANY (ARRAY(SELECT id FROM allowed))
        RETURNING job.id,
            job.keys IS NOT NULL
                -- A job that ended before an admission saw its successors has no mark.
                OR EXISTS (
                    SELECT FROM pgjobs_predecessor WHERE predecessor_id = job.id
                    ORDER BY is_open, job_id OFFSET 0
                ) AS may_be_linked
    ),
    forgotten AS (
        DELETE FROM pgjobs_progress WHERE job_id = ANY (ARRAY(SELECT id FROM changed))
    )
    SELECT array_agg(id), array_agg(id) FILTER (WHERE may_be_linked)
    INTO retried, linked
    FROM changed;
    IF linked IS NOT NULL THEN
        PERFORM pgjobs_drop_waited_links(linked);
        PERFORM pgjobs_revive(linked);
        PERFORM pgjobs_renew_results(linked);
    END IF;
    RETURN QUERY SELECT unnest(retried);
END
$$;
""",
    ),
    "function pgjobs_host_room": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_host_room(
    here text, total bigint, patience double precision,
    OUT free bigint, OUT last_priority integer, OUT last_turn bigint
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    -- The class of these locks: "pgju" in ASCII.
    IF NOT pg_catalog.pg_try_advisory_xact_lock(
        1885825653, pg_catalog.hashtext(here)
    ) THEN
        RETURN;
    END IF;
    SELECT greatest(total - coalesce(sum(coalesce(process_units, 1)), 0), 0)
    INTO free
    FROM (
        SELECT id, id FROM pgjobs_worker WHERE host = here
        UNION ALL
        SELECT lag(id, 1, 0::bigint) OVER (ORDER BY id) + 1, id - 1 FROM pgjobs_worker
        UNION ALL
        SELECT coalesce(max(id), 0) + 1, 9223372036854775807 FROM pgjobs_worker
    ) AS worker (first_id, last_id)  -- of this host, or without a row
    CROSS JOIN LATERAL (
        SELECT process_units FROM pgjobs_job
        WHERE worker_id BETWEEN worker.first_id AND worker.last_id
            AND worker.first_id <= worker.last_id AND status = 'RUNNING'
        OFFSET 0  -- asked for each worker: no join with all that run
    ) AS job;

    WITH RECURSIVE weight (queue_name, units) AS (
        SELECT ''::varchar, 0::bigint
        UNION ALL
        SELECT next.*
        FROM weight CROSS JOIN LATERAL (
            SELECT job.queue_name, job.process_units FROM pgjobs_job AS job
            WHERE job.status = 'READY' AND job.process_units IS NOT NULL
                AND (job.queue_name, job.process_units) > (
                    weight.queue_name,
                    CASE WHEN units > total THEN 9223372036854775807
                    ELSE greatest(units, free) END
                )
            ORDER BY job.queue_name, job.process_units LIMIT 1
        ) AS next
    )
    SELECT job.priority, job.turn INTO last_priority, last_turn
    FROM weight CROSS JOIN LATERAL (
        SELECT first.priority, first.turn
        FROM (
            SELECT ready.priority, ready.turn,
                greatest(ready.enqueued_at, ready.run_after, ready.last_attempted_at)
                    AS waits_since
            FROM pgjobs_job AS ready
            WHERE ready.status = 'READY' AND ready.queue_name = weight.queue_name
                AND ready.process_units = weight.units
            ORDER BY ready.priority DESC, ready.turn LIMIT 100
        ) AS first
        WHERE waits_since <= clock_timestamp() - make_interval(secs => patience)
        ORDER BY first.priority DESC, first.turn LIMIT 1
    ) AS job
    WHERE weight.units > free AND weight.units <= total
        -- A job that no worker of the host would claim does not wait for units.
        AND EXISTS (
            SELECT FROM pgjobs_worker AS worker
            WHERE worker.host = here
                AND worker.units >= weight.units
                AND worker.lease_until > clock_timestamp()
                AND (
                    worker.queues = ''
                    OR weight.queue_name = ANY (string_to_array(worker.queues, ','))
                )
                AND NOT weight.queue_name
                    = ANY (string_to_array(worker.excluded, ','))
        )
        AND NOT EXISTS (
            SELECT FROM pgjobs_queue AS queue
            WHERE queue.name = weight.queue_name
                AND (
                    queue.paused_at IS NOT NULL
                    OR queue.max_running <= (
                        SELECT count(*) FROM pgjobs_job AS other
                        WHERE other.status = 'RUNNING'
                            AND other.queue_name = queue.name
                    )
                )
        )
    ORDER BY job.priority DESC, job.turn
    LIMIT 1;
    -- No job waits for units: a place behind all others.
    last_priority := coalesce(last_priority, -1000);
    last_turn := coalesce(last_turn, 0);
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_host_room(
    here text, total bigint, patience double precision,
    OUT free bigint, OUT last_priority integer, OUT last_turn bigint
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    -- The class of these locks: "pgju" in ASCII.
    IF NOT pg_catalog.pg_try_advisory_xact_lock(
        1885825653, pg_catalog.hashtext(here)
    ) THEN
        RETURN;
    END IF;
    SELECT greatest(total - coalesce(sum(units), 0), 0)
    INTO free
    FROM (
        SELECT id, id FROM pgjobs_worker WHERE host = here
        UNION ALL
        SELECT lag(id, 1, 0::bigint) OVER (ORDER BY id) + 1, id - 1 FROM pgjobs_worker
        UNION ALL
        SELECT coalesce(max(id), 0) + 1, 9223372036854775807 FROM pgjobs_worker
    ) AS worker (first_id, last_id)  -- of this host, or without a row
    CROSS JOIN LATERAL (
        -- A call of many jobs counts as one, by its first: see pgjobs_room.
        SELECT CASE
            WHEN chunk ->> 'first' <> id::text
                AND chunk ->> 'attempt' = life || ':' || attempts THEN 0
            ELSE coalesce(process_units, 1)
        END AS units
        FROM pgjobs_job
        WHERE worker_id BETWEEN worker.first_id AND worker.last_id
            AND worker.first_id <= worker.last_id AND status = 'RUNNING'
        OFFSET 0  -- asked for each worker: no join with all that run
    ) AS job;

    WITH RECURSIVE weight (queue_name, units) AS (
        SELECT ''::varchar, 0::bigint
        UNION ALL
        SELECT next.*
        FROM weight CROSS JOIN LATERAL (
            SELECT job.queue_name, coalesce(job.process_units, 0) FROM pgjobs_job AS job
            WHERE job.status = 'READY'
                AND (job.queue_name, coalesce(job.process_units, 0)) > (
                    weight.queue_name,
                    CASE WHEN units > total THEN 9223372036854775807
                    ELSE greatest(units, free) END
                )
            ORDER BY job.queue_name, coalesce(job.process_units, 0) LIMIT 1
        ) AS next
    )
    SELECT job.priority, job.turn INTO last_priority, last_turn
    FROM weight CROSS JOIN LATERAL (
        SELECT first.priority, first.turn
        FROM (
            SELECT ready.priority, ready.turn,
                greatest(ready.enqueued_at, ready.run_after, ready.last_attempted_at)
                    AS waits_since
            FROM pgjobs_job AS ready
            WHERE ready.status = 'READY' AND ready.queue_name = weight.queue_name
                AND coalesce(ready.process_units, 0) = weight.units
            ORDER BY ready.priority DESC, ready.turn LIMIT 100
        ) AS first
        WHERE waits_since <= clock_timestamp() - make_interval(secs => patience)
        ORDER BY first.priority DESC, first.turn LIMIT 1
    ) AS job
    WHERE weight.units > free AND weight.units <= total
        -- A job that no worker of the host would claim does not wait for units.
        AND EXISTS (
            SELECT FROM pgjobs_worker AS worker
            WHERE worker.host = here
                AND worker.units >= weight.units
                AND worker.lease_until > clock_timestamp()
                AND (
                    worker.queues = ''
                    OR weight.queue_name = ANY (string_to_array(worker.queues, ','))
                )
                AND NOT weight.queue_name
                    = ANY (string_to_array(worker.excluded, ','))
        )
        AND NOT EXISTS (
            SELECT FROM pgjobs_queue AS queue
            WHERE queue.name = weight.queue_name
                AND (
                    queue.paused_at IS NOT NULL
                    OR queue.max_running <= (
                        SELECT count(*) FROM pgjobs_job AS other
                        WHERE other.status = 'RUNNING'
                            AND other.queue_name = queue.name
                            AND (
                                chunk ->> 'first' <> id::text
                                AND chunk ->> 'attempt' = life || ':' || attempts
                            ) IS NOT TRUE
                    )
                )
        )
    ORDER BY job.priority DESC, job.turn
    LIMIT 1;
    -- No job waits for units: a place behind all others.
    last_priority := coalesce(last_priority, -1000);
    last_turn := coalesce(last_turn, 0);
END
$$;
""",
    ),
    "trigger pgjobs_see_pauses": (
        None,
        r"""CREATE OR REPLACE TRIGGER pgjobs_see_pauses
    BEFORE INSERT ON pgjobs_job
    FOR EACH STATEMENT
    WHEN (
        CASE
            WHEN pg_current_xact_id() IS NULL THEN true
            ELSE pg_relation_size('pgjobs_override'::regclass) > 0
        END
    )
    EXECUTE FUNCTION pgjobs_see_pauses();
""",
    ),
    "trigger pgjobs_queue_changed": (
        r"""CREATE OR REPLACE TRIGGER pgjobs_queue_changed
    BEFORE UPDATE OF status, keys, dependencies ON pgjobs_job
    FOR EACH ROW
    WHEN (
        NEW.worker_id IS NULL
        AND num_nonnulls(NEW.keys, NEW.dependencies, NEW.line, NEW.waiting_for) > 0
        AND current_setting('pgjobs.admits', true) IS DISTINCT FROM 'on'
    )
    EXECUTE FUNCTION pgjobs_queue_changed();
""",
        r"""CREATE OR REPLACE TRIGGER pgjobs_queue_changed
    BEFORE UPDATE OF status, keys, dependencies ON pgjobs_job
    FOR EACH ROW
    WHEN (
        NEW.worker_id IS NULL
        AND (
            NEW.finished_at IS NULL
            OR num_nonnulls(NEW.keys, NEW.dependencies, NEW.line, NEW.waiting_for) > 0
        )
        AND current_setting('pgjobs.admits', true) IS DISTINCT FROM 'on'
    )
    EXECUTE FUNCTION pgjobs_queue_changed();
""",
    ),
    "trigger pgjobs_queue_inserted": (
        r"""CREATE OR REPLACE TRIGGER pgjobs_queue_inserted
    BEFORE INSERT ON pgjobs_job
    FOR EACH ROW
    WHEN (
        NEW.status = 'READY'
        AND (
            NEW.run_after > statement_timestamp()
            OR NEW.keys IS NOT NULL
            OR NEW.dependencies IS NOT NULL
        )
        OR NEW.status = 'WAITING' AND NEW.line IS NULL
    )
    EXECUTE FUNCTION pgjobs_queue_inserted();
""",
        r"""CREATE OR REPLACE TRIGGER pgjobs_queue_inserted
    BEFORE INSERT ON pgjobs_job
    FOR EACH ROW
    WHEN (
        num_nonnulls(NEW.run_after, NEW.keys, NEW.dependencies) > 0
        OR NEW.status = 'WAITING'
    )
    EXECUTE FUNCTION pgjobs_queue_inserted();
""",
    ),
    "trigger pgjobs_stop_inserted": (
        None,
        r"""CREATE OR REPLACE TRIGGER pgjobs_stop_inserted
    BEFORE INSERT ON pgjobs_job
    FOR EACH ROW
    WHEN (current_setting('pgjobs.pauses', true) = 'on')
    EXECUTE FUNCTION pgjobs_stop_job();
""",
    ),
    "trigger pgjobs_check_changed": (
        None,
        r"""CREATE OR REPLACE TRIGGER pgjobs_check_changed
    AFTER UPDATE OF
        id, task, args, kwargs, queue_name, priority, timeout, process_units,
        unique_key, unique_for, unique_until, max_attempts, max_crashes, life,
        run_after, expires_at, enqueued_at, cancel_requested_at, keys, dependencies,
        meta, keep
    ON pgjobs_job
    FOR EACH ROW WHEN (current_setting('pgjobs.admits', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION pgjobs_check_job();
""",
    ),
    "trigger pgjobs_check_job": (
        r"""CREATE OR REPLACE TRIGGER pgjobs_check_job
    AFTER INSERT OR UPDATE OF
        id, task, args, kwargs, queue_name, priority, timeout, process_units,
        unique_key, unique_for, unique_until, max_attempts, max_crashes, life,
        run_after, expires_at, enqueued_at, cancel_requested_at, keys, dependencies,
        meta
    ON pgjobs_job
    FOR EACH ROW EXECUTE FUNCTION pgjobs_check_job();
""",
        r"""CREATE OR REPLACE TRIGGER pgjobs_check_job
    AFTER INSERT ON pgjobs_job
    FOR EACH ROW EXECUTE FUNCTION pgjobs_check_job();
""",
    ),
    "trigger pgjobs_note_ended_worker": (
        None,
        r"""CREATE OR REPLACE TRIGGER pgjobs_note_ended_worker
    AFTER DELETE ON pgjobs_worker
    FOR EACH ROW EXECUTE FUNCTION pgjobs_note_ended_worker();
""",
    ),
    "trigger pgjobs_note_started": (
        None,
        r"""CREATE OR REPLACE TRIGGER pgjobs_note_started
    AFTER UPDATE OF last_attempted_at ON pgjobs_job
    FOR EACH ROW
    WHEN (NEW.keys ? 'rate_key' AND OLD.status = 'READY')
    EXECUTE FUNCTION pgjobs_note_started();
""",
    ),
    "trigger pgjobs_undone": (
        None,
        r"""CREATE OR REPLACE TRIGGER pgjobs_undone
    AFTER UPDATE OF
        id, task, args, kwargs, queue_name, priority, timeout, process_units,
        unique_key, unique_for, unique_until, max_attempts, max_crashes, life,
        run_after, expires_at, enqueued_at, cancel_requested_at, keys, dependencies,
        meta, failures, crashes, error_group, awaited
    ON pgjobs_job
    FOR EACH ROW
    WHEN (
        NEW.life < OLD.life
        OR NEW.life = OLD.life AND (
            NEW.attempts < OLD.attempts
            -- A rescue may have to give a lower one: functions/jobs/token_beyond.sql.
            OR NEW.lease_token < OLD.lease_token
            AND (OLD.worker_id IS NULL OR NEW.worker_id IS NOT NULL)
            OR OLD.finished_at IS NOT NULL AND NEW.status <> OLD.status
            AND (OLD.status, NEW.status) <> ('CANCELLED', 'WAITING')
        )
    )
    EXECUTE FUNCTION pgjobs_undone();
""",
    ),
    "trigger pgjobs_jobs_deleted": (
        r"""CREATE OR REPLACE TRIGGER pgjobs_jobs_deleted
    AFTER DELETE ON pgjobs_job REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION pgjobs_jobs_deleted();
""",
        r"""CREATE OR REPLACE TRIGGER pgjobs_jobs_deleted
    AFTER DELETE ON pgjobs_job REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT
    WHEN (current_setting('pgjobs.deletes', true) IS DISTINCT FROM 'rows')
    EXECUTE FUNCTION pgjobs_jobs_deleted();
""",
    ),
    "trigger pgjobs_jobs_truncated": (
        None,
        r"""CREATE OR REPLACE TRIGGER pgjobs_jobs_truncated
    AFTER TRUNCATE ON pgjobs_job
    FOR EACH STATEMENT EXECUTE FUNCTION pgjobs_jobs_truncated();
""",
    ),
    "rights": (
        r"""DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT format(
            CASE
                WHEN proname IN (
                    'pgjobs_is_job', 'pgjobs_holds_key', 'pgjobs_provide',
                    'pgjobs_first_obstacle', 'pgjobs_first_line', 'pgjobs_leave_note',
                    'pgjobs_free_keys', 'pgjobs_replace_held', 'pgjobs_follow_up'
                )
                    THEN 'GRANT EXECUTE ON ROUTINE %s TO PUBLIC'
                ELSE 'REVOKE ALL ON ROUTINE %s FROM PUBLIC'
            END,
            oid::regprocedure
        )
        FROM pg_proc
        WHERE proname LIKE 'pgjobs\_%'
            AND pronamespace = quote_ident(current_schema())::regnamespace
    LOOP
        EXECUTE statement;
    END LOOP;
END
$$;
""",
        r"""DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT format(
            CASE
                WHEN proname IN (
                    'pgjobs_is_job', 'pgjobs_holds_key', 'pgjobs_provide',
                    'pgjobs_first_obstacle', 'pgjobs_first_line', 'pgjobs_leave_note',
                    'pgjobs_free_keys', 'pgjobs_replace_held', 'pgjobs_follow_up',
                    'pgjobs_token_beyond', 'pgjobs_enqueued_in', 'pgjobs_cluster',
                    'pgjobs_ends_for_others', 'pgjobs_fault_of_results',
                    'pgjobs_paused_line', 'pgjobs_line', 'pgjobs_changes_flow',
                    'pgjobs_keys_now', 'pgjobs_rate_number'
                )
                    THEN 'GRANT EXECUTE ON ROUTINE %s TO PUBLIC'
                ELSE 'REVOKE ALL ON ROUTINE %s FROM PUBLIC'
            END,
            oid::regprocedure
        )
        FROM pg_proc
        WHERE proname LIKE 'pgjobs\_%'
            AND pronamespace = quote_ident(current_schema())::regnamespace
    LOOP
        EXECUTE statement;
    END LOOP;
END
$$;
""",
    ),
    "function pgjobs_candidates": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_candidates(
    ids bigint[], OUT candidates pgjobs_candidate[], OUT seen bigint[],
    OUT are_linked boolean, OUT are_locked boolean, OUT are_limited boolean,
    OUT are_rated boolean, OUT are_ordinary boolean
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT array_agg(ROW(
            id, queue_name, priority, turn, line, keys ->> 'lock',
            keys ->> 'is_ordered' IS DISTINCT FROM 'false', keys ->> 'limit_key',
            keys -> 'max_running', keys ->> 'rate_key', keys -> 'rate_interval',
            keys -> 'rate_burst', NULL, NULL
        )::pgjobs_candidate),
        array_agg(id),
        bool_or(
            dependencies IS NOT NULL OR keys ?| ARRAY['after', 'after_batches']
        ),
        bool_or(keys ? 'lock'), bool_or(keys ? 'limit_key'), bool_or(keys ? 'rate_key'),
        bool_and(
            process_units IS NULL AND crashes + 1 < max_crashes
            AND (expires_at IS NULL OR attempts > 0)
        )
    INTO candidates, seen, are_linked, are_locked, are_limited, are_rated, are_ordinary
    FROM (
        SELECT id, queue_name, priority, turn, line, keys, dependencies,
            process_units, crashes, max_crashes, expires_at, attempts
        FROM pgjobs_job WHERE id = ANY (ids) AND status = 'WAITING'
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job;
END
$$;
""",
        None,
    ),
    "function pgjobs_heads_by_queue": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_heads_by_queue(lines text[], numbers integer[])
RETURNS TABLE (line text, id bigint, keys jsonb) LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    WITH queue AS MATERIALIZED (
        WITH RECURSIVE hop (line, number, name, hops) AS (
            SELECT wanted.line, wanted.number, (
                SELECT queue_name FROM pgjobs_job AS job
                WHERE job.line = wanted.line
                ORDER BY queue_name LIMIT 1
            ), 1
            FROM unnest(lines, numbers) AS wanted (line, number)
            UNION ALL
            SELECT hop.line, hop.number, (
                SELECT queue_name FROM pgjobs_job AS job
                WHERE job.line = hop.line AND queue_name > hop.name
                ORDER BY queue_name LIMIT 1
            ), hops + 1
            FROM hop WHERE hop.name IS NOT NULL AND hops < 1000
        )
        SELECT hop.line, hop.number, hop.name FROM hop WHERE hop.name IS NOT NULL
    ),
    -- OFFSET 0: the question is asked once for each queue, however many lines it is in.
    served AS MATERIALIZED (
        SELECT each.name FROM (SELECT DISTINCT queue.name FROM queue OFFSET 0) AS each
        WHERE pgjobs_is_served(each.name)
    ),
    ranked AS (
        SELECT queue.line, queue.number, head.id, head.keys, row_number() OVER (
                PARTITION BY queue.line ORDER BY priority DESC, turn
            ) AS place
        FROM queue CROSS JOIN LATERAL (
            SELECT job.id, job.keys, priority, turn FROM pgjobs_job AS job
            WHERE job.line = queue.line AND job.queue_name = queue.name
            ORDER BY priority DESC, turn LIMIT queue.number
        ) AS head
        WHERE queue.name IN (SELECT served.name FROM served)
    )
    SELECT ranked.line, ranked.id, ranked.keys FROM ranked WHERE place <= number;
END
$$;
""",
        None,
    ),
    "function pgjobs_line_of": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_line_of(candidate pgjobs_candidate) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE candidate.obstacle
        WHEN 'lock' THEN pgjobs_line(
            CASE WHEN candidate.is_ordered THEN 'lock' ELSE 'mutex' END,
            candidate.lock
        )
        WHEN 'limit' THEN pgjobs_line('limit', candidate.limit_key)
        WHEN 'rate' THEN pgjobs_line('rate', candidate.rate_key)
        WHEN 'dependency' THEN 'predecessor'
        WHEN 'unserved' THEN 'arrived'
        ELSE candidate.obstacle
    END
$$;
""",
        None,
    ),
    "function pgjobs_next_in_lines": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_next_in_lines(touched jsonb[], most integer)
RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    locks text[];
    limits text[];
    rates jsonb[];
    ids bigint[] := '{}';
BEGIN
    SELECT array_agg(keys ->> 'lock') FILTER (WHERE keys ? 'lock'),
        array_agg(keys ->> 'limit_key') FILTER (WHERE keys ? 'limit_key'),
        array_agg(keys) FILTER (WHERE keys ? 'rate_key')
    INTO locks, limits, rates
    FROM unnest(touched) AS touched (keys);
    IF locks IS NOT NULL THEN
        ids := ids || pgjobs_next_of_locks(locks);
    END IF;
    IF limits IS NOT NULL THEN
        ids := ids || pgjobs_next_of_limits(limits, most);
    END IF;
    IF rates IS NOT NULL THEN
        ids := ids || pgjobs_next_of_rates(rates, most);
    END IF;
    RETURN ids;
END
$$;
""",
        None,
    ),
    "function pgjobs_next_of_limits": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_next_of_limits(limits text[], most integer)
RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    ids bigint[];
    lines text[];
    numbers integer[];
BEGIN
    SELECT array_agg(id) FILTER (WHERE number = 1),
        array_agg(line) FILTER (WHERE number > 1),
        array_agg(number) FILTER (WHERE number > 1)
    INTO ids, lines, numbers
    FROM (
        -- As many as the first job in line allows.
        SELECT first.line, first.id, least(most, allowed - (
                SELECT count(*) FROM (
                    SELECT FROM pgjobs_job AS job
                    WHERE job.keys IS NOT NULL
                        AND job.keys ->> 'limit_key' = first.keys ->> 'limit_key'
                        AND status IN ('READY', 'RUNNING')
                    LIMIT allowed
                ) AS running
            )) AS number
        FROM (
            SELECT array_agg(pgjobs_line('limit', limit_key)) AS lines,
                array_agg(1) AS ones
            FROM (SELECT DISTINCT unnest(limits)) AS touched (limit_key)
        ) AS touched
        CROSS JOIN LATERAL pgjobs_heads(touched.lines, ones) AS first
        CROSS JOIN LATERAL (
            SELECT (first.keys ->> 'max_running')::integer
        ) AS that (allowed)
        OFFSET 0  -- counted once, although it is used several times
    ) AS room;
    IF lines IS NOT NULL THEN
        ids := ids || ARRAY(SELECT id FROM pgjobs_heads(lines, numbers));
    END IF;
    RETURN coalesce(ids, '{}');
END
$$;
""",
        None,
    ),
    "function pgjobs_next_of_locks": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_next_of_locks(locks text[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        WITH free AS MATERIALIZED (
            SELECT lock, is_ordered, line
            FROM (SELECT DISTINCT unnest(locks)) AS touched (lock)
            CROSS JOIN LATERAL (
                VALUES (true, pgjobs_line('lock', lock)),
                    (false, pgjobs_line('mutex', lock))
            ) AS each (is_ordered, line)
            -- OFFSET 0: asked for each lock, so that there is no join with all jobs.
            WHERE EXISTS (
                SELECT FROM pgjobs_job AS job WHERE job.line = each.line OFFSET 0
            ) AND NOT EXISTS (
                SELECT FROM pgjobs_job
                WHERE keys IS NOT NULL AND keys ->> 'lock' = touched.lock
                    AND status IN ('READY', 'RUNNING')
                OFFSET 0
            )
        )
        SELECT first.id
        FROM free CROSS JOIN LATERAL (
            SELECT id, line, queue_name FROM pgjobs_job
            WHERE keys IS NOT NULL
                -- An equation would let the planner walk the primary key.
                AND keys ->> 'lock' BETWEEN free.lock AND free.lock
                AND (keys ->> 'is_ordered') IS DISTINCT FROM 'false'
                AND status IN ('WAITING', 'SCHEDULED')
            ORDER BY keys ->> 'lock', id LIMIT 1
        ) AS first
        WHERE is_ordered AND first.line = free.line
            AND pgjobs_is_served(first.queue_name)
        UNION ALL
        SELECT head.id
        FROM (
            SELECT array_agg(line) AS lines, array_agg(1) AS ones
            FROM free WHERE NOT is_ordered
            HAVING count(*) > 0
        ) AS mutex
        CROSS JOIN LATERAL pgjobs_heads(lines, ones) AS head
    );
END
$$;
""",
        None,
    ),
    "function pgjobs_next_of_rates": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_next_of_rates(rates jsonb[], most integer)
RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT head.id
        FROM (
            SELECT array_agg(pgjobs_line('rate', rate_key)) AS lines,
                array_agg(least(most, burst)) AS bursts
            FROM (
                SELECT keys ->> 'rate_key', max((keys ->> 'rate_burst')::integer)
                FROM unnest(rates) AS touched (keys)
                GROUP BY 1
            ) AS touched (rate_key, burst)
            WHERE (SELECT opens_at FROM pgjobs_rate WHERE key = rate_key)
                > clock_timestamp() IS NOT TRUE
        ) AS touched
        CROSS JOIN LATERAL pgjobs_heads(lines, bursts) AS head
    );
END
$$;
""",
        None,
    ),
    "function pgjobs_note_truncated": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_note_truncated() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    DELETE FROM pgjobs_attempt;
    DELETE FROM pgjobs_progress;
    DELETE FROM pgjobs_step;
    DELETE FROM pgjobs_tick WHERE job_id IS NOT NULL;
    DELETE FROM pgjobs_delivery WHERE job_id IS NOT NULL;
    DELETE FROM pgjobs_predecessor;
    DELETE FROM pgjobs_batch;
    DELETE FROM pgjobs_note;
    DELETE FROM pgjobs_prerequisite;
    RETURN NULL;
END
$$;
""",
        None,
    ),
    "function pgjobs_rate_opens_at": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_rate_opens_at(
    full_at timestamptz, rate_interval double precision, rate_burst integer,
    n bigint, at timestamptz
) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    -- A bucket of `rate_burst` tokens, which gets one back each interval. The time when
    -- it will be full is its whole state (the "generic cell rate algorithm").
    SELECT greatest(full_at, at) + make_interval(secs => (n - rate_burst) * rate_interval)
$$;
""",
        None,
    ),
    "function pgjobs_take_tokens": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_take_tokens(
    candidates pgjobs_candidate[], at timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pgjobs_rate AS rate (key, full_at)
    SELECT rate_key, at + make_interval(secs => sum(rate_interval))
    FROM unnest(candidates)
    WHERE obstacle IS NULL AND rate_key IS NOT NULL
    GROUP BY rate_key
    ON CONFLICT (key) DO UPDATE
        SET full_at = greatest(rate.full_at, at) + (excluded.full_at - at);
END
$$;
""",
        None,
    ),
    "function pgjobs_note_act": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_note_act(act text, job_id bigint, note text)
RETURNS void LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    INSERT INTO pgjobs_auditentry (actor, via, act, model, object_id, number, note)
    VALUES (session_user, 'SQL', act, 'job', job_id, 1, left(coalesce(note, ''), 2000));
$$;
""",
        None,
    ),
    "trigger pgjobs_note_truncated": (
        r"""CREATE OR REPLACE TRIGGER pgjobs_note_truncated
    AFTER TRUNCATE ON pgjobs_job
    FOR EACH STATEMENT EXECUTE FUNCTION pgjobs_note_truncated();
""",
        None,
    ),
}
# What the statements of this release call: its workers run beside those of the next.
CALLS = [
    "pgjobs_admit",
    "pgjobs_cancel_jobs",
    "pgjobs_checked_object",
    "pgjobs_circle_with",
    "pgjobs_continue_as",
    "pgjobs_deliver",
    "pgjobs_deliver_late",
    "pgjobs_end_lives",
    "pgjobs_end_overrides",
    "pgjobs_ends_for_others",
    "pgjobs_find_awaited",
    "pgjobs_first_obstacle",
    "pgjobs_free_keys",
    "pgjobs_halved_call",
    "pgjobs_hold_ready",
    "pgjobs_host_room",
    "pgjobs_is_served",
    "pgjobs_is_waited_for",
    "pgjobs_leave_note",
    "pgjobs_let_go",
    "pgjobs_mark_step",
    "pgjobs_matches",
    "pgjobs_newest",
    "pgjobs_open_waits",
    "pgjobs_pick",
    "pgjobs_provide",
    "pgjobs_publish",
    "pgjobs_put_back_since",
    "pgjobs_rate_aside",
    "pgjobs_record_or_delete",
    "pgjobs_refuse",
    "pgjobs_replace_held",
    "pgjobs_results_of",
    "pgjobs_resume",
    "pgjobs_retry_jobs",
    "pgjobs_retry_keeping",
    "pgjobs_room",
    "pgjobs_store_answer",
    "pgjobs_take_wait",
    "pgjobs_timeline",
    "pgjobs_token_beyond",
    "pgjobs_wake",
]
FILES = {
    "constraints/holds_key.sql": "232a8973b8223d6f171d76530d89df8fa53949a2a9ce6af45332cd05082b5ab0",
    "constraints/is_job.sql": "fd082cb2a8dd301b5ec46b2dc199ddb94ee5dd4cbf1d4e166130d3c535dfbf18",
    "tables/jobs.sql": "d5aa9c87bf0a0f07c9b575a768adde7858e12abf2ca7aaeaa469808e0e3e2f69",
    "tables/admission.sql": "020c642d819f5692aa97a4c7f66ea49dcbe8254c9a273f0394d37d67efd36797",
    "tables/schedules.sql": "44acd465abe0d2c30c2e0e94d980b7044c5b4fe2e7cc0a773009668d5d536472",
    "tables/events.sql": "4f8b70e6115abf540e3a473c6288e5509e48d428bb2b1da29df2bd41d7a0d676",
    "constraints/chunk_key.sql": "4e54c4ca169ff951f56bcabba9c11b6e6eaa5033d317594471c9ed5afdcade7b",
    "tables/workers.sql": "4a510fb097d224b46ef53e089589bd874620c06d5e0e7c97dbc989f004db5b31",
    "tables/durable.sql": "9be46d8471942690b0e4896f1ed0be4515f9530a04a721ac42940ce0d7b93669",
    "tables/without_candidate.sql": "f282105855227e0c26022a91d8b0dcafed67a392db8bacbc7ae1d98fd32321cb",
}


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0004_tables")]

    operations = [InstallSQL(CHANGES, CALLS, FILES)]
