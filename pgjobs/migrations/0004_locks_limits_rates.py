"""Locks, limits and rates: who has a place, who is next, and how long a rate takes.

lock   No two jobs of a lock have a place at the same time. An ordered one also waits
       for all unfinished ordered ones with a lower id.
limit  No more than `max_running` jobs of a limit key have a place.
rate   A job takes a token of its rate key; one comes back each `rate_interval`.

Whoever decides about a key at COMMIT holds its advisory lock from then until his
changes are visible. So nobody decides by what is about to change. Nobody waits for
that lock either, so that a COMMIT can neither hang nor meet a deadlock: who does not
get it lets the job wait and leaves the rest, by NOTIFY, to a worker, which asks again
some milliseconds later (`pgjobs_settle`).

Who changes a row of pgjobs_hold has locked the job's row before. The triggers that call
these functions are in 0008_holding_back.py.
"""

from django.db import migrations

from ._postgresql import RunPostgreSQL

# What a row must be like: `keys` of a job can be written by SQL.
CHECKS = (
    """
    CREATE FUNCTION pgjobs_is_hold(
        state text, lock text, limit_key text, max_running integer, rate_key text,
        rate_interval double precision, rate_burst integer, queue_name text,
        opens_at timestamptz
    ) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
    DECLARE
        fault text := CASE
            WHEN lock = '' THEN 'lock must not be empty'
            WHEN limit_key = '' THEN 'limit_key must not be empty'
            WHEN rate_key = '' THEN 'rate_key must not be empty'
            WHEN num_nonnulls(limit_key, max_running) = 1
                THEN 'limit_key and max_running belong together'
            WHEN max_running < 1 THEN 'max_running must be at least 1'
            WHEN num_nonnulls(rate_key, rate_interval, rate_burst) IN (1, 2)
                THEN 'rate_key, rate_interval and rate_burst belong together'
            WHEN rate_burst < 1 THEN 'rate_burst must be at least 1'
            WHEN rate_interval <= 0 OR rate_interval > 3153600000.0 / rate_burst
                THEN 'rate_interval must be positive, and a burst last 100 years at most'
        END;
    BEGIN
        IF fault IS NOT NULL THEN
            RAISE 'keys: %', fault
                USING ERRCODE = 'check_violation', CONSTRAINT = 'pgjobs_is_hold';
        END IF;
        RETURN num_nonnulls(lock, limit_key, rate_key) > 0 AND CASE state
            WHEN 'lock' THEN lock IS NOT NULL
            WHEN 'limit' THEN limit_key IS NOT NULL
            WHEN 'rate' THEN num_nonnulls(rate_key, opens_at) = 2
            WHEN 'aside' THEN queue_name IS NOT NULL
            ELSE state IN ('arriving', 'place', 'predecessor', 'dependency', 'later')
        END;
    END
    $$;
    ALTER TABLE pgjobs_hold ADD CONSTRAINT pgjobs_is_hold CHECK (
        pgjobs_is_hold(
            state, lock, limit_key, max_running, rate_key, rate_interval, rate_burst,
            queue_name, opens_at
        )
    );
    """,
    """
    ALTER TABLE pgjobs_hold DROP CONSTRAINT pgjobs_is_hold;
    DROP FUNCTION pgjobs_is_hold(
        text, text, text, integer, text, double precision, integer, text, timestamptz
    );
    """,
)

# The keys share 1,024 advisory locks ("pgjk" in ASCII is their class), so that a
# transaction with 100,000 keys does not fill PostgreSQL's lock table. Two keys that
# share one are at worst settled some milliseconds later.
TRY_KEYS = (
    """
    CREATE FUNCTION pgjobs_try_keys(VARIADIC keys text[]) RETURNS boolean
    LANGUAGE plpgsql AS $$
    DECLARE
        key text;
    BEGIN
        -- Only this level shows, at COMMIT, what others have committed meanwhile.
        IF current_setting('transaction_isolation') <> 'read committed' THEN
            RETURN false;
        END IF;
        FOREACH key IN ARRAY keys LOOP
            IF NOT pg_try_advisory_xact_lock(x'70676a6b'::int, hashtext(key) & 1023)
            THEN  -- for a key that is NULL it is neither
                RETURN false;
            END IF;
        END LOOP;
        RETURN true;
    END
    $$;
    """,
    "DROP FUNCTION pgjobs_try_keys(text[]);",
)


# A bucket of `rate_burst` tokens, which gets one back each interval until it is full.
# When it will be full says all (the "generic cell rate algorithm").
RATES = (
    """
    CREATE FUNCTION pgjobs_next_token(hold pgjobs_hold) RETURNS timestamptz
    LANGUAGE plpgsql AS $$
    BEGIN
        RETURN full_at
            - make_interval(secs => (hold.rate_burst - 1) * hold.rate_interval)
        FROM pgjobs_rate WHERE key = hold.rate_key;
    END
    $$;

    CREATE FUNCTION pgjobs_take_token(hold pgjobs_hold) RETURNS void
    LANGUAGE plpgsql AS $$
    DECLARE
        step interval := make_interval(secs => hold.rate_interval);
    BEGIN
        INSERT INTO pgjobs_rate AS rate (key, full_at)
        VALUES (hold.rate_key, clock_timestamp() + step)
        ON CONFLICT (key) DO UPDATE
            SET full_at = greatest(rate.full_at, clock_timestamp()) + step;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_take_token(pgjobs_hold);
    DROP FUNCTION pgjobs_next_token(pgjobs_hold);
    """,
)


# The first obstacle in a job's way, if there is any; blocked_by_id: the job that has
# the place, or comes before it; opens_at: when the rate has a token.
OBSTACLE = (
    """
    CREATE FUNCTION pgjobs_lock_blocker(hold pgjobs_hold) RETURNS bigint
    LANGUAGE plpgsql AS $$
    DECLARE
        blocker bigint;
    BEGIN
        SELECT job_id INTO blocker FROM pgjobs_hold
        WHERE lock = hold.lock AND state = 'place' AND job_id <> hold.job_id;
        IF blocker IS NULL AND hold.is_ordered THEN
            SELECT job_id INTO blocker FROM pgjobs_hold
            WHERE lock = hold.lock AND is_ordered AND job_id < hold.job_id
            ORDER BY job_id LIMIT 1;
        END IF;
        RETURN blocker;
    END
    $$;

    CREATE FUNCTION pgjobs_has_room(hold pgjobs_hold) RETURNS boolean
    LANGUAGE plpgsql AS $$
    BEGIN
        RETURN hold.max_running > (
            SELECT count(*) FROM (
                SELECT FROM pgjobs_hold
                WHERE limit_key = hold.limit_key AND state = 'place'
                    AND job_id <> hold.job_id
                LIMIT hold.max_running
            ) AS place
        );
    END
    $$;

    CREATE FUNCTION pgjobs_obstacle(
        hold pgjobs_hold,
        OUT waiting_for text, OUT blocked_by_id bigint, OUT opens_at timestamptz
    ) LANGUAGE plpgsql AS $$
    BEGIN
        -- Who waits for a key has been told of all that came before it.
        IF coalesce(hold.state, 'predecessor') IN ('predecessor', 'dependency') THEN
            SELECT link.waiting_for, link.blocked_by_id INTO waiting_for, blocked_by_id
            FROM pgjobs_open_link(hold.job_id) AS link;
            IF waiting_for IS NOT NULL THEN
                RETURN;
            END IF;
        END IF;
        IF hold.lock IS NOT NULL THEN
            blocked_by_id := pgjobs_lock_blocker(hold);
            IF blocked_by_id IS NOT NULL THEN
                waiting_for := 'lock';
                RETURN;
            END IF;
        END IF;
        IF hold.limit_key IS NOT NULL AND NOT pgjobs_has_room(hold) THEN
            waiting_for := 'limit';
            RETURN;
        END IF;
        IF hold.rate_key IS NOT NULL THEN
            opens_at := pgjobs_next_token(hold);
            IF opens_at > clock_timestamp() THEN
                waiting_for := 'rate';
            END IF;
        END IF;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_obstacle(pgjobs_hold);
    DROP FUNCTION pgjobs_has_room(pgjobs_hold);
    DROP FUNCTION pgjobs_lock_blocker(pgjobs_hold);
    """,
)


# Give a waiting job whose keys are held its place, or let it wait for another obstacle
# (NULL: there is none). False: somebody holds its row.
MOVE = (
    """
    -- When those in line for a rate may run, if nothing changes: the new one last.
    CREATE FUNCTION pgjobs_expected(hold pgjobs_hold, opens_at timestamptz)
    RETURNS timestamptz LANGUAGE plpgsql AS $$
    DECLARE
        before timestamptz;
    BEGIN
        SELECT other.opens_at INTO before FROM pgjobs_hold AS other
        WHERE state = 'rate' AND other.rate_key = hold.rate_key
            AND priority >= hold.priority AND job_id <> hold.job_id
        ORDER BY priority, job_id DESC LIMIT 1;
        RETURN greatest(
            opens_at, before + make_interval(secs => hold.rate_interval)
        );
    END
    $$;

    CREATE FUNCTION pgjobs_move(
        hold pgjobs_hold, obstacle text, blocker bigint, opens_at timestamptz
    ) RETURNS boolean LANGUAGE plpgsql AS $$
    DECLARE
        expected timestamptz := CASE
            WHEN obstacle = 'rate' THEN pgjobs_expected(hold, opens_at)
        END;
    BEGIN
        UPDATE pgjobs_job
        SET status = CASE WHEN obstacle IS NULL THEN 'READY' ELSE 'WAITING' END,
            waiting_for = obstacle,
            blocked_by_id = blocker,
            run_after = coalesce(expected, run_after),
            -- Behind what was enqueued while it waited: limit keys take turns.
            turn = CASE
                WHEN obstacle IS NULL AND hold.limit_key IS NOT NULL
                    THEN nextval('pgjobs_turn')
                ELSE turn
            END
        WHERE id = (
            SELECT id FROM pgjobs_job
            WHERE id = hold.job_id AND status = 'WAITING'
            FOR NO KEY UPDATE SKIP LOCKED
        );
        IF FOUND THEN
            UPDATE pgjobs_hold AS held
            SET state = coalesce(obstacle, 'place'), opens_at = expected
            WHERE job_id = hold.job_id;
            IF obstacle IS NULL AND hold.rate_key IS NOT NULL THEN
                PERFORM pgjobs_take_token(hold);
            END IF;
            RETURN true;
        END IF;
        -- Its job has ended in this transaction, and the trigger comes to it later; or it
        -- is gone, which only switched-off triggers can have left.
        DELETE FROM pgjobs_hold
        WHERE job_id = hold.job_id AND NOT EXISTS (
            SELECT FROM pgjobs_job WHERE id = hold.job_id AND finished_at IS NULL
        )
        RETURNING * INTO hold;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
        PERFORM pgjobs_settle_left(hold);
        RETURN true;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_move(pgjobs_hold, text, bigint, timestamptz);
    DROP FUNCTION pgjobs_expected(pgjobs_hold, timestamptz);
    """,
)


# Let go what waits for a key as far as the key allows. Returns how many jobs went, or
# NULL: somebody else decides about the key, holds a row, or there may be more to do.
SETTLE = (
    """
    CREATE FUNCTION pgjobs_first_in_line(kind text, key text, passed bigint[])
    RETURNS pgjobs_hold LANGUAGE plpgsql AS $$
    DECLARE
        hold pgjobs_hold;
        mutex pgjobs_hold;
    BEGIN
        CASE kind
        WHEN 'lock' THEN
            SELECT * INTO hold FROM pgjobs_hold
            WHERE lock = key AND is_ordered
            ORDER BY job_id LIMIT 1;
            SELECT * INTO mutex FROM pgjobs_hold
            WHERE state = 'lock' AND lock = key AND NOT is_ordered
                AND NOT job_id = ANY (passed)
            ORDER BY job_id LIMIT 1;
            IF hold.state IS DISTINCT FROM 'lock' OR hold.job_id = ANY (passed)
                OR mutex.job_id < hold.job_id
            THEN
                hold := mutex;
            END IF;
        WHEN 'limit' THEN
            SELECT * INTO hold FROM pgjobs_hold
            WHERE state = 'limit' AND limit_key = key AND NOT job_id = ANY (passed)
            ORDER BY priority DESC, job_id LIMIT 1;
        WHEN 'rate' THEN
            SELECT * INTO hold FROM pgjobs_hold
            WHERE state = 'rate' AND rate_key = key AND NOT job_id = ANY (passed)
            ORDER BY priority DESC, job_id LIMIT 1;
        END CASE;
        RETURN hold;
    END
    $$;

    -- The rate has no token: its first in line may run when it has one, others that
    -- thought to be due (a job of higher priority came) after that.
    CREATE FUNCTION pgjobs_expect(hold pgjobs_hold, opens_at timestamptz)
    RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE pgjobs_hold AS held
        SET opens_at = pgjobs_expect.opens_at
            + make_interval(secs => place * hold.rate_interval)
        FROM (
            SELECT job_id, row_number() OVER (ORDER BY priority DESC, job_id) - 1
            FROM (
                SELECT job_id, priority FROM pgjobs_hold AS line
                WHERE state = 'rate' AND rate_key = hold.rate_key
                    AND (
                        line.opens_at <= pgjobs_expect.opens_at
                        OR job_id = hold.job_id
                    )
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS line
        ) AS late (job_id, place)
        WHERE held.job_id = late.job_id
            AND held.opens_at <> pgjobs_expect.opens_at
                + make_interval(secs => place * hold.rate_interval);
    END
    $$;

    CREATE FUNCTION pgjobs_settle_key(kind text, key text) RETURNS integer
    LANGUAGE plpgsql AS $$
    DECLARE
        hold pgjobs_hold;
        found record;
        passed bigint[] := '{}';  -- whose rows somebody holds
        let_go integer := 0;
    BEGIN
        IF NOT pgjobs_try_keys(key) THEN
            RETURN NULL;
        END IF;
        FOR step IN 1..100 LOOP
            hold := pgjobs_first_in_line(kind, key, passed);
            IF hold.job_id IS NULL THEN
                RETURN CASE WHEN passed = '{}' THEN let_go END;
            END IF;
            IF NOT pgjobs_try_keys(hold.lock, hold.limit_key, hold.rate_key) THEN
                RETURN NULL;
            END IF;
            found := pgjobs_obstacle(hold);
            IF found.waiting_for = kind THEN  -- for it, and so for all behind it
                IF kind = 'rate' THEN
                    PERFORM pgjobs_expect(hold, found.opens_at);
                END IF;
                RETURN CASE WHEN passed = '{}' THEN let_go END;
            END IF;
            IF NOT pgjobs_move(
                hold, found.waiting_for, found.blocked_by_id, found.opens_at
            ) THEN
                passed := passed || hold.job_id;
            ELSIF found.waiting_for IS NULL THEN
                let_go := let_go + 1;
                IF kind = 'lock' AND passed = '{}' THEN  -- it has but one place
                    RETURN let_go;
                END IF;
            END IF;
        END LOOP;
        RETURN NULL;
    END
    $$;

    CREATE FUNCTION pgjobs_settle_or_notify(kind text, key text) RETURNS void
    LANGUAGE plpgsql AS $$
    BEGIN
        IF pgjobs_settle_key(kind, key) IS NULL THEN
            PERFORM pg_notify('pgjobs_unsettled', kind || ' ' || key);
        END IF;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_settle_or_notify(text, text);
    DROP FUNCTION pgjobs_settle_key(text, text);
    DROP FUNCTION pgjobs_expect(pgjobs_hold, timestamptz);
    DROP FUNCTION pgjobs_first_in_line(text, text, bigint[]);
    """,
)


# A job that could run, but is in a queue that is paused or that no worker serves, must
# not keep others of its mutex or limit waiting. It stands aside, is in nobody's way,
# and comes back when its queue is served. Ordered jobs keep their turns.
ASIDE = (
    """
    CREATE FUNCTION pgjobs_is_served(queue text) RETURNS boolean
    LANGUAGE plpgsql STABLE AS $$
    BEGIN
        RETURN EXISTS (
            SELECT FROM pgjobs_worker
            WHERE lease_until > clock_timestamp()
                AND CASE
                    WHEN queues <> '' THEN queue = ANY (string_to_array(queues, ','))
                    ELSE NOT queue = ANY (string_to_array(excluded, ','))
                END
        ) AND NOT EXISTS (
            SELECT FROM pgjobs_queue WHERE name = queue AND paused_at IS NOT NULL
        );
    END
    $$;

    -- Whether somebody has a place of the key who will not run.
    CREATE FUNCTION pgjobs_is_obstructed(of_kind text, of_key text) RETURNS boolean
    LANGUAGE plpgsql AS $$
    DECLARE
        queues text[] := CASE of_kind
            WHEN 'lock' THEN ARRAY(
                SELECT DISTINCT job.queue_name FROM pgjobs_hold AS hold
                JOIN pgjobs_job AS job ON job.id = hold.job_id
                WHERE lock = of_key AND NOT is_ordered AND state = 'place'
                    AND status = 'READY'
            )
            ELSE ARRAY(
                SELECT DISTINCT job.queue_name FROM pgjobs_hold AS hold
                JOIN pgjobs_job AS job ON job.id = hold.job_id
                WHERE limit_key = of_key AND state = 'place' AND status = 'READY'
            )
        END;
    BEGIN
        RETURN EXISTS (
            SELECT FROM unnest(queues) AS name WHERE NOT pgjobs_is_served(name)
        );
    END
    $$;

    -- Those of the key that would not run make room, a batch. Returns how many jobs
    -- went instead; NULL: somebody else decides about the key.
    CREATE FUNCTION pgjobs_step_aside(of_kind text, of_key text) RETURNS integer
    LANGUAGE plpgsql AS $$
    DECLARE
        ids bigint[];
        other record;
    BEGIN
        IF NOT pgjobs_try_keys(of_key) THEN
            RETURN NULL;
        END IF;
        ids := CASE of_kind
            WHEN 'lock' THEN ARRAY(
                SELECT job.id FROM pgjobs_hold AS hold
                JOIN pgjobs_job AS job ON job.id = hold.job_id
                WHERE lock = of_key AND NOT is_ordered AND state IN ('place', 'lock')
                    AND status IN ('READY', 'WAITING')
                    AND NOT pgjobs_is_served(job.queue_name)
                ORDER BY state DESC LIMIT 1000
                FOR NO KEY UPDATE OF job SKIP LOCKED
            )
            ELSE ARRAY(
                SELECT job.id FROM pgjobs_hold AS hold
                JOIN pgjobs_job AS job ON job.id = hold.job_id
                WHERE limit_key = of_key AND state IN ('place', 'limit')
                    AND status IN ('READY', 'WAITING')
                    AND NOT pgjobs_is_served(job.queue_name)
                ORDER BY state DESC LIMIT 1000
                FOR NO KEY UPDATE OF job SKIP LOCKED
            )
        END;
        UPDATE pgjobs_hold AS hold SET state = 'aside', queue_name = job.queue_name
        FROM pgjobs_job AS job WHERE job.id = hold.job_id AND job.id = ANY (ids);
        UPDATE pgjobs_job SET status = 'WAITING', waiting_for = of_kind
        WHERE id = ANY (ids) AND status = 'READY';
        -- Their places of other keys are free, too.
        FOR other IN
            SELECT 'lock' AS kind, lock AS key FROM pgjobs_hold
            WHERE job_id = ANY (ids) AND lock <> of_key
            UNION
            SELECT 'limit', limit_key FROM pgjobs_hold
            WHERE job_id = ANY (ids) AND limit_key <> of_key
        LOOP
            PERFORM pgjobs_settle_or_notify(other.kind, other.key);
        END LOOP;
        RETURN pgjobs_settle_key(of_kind, of_key);
    END
    $$;

    -- Those of a queue that is served again, a batch; the trigger decides about each.
    CREATE FUNCTION pgjobs_come_back(queue text) RETURNS integer LANGUAGE plpgsql AS $$
    DECLARE
        number integer;
    BEGIN
        IF NOT pgjobs_is_served(queue) THEN
            RETURN 0;
        END IF;
        UPDATE pgjobs_job SET status = 'READY', waiting_for = NULL, blocked_by_id = NULL
        WHERE id = ANY (ARRAY(
            SELECT job.id FROM pgjobs_hold AS hold
            JOIN pgjobs_job AS job ON job.id = hold.job_id
            WHERE hold.state = 'aside' AND hold.queue_name = queue
            LIMIT 1000 FOR NO KEY UPDATE OF job SKIP LOCKED
        )) AND status = 'WAITING';
        GET DIAGNOSTICS number = ROW_COUNT;
        RETURN number;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_come_back(text);
    DROP FUNCTION pgjobs_step_aside(text, text);
    DROP FUNCTION pgjobs_is_obstructed(text, text);
    DROP FUNCTION pgjobs_is_served(text);
    """,
)


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0003_schedules")]

    operations = [
        RunPostgreSQL(forwards, backwards)
        for forwards, backwards in (
            CHECKS,
            TRY_KEYS,
            RATES,
            OBSTACLE,
            MOVE,
            SETTLE,
            ASIDE,
        )
    ]
