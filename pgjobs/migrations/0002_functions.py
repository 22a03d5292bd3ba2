"""What changed in the functions of the database; freeze.py wrote it."""

from django.db import migrations

from pgjobs.database.install import InstallSQL

CHANGES = {
    "function pgjobs_admit": (
        None,
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
    ),
    "function pgjobs_candidates": (
        None,
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
    ),
    "function pgjobs_claim_admitted": (
        None,
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
    ),
    "function pgjobs_decide": (
        None,
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
    ),
    "function pgjobs_expect_tokens": (
        None,
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
    ),
    "function pgjobs_first_line": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_first_line(keys jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN keys ?| ARRAY['after', 'after_batches'] THEN 'unlinked'
        ELSE 'arrived'
    END
$$;
""",
    ),
    "function pgjobs_first_obstacle": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_first_obstacle(keys jsonb, dependencies jsonb)
RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE
        WHEN keys ?| ARRAY['after', 'after_batches'] THEN 'predecessor'
        WHEN dependencies -> 'needs' <> '[]' THEN 'dependency'
        WHEN keys ? 'lock' THEN 'lock'
        WHEN keys ? 'limit_key' THEN 'limit'
        WHEN keys ? 'rate_key' THEN 'rate'
    END;
END
$$;
""",
    ),
    "function pgjobs_heads": (
        None,
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
    ),
    "function pgjobs_heads_by_queue": (
        None,
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
    ),
    "function pgjobs_leave_note": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_leave_note(job_id bigint, keys jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF has_table_privilege('pgjobs_note', 'INSERT') THEN
        INSERT INTO pgjobs_note (job_id, keys) VALUES (job_id, keys);
    END IF;
    PERFORM pg_notify('pgjobs_admission', '');
END
$$;
""",
    ),
    "function pgjobs_left_free": (
        None,
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
    ),
    "function pgjobs_line": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_line(kind text, key text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    -- An entry of an index may not be larger.
    SELECT kind || ' ' || CASE
        WHEN octet_length(key) <= 500 THEN key ELSE 'md5 ' || md5(key)
    END
$$;
""",
    ),
    "function pgjobs_line_of": (
        None,
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
    ),
    "function pgjobs_meet_limits": (
        None,
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
    ),
    "function pgjobs_meet_links": (
        None,
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
    ),
    "function pgjobs_meet_locks": (
        None,
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
    ),
    "function pgjobs_meet_rates": (
        None,
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
    ),
    "function pgjobs_move": (
        None,
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
    ),
    "function pgjobs_next_behind": (
        None,
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
    ),
    "function pgjobs_next_in_lines": (
        None,
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
    ),
    "function pgjobs_next_of_limits": (
        None,
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
    ),
    "function pgjobs_next_of_locks": (
        None,
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
    ),
    "function pgjobs_next_of_rates": (
        None,
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
    ),
    "function pgjobs_note_changed": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_note_changed() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pgjobs_leave_note(NULL, OLD.keys);
    RETURN NULL;
END
$$;
""",
    ),
    "function pgjobs_note_deleted": (
        None,
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
    ),
    "function pgjobs_note_truncated": (
        None,
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
    ),
    "function pgjobs_note_unseen": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_note_unseen(ids bigint[], seen bigint[])
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    number integer;
BEGIN
    INSERT INTO pgjobs_note (keys)
    SELECT DISTINCT CASE line WHEN 'arrived' THEN '{}' ELSE coalesce(keys, '{}') END
    FROM pgjobs_job
    WHERE id = ANY (ids) AND NOT id = ANY (seen) AND status = 'WAITING';
    GET DIAGNOSTICS number = ROW_COUNT;
    RETURN number;
END
$$;
""",
    ),
    "function pgjobs_notify_admitted": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_notify_admitted(
    admitted_to text[], room integer, served text[], excluded text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('pgjobs', queue)
    FROM (SELECT DISTINCT unnest(admitted_to)) AS name (queue)
    WHERE cardinality(admitted_to) > room
        OR NOT coalesce(queue = ANY (served), true)
        OR queue = ANY (excluded);
END
$$;
""",
    ),
    "function pgjobs_queue_changed": (
        None,
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
    ),
    "function pgjobs_queue_inserted": (
        None,
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
    ),
    "function pgjobs_rate_opens_at": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_rate_opens_at(
    full_at timestamptz, rate_interval double precision, rate_burst integer,
    n bigint, at timestamptz
) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    -- A bucket of `rate_burst` tokens, which gets one back each interval. The time when
    -- it will be full is its whole state (the "generic cell rate algorithm").
    SELECT greatest(full_at, at) + make_interval(secs => (n - rate_burst) * rate_interval)
$$;
""",
    ),
    "function pgjobs_record": (
        None,
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
    ),
    "function pgjobs_sweep": (
        None,
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
    ),
    "function pgjobs_take_arrived": (
        None,
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
    ),
    "function pgjobs_take_due_rates": (
        None,
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
    ),
    "function pgjobs_take_left": (
        None,
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
    ),
    "function pgjobs_take_notes": (
        None,
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
    ),
    "function pgjobs_take_tokens": (
        None,
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
    ),
    "function pgjobs_cancel": (
        None,
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
    ),
    "function pgjobs_check_meta": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_check_meta(meta jsonb)
RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF jsonb_typeof(meta) <> 'object' OR octet_length(meta::text) > 4000 THEN
        RAISE EXCEPTION 'meta must be a JSON object of no more than 4000 bytes.'
            USING ERRCODE = '22023', COLUMN = 'meta',
                HINT = 'It says where a job comes from: {"correlation_id": "a1"}. '
                    'Data belong into the arguments.';
    END IF;
END
$$;
""",
    ),
    "function pgjobs_check_options": (
        None,
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
    ),
    "function pgjobs_enqueue": (
        None,
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
    ),
    "function pgjobs_insert": (
        None,
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
    ),
    "function pgjobs_insert_job": (
        None,
        r"""CREATE OR REPLACE PROCEDURE pgjobs_insert_job(
    type_key text, task_key text, priority integer, arguments json
) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pgjobs_enqueue(
        type_key || '.' || task_key, arguments::jsonb, priority => priority
    );
END
$$;
""",
    ),
    "function pgjobs_job_status": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_job_status(id bigint) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN status FROM pgjobs_job AS job WHERE job.id = pgjobs_job_status.id;
END
$$;
""",
    ),
    "function pgjobs_note_act": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_note_act(act text, job_id bigint, note text)
RETURNS void LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    INSERT INTO pgjobs_auditentry (actor, via, act, model, object_id, number, note)
    VALUES (session_user, 'SQL', act, 'job', job_id, 1, left(coalesce(note, ''), 2000));
$$;
""",
    ),
    "function pgjobs_retry": (
        None,
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
    ),
    "function pgjobs_checked": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_checked(
    schema jsonb, value jsonb, OUT stored jsonb, OUT fault text
) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    kind text := jsonb_typeof(value);
    item text := NULL;  -- which kind of value it should be
BEGIN
    IF schema ? 'x-checked-by' THEN  -- Python checks it when the job runs
        stored := value;
        IF NOT schema -> 'x-types' ? kind THEN
            fault := 'input should be of the JSON type ' || (
                SELECT string_agg(each, ' or ')
                FROM jsonb_array_elements_text(schema -> 'x-types') AS item (each)
            );
        END IF;
    ELSIF schema ? 'enum' THEN
        stored := pgjobs_choice(schema -> 'enum', value);
        IF stored IS NULL THEN
            fault := 'input should be ' || pgjobs_listed(schema -> 'enum');
        END IF;
    ELSIF schema ->> 'format' = 'decimal' THEN
        stored := pgjobs_decimal(value);
        IF stored IS NULL THEN
            fault := 'input should be a valid decimal';
        END IF;
    ELSIF schema ? 'anyOf' THEN
        SELECT * INTO stored, fault
        FROM pgjobs_checked_by_any(schema -> 'anyOf', value);
        RETURN;  -- its faults say what they got
    ELSE
        CASE schema ->> 'type'
        WHEN 'integer' THEN
            stored := value;
            IF kind <> 'number' OR scale(value::numeric) > 0 THEN
                fault := 'input should be a valid integer';
            END IF;
        WHEN 'string' THEN
            stored := value;
            IF kind <> 'string' THEN
                item := 'string';
            ELSIF schema ? 'format' THEN
                SELECT * INTO stored, fault
                FROM pgjobs_formatted(schema ->> 'format', value #>> '{}');
            END IF;
        WHEN 'boolean' THEN
            stored := value;
            IF kind <> 'boolean' THEN
                item := 'boolean';
            END IF;
        WHEN 'number' THEN
            IF kind <> 'number' THEN
                item := 'number';
            ELSIF NOT pgjobs_fits_float(value::numeric) THEN
                fault := 'inf is not JSON';
            ELSE  -- with a decimal place, by which it is a float
                stored := to_jsonb(
                    CASE
                        WHEN length(value::text) <= 15 THEN value::numeric
                        ELSE pgjobs_float_text(value::numeric)::numeric
                    END + 0.0
                );
            END IF;
        WHEN 'null' THEN
            stored := value;
            IF kind <> 'null' THEN
                fault := 'input should be null';
            END IF;
        WHEN 'array' THEN
            IF kind <> 'array' THEN
                item := 'array';
            ELSE
                SELECT * INTO stored, fault
                FROM pgjobs_checked_array(schema, value);
            END IF;
        WHEN 'object' THEN
            IF kind <> 'object' THEN
                fault := 'input should be an object';
            ELSE
                SELECT checked.stored, (
                    SELECT string_agg(
                        format('[''%s''] ', name) || replace(
                            each, 'is no parameter of this task',
                            'extra inputs are not permitted'
                        ), '; '
                    )
                    FROM unnest(checked.names, checked.faults) AS found (name, each)
                )
                INTO stored, fault
                FROM pgjobs_checked_object(schema, value) AS checked;
            END IF;
        ELSE
            stored := value;
        END CASE;
        IF item IS NOT NULL THEN
            fault := 'input should be a valid ' || item;
        ELSIF fault IS NULL AND schema ?| ARRAY[
            'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum',
            'minLength', 'maxLength', 'minItems', 'maxItems'
        ] THEN
            fault := pgjobs_limit_fault(schema, stored);
        END IF;
    END IF;
    IF fault IS NOT NULL AND left(fault, 1) <> '[' THEN
        fault := fault || ', got ' || pgjobs_shortened(value);
    END IF;
END
$$;
""",
    ),
    "function pgjobs_checked_arguments": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_checked_arguments(
    definition pgjobs_taskdefinition, arguments jsonb
) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    most CONSTANT integer := definition.options -> 'max_argument_bytes';
    checked record := pgjobs_checked_object(definition.parameters, arguments);
    faulty text[] := checked.names;
    faults text[] := ARRAY(
        SELECT name || ': ' || fault
        FROM unnest(checked.names, checked.faults) AS found (name, fault)
    );
    size integer;
BEGIN
    IF faulty IS NULL THEN
        SELECT array_agg(key), array_agg(key || ': ' || fault) INTO faulty, faults
        FROM jsonb_each(checked.stored) AS each
        CROSS JOIN LATERAL pgjobs_json_fault(each.value, 0) AS fault
        WHERE jsonb_typeof(each.value) NOT IN ('string', 'boolean', 'null')
            AND fault IS NOT NULL;
    END IF;
    IF faulty IS NULL THEN
        size := pgjobs_json_size(checked.stored, most - 2) + 2;
        IF size <= most THEN
            RETURN checked.stored;
        END IF;
        faulty := ARRAY['arguments'];
        faults := ARRAY[format(
            'arguments: are %s bytes of JSON, more than the %s that '
            'PGJOBS[''MAX_ARGUMENT_BYTES''] allows', size, most
        )];
    END IF;
    RAISE EXCEPTION 'Invalid arguments for %: %.', definition.name,
        array_to_string(faults, '; ')
        USING ERRCODE = '22023', COLUMN = faulty[1],
            HINT = pgjobs_usage(definition.parameters);
END
$$;
""",
    ),
    "function pgjobs_checked_array": (
        None,
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
    ),
    "function pgjobs_checked_by_any": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_checked_by_any(
    schemas jsonb, value jsonb, OUT stored jsonb, OUT fault text
) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    schema jsonb;
    faults text[];
BEGIN
    FOR schema IN SELECT * FROM jsonb_array_elements(schemas) LOOP
        SELECT * INTO stored, fault FROM pgjobs_checked(schema, value);
        IF fault IS NULL THEN
            RETURN;
        ELSIF schema ->> 'type' IS DISTINCT FROM 'null' THEN
            faults := faults || fault;
        END IF;
    END LOOP;
    fault := array_to_string(faults, '; ');
END
$$;
""",
    ),
    "function pgjobs_checked_member": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_checked_member(
    schema jsonb, value jsonb, is_required boolean, OUT stored jsonb, OUT fault text
) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF value IS NULL THEN
        stored := schema -> 'default';
        IF stored IS NULL AND is_required THEN
            fault := 'is missing';
        END IF;
    ELSIF schema = 'false' THEN
        fault := 'is no parameter of this task';
    ELSE
        SELECT * INTO stored, fault FROM pgjobs_checked(schema, value);
    END IF;
END
$$;
""",
    ),
    "function pgjobs_checked_object": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_checked_object(
    schema jsonb, value jsonb, OUT stored jsonb, OUT names text[], OUT faults text[]
) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    SELECT coalesce(
            jsonb_object_agg(name, checked.stored) FILTER (
                WHERE checked.stored IS NOT NULL
            ),
            '{}'
        ),
        array_agg(name) FILTER (WHERE checked.fault IS NOT NULL),
        array_agg(checked.fault) FILTER (WHERE checked.fault IS NOT NULL)
    INTO stored, names, faults
    FROM (
        SELECT property.key, property.value,
            pgjobs_checked_object.value -> property.key,
            coalesce(schema -> 'required' ? property.key, false)
        FROM jsonb_each(schema -> 'properties') AS property
        UNION ALL
        SELECT other.key, coalesce(schema -> 'additionalProperties', '{}'),
            other.value, false
        FROM jsonb_each(pgjobs_checked_object.value) AS other
        WHERE NOT coalesce(schema -> 'properties' ? other.key, false)
            AND NOT schema ? 'x-others'  -- they are dropped
    ) AS member (name, rule, given, is_required)
    CROSS JOIN LATERAL pgjobs_checked_member(
        rule, given, is_required
    ) AS checked;
END
$$;
""",
    ),
    "function pgjobs_choice": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_choice(choices jsonb, value jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    numbers CONSTANT jsonb := '{"true": 1, "false": 0}';
BEGIN
    IF jsonb_typeof(value) IN ('string', 'null') THEN
        RETURN CASE WHEN choices @> jsonb_build_array(value) THEN value END;
    END IF;
    RETURN choice FROM jsonb_array_elements(choices) AS item (choice)
    WHERE coalesce(numbers -> choice::text, choice)
        = coalesce(numbers -> value::text, value)
    LIMIT 1;
END
$$;
""",
    ),
    "function pgjobs_date": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_date(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    part text[] := regexp_match(value, '^([0-9]{4})-([0-9]{2})-([0-9]{2})$');
BEGIN
    RETURN CASE
        WHEN pgjobs_is_date(part[1]::int, part[2]::int, part[3]::int) THEN value
    END;
END
$$;
""",
    ),
    "function pgjobs_date_time": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_date_time(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    part text[] := regexp_match(
        value,
        '^([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt _]'
        '([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?'
        '(?:([Zz])|([-+])([0-9]{2}):?([0-9]{2}))?$'
    );
    fraction text;
BEGIN
    IF part IS NULL
        OR NOT pgjobs_is_date(part[1]::int, part[2]::int, part[3]::int)
        OR part[4] > '23' OR part[5] > '59' OR part[6] > '59'
        OR part[10] > '23' OR part[11] > '59'
    THEN
        RETURN NULL;
    END IF;
    fraction := rpad(left(part[7], 6), 6, '0');
    RETURN format(
        '%s-%s-%sT%s:%s:%s', part[1], part[2], part[3], part[4], part[5],
        coalesce(part[6], '00')
    ) || CASE WHEN fraction <> '000000' THEN '.' || fraction ELSE '' END
    || CASE
        WHEN part[8] IS NOT NULL OR part[10] || part[11] = '0000' THEN 'Z'
        WHEN part[9] IS NULL THEN ''
        ELSE part[9] || part[10] || ':' || part[11]
    END;
END
$$;
""",
    ),
    "function pgjobs_decimal": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_decimal(value jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    digits text := value #>> '{}';
BEGIN
    IF jsonb_typeof(value) = 'number' THEN
        RETURN pgjobs_decimal_number(value::numeric);
    ELSIF jsonb_typeof(value) <> 'string' OR digits !~*
        '^ *[-+]?([0-9][0-9_]*([.][0-9_]*)?|[.][0-9][0-9_]*)(e[-+]?[0-9]+)? *$'
    THEN
        RETURN NULL;
    ELSIF digits ~* '[e_]' OR digits ~ '^ *-[0.]+ *$|[.]0{6}' THEN
        RETURN value;
    END IF;
    RETURN to_jsonb((btrim(digits)::numeric)::text);
END
$$;
""",
    ),
    "function pgjobs_decimal_number": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_decimal_number(number numeric) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF scale(number) = 0 THEN
        RETURN to_jsonb(number::text);
    ELSIF NOT pgjobs_fits_float(number) THEN
        RETURN NULL;
    ELSIF number <> 0 AND abs(number) < 0.000001 THEN
        RETURN to_jsonb(replace(upper(pgjobs_float_text(number)), 'E-0', 'E-'));
    END IF;
    RETURN to_jsonb(trim_scale(pgjobs_float_text(number)::numeric)::text);
END
$$;
""",
    ),
    "function pgjobs_expanded": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_expanded(
    definition pgjobs_taskdefinition, arguments jsonb
) RETURNS jsonb[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    all_values CONSTANT jsonb := definition.options -> 'write_all';
    expanded jsonb[];
    number numeric := 1;
    name text;
BEGIN
    FOR name IN
        SELECT * FROM jsonb_array_elements_text(definition.parameters -> 'x-order')
    LOOP
        CONTINUE WHEN NOT all_values ? name
            OR arguments -> name IS DISTINCT FROM '"ALL"';
        number := number * jsonb_array_length(all_values -> name);
        IF number > 10000 THEN
            RAISE EXCEPTION 'Invalid arguments for %: ALL: would be more than 10000 '
                'jobs at once.', definition.name
                USING ERRCODE = '22023', COLUMN = name;
        END IF;
        expanded := ARRAY(
            SELECT one || jsonb_build_object(name, choice)
            FROM unnest(coalesce(expanded, ARRAY[arguments]))
                WITH ORDINALITY AS job (one, place)
            CROSS JOIN jsonb_array_elements(all_values -> name)
                WITH ORDINALITY AS value (choice, position)
            ORDER BY place, position
        );
    END LOOP;
    RETURN expanded;
END
$$;
""",
    ),
    "function pgjobs_fits_float": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_fits_float(number numeric) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN abs(number) < 1.797693134862315807e308;
END
$$;
""",
    ),
    "function pgjobs_float_text": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_float_text(number numeric) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET extra_float_digits = 1 AS $$
DECLARE
    digits text := number::float8::text;
BEGIN
    IF digits ~ 'e[+]15$' THEN  -- Python begins with exponents at 16
        digits := digits::numeric::text;
    END IF;
    RETURN digits || CASE WHEN digits ~ '[.e]' THEN '' ELSE '.0' END;
END
$$;
""",
    ),
    "function pgjobs_formatted": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_formatted(
    format text, value text, OUT stored jsonb, OUT fault text
) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    CASE format
    WHEN 'date' THEN
        stored := to_jsonb(pgjobs_date(value));
        fault := 'input should be a valid date in the format YYYY-MM-DD';
    WHEN 'date-time' THEN
        stored := to_jsonb(pgjobs_date_time(value));
        fault := 'input should be a valid datetime';
    WHEN 'time' THEN
        stored := to_jsonb(pgjobs_time(value));
        fault := 'input should be in a valid time format';
    WHEN 'uuid' THEN
        stored := to_jsonb(pgjobs_uuid(value));
        fault := 'input should be a valid UUID';
    END CASE;
    IF stored IS NOT NULL THEN
        fault := NULL;
    END IF;
END
$$;
""",
    ),
    "function pgjobs_is_date": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_is_date(year integer, month integer, day integer)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF year < 1 OR month NOT BETWEEN 1 AND 12 OR day NOT BETWEEN 1 AND 31 THEN
        RETURN false;
    END IF;
    RETURN day <= extract(
        day FROM make_date(year, month, 1) + interval '1 month - 1 day'
    );
END
$$;
""",
    ),
    "function pgjobs_json_fault": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_json_fault(value jsonb, depth integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    kind text := jsonb_typeof(value);
BEGIN
    IF kind = 'number' THEN
        IF octet_length(value::text) < 300 THEN
            RETURN NULL;
        ELSIF scale(value::numeric) = 0 THEN
            RETURN CASE WHEN abs(value::numeric) >= 2::numeric ^ 14000
                THEN 'an integer has too many digits' END;
        END IF;
        RETURN CASE WHEN NOT pgjobs_fits_float(value::numeric)
            THEN 'inf is not JSON' END;
    ELSIF kind NOT IN ('object', 'array') THEN
        RETURN NULL;
    ELSIF depth >= 100 THEN
        RETURN 'is nested more than 100 deep';
    ELSIF kind = 'array' THEN
        RETURN fault
        FROM jsonb_array_elements(value) AS item (each)
        CROSS JOIN LATERAL pgjobs_json_fault(each, depth + 1) AS fault
        WHERE fault IS NOT NULL LIMIT 1;
    END IF;
    RETURN fault
    FROM jsonb_each(value) AS each
    CROSS JOIN LATERAL pgjobs_json_fault(each.value, depth + 1) AS fault
    WHERE fault IS NOT NULL LIMIT 1;
END
$$;
""",
    ),
    "function pgjobs_json_size": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_json_size(value jsonb, most integer)
RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    size CONSTANT integer := octet_length(value::text);
BEGIN
    RETURN CASE
        WHEN size > most THEN octet_length(pgjobs_json_text(value)) ELSE size
    END;
END
$$;
""",
    ),
    "function pgjobs_json_text": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_json_text(value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    CASE jsonb_typeof(value)
    WHEN 'object' THEN
        RETURN '{' || coalesce(
            string_agg(
                to_json(key)::text || ':' || pgjobs_json_text(each.value),
                ',' ORDER BY key COLLATE "C"
            ),
            ''
        ) || '}' FROM jsonb_each(value) AS each;
    WHEN 'array' THEN
        RETURN '[' || coalesce(
            string_agg(pgjobs_json_text(each), ',' ORDER BY place), ''
        ) || ']'
        FROM jsonb_array_elements(value) WITH ORDINALITY AS item (each, place);
    WHEN 'number' THEN
        RETURN CASE
            WHEN scale(value::numeric) > 0
                THEN pgjobs_float_text(value::numeric)
            ELSE value::text
        END;
    ELSE
        RETURN value::text;
    END CASE;
END
$$;
""",
    ),
    "function pgjobs_limit_fault": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_limit_fault(schema jsonb, value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    is_array CONSTANT boolean := jsonb_typeof(value) = 'array';
    noun CONSTANT text := CASE WHEN is_array THEN 'items' ELSE 'characters' END;
    least text := coalesce(schema ->> 'minItems', schema ->> 'minLength');
    most text := coalesce(schema ->> 'maxItems', schema ->> 'maxLength');
    size integer;
BEGIN
    IF jsonb_typeof(value) = 'number' THEN
        RETURN 'input should be ' || CASE
            WHEN value < schema -> 'minimum'
                THEN 'greater than or equal to ' || (schema ->> 'minimum')
            WHEN value <= schema -> 'exclusiveMinimum'
                THEN 'greater than ' || (schema ->> 'exclusiveMinimum')
            WHEN value > schema -> 'maximum'
                THEN 'less than or equal to ' || (schema ->> 'maximum')
            WHEN value >= schema -> 'exclusiveMaximum'
                THEN 'less than ' || (schema ->> 'exclusiveMaximum')
        END;
    END IF;
    size := CASE
        WHEN is_array THEN jsonb_array_length(value) ELSE length(value #>> '{}')
    END;
    RETURN CASE
        WHEN size < least::integer
            THEN format('should have at least %s %s', least, noun)
        WHEN size > most::integer
            THEN format('should have at most %s %s', most, noun)
    END;
END
$$;
""",
    ),
    "function pgjobs_listed": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_listed(choices jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    words text[] := ARRAY(
        SELECT CASE jsonb_typeof(choice)
            WHEN 'string' THEN '''' || (choice #>> '{}') || ''''
            WHEN 'null' THEN 'None'
            WHEN 'boolean' THEN initcap(choice::text)
            ELSE choice::text
        END
        FROM jsonb_array_elements(choices) AS item (choice)
    );
    last text := words[cardinality(words)];
BEGIN
    RETURN CASE
        WHEN cardinality(words) = 1 THEN last
        ELSE array_to_string(trim_array(words, 1), ', ') || ' or ' || last
    END;
END
$$;
""",
    ),
    "function pgjobs_shortened": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_shortened(value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE
        WHEN length(value::text) <= 100 THEN value::text
        ELSE left(value::text, 97) || '...'
    END;
END
$$;
""",
    ),
    "function pgjobs_time": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_time(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN substr(pgjobs_date_time('2000-01-01T' || value), 12);
END
$$;
""",
    ),
    "function pgjobs_uuid": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_uuid(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    hyphened text := '[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}';
BEGIN
    IF value ~ ('^((urn:uuid:)?' || hyphened || '|[{]' || hyphened || '[}]'
        || '|[0-9A-Fa-f]{32})$')
    THEN
        RETURN replace(value, 'urn:uuid:', '')::uuid::text;
    END IF;
    RETURN NULL;
END
$$;
""",
    ),
    "function pgjobs_definition": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_definition(task text) RETURNS pgjobs_taskdefinition
LANGUAGE plpgsql STABLE AS $$
DECLARE
    definition pgjobs_taskdefinition;
BEGIN
    IF task IS NULL THEN
        RAISE EXCEPTION 'The name of the task is NULL.'
            USING ERRCODE = '22004', COLUMN = 'task', HINT = pgjobs_known_tasks();
    END IF;
    SELECT * INTO definition FROM pgjobs_taskdefinition
    WHERE name = task AND gone_at IS NULL;
    IF NOT FOUND THEN
        SELECT * INTO definition FROM pgjobs_taskdefinition
        WHERE gone_at IS NULL AND options -> 'aliases' ? task;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'No task registered as ''%''.', task
            USING ERRCODE = '22023', COLUMN = 'task', HINT = pgjobs_known_tasks();
    END IF;
    RETURN definition;
END
$$;
""",
    ),
    "function pgjobs_described": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_described(schema jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE
        WHEN schema ? 'enum' THEN pgjobs_listed(schema -> 'enum')
        WHEN schema ? 'anyOf' THEN (
            SELECT string_agg(pgjobs_described(each), ' or ')
            FROM jsonb_array_elements(schema -> 'anyOf') AS item (each)
        )
        ELSE coalesce(schema ->> 'format', schema ->> 'type', 'any JSON')
    END;
END
$$;
""",
    ),
    "function pgjobs_known_tasks": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_known_tasks() RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    names text[] := ARRAY(
        SELECT name FROM pgjobs_taskdefinition WHERE gone_at IS NULL
        ORDER BY name LIMIT 21
    );
BEGIN
    RETURN CASE cardinality(names)
        WHEN 0 THEN 'There is none yet: run manage.py synctasks.'
        WHEN 21 THEN 'There are ' || array_to_string(names[:20], ', ') || ', ...'
        ELSE 'There are ' || array_to_string(names, ', ') || '.'
    END;
END
$$;
""",
    ),
    "function pgjobs_usage": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_usage(parameters jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN 'It takes ' || coalesce(
        (
            SELECT string_agg(
                format(
                    '%s (%s%s)', name,
                    pgjobs_described(parameters -> 'properties' -> name),
                    CASE
                        WHEN parameters -> 'required' ? name THEN ''
                        ELSE '; optional'
                    END
                ),
                ', ' ORDER BY place
            )
            FROM jsonb_array_elements_text(parameters -> 'x-order')
                WITH ORDINALITY AS parameter (name, place)
        ),
        'no parameters'
    ) || CASE
        WHEN parameters -> 'additionalProperties' = 'false' THEN '.'
        ELSE ', and others by any name.'
    END;
END
$$;
""",
    ),
    "function pgjobs_lacks_dependency": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_lacks_dependency(dependencies jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN dependencies IS NOT NULL AND EXISTS (
        SELECT FROM jsonb_to_recordset(dependencies -> 'needs')
            AS need (key text, "within" float8)
        WHERE coalesce(
            -- The latest success stands at the end of the index.
            (SELECT max(finished_at) FROM pgjobs_prerequisite WHERE key = need.key)
                < clock_timestamp() - make_interval(secs => need."within"),
            true
        )
    );
END
$$;
""",
    ),
    "function pgjobs_provide": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_provide(provider bigint) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    job pgjobs_job;
BEGIN
    SELECT * INTO job FROM pgjobs_job WHERE id = provider;
    IF NOT FOUND OR job.status IN ('FAILED', 'CANCELLED') THEN
        DELETE FROM pgjobs_prerequisite WHERE job_id = provider;
        RETURN;
    END IF;
    -- Its arguments may have been replaced.
    DELETE FROM pgjobs_prerequisite AS known
    WHERE known.job_id = provider
        AND NOT job.dependencies -> 'provides' @> jsonb_build_array(
            jsonb_build_object('key', known.key)
        );
    -- SQL may have written a key twice. The longest time counts.
    INSERT INTO pgjobs_prerequisite AS known
        (job_id, key, finished_at, needed_until)
    SELECT job.id, each.key, job.finished_at,
        job.finished_at + make_interval(secs => max(each."for"))
    FROM jsonb_to_recordset(job.dependencies -> 'provides')
        AS each (key text, "for" float8)
    GROUP BY each.key
    ON CONFLICT (job_id, key) DO UPDATE
        SET finished_at = excluded.finished_at, needed_until = excluded.needed_until
        WHERE known.finished_at IS DISTINCT FROM excluded.finished_at;
END
$$;
""",
    ),
    "function pgjobs_check_event": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_check_event(
    what text, value text, may_be_null boolean
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF value IS NULL AND NOT may_be_null THEN
        RAISE EXCEPTION 'The % of an event must not be NULL.', what
            USING ERRCODE = 'null_value_not_allowed';
    ELSIF value = '' OR length(value) > 200 THEN
        RAISE EXCEPTION 'The % of an event must be 1 to 200 characters, got %.',
            what, length(value) USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;
""",
    ),
    "function pgjobs_check_subscription": (
        None,
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
    ),
    "function pgjobs_deliver": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_deliver(
    events pgjobs_event[], origin text, only_to text
) RETURNS SETOF bigint LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    WITH wanted AS MATERIALIZED (
        SELECT nextval('pgjobs_job_id_seq') AS job_id, given.*
        FROM (
            SELECT event.id AS event_id, event.aggregate_id, handler.*,
                event.payload AS kwargs,
                CASE
                    WHEN event.correlation_id IS NULL THEN event.meta
                    ELSE coalesce(event.meta, '{}')
                        || jsonb_build_object('correlation_id', event.correlation_id)
                END AS meta
            FROM unnest(events) AS event
            CROSS JOIN LATERAL pgjobs_handlers(event.name) AS handler
            WHERE only_to IS NULL OR handler.task = only_to
            ORDER BY event.id, handler.id
        ) AS given
    ),
    delivery AS MATERIALIZED (
        INSERT INTO pgjobs_delivery AS made (event_id, task, job_id, origin)
        SELECT event_id, task, job_id, pgjobs_deliver.origin FROM wanted
        ON CONFLICT (event_id, task) DO NOTHING
        RETURNING made.event_id, made.job_id
    ),
    job AS (
        INSERT INTO pgjobs_job
            (id, task, queue_name, priority, max_attempts, max_crashes, timeout, process_units, kwargs, meta, expires_at, keys)
        SELECT wanted.job_id, task, queue_name, priority, max_attempts, max_crashes, timeout, process_units, kwargs, meta,
            statement_timestamp() + make_interval(secs => expires_in),
            -- One lock for each handler and aggregate keeps them in order.
            CASE
                WHEN is_ordered AND aggregate_id IS NOT NULL
                    THEN coalesce(keys, '{}') || jsonb_build_object(
                        'lock', task || ' ' || aggregate_id, 'is_ordered', true
                    )
                ELSE keys
            END
        FROM wanted JOIN delivery ON delivery.job_id = wanted.job_id
        ORDER BY wanted.job_id
    )
    SELECT delivery.event_id FROM delivery;
END
$$;
""",
    ),
    "function pgjobs_deliver_late": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_deliver_late(grace float8, most integer)
RETURNS bigint LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    names text[];
    ids bigint[];
    events pgjobs_event[];
    delivered bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM pgjobs_event WHERE handlers = 0) THEN
        RETURN 0;
    END IF;
    WITH RECURSIVE pattern AS (
        SELECT event,
            CASE
                WHEN right(event, 2) = '.*' THEN left(event, -2) || '/'
                ELSE event || chr(1)
            END AS behind
        FROM (
            SELECT DISTINCT event FROM pgjobs_subscription WHERE inactive_at IS NULL
        ) AS active
    ),
    unhandled (name, behind) AS (
        SELECT (
            SELECT name FROM pgjobs_event
            WHERE handlers = 0 AND name < behind AND name >= CASE
                WHEN right(event, 2) = '.*' THEN left(event, -1)
                ELSE event
            END
            ORDER BY name LIMIT 1
        ), behind
        FROM pattern
        UNION ALL
        SELECT (
            SELECT event.name FROM pgjobs_event AS event
            WHERE handlers = 0 AND event.name < behind AND event.name > unhandled.name
            ORDER BY event.name LIMIT 1
        ), behind
        FROM unhandled WHERE unhandled.name IS NOT NULL
    )
    SELECT array_agg(DISTINCT name) INTO names FROM unhandled WHERE name IS NOT NULL;
    IF names IS NULL OR NOT pg_try_advisory_xact_lock(x'70676a65'::bigint) THEN
        RETURN 0;
    END IF;
    -- OFFSET 0: the planner must not look for the events by their time or id.
    ids := ARRAY(
        SELECT id FROM (
            SELECT id, published_at FROM pgjobs_event
            WHERE handlers = 0 AND name = ANY (names)
            OFFSET 0
        ) AS unhandled
        WHERE published_at > statement_timestamp() - make_interval(secs => grace)
        ORDER BY id LIMIT most
    );
    events := ARRAY(
        SELECT event FROM pgjobs_event AS event
        WHERE id = ANY (ids) AND handlers + 0 = 0  -- not by the index of these
        ORDER BY id
        FOR NO KEY UPDATE SKIP LOCKED
    );
    UPDATE pgjobs_event AS event SET handlers = made.number
    FROM (
        SELECT event_id, count(*) AS number
        FROM pgjobs_deliver(events, 'late', NULL) AS event_id GROUP BY event_id
    ) AS made
    WHERE event.id = made.event_id AND event.id = ANY (ids);
    GET DIAGNOSTICS delivered = ROW_COUNT;
    RETURN delivered;
END
$$;
""",
    ),
    "function pgjobs_handlers": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_handlers(event_name text)
RETURNS SETOF pgjobs_subscription LANGUAGE sql STABLE AS $$
    SELECT DISTINCT ON (task) * FROM pgjobs_subscription
    WHERE inactive_at IS NULL AND pgjobs_matches(event, event_name)
    ORDER BY task, is_ordered DESC, id
$$;
""",
    ),
    "function pgjobs_matches": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_matches(pattern text, name text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT pattern = name
        OR right(pattern, 2) = '.*' AND starts_with(name, left(pattern, -1))
$$;
""",
    ),
    "function pgjobs_publish": (
        None,
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
    ),
    "function pgjobs_timeline": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_timeline() RETURNS text
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    timeline text;
    number bigint;
BEGIN
    BEGIN
        timeline := left(pg_walfile_name(pg_current_wal_lsn()), 8);
        number := ('x' || timeline)::bit(32)::bigint;
    EXCEPTION WHEN OTHERS THEN
        RETURN NULL;
    END;
    IF (SELECT last_value FROM pgjobs_known_timeline) <> number THEN
        PERFORM pg_advisory_xact_lock(x'70676a74'::int, 0);
        IF (SELECT last_value FROM pgjobs_known_timeline) <> number THEN
            PERFORM setval('pgjobs_lease_token', last_value + number * 4294967296)
            FROM pgjobs_lease_token;
            PERFORM setval('pgjobs_worker_id_seq', last_value + number * 1000)
            FROM pgjobs_worker_id_seq;
            PERFORM setval('pgjobs_known_timeline', number);
        END IF;
    END IF;
    RETURN timeline;
END
$$;
""",
    ),
    "function pgjobs_check_job": (
        None,
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
    ),
    "function pgjobs_follow_up": (
        None,
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
    ),
    "function pgjobs_jobs_deleted": (
        None,
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
    ),
    "function pgjobs_notify_changed": (
        None,
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
    ),
    "function pgjobs_notify_inserted": (
        None,
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
    ),
    "function pgjobs_refuse": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_refuse(code text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'refused by pgjobs' USING ERRCODE = code;
END
$$;
""",
    ),
    "function pgjobs_checked_key": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_checked_key(option text, key text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF length(key) NOT BETWEEN 1 AND 500 THEN
        RAISE EXCEPTION '%: must be 1 to 500 characters long, got %.',
            option, length(key)
            USING ERRCODE = '22023', COLUMN = option;
    END IF;
    RETURN key;
END
$$;
""",
    ),
    "function pgjobs_conflict": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_conflict(job pgjobs_job, on_conflict text)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    replaced bigint;
    holder pgjobs_job;
BEGIN
    IF job.unique_for = 'period' THEN
        PERFORM pgjobs_free_keys(ARRAY[job.unique_key]);
    END IF;
    IF on_conflict = 'replace' THEN
        SELECT * INTO replaced FROM pgjobs_replace_held(
            ARRAY[job.unique_key], ARRAY[job.unique_for], ARRAY[job.args],
            ARRAY[job.kwargs], ARRAY[job.keys], ARRAY[job.dependencies],
            ARRAY[job.run_after], ARRAY[job.expires_at], ARRAY[job.meta]
        );
        IF FOUND THEN
            RETURN replaced;
        END IF;
    END IF;
    SELECT * INTO holder FROM pgjobs_job
    WHERE unique_key = job.unique_key AND unique_for = job.unique_for
        AND pgjobs_holds_key(
            unique_for, unique_until, status, attempts, finished_at
        );
    IF NOT FOUND THEN
        RETURN 0;
    ELSIF on_conflict = 'raise' THEN
        RAISE EXCEPTION 'Job % (%) already holds the unique key ''%''.',
            holder.id, holder.task, holder.unique_key
            USING ERRCODE = '23505', COLUMN = 'unique_key';
    ELSIF on_conflict = 'replace' AND holder.attempts = 0
        AND holder.finished_at IS NULL
    THEN
        RETURN 0;  -- the holder came after the replacement
    END IF;
    RETURN CASE WHEN on_conflict <> 'skip' THEN holder.id END;
END
$$;
""",
    ),
    "function pgjobs_filled_in": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_filled_in(
    task text, option text, template jsonb, arguments jsonb
) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    part jsonb;
    value jsonb;
    key text := '';
BEGIN
    IF template ? 'function' THEN
        RAISE EXCEPTION 'The % of % is a function of Python''s, %, which SQL cannot '
            'call.', option, task, template ->> 'function'
            USING ERRCODE = '0A000', COLUMN = option, HINT = CASE
                WHEN option IN ('lock', 'unique_key')
                    THEN format('Give it: %s => ''...''.', option)
                ELSE 'Declare a text such as ''client-{client_id}'', or enqueue in '
                    'Python.'
            END;
    END IF;
    FOR part IN SELECT * FROM jsonb_array_elements(template -> 'parts') LOOP
        key := key || (part ->> 0);
        CONTINUE WHEN part ->> 1 IS NULL;
        value := arguments -> (part ->> 1);
        IF value IS NULL THEN
            RAISE EXCEPTION 'Invalid arguments for %: %: needs the argument ''%''.',
                task, option, part ->> 1
                USING ERRCODE = '22023', COLUMN = part ->> 1;
        END IF;
        key := key || CASE jsonb_typeof(value)
            WHEN 'string' THEN value #>> '{}' ELSE pgjobs_json_text(value)
        END;
    END LOOP;
    RETURN pgjobs_checked_key(option, key);
END
$$;
""",
    ),
    "function pgjobs_free_keys": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_free_keys(unique_keys text[]) RETURNS void
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    WITH over AS MATERIALIZED (
        SELECT id FROM pgjobs_job
        WHERE unique_key = ANY (unique_keys)
            AND unique_for = 'period'
            AND pgjobs_holds_key(
                unique_for, unique_until, status, attempts, finished_at
            )
            AND unique_until <= clock_timestamp()
        ORDER BY unique_key
        FOR NO KEY UPDATE
    )
    UPDATE pgjobs_job SET unique_until = NULL
    WHERE id = ANY (ARRAY(SELECT id FROM over))
$$;
""",
    ),
    "function pgjobs_keys": (
        None,
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
    ),
    "function pgjobs_replace_held": (
        None,
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
    ),
    "function pgjobs_retake_keys": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_retake_keys(ids bigint[]) RETURNS SETOF bigint
LANGUAGE sql AS $$
    WITH ended AS (
        SELECT id, unique_for,
            CASE
                WHEN unique_for <> 'period' OR unique_until > clock_timestamp()
                    THEN unique_key
            END AS wanted_key
        FROM pgjobs_job
        WHERE id = ANY (ids)
    ),
    ranked AS (
        SELECT *, row_number() OVER (
            PARTITION BY wanted_key, unique_for ORDER BY id DESC
        ) AS number
        FROM ended
    )
    SELECT id FROM ranked
    WHERE wanted_key IS NULL
        OR number = 1 AND NOT EXISTS (
            SELECT FROM pgjobs_job AS other
            WHERE other.unique_key = wanted_key
                AND other.unique_for = ranked.unique_for
                AND pgjobs_holds_key(
                    other.unique_for, other.unique_until, other.status,
                    other.attempts, other.finished_at
                )
                AND other.id <> ranked.id
        )
    ORDER BY id
$$;
""",
    ),
    "function pgjobs_unique_key": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_unique_key(
    definition pgjobs_taskdefinition, arguments jsonb
) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    options CONSTANT jsonb := definition.options;
    key text;
BEGIN
    IF options ? 'unique_key' THEN
        RETURN pgjobs_filled_in(
            definition.name, 'unique_key', options -> 'unique_key', arguments
        );
    ELSIF jsonb_typeof(options -> 'unique') = 'array' THEN
        SELECT jsonb_object_agg(name, arguments -> name) INTO arguments
        FROM jsonb_array_elements_text(options -> 'unique') AS item (name);
    END IF;
    key := definition.name || ':' || pgjobs_json_text(arguments);
    IF length(key) <= 500 THEN
        RETURN key;
    END IF;
    RETURN definition.name || ':sha256:' || encode(
        sha256(convert_to(pgjobs_json_text(arguments), 'UTF8')), 'hex'
    );
END
$$;
""",
    ),
    "function pgjobs_batch_has": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_batch_has(batch bigint, wanted text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN id FROM pgjobs_job WHERE batch_id = batch AND status = wanted LIMIT 1;
END
$$;
""",
    ),
    "function pgjobs_batch_outcome": (
        None,
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
    ),
    "function pgjobs_close_links": (
        None,
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
    ),
    "function pgjobs_end_unmet": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_end_unmet(unmet jsonb) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    ended bigint[];
BEGIN
    WITH given_up AS (
        UPDATE pgjobs_job AS job
        SET status = CASE needs WHEN 'dependency' THEN 'FAILED' ELSE 'CANCELLED' END,
            finished_at = clock_timestamp(),
            waiting_for = NULL,
            -- The retry of this one revives a cancelled job.
            blocked_by_id = CASE WHEN needs <> 'failure' THEN culprit END,
            reason = pgjobs_reason_of_end(needs, outcome, culprit, link.batch_id)
        FROM (
            SELECT *, (SELECT ctid FROM pgjobs_job WHERE id = job_id) AS place
            FROM jsonb_to_recordset(unmet) AS link (
                job_id bigint, needs text, outcome text, culprit bigint, batch_id bigint
            )
            OFFSET 0
        ) AS link
        WHERE job.ctid = place AND status IN ('READY', 'SCHEDULED', 'WAITING')
        RETURNING job.id
    )
    SELECT coalesce(array_agg(id), '{}') INTO ended FROM given_up;
    RETURN ended;
END
$$;
""",
    ),
    "function pgjobs_follow": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_follow(
    ids bigint[], batches bigint[], most integer,
    OUT number integer, OUT followers bigint[], OUT ended bigint[]
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT * INTO followers, ended FROM pgjobs_close_links(ids, batches, most);
    number := pgjobs_leave_open(ids, batches);
END
$$;
""",
    ),
    "function pgjobs_leave_open": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_leave_open(ids bigint[], batches bigint[])
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    number integer;
    number_of_batches integer := 0;
BEGIN
    INSERT INTO pgjobs_note (job_id)
    SELECT id FROM unnest(ids) AS given (id)
    WHERE NOT EXISTS (
            SELECT FROM pgjobs_job WHERE id = given.id AND finished_at IS NULL
            OFFSET 0
        )
        AND EXISTS (
            SELECT FROM pgjobs_predecessor
            WHERE predecessor_id = given.id AND is_open
            OFFSET 0
        );
    GET DIAGNOSTICS number = ROW_COUNT;
    IF batches IS NOT NULL THEN
        INSERT INTO pgjobs_note (keys)
        SELECT jsonb_build_object('batch_id', id) FROM unnest(batches) AS given (id)
        CROSS JOIN LATERAL pgjobs_batch_outcome(id)
        WHERE EXISTS (
            SELECT FROM pgjobs_predecessor
            WHERE batch_id = given.id AND is_open
                AND (outcome <> 'UNFINISHED' OR needs = 'failure' AND failed IS NOT NULL)
            OFFSET 0
        );
        GET DIAGNOSTICS number_of_batches = ROW_COUNT;
    END IF;
    RETURN number + number_of_batches;
END
$$;
""",
    ),
    "function pgjobs_link_arrived": (
        None,
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
    ),
    "function pgjobs_mark": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_mark(ids bigint[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    unmarked bigint[] := ARRAY(
        SELECT id FROM pgjobs_job
        WHERE id = ANY (ids) AND finished_at IS NULL
            AND NOT coalesce(keys ? 'has_successors', false)
    );
    number integer;
BEGIN
    IF unmarked = '{}' THEN
        RETURN 0;
    END IF;
    UPDATE pgjobs_job
    SET keys = coalesce(keys, '{}') || '{"has_successors": true}'
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_job
        WHERE id = ANY (unmarked) AND finished_at IS NULL
        FOR NO KEY UPDATE SKIP LOCKED
    ));
    -- A job that could not be marked, because its row is held, may end unseen.
    INSERT INTO pgjobs_note (job_id)
    SELECT id FROM pgjobs_job
    WHERE id = ANY (unmarked) AND NOT coalesce(keys ? 'has_successors', false);
    GET DIAGNOSTICS number = ROW_COUNT;
    RETURN number;
END
$$;
""",
    ),
    "function pgjobs_meets": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_meets(needs text, outcome text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE needs
        WHEN 'end' THEN true
        WHEN 'failure' THEN outcome = 'FAILED'
        ELSE outcome = 'SUCCESSFUL'
    END
$$;
""",
    ),
    "function pgjobs_reason_of_end": (
        None,
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
    ),
    "function pgjobs_revive": (
        None,
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
    ),
    "function pgjobs_is_served": (
        None,
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
    ),
    "function pgjobs_notify_queue": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_notify_queue() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_notify('pgjobs', OLD.name);
    -- Admissions have skipped the lines that have only jobs of this queue.
    PERFORM pg_catalog.pg_notify('pgjobs_admission', 'sweep');
    RETURN NULL;
END
$$;
""",
    ),
    "function pgjobs_pick": (
        None,
        r"""CREATE OR REPLACE FUNCTION pgjobs_pick(
    ids bigint[], job_queues integer[], job_units bigint[], are_suspect boolean[],
    rooms bigint[], free_units bigint, wanted bigint
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    picked bigint[] := '{}';
BEGIN
    FOR place IN 1 .. coalesce(pg_catalog.cardinality(ids), 0) LOOP
        EXIT WHEN pg_catalog.cardinality(picked) >= wanted;
        CONTINUE WHEN rooms[job_queues[place]] <= 0;
        EXIT WHEN job_units[place] > free_units
            OR are_suspect[place] AND picked <> '{}';
        -- See sql/worker/claim/pick.sql for this comparison with the status.
        PERFORM FROM pgjobs_job
        WHERE id = ids[place] AND status || '' = 'READY'
        FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        picked := picked || ids[place];
        EXIT WHEN are_suspect[place];
        rooms[job_queues[place]] := rooms[job_queues[place]] - 1;
        free_units := free_units - job_units[place];
    END LOOP;
    RETURN picked;
END
$$;
""",
    ),
    "function pgjobs_room": (
        None,
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
    ),
    "function pgjobs_cancel_jobs": (
        None,
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
    ),
    "function pgjobs_retry_jobs": (
        None,
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
    ),
    "function pgjobs_host_room": (
        None,
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
    ),
    "trigger pgjobs_queue_changed": (
        None,
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
    ),
    "trigger pgjobs_queue_inserted": (
        None,
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
    ),
    "trigger pgjobs_check_job": (
        None,
        r"""CREATE OR REPLACE TRIGGER pgjobs_check_job
    AFTER INSERT OR UPDATE OF
        id, task, args, kwargs, queue_name, priority, timeout, process_units,
        unique_key, unique_for, unique_until, max_attempts, max_crashes, life,
        run_after, expires_at, enqueued_at, cancel_requested_at, keys, dependencies,
        meta
    ON pgjobs_job
    FOR EACH ROW EXECUTE FUNCTION pgjobs_check_job();
""",
    ),
    "trigger pgjobs_check_subscription": (
        None,
        r"""CREATE OR REPLACE TRIGGER pgjobs_check_subscription
    AFTER INSERT OR UPDATE ON pgjobs_subscription
    FOR EACH ROW EXECUTE FUNCTION pgjobs_check_subscription();
""",
    ),
    "trigger pgjobs_note_changed": (
        None,
        r"""CREATE OR REPLACE TRIGGER pgjobs_note_changed
    AFTER UPDATE OF keys ON pgjobs_job
    FOR EACH ROW
    WHEN (
        OLD.keys ->> 'lock' <> coalesce(NEW.keys ->> 'lock', '')
        OR OLD.keys ->> 'limit_key' <> coalesce(NEW.keys ->> 'limit_key', '')
    )
    EXECUTE FUNCTION pgjobs_note_changed();
""",
    ),
    "trigger pgjobs_note_deleted": (
        None,
        r"""CREATE OR REPLACE TRIGGER pgjobs_note_deleted
    AFTER DELETE ON pgjobs_job
    FOR EACH ROW WHEN (OLD.keys IS NOT NULL OR OLD.dependencies IS NOT NULL)
    EXECUTE FUNCTION pgjobs_note_deleted();
""",
    ),
    "trigger pgjobs_notify_changed": (
        None,
        r"""CREATE OR REPLACE TRIGGER pgjobs_notify_changed
    AFTER UPDATE OF status ON pgjobs_job
    FOR EACH ROW
    WHEN (
        NEW.worker_id IS NULL
        AND CASE
            WHEN NEW.finished_at IS NULL
                THEN OLD.waiting_for IS NULL OR NEW.line IS NOT NULL
            ELSE NEW.awaited OR num_nonnulls(NEW.keys, NEW.dependencies) > 0
        END
    )
    EXECUTE FUNCTION pgjobs_notify_changed();
""",
    ),
    "trigger pgjobs_notify_queue": (
        None,
        r"""CREATE OR REPLACE TRIGGER pgjobs_notify_queue
    AFTER UPDATE OF paused_at, max_running OR DELETE ON pgjobs_queue
    FOR EACH ROW EXECUTE FUNCTION pgjobs_notify_queue();
""",
    ),
    "trigger pgjobs_jobs_deleted": (
        None,
        r"""CREATE OR REPLACE TRIGGER pgjobs_jobs_deleted
    AFTER DELETE ON pgjobs_job REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION pgjobs_jobs_deleted();
""",
    ),
    "trigger pgjobs_note_truncated": (
        None,
        r"""CREATE OR REPLACE TRIGGER pgjobs_note_truncated
    AFTER TRUNCATE ON pgjobs_job
    FOR EACH STATEMENT EXECUTE FUNCTION pgjobs_note_truncated();
""",
    ),
    "trigger pgjobs_notify_inserted": (
        None,
        r"""CREATE OR REPLACE TRIGGER pgjobs_notify_inserted
    AFTER INSERT ON pgjobs_job REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION pgjobs_notify_inserted();
""",
    ),
    "rights": (
        None,
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
    "pgjobs_matches",
    "pgjobs_pick",
    "pgjobs_provide",
    "pgjobs_publish",
    "pgjobs_refuse",
    "pgjobs_replace_held",
    "pgjobs_retry_jobs",
    "pgjobs_room",
    "pgjobs_timeline",
]
FILES = {
    "constraints/holds_key.sql": "232a8973b8223d6f171d76530d89df8fa53949a2a9ce6af45332cd05082b5ab0",
    "constraints/is_job.sql": "fd082cb2a8dd301b5ec46b2dc199ddb94ee5dd4cbf1d4e166130d3c535dfbf18",
    "tables/jobs.sql": "d5aa9c87bf0a0f07c9b575a768adde7858e12abf2ca7aaeaa469808e0e3e2f69",
    "tables/admission.sql": "020c642d819f5692aa97a4c7f66ea49dcbe8254c9a273f0394d37d67efd36797",
    "tables/schedules.sql": "44acd465abe0d2c30c2e0e94d980b7044c5b4fe2e7cc0a773009668d5d536472",
    "tables/events.sql": "4f8b70e6115abf540e3a473c6288e5509e48d428bb2b1da29df2bd41d7a0d676",
}


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0001_initial")]

    operations = [InstallSQL(CHANGES, CALLS, FILES)]
