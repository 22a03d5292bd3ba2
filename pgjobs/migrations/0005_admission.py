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

    -- The first jobs of lines, `numbers` of each, of those queues that are served: the
    -- jobs of a paused or unserved one are passed over. The queues of a line are found by
    -- hopping from name to name.
    CREATE FUNCTION pgjobs_heads(lines text[], numbers integer[])
    RETURNS TABLE (line text, id bigint, keys jsonb) LANGUAGE plpgsql STABLE AS $$
    BEGIN
        RETURN QUERY
        WITH queue AS MATERIALIZED (
            SELECT wanted.name AS line, wanted.number, hop.name
            FROM unnest(lines, numbers) AS wanted (name, number)
            CROSS JOIN LATERAL (
                WITH RECURSIVE hop (name, number) AS (
                    (
                        SELECT queue_name, 1 FROM pgjobs_job AS job
                        WHERE job.line = wanted.name
                        ORDER BY queue_name LIMIT 1
                    )
                    UNION ALL
                    SELECT (
                        SELECT queue_name FROM pgjobs_job AS job
                        WHERE job.line = wanted.name AND queue_name > hop.name
                        ORDER BY queue_name LIMIT 1
                    ), hop.number + 1
                    FROM hop WHERE hop.name IS NOT NULL AND hop.number < 1000
                )
                SELECT hop.name FROM hop WHERE hop.name IS NOT NULL
            ) AS hop
        ),
        served AS MATERIALIZED (
            SELECT each.name FROM (SELECT DISTINCT queue.name FROM queue) AS each
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
    """
    DROP FUNCTION pgjobs_heads(text[], integer[]);
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

    -- Leave notes of what was not closed: too many links, or jobs whose rows other
    -- transactions hold.
    CREATE FUNCTION pgjobs_leave_open(ids bigint[], batches bigint[]) RETURNS integer
    LANGUAGE plpgsql AS $$
    DECLARE
        number integer;
        number_of_batches integer;
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
        RETURN number + number_of_batches;
    END
    $$;

    -- Mark unfinished jobs as those whose end others wait for. This and the function
    -- above return how many notes they leave.
    CREATE FUNCTION pgjobs_mark(ids bigint[]) RETURNS integer LANGUAGE plpgsql AS $$
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
        -- One that could not be marked, because its row is held, may end unseen.
        INSERT INTO pgjobs_note (job_id)
        SELECT id FROM pgjobs_job
        WHERE id = ANY (unmarked) AND NOT coalesce(keys ? 'has_successors', false);
        GET DIAGNOSTICS number = ROW_COUNT;
        RETURN number;
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
        predecessors := ARRAY(
            SELECT DISTINCT predecessor_id FROM pgjobs_predecessor
            WHERE job_id = ANY (linked) AND is_open AND predecessor_id IS NOT NULL
        );
        PERFORM pgjobs_mark(predecessors);
        batches := ARRAY(
            SELECT DISTINCT batch_id FROM pgjobs_predecessor
            WHERE job_id = ANY (linked) AND is_open AND batch_id IS NOT NULL
        );
        SELECT * INTO followers, ended
        FROM pgjobs_close_links(predecessors, batches, most);
        PERFORM pgjobs_leave_open(predecessors, batches);
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_link_arrived(bigint[], integer);
    DROP FUNCTION pgjobs_mark(bigint[]);
    DROP FUNCTION pgjobs_leave_open(bigint[], bigint[]);
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
                SELECT array_agg(pgjobs_line('mutex', lock)) AS lines, array_agg(1) AS ones
                FROM free
            ) AS mutex
            CROSS JOIN LATERAL pgjobs_heads(lines, ones) AS head
        );
    END
    $$;

    CREATE FUNCTION pgjobs_next_of_limits(limits text[], most integer) RETURNS bigint[]
    LANGUAGE plpgsql STABLE AS $$
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
            -- As many as the first in line allows.
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
        ) AS room;
        IF lines IS NOT NULL THEN
            ids := ids || ARRAY(SELECT id FROM pgjobs_heads(lines, numbers));
        END IF;
        RETURN coalesce(ids, '{}');
    END
    $$;

    CREATE FUNCTION pgjobs_next_of_rates(rates jsonb[], most integer) RETURNS bigint[]
    LANGUAGE plpgsql STABLE AS $$
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
                WHERE NOT EXISTS (
                    SELECT FROM pgjobs_rate
                    WHERE key = rate_key AND opens_at > clock_timestamp()
                    OFFSET 0
                )
            ) AS touched
            CROSS JOIN LATERAL pgjobs_heads(lines, bursts) AS head
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

    -- A job to be decided about, and the first thing that holds it back, if any.
    CREATE TYPE pgjobs_candidate AS (
        id bigint, queue_name text, priority integer, turn bigint, line text,
        lock text, is_ordered boolean, limit_key text, max_running integer,
        rate_key text, rate_interval double precision, rate_burst integer,
        obstacle text, blocker bigint
    );

    -- Predecessors, dependencies and locks. Each lock lets one of the candidates pass.
    CREATE FUNCTION pgjobs_meet_locks(ids bigint[]) RETURNS pgjobs_candidate[]
    LANGUAGE plpgsql AS $$
    BEGIN
        RETURN ARRAY(
            WITH job AS MATERIALIZED (
                SELECT id, queue_name, priority, turn, line, keys, dependencies,
                    keys ->> 'lock' AS lock,
                    keys ->> 'is_ordered' IS DISTINCT FROM 'false' AS is_ordered,
                    dependencies IS NOT NULL
                        OR keys ?| ARRAY['after', 'after_batches'] AS is_linked
                FROM pgjobs_job
                WHERE id = ANY (ids) AND status = 'WAITING'
                FOR NO KEY UPDATE SKIP LOCKED
            ),
            met AS (
                SELECT job.*,
                    CASE
                        WHEN link.obstacle IS NOT NULL THEN link.obstacle
                        WHEN dependencies IS NOT NULL
                            AND pgjobs_lacks_dependency(dependencies) THEN 'undecided'
                        -- Others are not even candidates.
                        WHEN is_linked AND NOT pgjobs_is_served(queue_name)
                            THEN 'unserved'
                        WHEN holder.id IS NOT NULL THEN 'lock'
                    END AS obstacle,
                    coalesce(link.predecessor_id, holder.id) AS blocker
                FROM job
                LEFT JOIN LATERAL (
                    SELECT predecessor_id,
                        CASE needs WHEN 'dependency' THEN needs ELSE 'predecessor' END
                            AS obstacle
                    FROM pgjobs_predecessor
                    WHERE job.is_linked AND job_id = job.id AND is_open
                    ORDER BY needs = 'dependency', predecessor_id LIMIT 1
                ) AS link ON true
                LEFT JOIN LATERAL (
                    SELECT coalesce(
                        (
                            SELECT id FROM pgjobs_job
                            WHERE keys IS NOT NULL AND keys ->> 'lock' = job.lock
                                AND status IN ('READY', 'RUNNING')
                        ),
                        (
                            SELECT first.id FROM (
                                SELECT id FROM pgjobs_job
                                WHERE keys IS NOT NULL
                                    AND keys ->> 'lock' BETWEEN job.lock AND job.lock
                                    AND (keys ->> 'is_ordered')
                                        IS DISTINCT FROM 'false'
                                    AND finished_at IS NULL
                                ORDER BY keys ->> 'lock', id LIMIT 1
                            ) AS first
                            WHERE job.is_ordered AND first.id < job.id
                        )
                    ) AS id
                    WHERE job.lock IS NOT NULL
                ) AS holder ON true
            )
            SELECT ROW(
                id, queue_name, priority, turn, line, lock, is_ordered,
                keys ->> 'limit_key', keys -> 'max_running',
                keys ->> 'rate_key', keys -> 'rate_interval', keys -> 'rate_burst',
                CASE WHEN loses THEN 'lock' ELSE obstacle END,
                CASE WHEN loses THEN first_id ELSE blocker END
            )::pgjobs_candidate
            FROM (
                SELECT *, obstacle IS NULL AND lock IS NOT NULL AND first_id <> id AS loses
                FROM (
                    SELECT *, first_value(id) OVER (
                            PARTITION BY obstacle IS NULL, lock
                            ORDER BY priority DESC, turn
                        ) AS first_id
                    FROM met
                ) AS placed
            ) AS decided
        );
    END
    $$;

    -- Limits: as many of each pass as it has room for. One that allows less holds up those
    -- behind it.
    CREATE FUNCTION pgjobs_meet_limits(candidates pgjobs_candidate[])
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
                    PARTITION BY obstacle IS NULL, limit_key ORDER BY number
                )
            ) AS counted
            WINDOW same_limit AS (
                PARTITION BY obstacle IS NULL, limit_key ORDER BY number
            )
        );
    END
    $$;

    -- Rates: as many of each pass as it has tokens.
    CREATE FUNCTION pgjobs_meet_rates(candidates pgjobs_candidate[], at timestamptz)
    RETURNS pgjobs_candidate[] LANGUAGE plpgsql AS $$
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
                    ) AS number
                FROM unnest(candidates)
            ) AS placed
            LEFT JOIN pgjobs_rate AS rate ON rate.key = rate_key
        );
    END
    $$;

    CREATE FUNCTION pgjobs_take_tokens(candidates pgjobs_candidate[], at timestamptz)
    RETURNS void LANGUAGE plpgsql AS $$
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

    CREATE FUNCTION pgjobs_line_of(candidate pgjobs_candidate) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        RETURN CASE candidate.obstacle
            WHEN 'lock' THEN pgjobs_line(
                CASE WHEN candidate.is_ordered THEN 'lock' ELSE 'mutex' END,
                candidate.lock
            )
            WHEN 'limit' THEN pgjobs_line('limit', candidate.limit_key)
            WHEN 'rate' THEN pgjobs_line('rate', candidate.rate_key)
            WHEN 'dependency' THEN 'predecessor'
            WHEN 'unserved' THEN 'arrived'
            ELSE candidate.obstacle
        END;
    END
    $$;

    -- Let each candidate go, or stand in the line of what holds it back.
    CREATE FUNCTION pgjobs_move(candidates pgjobs_candidate[]) RETURNS void
    LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE pgjobs_job AS job
        SET status = CASE WHEN obstacle IS NULL THEN 'READY' ELSE 'WAITING' END,
            waiting_for = CASE obstacle
                WHEN 'undecided' THEN 'dependency'
                WHEN 'unserved' THEN job.waiting_for
                ELSE obstacle
            END,
            blocked_by_id = blocker,
            line = next_line,
            -- Behind what was enqueued while it waited: limit keys take turns.
            turn = CASE
                WHEN obstacle IS NULL AND starts_with(job.line, 'limit ')
                    THEN nextval('pgjobs_turn')
                ELSE job.turn
            END
        FROM (
            SELECT id, obstacle, blocker, line,
                CASE WHEN obstacle IS NOT NULL THEN pgjobs_line_of(candidate) END
                    AS next_line
            FROM unnest(candidates) AS candidate
            OFFSET 0
        ) AS decided
        WHERE job.id = decided.id AND decided.line IS DISTINCT FROM next_line;
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
        candidates pgjobs_candidate[] := pgjobs_meet_locks(ids);
        are_limited boolean;
        are_rated boolean;
    BEGIN
        SELECT array_agg(id), bool_or(limit_key IS NOT NULL), bool_or(rate_key IS NOT NULL)
        INTO seen, are_limited, are_rated
        FROM unnest(candidates);
        IF are_limited THEN
            candidates := pgjobs_meet_limits(candidates);
        END IF;
        IF are_rated THEN
            candidates := pgjobs_meet_rates(candidates, at);
            PERFORM pgjobs_take_tokens(candidates, at);
        END IF;
        PERFORM pgjobs_move(candidates);
        SELECT array_agg(queue_name) FILTER (WHERE obstacle IS NULL),
            array_agg(DISTINCT rate_key) FILTER (WHERE obstacle = 'rate'),
            bool_or(obstacle = 'undecided')
        INTO admitted_to, rate_keys, met_undecided
        FROM unnest(candidates);
        IF are_limited OR are_rated THEN
            touched := pgjobs_left_free(candidates);
        END IF;
    END
    $$;

    -- The keys that these candidates could have had, but for another one: if they leave
    -- a line, or others among them have made way, the next in line gets its chance.
    CREATE FUNCTION pgjobs_left_free(candidates pgjobs_candidate[]) RETURNS jsonb[]
    LANGUAGE plpgsql STABLE AS $$
    BEGIN
        RETURN ARRAY(
            SELECT jsonb_strip_nulls(jsonb_build_object(
                'lock', lock,
                'limit_key', CASE WHEN obstacle = 'rate' THEN limit_key END
            ))
            FROM unnest(candidates) AS candidate
            WHERE obstacle IN ('limit', 'rate')
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
    """
    DROP FUNCTION pgjobs_decide(bigint[]);
    DROP FUNCTION pgjobs_left_free(pgjobs_candidate[]);
    DROP FUNCTION pgjobs_move(pgjobs_candidate[]);
    DROP FUNCTION pgjobs_line_of(pgjobs_candidate);
    DROP FUNCTION pgjobs_take_tokens(pgjobs_candidate[], timestamptz);
    DROP FUNCTION pgjobs_meet_rates(pgjobs_candidate[], timestamptz);
    DROP FUNCTION pgjobs_meet_limits(pgjobs_candidate[]);
    DROP FUNCTION pgjobs_meet_locks(bigint[]);
    DROP TYPE pgjobs_candidate;
    DROP FUNCTION pgjobs_next_in_lines(jsonb[], integer);
    DROP FUNCTION pgjobs_next_of_rates(jsonb[], integer);
    DROP FUNCTION pgjobs_next_of_limits(text[], integer);
    DROP FUNCTION pgjobs_next_of_locks(text[]);
    DROP FUNCTION pgjobs_rate_opens_at(
        timestamptz, double precision, integer, bigint, timestamptz
    );
    """,
)

ADMIT = (
    """
    -- Take a batch of the jobs that have ended or gone back: their successors may follow,
    -- and their keys have room.
    CREATE FUNCTION pgjobs_take_left(
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
            SELECT * INTO followers, ended
            FROM pgjobs_close_links(linked, batches, most);
            PERFORM pgjobs_leave_open(linked, batches);
        END IF;
    END
    $$;

    -- Take the notes: keys that have room, and jobs whose followers have to be told.
    CREATE FUNCTION pgjobs_take_notes(
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
            SELECT * INTO followers, ended FROM pgjobs_close_links(ids, batches, most);
            number := number - pgjobs_leave_open(ids, batches);
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
            FROM pgjobs_heads(ARRAY[pgjobs_line('rate', rate.key)], '{1}')
        )
        WHERE key = ANY (rate_keys);
    END
    $$;

    -- What there is to look at: jobs to decide about, and keys that may have room.
    CREATE FUNCTION pgjobs_take_arrived(
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
                SELECT id, priority, turn FROM pgjobs_job
                WHERE line = 'arrived' AND queue_name = queue.name
                ORDER BY priority DESC, turn LIMIT most
            ) AS head
            WHERE pgjobs_is_served(queue.name)
            ORDER BY priority DESC, turn LIMIT most
        );
        after_queue := CASE
            WHEN cardinality(queues) = most_queues THEN queues[most_queues] ELSE ''
        END;
        SELECT * INTO followers, ended FROM pgjobs_link_arrived(ids, most);
        -- Those that are only due later needed no more than that.
        UPDATE pgjobs_job SET line = NULL WHERE id = ANY (ids) AND status = 'SCHEDULED';
        -- Others may have waited longer for the same. (In an ordered lock it is decided
        -- by the ids.)
        touched := ARRAY(
            SELECT keys FROM pgjobs_job
            WHERE id = ANY (ids) AND (
                keys ?| ARRAY['limit_key', 'rate_key'] OR keys ->> 'is_ordered' = 'false'
            )
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
    -- looked at again; return how many. ("arrived" is looked at by any admission.)
    CREATE FUNCTION pgjobs_note_unseen(ids bigint[], seen bigint[]) RETURNS integer
    LANGUAGE plpgsql AS $$
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

    -- As many others of the same lines as there are jobs whose rows cannot be had. (Of an
    -- ordered lock only the first can follow.)
    CREATE FUNCTION pgjobs_next_behind(unseen bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql STABLE AS $$
    BEGIN
        RETURN ARRAY(
            SELECT head.id
            FROM (
                SELECT array_agg(line) AS lines, array_agg(2 * number) AS numbers
                FROM (
                    SELECT line, count(*)::integer AS number FROM pgjobs_job
                    WHERE id = ANY (unseen) AND status = 'WAITING'
                        AND line ~ '^(arrived$|mutex |limit |rate )'
                    GROUP BY line
                ) AS held
            ) AS held
            CROSS JOIN LATERAL pgjobs_heads(held.lines, numbers) AS head
            WHERE NOT head.id = ANY (unseen)
        );
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
        unseen bigint[] := '{}';  -- their rows are held
        rate_keys text[] := '{}';
        admitted_to text[] := '{}';
        some_arrived boolean;
        some_noted boolean;
        some_due boolean;
        may_have_left boolean := true;
        is_full boolean := false;  -- more may have arrived than it looks at
        has_progress boolean := false;
        number_noted integer := 0;  -- how many more notes there are
    BEGIN
        -- Only this level shows what others have committed since the statement began.
        -- The class of the lock is "pgjk" in ASCII.
        IF current_setting('transaction_isolation') <> 'read committed'
            OR NOT pg_try_advisory_xact_lock(x'70676a6b'::int, 0)
        THEN
            RETURN;
        END IF;
        ids := '{}';
        touched := '{}';
        ended := '{}';
        has_more := false;
        SELECT EXISTS (SELECT FROM pgjobs_job WHERE line IN ('arrived', 'unlinked')),
            EXISTS (SELECT FROM pgjobs_note),
            EXISTS (SELECT FROM pgjobs_rate WHERE opens_at <= clock_timestamp())
        INTO some_arrived, some_noted, some_due;
        IF some_arrived THEN
            found := pgjobs_take_arrived(most, after_queue);
            after_queue := found.after_queue;
            ids := found.ids;
            touched := found.touched;
            ended := found.ended;
            has_more := after_queue <> '';
            is_full := cardinality(ids) >= most;
            has_progress := found.has_linked;
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
                ids := ARRAY(SELECT DISTINCT unnest(ids));
                found := pgjobs_decide(ids);
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
                admitted_to := admitted_to || found.admitted_to;
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
        -- Where nothing has moved, other transactions hold the rows.
        has_more := has_more OR (is_full OR is_blocked)
            AND (has_progress OR ended <> '{}' OR number_noted < 0);
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
    DROP FUNCTION pgjobs_next_behind(bigint[]);
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
