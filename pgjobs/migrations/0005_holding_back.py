"""Holding back: locks, limits and rates, decided by the database when it commits.

Statements, psql's too, just say READY. Triggers then make those jobs WAITING that
something holds back, and let the next ones go when the obstacle ends. A job with keys
has a row of pgjobs_hold while it is unfinished, and a *place* (it may be READY, then
RUNNING) only if nothing is in its way. These are looked at in this order:

lock   No two jobs of a lock have a place at the same time. An ordered one also waits
       for all unfinished ordered ones with a lower id.
limit  No more than `max_running` jobs of a limit key have a place.
rate   A job takes a token of its rate key; one comes back each `rate_interval`.

Whoever decides about a key at COMMIT holds its advisory lock from then until his
changes are visible. So nobody decides by what is about to change. Nobody waits for
that lock either, so that a COMMIT can neither hang nor meet a deadlock: who does not
get it lets the job wait and leaves the rest, by NOTIFY, to a worker, which asks again
some milliseconds later (`pgjobs_settle`).

Who changes a row of pgjobs_hold has locked the job's row before.
"""

from django.db import migrations

from ._postgresql import RunPostgreSQL

# By `turn` jobs are claimed; it rises with the ids.
COLUMNS = (
    """
    CREATE SEQUENCE pgjobs_turn AS bigint START 1;
    ALTER TABLE pgjobs_job
        ALTER COLUMN turn SET DEFAULT nextval('pgjobs_turn'),
        ADD CONSTRAINT pgjobs_job_waiting_has_reason
            CHECK ((status = 'WAITING') = (waiting_for IS NOT NULL));
    """,
    """
    ALTER TABLE pgjobs_job
        DROP CONSTRAINT pgjobs_job_waiting_has_reason,
        ALTER COLUMN turn SET DEFAULT 0;
    DROP SEQUENCE pgjobs_turn;
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
        -- A row without its job, which only switched-off triggers can have left.
        DELETE FROM pgjobs_hold
        WHERE job_id = hold.job_id AND NOT EXISTS (
            SELECT FROM pgjobs_job WHERE id = hold.job_id AND finished_at IS NULL
        );
        RETURN FOUND;
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
    BEGIN
        CASE kind
        WHEN 'lock' THEN
            SELECT * INTO hold FROM (
                (
                    SELECT * FROM pgjobs_hold
                    WHERE state = 'lock' AND lock = key AND NOT is_ordered
                        AND NOT job_id = ANY (passed)
                    ORDER BY job_id LIMIT 1
                )
                UNION ALL
                (
                    SELECT * FROM (
                        SELECT * FROM pgjobs_hold
                        WHERE lock = key AND is_ordered
                        ORDER BY job_id LIMIT 1
                    ) AS ordered
                    WHERE state = 'lock' AND NOT job_id = ANY (passed)
                )
            ) AS line
            ORDER BY job_id LIMIT 1;
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
            END IF;
        END LOOP;
        RETURN NULL;
    END
    $$;

    -- What workers call. (The settings of a function, below, cost each call.)
    CREATE FUNCTION pgjobs_settle(kind text, key text) RETURNS integer
    LANGUAGE plpgsql AS $$
    BEGIN
        RETURN pgjobs_settle_key(kind, key);
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
    DROP FUNCTION pgjobs_settle(text, text);
    DROP FUNCTION pgjobs_settle_key(text, text);
    DROP FUNCTION pgjobs_expect(pgjobs_hold, timestamptz);
    DROP FUNCTION pgjobs_first_in_line(text, text, bigint[]);
    """,
)

# At INSERT: a look without holding the keys, so that `enqueue` returns the right status
# nearly always, and a job behind a lock that is taken is not written twice. What the
# same transaction inserted before does not count yet.
PLAN_INSERTED = (
    """
    CREATE FUNCTION pgjobs_hold_of(job pgjobs_job) RETURNS pgjobs_hold
    LANGUAGE plpgsql AS $$
    DECLARE
        hold pgjobs_hold;
    BEGIN
        hold := jsonb_populate_record(hold, job.keys);
        hold.job_id := job.id;
        hold.priority := job.priority;
        hold.is_ordered := coalesce(hold.is_ordered, true);
        hold.opens_at := NULL;
        RETURN hold;
    END
    $$;

    CREATE FUNCTION pgjobs_plan_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        found record;
    BEGIN
        IF NEW.run_after > statement_timestamp() THEN
            NEW.status := 'SCHEDULED';
        ELSE
            found := pgjobs_obstacle(pgjobs_hold_of(NEW));
            IF found.waiting_for IS NOT NULL THEN
                NEW.status := 'WAITING';
                NEW.waiting_for := found.waiting_for;
                NEW.blocked_by_id := found.blocked_by_id;
            END IF;
        END IF;
        RETURN NEW;
    END
    $$;
    DROP TRIGGER pgjobs_schedule_inserted ON pgjobs_job;
    CREATE TRIGGER pgjobs_plan_inserted
        BEFORE INSERT ON pgjobs_job
        FOR EACH ROW
        WHEN (
            NEW.status = 'READY'
            AND (NEW.run_after > statement_timestamp() OR NEW.keys IS NOT NULL)
        )
        EXECUTE FUNCTION pgjobs_plan_inserted();
    """,
    """
    DROP TRIGGER pgjobs_plan_inserted ON pgjobs_job;
    DROP FUNCTION pgjobs_plan_inserted();
    DROP FUNCTION pgjobs_hold_of(pgjobs_job);
    CREATE TRIGGER pgjobs_schedule_inserted
        BEFORE INSERT ON pgjobs_job
        FOR EACH ROW
        WHEN (NEW.status = 'READY' AND NEW.run_after > statement_timestamp())
        EXECUTE FUNCTION pgjobs_schedule_inserted();
    """,
)

# At COMMIT: decide about jobs that came, and let others go where some left. Jobs
# without keys pay for the condition alone, so it is as short as can be.
SETTLE_CHANGED = (
    """
    -- A job is READY, or says that it waits: decide.
    CREATE FUNCTION pgjobs_arrive(job pgjobs_job) RETURNS void
    LANGUAGE plpgsql AS $$
    DECLARE
        hold pgjobs_hold := pgjobs_hold_of(job);
        is_mine boolean := pgjobs_try_keys(hold.lock, hold.limit_key, hold.rate_key);
        obstacle text;
        blocker bigint;
        opens_at timestamptz;
    BEGIN
        hold.state := CASE
            WHEN hold.lock IS NOT NULL THEN 'lock'
            WHEN hold.limit_key IS NOT NULL THEN 'limit'
            ELSE 'rate'
        END;
        hold.opens_at := clock_timestamp();
        IF is_mine THEN
            SELECT * INTO obstacle, blocker, opens_at FROM pgjobs_obstacle(hold);
            hold.state := coalesce(obstacle, 'place');
            hold.opens_at := CASE
                WHEN obstacle = 'rate' THEN pgjobs_expected(hold, opens_at)
            END;
        END IF;
        INSERT INTO pgjobs_hold SELECT hold.*
        ON CONFLICT (job_id) DO UPDATE
            SET (state, opens_at) = (excluded.state, excluded.opens_at);
        IF hold.state = 'place' AND hold.rate_key IS NOT NULL THEN
            PERFORM pgjobs_take_token(hold);
        END IF;
        UPDATE pgjobs_job
        SET status = CASE WHEN hold.state = 'place' THEN 'READY' ELSE 'WAITING' END,
            waiting_for = nullif(hold.state, 'place'),
            blocked_by_id = blocker,
            run_after = CASE
                WHEN hold.state = 'rate' THEN hold.opens_at ELSE run_after
            END
        WHERE id = job.id
            AND (job.status = 'WAITING' OR hold.state <> 'place');
        IF NOT is_mine THEN
            PERFORM pgjobs_settle_or_notify(
                hold.state, coalesce(hold.lock, hold.limit_key, hold.rate_key)
            );
        END IF;
    END
    $$;

    -- A job has left its place, or the line.
    CREATE FUNCTION pgjobs_settle_left(hold pgjobs_hold) RETURNS void
    LANGUAGE plpgsql AS $$
    BEGIN
        IF hold.lock IS NOT NULL THEN
            PERFORM pgjobs_settle_or_notify('lock', hold.lock);
        END IF;
        IF hold.limit_key IS NOT NULL AND hold.state = 'place' THEN
            PERFORM pgjobs_settle_or_notify('limit', hold.limit_key);
        END IF;
        IF hold.state = 'rate' THEN
            PERFORM pgjobs_settle_or_notify('rate', hold.rate_key);
        END IF;
    END
    $$;

    CREATE FUNCTION pgjobs_leave(id bigint) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        hold pgjobs_hold;
    BEGIN
        DELETE FROM pgjobs_hold WHERE job_id = id RETURNING * INTO hold;
        PERFORM pgjobs_settle_left(hold);
    END
    $$;

    CREATE FUNCTION pgjobs_wait_for_time(job pgjobs_job) RETURNS void
    LANGUAGE plpgsql AS $$
    DECLARE
        hold pgjobs_hold := pgjobs_hold_of(job);
    BEGIN
        hold.state := 'later';
        INSERT INTO pgjobs_hold SELECT hold.*
        ON CONFLICT (job_id) DO UPDATE SET state = 'later', opens_at = NULL;
    END
    $$;

    CREATE FUNCTION pgjobs_settle_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        job pgjobs_job;
        hold pgjobs_hold;
    BEGIN
        IF NEW.status = 'RUNNING' THEN
            RETURN NULL;  -- it was claimed, and keeps its place
        END IF;
        -- As it is now: its transaction may have changed it since.
        SELECT * INTO job FROM pgjobs_job WHERE id = NEW.id;
        IF NOT FOUND OR job.finished_at IS NOT NULL THEN
            PERFORM pgjobs_leave(NEW.id);
            RETURN NULL;
        END IF;
        SELECT * INTO hold FROM pgjobs_hold WHERE job_id = job.id;
        CASE job.status
        WHEN 'READY' THEN
            -- After a release it keeps its place, but needs another token.
            IF hold.state IS DISTINCT FROM 'place'
                OR hold.rate_key IS NOT NULL AND OLD.status = 'RUNNING'
            THEN
                PERFORM pgjobs_arrive(job);
            END IF;
        WHEN 'WAITING' THEN
            IF hold.state IS DISTINCT FROM job.waiting_for THEN
                PERFORM pgjobs_arrive(job);
            END IF;
        WHEN 'SCHEDULED' THEN
            PERFORM pgjobs_wait_for_time(job);
        ELSE
            RETURN NULL;
        END CASE;
        IF hold.state = 'place' THEN
            PERFORM pgjobs_settle_left(hold);
        END IF;
        RETURN NULL;
    END
    $$;

    CREATE FUNCTION pgjobs_settle_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF OLD.finished_at IS NULL THEN
            PERFORM pgjobs_leave(OLD.id);
        END IF;
        RETURN NULL;
    END
    $$;

    CREATE FUNCTION pgjobs_settle_truncated() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM pgjobs_hold;
        RETURN NULL;
    END
    $$;

    CREATE CONSTRAINT TRIGGER pgjobs_settle_changed
        AFTER INSERT OR UPDATE OF status ON pgjobs_job
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        WHEN (NEW.keys IS NOT NULL)
        EXECUTE FUNCTION pgjobs_settle_changed();
    CREATE CONSTRAINT TRIGGER pgjobs_settle_deleted
        AFTER DELETE ON pgjobs_job
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        WHEN (OLD.keys IS NOT NULL)
        EXECUTE FUNCTION pgjobs_settle_deleted();
    CREATE TRIGGER pgjobs_settle_truncated
        AFTER TRUNCATE ON pgjobs_job
        FOR EACH STATEMENT EXECUTE FUNCTION pgjobs_settle_truncated();
    """,
    """
    DROP TRIGGER pgjobs_settle_truncated ON pgjobs_job;
    DROP TRIGGER pgjobs_settle_deleted ON pgjobs_job;
    DROP TRIGGER pgjobs_settle_changed ON pgjobs_job;
    DROP FUNCTION pgjobs_settle_truncated();
    DROP FUNCTION pgjobs_settle_deleted();
    DROP FUNCTION pgjobs_settle_changed();
    DROP FUNCTION pgjobs_wait_for_time(pgjobs_job);
    DROP FUNCTION pgjobs_leave(bigint);
    DROP FUNCTION pgjobs_settle_left(pgjobs_hold);
    DROP FUNCTION pgjobs_arrive(pgjobs_job);
    """,
)

# They run in whatever session commits: names mean our tables there, and the planner
# must not scan what was a small table when it made its plan.
SETTINGS_OF_FUNCTIONS = (
    """
    DO $$
    DECLARE
        entry text;
    BEGIN
        FOREACH entry IN ARRAY ARRAY[
            'pgjobs_plan_inserted()', 'pgjobs_settle_changed()',
            'pgjobs_settle_deleted()', 'pgjobs_settle_truncated()',
            'pgjobs_settle(text, text)'
        ] LOOP
            EXECUTE format(
                'ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp',
                entry, current_schema()
            );
            EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off', entry);
            EXECUTE format('ALTER FUNCTION %s SET enable_bitmapscan = off', entry);
        END LOOP;
    END
    $$;
    """,
    migrations.RunSQL.noop,
)


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0004_flow_control")]

    operations = [
        RunPostgreSQL(forwards, backwards)
        for forwards, backwards in (
            COLUMNS,
            TRY_KEYS,
            RATES,
            OBSTACLE,
            MOVE,
            SETTLE,
            PLAN_INSERTED,
            SETTLE_CHANGED,
            SETTINGS_OF_FUNCTIONS,
        )
    ]
