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
    met_undecided := false;
    IF sweeps THEN
        found := pgjobs_sweep(4 * most, after_line, after_link);
        after_line := found.after_line;
        after_link := found.after_link;
        ids := ids || found.followers;
        touched := touched || found.touched;
        ended := ended || found.ended;
        has_more := found.has_more;
        met_undecided := EXISTS (SELECT FROM pgjobs_job WHERE line = 'undecided');
    END IF;
    SELECT EXISTS (SELECT FROM pgjobs_job WHERE line IN ('arrived', 'unlinked')),
        EXISTS (SELECT FROM pgjobs_job WHERE line IN ('recorded', 'left')),
        EXISTS (SELECT FROM pgjobs_note),
        EXISTS (SELECT FROM pgjobs_rate WHERE opens_at <= statement_timestamp())
    INTO some_arrived, may_have_left, some_noted, some_due;
    IF some_arrived THEN
        found := pgjobs_take_arrived(most, after_queue);
        -- Jobs may have arrived in the queues before those that it began with.
        has_more := has_more OR after_queue <> '';
        after_queue := found.after_queue;
        ids := ids || found.ids;
        touched := touched || found.touched;
        ended := ended || found.ended;
        has_more := has_more OR after_queue <> '' OR found.number_unserved >= most;
        is_full := cardinality(found.ids) >= most;
        has_progress := has_progress OR found.has_linked;
    ELSE
        after_queue := '';
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
        r"""CREATE OR REPLACE FUNCTION pgjobs_carry_rates(
    candidates pgjobs_candidate[], at timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE pgjobs_rate
    SET starts = ARRAY[at], counts = ARRAY[greatest(0, least(rate_burst, ceil(
            extract(epoch FROM full_at - at)::float8 / rate_interval
        )))::integer]
    FROM (
        SELECT DISTINCT ON (rate_key) rate_key, rate_interval, rate_burst
        FROM unnest(candidates) WHERE rate_key IS NOT NULL
        ORDER BY rate_key, rate_interval DESC
    ) AS candidate
    -- By its index, also where the planner expects an empty table.
    WHERE key = ANY (ARRAY(
            SELECT candidate.rate_key FROM unnest(candidates) AS candidate
        ))
        AND key = rate_key AND starts IS NULL;
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
    ),
    "function pgjobs_count_claimed": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_count_claimed(candidates pgjobs_candidate[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgjobs_count_starts(array_agg(keys || jsonb_build_object(
        'rate_started_at', extract(epoch FROM clock_timestamp())
    )))
    FROM pgjobs_job
    WHERE id = ANY (ARRAY(
            SELECT id FROM unnest(candidates)
            WHERE obstacle IS NULL AND rate_key IS NOT NULL
        ))
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
        r"""CREATE OR REPLACE FUNCTION pgjobs_expect_tokens(rate_keys text[]) RETURNS void
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
        SELECT array_agg(pgjobs_line('rate', key)) AS lines, array_agg(1) AS ones
        FROM (SELECT DISTINCT unnest(rate_keys)) AS rate (key)
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
RETURNS TABLE (line text, id bigint, keys jsonb, place bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    first record;
    served text[];
    mixed record;  -- lines with jobs that are skipped
BEGIN
    SELECT array_agg(head.line) AS lines, array_agg(head.id) AS ids,
        array_agg(head.keys) AS keys, array_agg(head.queue_name) AS queues,
        array_agg(head.place) AS places
    INTO first
    FROM unnest(lines, numbers) AS wanted (line, number)
    CROSS JOIN LATERAL (
        SELECT job.*, row_number() OVER () AS place
        FROM (
            SELECT job.line, job.id, job.keys, queue_name
            FROM pgjobs_job AS job
            -- The second condition is the index's own.
            WHERE job.line = wanted.line AND job.line LIKE '% %'
            ORDER BY job.line, priority DESC, turn LIMIT number
        ) AS job
    ) AS head;
    served := pgjobs_served_of(first.queues);
    SELECT array_agg(wanted.line) AS lines, array_agg(wanted.number) AS numbers
    INTO mixed
    FROM unnest(lines, numbers) AS wanted (line, number)
    WHERE wanted.line = 'arrived' OR wanted.line = ANY (ARRAY(
        SELECT head.line FROM unnest(first.lines, first.queues) AS head (line, name)
        WHERE NOT name = ANY (served)
    ));
    RETURN QUERY
    SELECT head.line, head.id, head.keys, head.place
    FROM unnest(first.lines, first.ids, first.keys, first.places)
        AS head (line, id, keys, place)
    WHERE head.line = ANY (mixed.lines) IS NOT TRUE;
    IF mixed.lines IS NOT NULL THEN
        RETURN QUERY SELECT * FROM pgjobs_heads_by_queue(mixed.lines, mixed.numbers);
    END IF;
END
$$;
""",
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
        r"""CREATE OR REPLACE FUNCTION pgjobs_heads_by_queue(lines text[], numbers integer[])
RETURNS TABLE (line text, id bigint, keys jsonb, place bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    WITH queue AS MATERIALIZED (
        WITH RECURSIVE hop (line, number, name) AS (
            SELECT wanted.line, wanted.number, (
                SELECT queue_name FROM pgjobs_job AS job
                WHERE job.line = wanted.line
                ORDER BY queue_name LIMIT 1
            )
            FROM unnest(lines, numbers) AS wanted (line, number)
            UNION ALL
            SELECT hop.line, hop.number, (
                SELECT queue_name FROM pgjobs_job AS job
                WHERE job.line = hop.line AND queue_name > hop.name
                ORDER BY queue_name LIMIT 1
            )
            FROM hop WHERE hop.name IS NOT NULL
        )
        SELECT hop.line, hop.number, hop.name FROM hop WHERE hop.name IS NOT NULL
    ),
    -- The question is asked once for each queue, however many lines it is in.
    served AS MATERIALIZED (
        SELECT unnest(pgjobs_served_of(ARRAY(SELECT queue.name FROM queue))) AS name
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
    SELECT ranked.line, ranked.id, ranked.keys, ranked.place FROM ranked
    WHERE ranked.place <= ranked.number;
END
$$;
""",
    ),
    "function pgjobs_heads_of_rates": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_heads_of_rates(
    rate_keys text[], candidates pgjobs_candidate[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    lines text[];
    numbers integer[];
    found bigint[];
BEGIN
    SELECT array_agg(pgjobs_line('rate', key)), array_agg(1)
    INTO lines, numbers FROM unnest(rate_keys) AS key;
    found := ARRAY(
        SELECT head.id FROM pgjobs_heads(lines, numbers) AS head
        WHERE NOT head.id IN (SELECT candidate.id FROM unnest(candidates) AS candidate)
    );
    IF found = '{}' THEN
        RETURN found;
    END IF;
    RETURN ARRAY(
        SELECT id FROM pgjobs_job WHERE id = ANY (found) AND status = 'WAITING'
        FOR NO KEY UPDATE SKIP LOCKED
    );
END
$$;
""",
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
        WHEN 'unserved' THEN pgjobs_line('unserved', candidate.queue_name)
        ELSE candidate.obstacle
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
    INOUT candidates pgjobs_candidate[], OUT touched jsonb[]
) LANGUAGE plpgsql AS $$
DECLARE
    lines text[];
    heads pgjobs_candidate[] := '{}';  -- the first in line, without ids
BEGIN
    -- Mostly there is no line. To ask for it costs less than to look for its first job.
    SELECT array_agg(name) INTO lines
    FROM (
        SELECT DISTINCT pgjobs_line('limit', limit_key) FROM unnest(candidates)
        WHERE obstacle IS NULL AND line IS DISTINCT FROM pgjobs_line('limit', limit_key)
    ) AS joined (name)
    WHERE EXISTS (SELECT FROM pgjobs_job WHERE line = name OFFSET 0);
    IF lines IS NOT NULL THEN
        heads := ARRAY(
            SELECT ROW(
                NULL, NULL, priority, turn, NULL, NULL, NULL, keys ->> 'limit_key',
                NULL, NULL, NULL, NULL, NULL, NULL
            )::pgjobs_candidate
            FROM pgjobs_heads(lines, array_fill(1, ARRAY[cardinality(lines)])) AS head
            CROSS JOIN LATERAL (
                SELECT priority, turn FROM pgjobs_job WHERE id = head.id OFFSET 0
            ) AS job
        );
    END IF;
    SELECT array_agg(ROW(
            id, queue_name, priority, turn, line, lock, is_ordered, limit_key,
            max_running, rate_key, rate_interval, rate_burst,
            CASE WHEN is_full OR is_held_up THEN 'limit' ELSE obstacle END,
            blocker
        )::pgjobs_candidate),
        coalesce(
            array_agg(jsonb_build_object('limit_key', limit_key)) FILTER (
                WHERE NOT is_full AND (is_behind OR running + number > first_allows)
            ),
            '{}'
        )
    INTO candidates, touched
    FROM (
        SELECT *, bool_or(is_behind) OVER same_limit AS is_held_up,
            coalesce(bool_or(running + number > max_running) OVER same_limit, false)
                AS is_full
        FROM (
            SELECT *,
                coalesce(
                    obstacle IS NULL AND number_of_heads > 0
                        AND line <> pgjobs_line('limit', limit_key),
                    false
                ) AS is_behind,
                max(
                    CASE
                        WHEN number = 1 AND id IS NOT NULL
                            AND obstacle IS NULL AND limit_key IS NOT NULL
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
                ) OVER same_limit AS running,
                max(CASE WHEN number = 1 AND obstacle IS NULL THEN max_running END)
                    OVER same_limit AS first_allows
            FROM (
                SELECT *, count(id) OVER same_limit AS number,
                    count(*) FILTER (WHERE id IS NULL) OVER same_limit
                        AS number_of_heads
                FROM unnest(candidates || heads)
                WINDOW same_limit AS (
                    PARTITION BY obstacle IS NULL, limit_key
                    ORDER BY priority DESC, turn, id
                )
            ) AS placed
            WINDOW same_limit AS (
                PARTITION BY obstacle IS NULL, limit_key
                ORDER BY priority DESC, turn, id
            )
        ) AS counted
        WINDOW same_limit AS (
            PARTITION BY obstacle IS NULL, limit_key
            ORDER BY priority DESC, turn, id
        )
    ) AS met
    WHERE id IS NOT NULL;
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
    candidates pgjobs_candidate[], at timestamptz
) RETURNS pgjobs_candidate[] LANGUAGE plpgsql AS $$
DECLARE
    rate_keys text[];
    heads bigint[];
BEGIN
    SELECT array_agg(DISTINCT rate_key) INTO rate_keys
    FROM unnest(candidates) WHERE obstacle IS NULL AND rate_key IS NOT NULL;
    PERFORM pgjobs_carry_rates(candidates, at);
    heads := pgjobs_heads_of_rates(rate_keys, candidates);
    RETURN ARRAY(
        WITH state AS MATERIALIZED (
            SELECT * FROM pgjobs_rate_states(rate_keys, 2147483647)
        ),
        head AS MATERIALIZED (
            SELECT DISTINCT ON (keys ->> 'rate_key')
                keys ->> 'rate_key' AS key, priority, turn
            FROM pgjobs_job WHERE id = ANY (heads)
            ORDER BY keys ->> 'rate_key', priority DESC, turn
        ),
        placed AS (
            SELECT candidate.*, row_number() OVER same_rate AS place, (
                    SELECT pgjobs_rate_number(keys) FROM pgjobs_job AS job
                    WHERE job.id = candidate.id
                ) AS number
            FROM unnest(candidates) AS candidate
            WINDOW same_rate AS (
                PARTITION BY obstacle IS NULL, rate_key ORDER BY priority DESC, turn
            )
        )
        SELECT ROW(
            id, queue_name, placed.priority, placed.turn, line, lock, is_ordered,
            limit_key, max_running, rate_key, rate_interval, rate_burst,
            CASE
                WHEN obstacle IS NULL AND bool_or(
                    (head.priority, -head.turn) > (placed.priority, -placed.turn)
                    OR pgjobs_rate_opens(
                        starts, counts, even_at, number, number * rate_interval,
                        rate_burst,
                        taken + place, at
                    ) > at
                ) OVER same_rate THEN 'rate'
                ELSE obstacle
            END,
            blocker
        )::pgjobs_candidate
        FROM placed
        LEFT JOIN state ON obstacle IS NULL AND state.key = rate_key
        LEFT JOIN head ON obstacle IS NULL AND head.key = rate_key
        WINDOW same_rate AS (
            PARTITION BY obstacle IS NULL, rate_key
            ORDER BY placed.priority DESC, placed.turn
        )
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
        SELECT line, id, CASE
                WHEN allowed - running = 1 AND next_allowed > allowed THEN 2
                WHEN allowed - running > 1 THEN least(most, allowed - running + 1)
                ELSE allowed - running
            END AS number
        FROM (
            SELECT array_agg(pgjobs_line('limit', limit_key)) AS lines,
                array_agg(2) AS twos
            FROM (SELECT DISTINCT unnest(limits)) AS touched (limit_key)
        ) AS touched
        CROSS JOIN LATERAL (
            SELECT line, id, place, keys ->> 'limit_key' AS key,
                (keys ->> 'max_running')::integer AS allowed,
                lead((keys ->> 'max_running')::integer)
                    OVER (PARTITION BY line ORDER BY place) AS next_allowed
            FROM pgjobs_heads(touched.lines, twos)
        ) AS first
        CROSS JOIN LATERAL (
            SELECT count(*)::integer FROM (
                SELECT FROM pgjobs_job
                WHERE keys IS NOT NULL AND keys ->> 'limit_key' = first.key
                    AND status IN ('READY', 'RUNNING')
                LIMIT allowed
            ) AS place
            OFFSET 0
        ) AS counted (running)
        WHERE place = 1
        OFFSET 0  -- counted once, although it is used several times
    ) AS room;
    IF lines IS NOT NULL THEN
        ids := ids || ARRAY(SELECT id FROM pgjobs_heads(lines, numbers));
    END IF;
    RETURN coalesce(ids, '{}');
END
$$;
""",
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
        r"""CREATE OR REPLACE FUNCTION pgjobs_next_of_rates(rates jsonb[], most integer)
RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    at timestamptz := clock_timestamp();
    ids bigint[];
    lines text[];
    numbers integer[];
BEGIN
    SELECT array_agg(id) FILTER (
            WHERE next_at > at
                AND (opens_at <= next_at + interval '1 ms') IS NOT TRUE
        ),
        array_agg(line) FILTER (WHERE next_at <= at),
        array_agg(least(most, number, burst)) FILTER (WHERE next_at <= at)
    INTO ids, lines, numbers
    FROM (
        SELECT head.id, head.line, number, burst, state.opens_at, pgjobs_rate_opens(
                starts, counts, even_at, number,
                number * (head.keys -> 'rate_interval')::float8,
                burst, taken + 1, at
            ) AS next_at
        FROM (
            SELECT array_agg(pgjobs_line('rate', rate_key)) AS lines,
                array_agg(1) AS ones
            FROM (
                SELECT DISTINCT keys ->> 'rate_key' FROM unnest(rates) AS touched (keys)
            ) AS touched (rate_key)
        ) AS touched
        CROSS JOIN LATERAL pgjobs_heads(touched.lines, ones) AS head
        CROSS JOIN LATERAL (
            SELECT pgjobs_rate_number(head.keys) AS number,
                (head.keys -> 'rate_burst')::integer AS burst
            OFFSET 0
        ) AS own
        CROSS JOIN LATERAL pgjobs_rate_states(
            ARRAY[head.keys ->> 'rate_key'], 2147483647
        ) AS state
        OFFSET 0  -- computed once, although it is used several times
    ) AS first;
    IF lines IS NOT NULL THEN
        ids := ids || ARRAY(SELECT id FROM pgjobs_heads(lines, numbers));
    END IF;
    RETURN coalesce(ids, '{}');
END
$$;
""",
    ),
    "function pgjobs_note_started": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_note_started() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF NOT has_table_privilege('pgjobs_note', 'INSERT') THEN
        RETURN NULL;
    END IF;
    INSERT INTO pgjobs_note (keys) VALUES (jsonb_build_object(
        'rate_key', NEW.keys -> 'rate_key',
        'rate_interval', NEW.keys -> 'rate_interval',
        'rate_burst', NEW.keys -> 'rate_burst',
        'rate_number', NEW.keys -> 'rate_number',
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
    -- It was admitted and has not started: its place is free again.
    IF OLD.status = 'READY' AND NEW.status <> 'READY' AND OLD.keys ? 'rate_key' THEN
        PERFORM pgjobs_leave_note(NULL, jsonb_build_object(
            'rate_key', OLD.keys -> 'rate_key'
        ));
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
        ) + coalesce(noted.number, 0)
    FROM unnest(rate_keys) AS wanted (key)
    LEFT JOIN LATERAL (
        SELECT * FROM pgjobs_rate WHERE pgjobs_rate.key = wanted.key
        OFFSET 0  -- by its index, also where the planner expects an empty table
    ) AS rate ON true
    LEFT JOIN (
        SELECT note.keys ->> 'rate_key' AS key, count(*) AS number
        FROM pgjobs_note AS note WHERE note.keys ? 'rate_started_at'
        GROUP BY 1
    ) AS noted ON noted.key = wanted.key
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
    OUT touched jsonb[], OUT followers bigint[], OUT ended bigint[], OUT has_more boolean
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
    most integer, INOUT after_queue text, OUT ids bigint[], OUT touched jsonb[],
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
    OUT touched jsonb[], OUT followers bigint[], OUT ended bigint[]
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
    INTO number, ids, batches, starts, touched FROM note;
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
                        AND queues = '' AND excluded = ''
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
            OR NEW.lease_token < OLD.lease_token
            OR OLD.finished_at IS NOT NULL AND NEW.status <> OLD.status
            AND (OLD.status, NEW.status) <> ('CANCELLED', 'WAITING')
        )
    )
    EXECUTE FUNCTION pgjobs_undone();
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
                    'pgjobs_token_beyond'
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
}
# What the statements of this release call: its workers run beside those of the next.
CALLS = [
    "pgjobs_admit",
    "pgjobs_cancel_jobs",
    "pgjobs_deliver",
    "pgjobs_deliver_late",
    "pgjobs_free_keys",
    "pgjobs_host_room",
    "pgjobs_is_served",
    "pgjobs_leave_note",
    "pgjobs_matches",
    "pgjobs_pick",
    "pgjobs_provide",
    "pgjobs_publish",
    "pgjobs_refuse",
    "pgjobs_replace_held",
    "pgjobs_retry_jobs",
    "pgjobs_room",
    "pgjobs_timeline",
    "pgjobs_token_beyond",
]
FILES = {
    "constraints/holds_key.sql": "232a8973b8223d6f171d76530d89df8fa53949a2a9ce6af45332cd05082b5ab0",
    "constraints/is_job.sql": "fd082cb2a8dd301b5ec46b2dc199ddb94ee5dd4cbf1d4e166130d3c535dfbf18",
    "tables/jobs.sql": "d5aa9c87bf0a0f07c9b575a768adde7858e12abf2ca7aaeaa469808e0e3e2f69",
    "tables/admission.sql": "020c642d819f5692aa97a4c7f66ea49dcbe8254c9a273f0394d37d67efd36797",
    "tables/schedules.sql": "44acd465abe0d2c30c2e0e94d980b7044c5b4fe2e7cc0a773009668d5d536472",
    "tables/events.sql": "4f8b70e6115abf540e3a473c6288e5509e48d428bb2b1da29df2bd41d7a0d676",
    "tables/workers.sql": "eeaa1ffcc4e909686cbb359d2d6441e4bb188449e7626c6f353a42718a64d8b0",
}


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0004_tables")]

    operations = [InstallSQL(CHANGES, CALLS, FILES)]
