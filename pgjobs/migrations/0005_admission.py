"""Admission: a worker decides which of the jobs that wait become READY.

`pgjobs_admit` is one statement of one worker at a time: it tries an advisory lock and
never waits for it, and PostgreSQL lets the lock go with the statement's commit. What it
decides it reads from the rows of pgjobs_job alone, so nothing can disagree with them:

- A *line* is the jobs that wait for one thing: "lock door" (ordered), "mutex door",
  "limit mail", "rate mail", "predecessor"; in "undecided" a worker's Python has to find
  or enqueue a dependency first.
- "arrived" are the jobs that no admission has looked at yet. Those of paused and
  unserved queues stay there: they take no room. But "unlinked" are those that come
  after other jobs; these are looked up before they may be gone, whatever the queue.
- "left" and "recorded" are the jobs that have ended, or gone back to be SCHEDULED, and
  whose keys and successors no admission has looked at yet.

An admission looks at what arrived and left, and at the heads of those lines whose key
has been touched by it. So its work grows with what happened, not with what waits. What
it does not get done it leaves as it is, or in a note (pgjobs_note), for the next one.
"""

from django.db import migrations

from ._postgresql import RunPostgreSQL

LINES = (
    """
    CREATE FUNCTION pgjobs_line(kind text, key text) RETURNS text
    LANGUAGE sql IMMUTABLE AS $$
        -- The entry of an index has a largest size.
        SELECT kind || ' ' || CASE
            WHEN octet_length(key) <= 500 THEN key ELSE 'md5 ' || md5(key)
        END
    $$;

    -- Whether some worker would claim from the queue.
    CREATE FUNCTION pgjobs_is_served(queue text) RETURNS boolean
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

    -- The queues of the jobs in a line, found by hopping from name to name.
    CREATE FUNCTION pgjobs_queues_of(of_line text, after_queue text, most integer)
    RETURNS text[] LANGUAGE plpgsql STABLE AS $$
    BEGIN
        RETURN ARRAY(
            WITH RECURSIVE queue (name, number) AS (
                (
                    SELECT queue_name, 1 FROM pgjobs_job
                    WHERE line = of_line AND queue_name > after_queue
                    ORDER BY queue_name LIMIT 1
                )
                UNION ALL
                SELECT (
                    SELECT queue_name FROM pgjobs_job
                    WHERE line = of_line AND queue_name > queue.name
                    ORDER BY queue_name LIMIT 1
                ), number + 1
                FROM queue WHERE queue.name IS NOT NULL AND number < most
            )
            SELECT name FROM queue WHERE name IS NOT NULL
        );
    END
    $$;

    -- The first jobs of a line, of those queues that are served: the jobs of a paused
    -- or unserved one are passed over.
    CREATE FUNCTION pgjobs_heads(
        of_line text, most integer, queues text[] DEFAULT NULL
    ) RETURNS SETOF bigint LANGUAGE plpgsql STABLE AS $$
    BEGIN
        IF most < 1 THEN
            RETURN;
        END IF;
        queues := coalesce(queues, pgjobs_queues_of(of_line, '', 1000));
        RETURN QUERY
        SELECT head.id
        FROM unnest(queues) AS queue (name)
        CROSS JOIN LATERAL (
            SELECT id, priority, turn FROM pgjobs_job
            WHERE line = of_line AND queue_name = queue.name
            ORDER BY priority DESC, turn LIMIT most
        ) AS head
        WHERE pgjobs_is_served(queue.name)
        ORDER BY priority DESC, turn
        LIMIT most;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_heads(text, integer, text[]);
    DROP FUNCTION pgjobs_queues_of(text, text, integer);
    DROP FUNCTION pgjobs_is_served(text);
    DROP FUNCTION pgjobs_line(text, text);
    """,
)

# Predecessors and batches: rows of pgjobs_predecessor, which admission alone writes.
# A row is *open* until an admission has seen how that predecessor ended.
LINKS = (
    """
    -- What may be asked of a predecessor that has ended ('GONE': deleted unfinished).
    CREATE FUNCTION pgjobs_meets(needs text, outcome text) RETURNS boolean
    LANGUAGE sql IMMUTABLE AS $$
        SELECT CASE needs
            WHEN 'end' THEN true
            WHEN 'failure' THEN outcome = 'FAILED'
            ELSE outcome = 'SUCCESSFUL'
        END
    $$;

    -- Any job of the batch with this status. (To ask for the first one would invite the
    -- planner to walk the primary key.)
    CREATE FUNCTION pgjobs_batch_has(batch bigint, wanted text) RETURNS bigint
    LANGUAGE plpgsql STABLE AS $$
    BEGIN
        RETURN id FROM pgjobs_job WHERE batch_id = batch AND status = wanted LIMIT 1;
    END
    $$;

    -- How a batch has ended; UNFINISHED; GONE. And a job that makes it so, if any.
    CREATE FUNCTION pgjobs_batch_outcome(
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
                ELSE 'GONE'  -- or there never was one
            END;
        END IF;
    END
    $$;

    CREATE FUNCTION pgjobs_reason_of_end(
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

    -- Close the links that lead to these jobs, as far as they have ended, and to these
    -- batches. `followers`: jobs that may have nothing more to wait for; `ended`: those
    -- that needed something else of their predecessor.
    CREATE FUNCTION pgjobs_close_links(
        ids bigint[], batches bigint[], most integer,
        OUT followers bigint[], OUT ended bigint[]
    ) LANGUAGE plpgsql AS $$
    BEGIN
        WITH told AS MATERIALIZED (
            (SELECT link.id AS link_id, link.job_id, link.needs, link.batch_id, outcome,
                link.predecessor_id AS culprit
            FROM (
                SELECT given.id, coalesce(job.status, 'GONE') AS outcome
                FROM unnest(ids) AS given (id)
                LEFT JOIN pgjobs_job AS job ON job.id = given.id
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
        -- Another transaction may hold the row of a follower: its link stays open.
        held AS MATERIALIZED (
            SELECT id, finished_at FROM pgjobs_job
            WHERE id = ANY (ARRAY(SELECT job_id FROM told))
            FOR NO KEY UPDATE SKIP LOCKED
        ),
        closed AS (
            UPDATE pgjobs_predecessor SET is_open = false
            WHERE id = ANY (ARRAY(
                SELECT link_id FROM told
                WHERE job_id IN (SELECT id FROM held)
                    OR NOT EXISTS (
                        SELECT FROM pgjobs_job WHERE id = told.job_id OFFSET 0
                    )
            ))
        ),
        unmet AS MATERIALIZED (
            SELECT DISTINCT ON (job_id) told.* FROM told
            WHERE NOT pgjobs_meets(needs, outcome)
                AND job_id IN (SELECT id FROM held WHERE finished_at IS NULL)
            ORDER BY job_id, link_id
        ),
        given_up AS (
            UPDATE pgjobs_job AS job
            SET status = CASE needs WHEN 'dependency' THEN 'FAILED' ELSE 'CANCELLED' END,
                finished_at = clock_timestamp(),
                waiting_for = NULL,
                -- Whose retry brings a cancelled job back.
                blocked_by_id = CASE WHEN needs <> 'failure' THEN culprit END,
                reason = pgjobs_reason_of_end(needs, outcome, culprit, unmet.batch_id)
            FROM unmet
            WHERE job.id = unmet.job_id AND status IN ('READY', 'SCHEDULED', 'WAITING')
            RETURNING job.id
        )
        SELECT ARRAY(
                SELECT id FROM held
                WHERE finished_at IS NULL AND id NOT IN (SELECT job_id FROM unmet)
            ),
            ARRAY(SELECT id FROM given_up)
        INTO followers, ended;
    END
    $$;

    -- Mark unfinished jobs as those whose end others wait for.
    CREATE FUNCTION pgjobs_mark(ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        unmarked bigint[] := ARRAY(
            SELECT id FROM pgjobs_job
            WHERE id = ANY (ids) AND finished_at IS NULL
                AND NOT coalesce(keys ? 'has_successors', false)
        );
    BEGIN
        IF unmarked = '{}' THEN
            RETURN;
        END IF;
        UPDATE pgjobs_job
        SET keys = coalesce(keys, '{}') || '{"has_successors": true}'
        WHERE id = ANY (ARRAY(
            SELECT id FROM pgjobs_job
            WHERE id = ANY (unmarked) AND finished_at IS NULL
            FOR NO KEY UPDATE SKIP LOCKED
        ));
        -- One that could not be marked, because its row is held, may end unseen.
        INSERT INTO pgjobs_note (job_id)
        SELECT id FROM pgjobs_job
        WHERE id = ANY (unmarked) AND NOT coalesce(keys ? 'has_successors', false);
    END
    $$;

    -- Make the links of jobs that have arrived, and look how their predecessors have
    -- ended. Those that have not are marked, so that their end is noticed. `followers`:
    -- others that had waited for the same, too.
    CREATE FUNCTION pgjobs_link_arrived(
        ids bigint[], most integer, OUT followers bigint[], OUT ended bigint[]
    ) LANGUAGE plpgsql AS $$
    DECLARE
        linked bigint[] := ARRAY(
            SELECT id FROM pgjobs_job
            WHERE id = ANY (ids) AND (line = 'unlinked' OR dependencies IS NOT NULL)
        );
        predecessors bigint[];
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
            SELECT unnest(pgjobs_ids(keys, 'after')), NULL::bigint
            UNION ALL
            SELECT NULL::bigint, unnest(pgjobs_ids(keys, 'after_batches'))
        ) AS named (predecessor_id, batch_id)
        WHERE id = ANY (linked)
        ON CONFLICT DO NOTHING;
        predecessors := ARRAY(
            SELECT DISTINCT predecessor_id FROM pgjobs_predecessor
            WHERE job_id = ANY (linked) AND is_open AND predecessor_id IS NOT NULL
        );
        PERFORM pgjobs_mark(predecessors);
        SELECT * INTO followers, ended
        FROM pgjobs_close_links(
            predecessors,
            ARRAY(
                SELECT DISTINCT batch_id FROM pgjobs_predecessor
                WHERE job_id = ANY (linked) AND is_open AND batch_id IS NOT NULL
            ),
            most
        );
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_link_arrived(bigint[], integer);
    DROP FUNCTION pgjobs_mark(bigint[]);
    DROP FUNCTION pgjobs_close_links(bigint[], bigint[], integer);
    DROP FUNCTION pgjobs_reason_of_end(text, text, bigint, bigint);
    DROP FUNCTION pgjobs_batch_outcome(bigint);
    DROP FUNCTION pgjobs_batch_has(bigint, text);
    DROP FUNCTION pgjobs_meets(text, text);
    """,
)

DECIDE = (
    """
    -- When a rate lets its n-th next job start.
    CREATE FUNCTION pgjobs_rate_opens_at(
        full_at timestamptz, rate_interval double precision, rate_burst integer,
        n bigint, at timestamptz
    ) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
        -- A bucket of `rate_burst` tokens, which gets one back each interval. When it
        -- will be full says all (the "generic cell rate algorithm").
        SELECT greatest(full_at, at) + make_interval(secs => (n - rate_burst) * rate_interval)
    $$;

    -- The jobs at the heads of the lines that wait for these keys, as many as the keys
    -- have room for. One that is taken has none, however many wait for it. Each kind is a
    -- statement of its own: to begin one takes longer than to look for a key.
    CREATE FUNCTION pgjobs_next_of_locks(locks text[]) RETURNS bigint[]
    LANGUAGE plpgsql STABLE AS $$
    BEGIN
        RETURN ARRAY(
            WITH free AS MATERIALIZED (
                SELECT DISTINCT lock FROM unnest(locks) AS touched (lock)
                WHERE NOT EXISTS (
                    SELECT FROM pgjobs_job
                    WHERE keys IS NOT NULL AND keys ->> 'lock' = touched.lock
                        AND status IN ('READY', 'RUNNING')
                    OFFSET 0  -- asked for each: no join with all that run
                )
            )
            SELECT first.id
            FROM free CROSS JOIN LATERAL (
                SELECT id, line, queue_name FROM pgjobs_job
                WHERE keys IS NOT NULL
                    -- An equation would let the planner walk the primary key.
                    AND keys ->> 'lock' BETWEEN free.lock AND free.lock
                    AND (keys ->> 'is_ordered') IS DISTINCT FROM 'false'
                    AND finished_at IS NULL
                ORDER BY keys ->> 'lock', id LIMIT 1
            ) AS first
            WHERE first.line = pgjobs_line('lock', free.lock)
                AND pgjobs_is_served(first.queue_name)
            UNION ALL
            SELECT head.id
            FROM (
                SELECT lock FROM free
                WHERE EXISTS (
                    SELECT FROM pgjobs_job WHERE line = pgjobs_line('mutex', lock)
                    OFFSET 0
                )
                OFFSET 0
            ) AS wanted
            CROSS JOIN LATERAL pgjobs_heads(pgjobs_line('mutex', lock), 1) AS head (id)
        );
    END
    $$;

    CREATE FUNCTION pgjobs_next_of_limits(limits text[], most integer) RETURNS bigint[]
    LANGUAGE plpgsql STABLE AS $$
    BEGIN
        RETURN ARRAY(
            WITH open AS MATERIALIZED (
                SELECT wanted.limit_key, first.id,
                    -- What the first in line allows.
                    (job.keys ->> 'max_running')::integer AS allowed
                FROM (
                    SELECT DISTINCT limit_key FROM unnest(limits) AS touched (limit_key)
                    WHERE EXISTS (
                        SELECT FROM pgjobs_job
                        WHERE line = pgjobs_line('limit', limit_key)
                        OFFSET 0
                    )
                    OFFSET 0
                ) AS wanted
                CROSS JOIN LATERAL pgjobs_heads(
                    pgjobs_line('limit', limit_key), 1
                ) AS first (id)
                JOIN pgjobs_job AS job ON job.id = first.id
            ),
            -- Most limits have room for one at a time.
            room AS MATERIALIZED (
                SELECT limit_key, id, least(
                        most, allowed - pgjobs_number_running(limit_key, allowed)
                    ) AS number
                FROM open
            )
            SELECT id FROM room WHERE number = 1
            UNION ALL
            SELECT head.id
            FROM (SELECT * FROM room WHERE number > 1 OFFSET 0) AS room
            CROSS JOIN LATERAL pgjobs_heads(pgjobs_line('limit', limit_key), number)
                AS head (id)
        );
    END
    $$;

    CREATE FUNCTION pgjobs_next_of_rates(rates jsonb[], most integer) RETURNS bigint[]
    LANGUAGE plpgsql STABLE AS $$
    BEGIN
        RETURN ARRAY(
            SELECT head.id
            FROM (
                SELECT keys ->> 'rate_key' AS rate_key,
                    max((keys ->> 'rate_burst')::integer) AS burst
                FROM unnest(rates) AS touched (keys)
                WHERE EXISTS (
                        SELECT FROM pgjobs_job
                        WHERE line = pgjobs_line('rate', keys ->> 'rate_key')
                        OFFSET 0
                    )
                    AND NOT EXISTS (
                        SELECT FROM pgjobs_rate
                        WHERE key = keys ->> 'rate_key' AND opens_at > clock_timestamp()
                        OFFSET 0
                    )
                GROUP BY keys ->> 'rate_key'
                OFFSET 0
            ) AS wanted
            CROSS JOIN LATERAL pgjobs_heads(
                pgjobs_line('rate', rate_key), least(most, burst)
            ) AS head (id)
        );
    END
    $$;

    CREATE FUNCTION pgjobs_next_in_lines(touched jsonb[], most integer) RETURNS bigint[]
    LANGUAGE plpgsql STABLE AS $$
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

    -- How many jobs have a place of the limit; `most` at most.
    CREATE FUNCTION pgjobs_number_running(of_limit text, most integer) RETURNS integer
    LANGUAGE plpgsql STABLE AS $$
    BEGIN
        RETURN count(*) FROM (
            SELECT FROM pgjobs_job
            WHERE keys IS NOT NULL AND keys ->> 'limit_key' = of_limit
                AND status IN ('READY', 'RUNNING')
            LIMIT most
        ) AS place;
    END
    $$;

    -- Decide about these jobs: one that nothing holds back is READY, the others stand in
    -- the line of the first thing that does. Each takes room from those behind it. A job
    -- that finds its lock free, and no room, leaves the lock to the next in line: such
    -- keys are *touched* again. `seen`: the jobs whose rows no other transaction holds.
    CREATE FUNCTION pgjobs_decide(
        ids bigint[],
        OUT seen bigint[], OUT admitted_to text[], OUT touched jsonb[],
        OUT rate_keys text[], OUT met_undecided boolean
    ) LANGUAGE plpgsql AS $$
    DECLARE
        at timestamptz := clock_timestamp();
    BEGIN
        WITH candidate AS MATERIALIZED (
            SELECT job.id, job.queue_name, job.priority, job.turn, job.line,
                job.dependencies, flow.*,
                job.dependencies IS NOT NULL
                    OR job.keys ?| ARRAY['after', 'after_batches'] AS is_linked
            FROM (
                SELECT * FROM pgjobs_job
                WHERE id = ANY (ids) AND status = 'WAITING'
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS job
            CROSS JOIN LATERAL jsonb_populate_record(
                NULL::pgjobs_flow_control, job.keys
            ) AS flow
        ),
        linked AS MATERIALIZED (
            SELECT candidate.*,
                CASE
                    WHEN link.obstacle IS NOT NULL THEN link.obstacle
                    WHEN dependencies IS NOT NULL
                        AND pgjobs_lacks_dependency(dependencies) THEN 'undecided'
                    -- Others are not even candidates.
                    WHEN is_linked AND NOT pgjobs_is_served(queue_name) THEN 'unserved'
                    WHEN holder.id IS NOT NULL THEN 'lock'
                END AS obstacle,
                coalesce(link.predecessor_id, holder.id) AS blocker
            FROM candidate
            LEFT JOIN LATERAL (
                SELECT predecessor_id,
                    CASE needs WHEN 'dependency' THEN needs ELSE 'predecessor' END
                        AS obstacle
                FROM pgjobs_predecessor
                WHERE candidate.is_linked AND job_id = candidate.id AND is_open
                ORDER BY needs = 'dependency', predecessor_id LIMIT 1
            ) AS link ON true
            LEFT JOIN LATERAL (
                SELECT coalesce(
                    (
                        SELECT id FROM pgjobs_job
                        WHERE keys IS NOT NULL AND keys ->> 'lock' = candidate.lock
                            AND status IN ('READY', 'RUNNING')
                    ),
                    (
                        SELECT first.id FROM (
                            SELECT id FROM pgjobs_job
                            WHERE keys IS NOT NULL
                                AND keys ->> 'lock'
                                    BETWEEN candidate.lock AND candidate.lock
                                AND (keys ->> 'is_ordered') IS DISTINCT FROM 'false'
                                AND finished_at IS NULL
                            ORDER BY keys ->> 'lock', id LIMIT 1
                        ) AS first
                        WHERE first.id < candidate.id
                            AND candidate.is_ordered IS NOT false
                    )
                ) AS id
                WHERE candidate.lock IS NOT NULL
            ) AS holder ON true
        ),
        -- One of each lock.
        in_lock AS (
            SELECT *, first_value(id) OVER same AS first_id, count(*) OVER (
                    PARTITION BY obstacle IS NULL, lock
                ) AS lock_seekers
            FROM linked
            WINDOW same AS (
                PARTITION BY obstacle IS NULL, lock ORDER BY priority DESC, turn
            )
        ),
        past_lock AS (
            SELECT id, queue_name, priority, turn, line, lock, is_ordered, limit_key,
                max_running, rate_key, rate_interval, rate_burst, lock_seekers,
                CASE
                    WHEN obstacle IS NULL AND lock IS NOT NULL AND first_id <> id
                        THEN 'lock'
                    ELSE obstacle
                END AS obstacle,
                CASE
                    WHEN obstacle IS NULL AND lock IS NOT NULL AND first_id <> id
                        THEN first_id
                    ELSE blocker
                END AS blocker
            FROM in_lock
        ),
        -- As many of each limit as it has room for; one that allows less holds up those
        -- behind it.
        in_limit AS (
            SELECT *, row_number() OVER same AS number, count(*) OVER (
                    PARTITION BY obstacle IS NULL, limit_key
                ) AS limit_seekers
            FROM past_lock
            WINDOW same AS (
                PARTITION BY obstacle IS NULL, limit_key ORDER BY priority DESC, turn
            )
        ),
        running AS (
            SELECT *, first_value(
                    CASE
                        WHEN number = 1 AND obstacle IS NULL AND limit_key IS NOT NULL
                            THEN pgjobs_number_running(limit_key, max_running)
                    END
                ) OVER (
                    PARTITION BY obstacle IS NULL, limit_key ORDER BY number
                ) AS running
            FROM in_limit
        ),
        past_limit AS (
            SELECT *,
                CASE
                    WHEN obstacle IS NULL AND bool_or(running + number > max_running)
                        OVER (PARTITION BY obstacle IS NULL, limit_key ORDER BY number)
                        THEN 'limit'
                    ELSE obstacle
                END AS later_obstacle
            FROM running
        ),
        -- As many of each rate as it has tokens.
        in_rate AS (
            SELECT past_limit.*, full_at, row_number() OVER (
                    PARTITION BY later_obstacle IS NULL, rate_key
                    ORDER BY priority DESC, turn
                ) AS rate_number
            FROM past_limit LEFT JOIN pgjobs_rate AS rate ON rate.key = rate_key
        ),
        verdict AS MATERIALIZED (
            SELECT *,
                CASE last_obstacle
                    WHEN 'lock' THEN pgjobs_line(
                        CASE WHEN is_ordered IS false THEN 'mutex' ELSE 'lock' END, lock
                    )
                    WHEN 'limit' THEN pgjobs_line('limit', limit_key)
                    WHEN 'rate' THEN pgjobs_line('rate', rate_key)
                    WHEN 'dependency' THEN 'predecessor'
                    WHEN 'unserved' THEN 'arrived'
                    ELSE last_obstacle
                END AS next_line
            FROM (
                SELECT *,
                    CASE
                        WHEN later_obstacle IS NULL AND rate_key IS NOT NULL
                            AND pgjobs_rate_opens_at(
                                full_at, rate_interval, rate_burst, rate_number, at
                            ) > at
                            THEN 'rate'
                        ELSE later_obstacle
                    END AS last_obstacle
                FROM in_rate
            ) AS decided
        ),
        moved AS (
            UPDATE pgjobs_job AS job
            SET status = CASE
                    WHEN last_obstacle IS NULL THEN 'READY' ELSE 'WAITING'
                END,
                waiting_for = CASE last_obstacle
                    WHEN 'undecided' THEN 'dependency'
                    WHEN 'unserved' THEN job.waiting_for
                    ELSE last_obstacle
                END,
                blocked_by_id = blocker,
                line = next_line,
                -- Behind what was enqueued while it waited: limit keys take turns.
                turn = CASE
                    WHEN last_obstacle IS NULL AND starts_with(job.line, 'limit ')
                        THEN nextval('pgjobs_turn')
                    ELSE job.turn
                END
            FROM verdict
            WHERE job.id = verdict.id AND job.line IS DISTINCT FROM next_line
        ),
        taken AS (
            INSERT INTO pgjobs_rate AS rate (key, full_at)
            SELECT rate_key, at + make_interval(secs => sum(rate_interval))
            FROM verdict WHERE last_obstacle IS NULL AND rate_key IS NOT NULL
            GROUP BY rate_key
            ON CONFLICT (key) DO UPDATE
                SET full_at = greatest(rate.full_at, at) + (excluded.full_at - at)
        )
        SELECT array_agg(id),
            array_agg(queue_name) FILTER (WHERE last_obstacle IS NULL),
            array_agg(
                CASE
                    WHEN last_obstacle = 'rate' THEN jsonb_strip_nulls(
                        jsonb_build_object('lock', lock, 'limit_key', limit_key)
                    )
                    ELSE jsonb_build_object('lock', lock)
                END
            ) FILTER (
                WHERE last_obstacle IN ('limit', 'rate')
                    AND num_nonnulls(
                        lock, CASE last_obstacle WHEN 'rate' THEN limit_key END
                    ) > 0
                    AND (
                        line IS DISTINCT FROM next_line
                        OR lock_seekers > 1 OR limit_seekers > 1
                    )
            ),
            array_agg(DISTINCT rate_key) FILTER (WHERE last_obstacle = 'rate'),
            bool_or(last_obstacle = 'undecided')
        INTO seen, admitted_to, touched, rate_keys, met_undecided
        FROM verdict;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_decide(bigint[]);
    DROP FUNCTION pgjobs_next_in_lines(jsonb[], integer);
    DROP FUNCTION pgjobs_next_of_rates(jsonb[], integer);
    DROP FUNCTION pgjobs_next_of_limits(text[], integer);
    DROP FUNCTION pgjobs_next_of_locks(text[]);
    DROP FUNCTION pgjobs_number_running(text, integer);
    DROP FUNCTION pgjobs_rate_opens_at(
        timestamptz, double precision, integer, bigint, timestamptz
    );
    """,
)

ADMIT = (
    """
    -- Take the batch of jobs that have ended or gone back: their successors may follow,
    -- and their keys have room.
    CREATE FUNCTION pgjobs_take_left(
        most integer, OUT number integer,
        OUT touched jsonb[], OUT followers bigint[], OUT ended bigint[]
    ) LANGUAGE plpgsql AS $$
    DECLARE
        ids bigint[] := ARRAY(
            SELECT id FROM pgjobs_job WHERE line IN ('recorded', 'left')
            LIMIT most FOR NO KEY UPDATE SKIP LOCKED
        );
        linked bigint[];
        batches bigint[];
    BEGIN
        number := 0;
        touched := '{}';
        followers := '{}';
        ended := '{}';
        IF ids = '{}' THEN
            RETURN;
        END IF;
        SELECT array_agg(id) FILTER (WHERE keys ? 'has_successors'),
            array_agg(DISTINCT batch_id) FILTER (WHERE batch_id IS NOT NULL)
        INTO linked, batches
        FROM pgjobs_job WHERE id = ANY (ids) AND finished_at IS NOT NULL;
        IF coalesce(linked, batches) IS NOT NULL THEN
            SELECT * INTO followers, ended
            FROM pgjobs_close_links(linked, batches, most);
        END IF;
        WITH taken AS (
            UPDATE pgjobs_job AS job SET line = NULL
            WHERE id = ANY (ids)
                -- Others are left to the next admission.
                AND NOT EXISTS (
                    SELECT FROM pgjobs_predecessor AS link
                    JOIN pgjobs_job AS follower ON follower.id = link.job_id
                    WHERE job.keys ? 'has_successors' AND job.finished_at IS NOT NULL
                        AND link.predecessor_id = job.id AND link.is_open
                    OFFSET 0
                )
                AND NOT EXISTS (
                    SELECT FROM pgjobs_predecessor AS link
                    JOIN pgjobs_job AS follower ON follower.id = link.job_id
                    WHERE job.batch_id IS NOT NULL AND job.finished_at IS NOT NULL
                        AND link.batch_id = job.batch_id AND link.is_open
                        AND (
                            link.needs = 'failure' AND job.status = 'FAILED'
                            OR (pgjobs_batch_outcome(job.batch_id)).outcome
                                <> 'UNFINISHED'
                        )
                    OFFSET 0
                )
            RETURNING keys
        )
        SELECT count(*), coalesce(
            array_agg(keys) FILTER (WHERE keys ?| ARRAY['lock', 'limit_key']), '{}'
        ) INTO number, touched FROM taken;
    END
    $$;

    -- Take the notes: keys that have room, and jobs whose followers have to be told.
    CREATE FUNCTION pgjobs_take_notes(
        most integer, OUT touched jsonb[], OUT followers bigint[], OUT ended bigint[]
    ) LANGUAGE plpgsql AS $$
    DECLARE
        ids bigint[];
        batches bigint[];
    BEGIN
        followers := '{}';
        touched := '{}';
        ended := '{}';
        IF NOT EXISTS (SELECT FROM pgjobs_note) THEN
            RETURN;
        END IF;
        WITH note AS (
            DELETE FROM pgjobs_note
            WHERE id = ANY (ARRAY(SELECT id FROM pgjobs_note ORDER BY id LIMIT most))
            RETURNING job_id, keys
        )
        SELECT array_agg(job_id) FILTER (WHERE job_id IS NOT NULL),
            array_agg((keys ->> 'batch_id')::bigint) FILTER (WHERE keys ? 'batch_id'),
            coalesce(array_agg(keys) FILTER (WHERE keys IS NOT NULL), '{}')
        INTO ids, batches, touched FROM note;
        IF coalesce(ids, batches) IS NOT NULL THEN
            PERFORM pgjobs_mark(ids);
            SELECT * INTO followers, ended FROM pgjobs_close_links(ids, batches, most);
            -- Whose rows are held, or too many.
            INSERT INTO pgjobs_note (keys)
            SELECT DISTINCT jsonb_build_object('batch_id', id)
            FROM unnest(batches) AS given (id)
            CROSS JOIN LATERAL pgjobs_batch_outcome(id)
            WHERE outcome <> 'UNFINISHED' AND EXISTS (
                SELECT FROM pgjobs_predecessor AS link
                JOIN pgjobs_job AS follower ON follower.id = link.job_id
                WHERE link.batch_id = given.id AND link.is_open
                OFFSET 0
            );
            INSERT INTO pgjobs_note (job_id)
            SELECT id FROM unnest(ids) AS given (id)
            WHERE NOT EXISTS (
                    SELECT FROM pgjobs_job WHERE id = given.id AND finished_at IS NULL
                    OFFSET 0
                )
                AND EXISTS (
                    SELECT FROM pgjobs_predecessor AS link
                    JOIN pgjobs_job AS follower ON follower.id = link.job_id
                    WHERE link.predecessor_id = given.id AND link.is_open
                    OFFSET 0
                );
        END IF;
    END
    $$;

    -- Look at a batch of lines whether their keys have room, and at links whether their
    -- predecessor has ended: what no row and no note tells. Jobs that have a place and
    -- would not run, because their queue is paused or unserved, make room.
    CREATE FUNCTION pgjobs_sweep(
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
            WHERE is_open AND id > after_link ORDER BY id LIMIT most
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
                    AND status IN ('READY', 'RUNNING') AND status = 'READY'
                    AND NOT pgjobs_is_served(queue_name)
                UNION ALL
                SELECT id FROM pgjobs_job
                WHERE keys IS NOT NULL AND keys ->> 'limit_key' = key ->> 'limit_key'
                    AND status IN ('READY', 'RUNNING') AND status = 'READY'
                    AND NOT pgjobs_is_served(queue_name)
            ) AS job
            LIMIT most
        ))
            AND status = 'READY';
        after_line := CASE WHEN cardinality(lines) = most THEN lines[most] ELSE '' END;
        after_link := CASE WHEN cardinality(links) = most THEN links[most] ELSE 0 END;
    END
    $$;

    -- Say when the rates for which jobs wait have their next token.
    CREATE FUNCTION pgjobs_expect_tokens(rate_keys text[]) RETURNS void
    LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE pgjobs_rate AS rate SET opens_at = (
            SELECT pgjobs_rate_opens_at(
                full_at, (keys ->> 'rate_interval')::double precision,
                (keys ->> 'rate_burst')::integer, 1, full_at
            )
            FROM pgjobs_heads(pgjobs_line('rate', rate.key), 1) AS head (id)
            JOIN pgjobs_job AS job ON job.id = head.id
        )
        WHERE key = ANY (rate_keys);
    END
    $$;

    -- What there is to look at: jobs to decide about, and keys that may have room.
    CREATE FUNCTION pgjobs_take_arrived(
        most integer, INOUT after_queue text, OUT ids bigint[], OUT touched jsonb[],
        OUT ended bigint[]
    ) LANGUAGE plpgsql AS $$
    DECLARE
        followers bigint[];
        most_queues CONSTANT integer := 100;
        queues text[] := pgjobs_queues_of('arrived', after_queue, most_queues);
    BEGIN
        ids := ARRAY(SELECT id FROM pgjobs_job WHERE line = 'unlinked' LIMIT most);
        IF queues <> '{}' THEN
            ids := ids || ARRAY(SELECT pgjobs_heads('arrived', most, queues));
        END IF;
        after_queue := CASE
            WHEN cardinality(queues) = most_queues THEN queues[most_queues] ELSE ''
        END;
        touched := '{}';
        ended := '{}';
        IF ids = '{}' THEN
            RETURN;
        END IF;
        SELECT * INTO followers, ended FROM pgjobs_link_arrived(ids, most);
        -- Those that are only due later needed no more than that.
        UPDATE pgjobs_job SET line = NULL WHERE id = ANY (ids) AND status = 'SCHEDULED';
        -- Others may have waited longer for the same.
        touched := ARRAY(
            SELECT keys FROM pgjobs_job
            WHERE id = ANY (ids) AND keys ?| ARRAY['lock', 'limit_key', 'rate_key']
        );
        ids := ids || followers;
    END
    $$;

    -- Take the rates that have a token again.
    CREATE FUNCTION pgjobs_take_due_rates(most integer, OUT rate_keys text[])
    LANGUAGE plpgsql AS $$
    BEGIN
        WITH due AS (
            UPDATE pgjobs_rate SET opens_at = NULL
            WHERE key = ANY (ARRAY(
                SELECT key FROM pgjobs_rate WHERE opens_at <= clock_timestamp()
                ORDER BY opens_at LIMIT most
            ))
            RETURNING key
        )
        SELECT coalesce(array_agg(key), '{}') INTO rate_keys FROM due;
    END
    $$;

    -- Leave notes of jobs whose rows other transactions hold, so that their lines are
    -- looked at again.
    CREATE FUNCTION pgjobs_note_unseen(ids bigint[], seen bigint[]) RETURNS void
    LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO pgjobs_note (keys)
        SELECT coalesce(keys, '{}') FROM pgjobs_job
        WHERE id = ANY (ids) AND NOT id = ANY (seen) AND status = 'WAITING';
    END
    $$;

    -- Tell the workers of what is READY, but not the caller, who looks by itself.
    CREATE FUNCTION pgjobs_notify_admitted(
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

    -- One admission; see above. `admitted` is NULL if another worker admits right now.
    -- `room`: how many jobs of the `served` queues (NULL: of all) the caller claims at
    -- once; it need not be notified of them. `ended`: the jobs that it ended.
    -- `has_more`: there is more to do at once; `is_blocked`: there is, as soon as other
    -- transactions let go of the rows that they hold.
    CREATE FUNCTION pgjobs_admit(
        most integer, seconds double precision, sweeps boolean,
        INOUT after_queue text, INOUT after_line text, INOUT after_link bigint,
        room integer, served text[], excluded text[],
        OUT admitted integer, OUT ended bigint[], OUT has_more boolean,
        OUT is_blocked boolean, OUT met_undecided boolean
    ) LANGUAGE plpgsql AS $$
    DECLARE
        deadline timestamptz := clock_timestamp() + make_interval(secs => seconds);
        found record;
        touched jsonb[];
        ids bigint[];  -- to decide about
        rate_keys text[] := '{}';
        admitted_to text[] := '{}';
    BEGIN
        -- Only this level shows what others have committed since the statement began.
        -- The class of the lock is "pgjk" in ASCII.
        IF current_setting('transaction_isolation') <> 'read committed'
            OR NOT pg_try_advisory_xact_lock(x'70676a6b'::int, 0)
        THEN
            RETURN;
        END IF;
        found := pgjobs_take_arrived(most, after_queue);
        after_queue := found.after_queue;
        ids := found.ids;
        touched := found.touched;
        ended := found.ended;
        has_more := after_queue <> '' OR cardinality(ids) >= most;
        found := pgjobs_take_notes(most);
        ids := ids || found.followers;
        touched := touched || found.touched;
        ended := ended || found.ended;
        IF EXISTS (SELECT FROM pgjobs_rate WHERE opens_at <= clock_timestamp()) THEN
            rate_keys := pgjobs_take_due_rates(most);
            touched := touched || ARRAY(
                SELECT jsonb_build_object('rate_key', key, 'rate_burst', most)
                FROM unnest(rate_keys) AS key
            );
        END IF;
        met_undecided := false;
        IF sweeps THEN
            found := pgjobs_sweep(most, after_line, after_link);
            after_line := found.after_line;
            after_link := found.after_link;
            ids := ids || found.followers;
            touched := touched || found.touched;
            ended := ended || found.ended;
            met_undecided := EXISTS (SELECT FROM pgjobs_job WHERE line = 'undecided');
        END IF;
        LOOP
            found := pgjobs_take_left(most);
            ids := ids || found.followers;
            touched := touched || found.touched;
            ended := ended || found.ended;
            IF touched <> '{}' THEN
                ids := ids || pgjobs_next_in_lines(touched, most);
                touched := '{}';
            END IF;
            EXIT WHEN ids = '{}' AND found.number = 0;
            IF ids <> '{}' THEN
                ids := ARRAY(SELECT DISTINCT unnest(ids));
                found := pgjobs_decide(ids);
                IF cardinality(ids) > coalesce(cardinality(found.seen), 0) THEN
                    PERFORM pgjobs_note_unseen(ids, coalesce(found.seen, '{}'));
                END IF;
                admitted_to := admitted_to || found.admitted_to;
                touched := coalesce(found.touched, '{}');
                rate_keys := rate_keys || found.rate_keys;
                met_undecided := met_undecided OR coalesce(found.met_undecided, false);
                ids := '{}';
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
            OR EXISTS (SELECT FROM pgjobs_job WHERE line IN ('recorded', 'left'));
    END
    $$;

    -- The planner's guesses about a queue are outdated by the time it makes them.
    DO $$
    DECLARE
        setting text;
        admit CONSTANT regprocedure := (
            SELECT oid FROM pg_proc
            WHERE proname = 'pgjobs_admit'
                AND pronamespace = current_schema()::regnamespace
        );
    BEGIN
        FOREACH setting IN ARRAY ARRAY[
            'enable_seqscan = off', 'enable_bitmapscan = off', 'enable_hashjoin = off',
            'enable_mergejoin = off', 'plan_cache_mode = force_generic_plan', 'jit = off',
            format('search_path = pg_catalog, %I, pg_temp', current_schema())
        ] LOOP
            EXECUTE format('ALTER FUNCTION %s SET %s', admit, setting);
        END LOOP;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_admit(
        integer, double precision, boolean, text, text, bigint, integer, text[], text[]
    );
    DROP FUNCTION pgjobs_notify_admitted(text[], integer, text[], text[]);
    DROP FUNCTION pgjobs_note_unseen(bigint[], bigint[]);
    DROP FUNCTION pgjobs_take_due_rates(integer);
    DROP FUNCTION pgjobs_take_arrived(integer, text);
    DROP FUNCTION pgjobs_expect_tokens(text[]);
    DROP FUNCTION pgjobs_sweep(integer, text, bigint);
    DROP FUNCTION pgjobs_take_notes(integer);
    DROP FUNCTION pgjobs_take_left(integer);
    """,
)


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0004_flow_control")]

    operations = [
        RunPostgreSQL(forwards, backwards)
        for forwards, backwards in (LINES, LINKS, DECIDE, ADMIT)
    ]
