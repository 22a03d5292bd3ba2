"""Holding back: what a transaction enqueues, ends or deletes is decided by triggers.

Statements, psql's too, just say READY. A job with keys (a lock, limit or rate) has a row
of pgjobs_hold while it is unfinished, and a *place* (it may be READY, then RUNNING) only
if nothing is in its way. These are looked at in this order: predecessors, dependencies,
lock, limit, rate (pgjobs_obstacle).

It is decided twice. At INSERT by a look without locks, which is nearly always right, so
that `enqueue` returns the right status and a job that waits is not written twice. At
COMMIT under the key's lock: there is nothing left to write, unless the obstacle has gone
meanwhile, or somebody else was quicker.
"""

from django.db import migrations

from ._postgresql import RunPostgreSQL

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

    -- What will be in the way of a job that is being inserted: what others have
    -- committed, and what this transaction has enqueued before it.
    CREATE FUNCTION pgjobs_foresee(
        hold pgjobs_hold, OUT waiting_for text, OUT blocked_by_id bigint
    ) LANGUAGE plpgsql AS $$
    DECLARE
        found record := pgjobs_obstacle(hold);
    BEGIN
        waiting_for := found.waiting_for;
        blocked_by_id := found.blocked_by_id;
        IF waiting_for IS NULL AND hold.lock IS NOT NULL THEN
            SELECT 'lock', job_id INTO waiting_for, blocked_by_id FROM pgjobs_hold
            WHERE lock = hold.lock AND state = 'arriving' LIMIT 1;
        END IF;
        IF waiting_for IS NULL AND hold.max_running <= (
            SELECT count(*) FROM (
                SELECT FROM pgjobs_hold
                WHERE limit_key = hold.limit_key AND state IN ('place', 'arriving')
                LIMIT hold.max_running
            ) AS taken
        ) THEN
            waiting_for := 'limit';
        END IF;
    END
    $$;

    -- Its row of pgjobs_hold, for those to see that the transaction enqueues after it.
    CREATE FUNCTION pgjobs_plan_hold(job pgjobs_job) RETURNS pgjobs_job
    LANGUAGE plpgsql AS $$
    DECLARE
        hold pgjobs_hold := pgjobs_hold_of(job);
        found record;
    BEGIN
        hold.state := 'arriving';
        found := pgjobs_foresee(hold);
        job.waiting_for := found.waiting_for;
        job.blocked_by_id := found.blocked_by_id;
        -- It may yet turn out that another job has the unique key.
        IF job.unique_key IS NULL THEN
            -- For a rate it is only known at COMMIT when there will be a token.
            IF found.waiting_for IN ('lock', 'limit') THEN
                hold.state := found.waiting_for;
            END IF;
            INSERT INTO pgjobs_hold SELECT hold.*;
        END IF;
        RETURN job;
    END
    $$;

    CREATE FUNCTION pgjobs_plan_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.dependencies -> 'serves' <> '[]'
            OR NEW.dependencies IS NOT NULL AND NEW.run_after > statement_timestamp()
        THEN
            NEW.keys := coalesce(NEW.keys, '{}');
        END IF;
        IF NEW.keys ?| ARRAY['after', 'after_batches', 'batch_id'] THEN
            NEW.batch_id := NEW.keys ->> 'batch_id';
            PERFORM pgjobs_check_links(NEW);
        END IF;
        IF NEW.run_after > statement_timestamp() THEN
            NEW.status := 'SCHEDULED';
            RETURN NEW;
        END IF;
        IF NEW.keys ?| ARRAY['after', 'after_batches'] THEN  -- the links come at COMMIT
            SELECT 'predecessor', min(id) INTO NEW.waiting_for, NEW.blocked_by_id
            FROM pgjobs_job
            WHERE id = ANY (pgjobs_ids(NEW.keys, 'after'))
                AND status <> 'SUCCESSFUL'
            HAVING count(*) > 0 OR NEW.keys ? 'after_batches';
        END IF;
        IF NEW.waiting_for IS NULL AND pgjobs_lacks_dependency(NEW.dependencies) THEN
            NEW.waiting_for := 'dependency';
            NEW.keys := coalesce(NEW.keys, '{}');
        END IF;
        IF NEW.waiting_for IS NULL
            AND NEW.keys ?| ARRAY['lock', 'limit_key', 'rate_key']
        THEN
            NEW := pgjobs_plan_hold(NEW);
        END IF;
        IF NEW.waiting_for IS NOT NULL THEN
            NEW.status := 'WAITING';
        END IF;
        RETURN NEW;
    END
    $$;
    CREATE TRIGGER pgjobs_plan_inserted
        BEFORE INSERT ON pgjobs_job
        FOR EACH ROW
        -- Tested in place: a plain job pays for these words, and no call.
        WHEN (
            NEW.status = 'READY'
            AND (
                NEW.run_after > statement_timestamp()
                OR NEW.keys IS NOT NULL
                OR NEW.dependencies IS NOT NULL
            )
        )
        EXECUTE FUNCTION pgjobs_plan_inserted();
    """,
    """
    DROP TRIGGER pgjobs_plan_inserted ON pgjobs_job;
    DROP FUNCTION pgjobs_plan_inserted();
    DROP FUNCTION pgjobs_plan_hold(pgjobs_job);
    DROP FUNCTION pgjobs_foresee(pgjobs_hold);
    DROP FUNCTION pgjobs_hold_of(pgjobs_job);
    """,
)

# Decide about a job that came, or whose obstacle has gone: it is READY, or says that it
# waits. `held` is its row of pgjobs_hold, if there is one.
ARRIVE = (
    """
    CREATE FUNCTION pgjobs_arrive(job pgjobs_job, held pgjobs_hold) RETURNS void
    LANGUAGE plpgsql AS $$
    DECLARE
        hold pgjobs_hold := pgjobs_hold_of(job);
        is_held_back boolean := job.keys ?| ARRAY['lock', 'limit_key', 'rate_key'];
        is_settled boolean := true;
        obstacle text;
        blocker bigint;
        opens_at timestamptz;
    BEGIN
        IF job.dependencies IS NOT NULL
            OR job.keys ?| ARRAY['after', 'after_batches']
        THEN
            IF NOT pgjobs_look_back(job.id) THEN
                RETURN;
            END IF;
            SELECT * INTO obstacle, blocker FROM pgjobs_open_link(job.id);
            IF obstacle IS NULL AND pgjobs_lacks_dependency(job.dependencies) THEN
                obstacle := 'dependency';
                PERFORM pgjobs_note_unsettled('dependency', job.id);
            END IF;
        END IF;
        IF obstacle IS NULL AND is_held_back THEN
            is_settled := pgjobs_try_keys(hold.lock, hold.limit_key, hold.rate_key);
            IF is_settled THEN
                hold.state := 'place';
                SELECT * INTO obstacle, blocker, opens_at FROM pgjobs_obstacle(hold);
            ELSE
                obstacle := CASE
                    WHEN hold.lock IS NOT NULL THEN 'lock'
                    WHEN hold.limit_key IS NOT NULL THEN 'limit'
                    ELSE 'rate'
                END;
                opens_at := clock_timestamp();
            END IF;
        END IF;
        hold.state := coalesce(obstacle, 'place');
        IF obstacle = 'rate' THEN
            hold.opens_at := CASE
                WHEN is_settled THEN pgjobs_expected(hold, opens_at) ELSE opens_at
            END;
        END IF;
        IF is_held_back THEN
            PERFORM pgjobs_store_hold(hold, held);
            IF obstacle IS NULL AND hold.rate_key IS NOT NULL THEN
                PERFORM pgjobs_take_token(hold);
            END IF;
        END IF;
        -- Only what is new: each change brings the trigger, and so this, again.
        IF (job.waiting_for, job.blocked_by_id, job.run_after) IS DISTINCT FROM
            (obstacle, blocker, coalesce(hold.opens_at, job.run_after))
        THEN
            UPDATE pgjobs_job
            SET status = CASE WHEN obstacle IS NULL THEN 'READY' ELSE 'WAITING' END,
                waiting_for = obstacle,
                blocked_by_id = blocker,
                run_after = coalesce(hold.opens_at, run_after)
            WHERE id = job.id;
        END IF;
        IF NOT is_settled THEN
            PERFORM pgjobs_settle_or_notify(
                obstacle, coalesce(hold.lock, hold.limit_key, hold.rate_key)
            );
        END IF;
    END
    $$;

    CREATE FUNCTION pgjobs_store_hold(hold pgjobs_hold, held pgjobs_hold) RETURNS void
    LANGUAGE plpgsql AS $$
    BEGIN
        IF held.job_id IS NULL THEN
            INSERT INTO pgjobs_hold SELECT hold.*;
        ELSIF (held.state, held.opens_at) IS DISTINCT FROM (hold.state, hold.opens_at)
        THEN
            UPDATE pgjobs_hold SET state = hold.state, opens_at = hold.opens_at
            WHERE job_id = hold.job_id;
        END IF;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_store_hold(pgjobs_hold, pgjobs_hold);
    DROP FUNCTION pgjobs_arrive(pgjobs_job, pgjobs_hold);
    """,
)

# At COMMIT: decide about jobs that came, and let others go where some left. Jobs
# without keys pay for the condition alone, so it is as short as can be. Who is claimed
# by a worker keeps its place.
SETTLE_CHANGED = (
    """
    -- A job has left its place, or the line.
    CREATE FUNCTION pgjobs_settle_left(hold pgjobs_hold) RETURNS void
    LANGUAGE plpgsql AS $$
    BEGIN
        IF hold.lock IS NOT NULL THEN
            PERFORM pgjobs_settle_or_notify('lock', hold.lock);
        END IF;
        -- Others in its line may be allowed to run beside more jobs than it was.
        IF hold.limit_key IS NOT NULL AND hold.state IN ('place', 'limit') THEN
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
        WHERE job.keys ?| ARRAY['lock', 'limit_key', 'rate_key']
        ON CONFLICT (job_id) DO UPDATE SET state = 'later', opens_at = NULL;
    END
    $$;

    -- A job has ended: whoever waits for it, or for its batch, is told.
    CREATE FUNCTION pgjobs_tell(job pgjobs_job, ended text) RETURNS void
    LANGUAGE plpgsql AS $$
    BEGIN
        IF job.keys ? 'has_successors' THEN
            PERFORM pgjobs_tell_successors(job.id, ended);
        END IF;
        IF job.batch_id IS NOT NULL THEN
            PERFORM pgjobs_tell_batch(job.batch_id);
        END IF;
    END
    $$;

    CREATE FUNCTION pgjobs_settle_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        is_held_back boolean := NEW.keys ?| ARRAY['lock', 'limit_key', 'rate_key'];
        is_linked boolean := NEW.keys ?| ARRAY['after', 'after_batches'];
        job pgjobs_job;
        hold pgjobs_hold;
    BEGIN
        IF NEW.dependencies IS NOT NULL THEN
            PERFORM pgjobs_serve(NEW.id);
        END IF;
        IF TG_OP = 'INSERT' AND NOT is_held_back AND NOT is_linked
            AND NEW.waiting_for IS DISTINCT FROM 'dependency'
        THEN
            RETURN NULL;  -- others may wait for it, or it belongs to a batch
        END IF;
        IF NEW.finished_at IS NOT NULL THEN
            IF is_held_back THEN
                PERFORM pgjobs_leave(NEW.id);
            END IF;
            PERFORM pgjobs_tell(NEW, NEW.status);
            RETURN NULL;
        END IF;
        SELECT * INTO hold FROM pgjobs_hold WHERE job_id = NEW.id;
        IF hold.state = 'place' AND NEW.status = 'READY' AND OLD.status = 'WAITING' THEN
            RETURN NULL;  -- it was let go
        END IF;
        -- As it is now: its transaction may have changed it since.
        SELECT * INTO job FROM pgjobs_job WHERE id = NEW.id;
        IF NOT FOUND THEN
            PERFORM pgjobs_leave(NEW.id);
            RETURN NULL;
        END IF;
        IF TG_OP = 'INSERT' AND is_linked THEN
            PERFORM pgjobs_link(job);
        END IF;
        CASE job.status
        WHEN 'READY' THEN
            -- After a release it keeps its place, but needs another token.
            IF hold.state IS DISTINCT FROM 'place'
                OR hold.rate_key IS NOT NULL AND OLD.status = 'RUNNING'
            THEN
                PERFORM pgjobs_arrive(job, hold);
            END IF;
        WHEN 'WAITING' THEN
            IF TG_OP = 'INSERT'
                OR job.waiting_for = 'dependency'
                OR hold.state IS DISTINCT FROM job.waiting_for
                AND hold.state IS DISTINCT FROM 'aside'
            THEN
                PERFORM pgjobs_arrive(job, hold);
            END IF;
        WHEN 'SCHEDULED' THEN
            PERFORM pgjobs_wait_for_time(job);
            PERFORM pgjobs_look_back(job.id);
        ELSE
            RETURN NULL;
        END CASE;
        IF hold.state = 'place' THEN
            PERFORM pgjobs_settle_left(hold);
        END IF;
        RETURN NULL;
    END
    $$;
    CREATE CONSTRAINT TRIGGER pgjobs_settle_changed
        AFTER INSERT OR UPDATE OF status, keys ON pgjobs_job
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        WHEN (NEW.keys IS NOT NULL AND NEW.worker_id IS NULL)
        EXECUTE FUNCTION pgjobs_settle_changed();
    """,
    """
    DROP TRIGGER pgjobs_settle_changed ON pgjobs_job;
    DROP FUNCTION pgjobs_settle_changed();
    DROP FUNCTION pgjobs_tell(pgjobs_job, text);
    DROP FUNCTION pgjobs_wait_for_time(pgjobs_job);
    DROP FUNCTION pgjobs_leave(bigint);
    DROP FUNCTION pgjobs_settle_left(pgjobs_hold);
    """,
)

OTHER_CHANGES = (
    """
    -- It was replaced by a job with other keys: it leaves the old ones, but not its
    -- turn, and pgjobs_settle_changed decides anew, which by its name fires later.
    CREATE FUNCTION pgjobs_change_keys() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        job pgjobs_job;
        hold pgjobs_hold;
    BEGIN
        SELECT * INTO job FROM pgjobs_job WHERE id = NEW.id;
        DELETE FROM pgjobs_hold WHERE job_id = NEW.id RETURNING * INTO hold;
        IF job.keys IS NOT NULL AND job.finished_at IS NULL THEN
            PERFORM pgjobs_wait_for_time(job);
        END IF;
        PERFORM pgjobs_settle_left(hold);
        RETURN NULL;
    END
    $$;
    CREATE CONSTRAINT TRIGGER pgjobs_change_keys
        AFTER UPDATE OF keys ON pgjobs_job
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        WHEN (
            -- That somebody waits for the job's end changes nothing else.
            coalesce(OLD.keys, '{}') - 'has_successors'
                <> coalesce(NEW.keys, '{}') - 'has_successors'
            AND NEW.status <> 'RUNNING'
        )
        EXECUTE FUNCTION pgjobs_change_keys();

    CREATE FUNCTION pgjobs_change_priority() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE pgjobs_hold SET priority = NEW.priority WHERE job_id = NEW.id;
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER pgjobs_change_priority
        AFTER UPDATE OF priority ON pgjobs_job
        FOR EACH ROW
        WHEN (NEW.keys IS NOT NULL AND OLD.priority <> NEW.priority)
        EXECUTE FUNCTION pgjobs_change_priority();

    CREATE FUNCTION pgjobs_settle_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM pgjobs_predecessor WHERE job_id = OLD.id;
        IF OLD.dependencies IS NOT NULL THEN
            PERFORM pgjobs_serve(OLD.id);
        END IF;
        IF OLD.finished_at IS NULL THEN
            PERFORM pgjobs_leave(OLD.id);
            PERFORM pgjobs_tell(OLD, 'GONE');
        ELSIF OLD.keys ? 'has_successors' THEN
            PERFORM pgjobs_tell_successors(OLD.id, OLD.status);
        END IF;
        RETURN NULL;
    END
    $$;
    CREATE CONSTRAINT TRIGGER pgjobs_settle_deleted
        AFTER DELETE ON pgjobs_job
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
        WHEN (OLD.keys IS NOT NULL)
        EXECUTE FUNCTION pgjobs_settle_deleted();

    CREATE FUNCTION pgjobs_settle_truncated() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM pgjobs_hold;
        DELETE FROM pgjobs_predecessor;
        DELETE FROM pgjobs_batch;
        DELETE FROM pgjobs_unsettled;
        DELETE FROM pgjobs_prerequisite;
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER pgjobs_settle_truncated
        AFTER TRUNCATE ON pgjobs_job
        FOR EACH STATEMENT EXECUTE FUNCTION pgjobs_settle_truncated();
    """,
    """
    DROP TRIGGER pgjobs_settle_truncated ON pgjobs_job;
    DROP TRIGGER pgjobs_settle_deleted ON pgjobs_job;
    DROP TRIGGER pgjobs_change_priority ON pgjobs_job;
    DROP TRIGGER pgjobs_change_keys ON pgjobs_job;
    DROP FUNCTION pgjobs_settle_truncated();
    DROP FUNCTION pgjobs_settle_deleted();
    DROP FUNCTION pgjobs_change_priority();
    DROP FUNCTION pgjobs_change_keys();
    """,
)

# They run in whatever session commits: names mean our tables there, and the planner
# must not scan what was a small table when it made its plan. The triggers do what they
# must whoever it is: a role that may insert jobs, and nothing else, can give them keys.
# So nobody else may make a trigger of them.
SETTINGS_OF_FUNCTIONS = (
    """
    DO $$
    DECLARE
        entry text;
    BEGIN
        FOREACH entry IN ARRAY ARRAY[
            'pgjobs_plan_inserted()', 'pgjobs_settle_changed()',
            'pgjobs_change_keys()', 'pgjobs_change_priority()',
            'pgjobs_settle_deleted()', 'pgjobs_settle_truncated()'
        ] LOOP
            EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER', entry);
            EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', entry);
        END LOOP;
        FOREACH entry IN ARRAY ARRAY[
            'pgjobs_plan_inserted()', 'pgjobs_settle_changed()',
            'pgjobs_change_keys()', 'pgjobs_change_priority()',
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

# Backwards: the code before knows no reason to wait.
LET_GO = (
    migrations.RunSQL.noop,
    """
    UPDATE pgjobs_job
        SET status = 'READY', waiting_for = NULL, blocked_by_id = NULL
        WHERE status = 'WAITING';
    UPDATE pgjobs_job SET keys = NULL WHERE keys IS NOT NULL;
    DELETE FROM pgjobs_hold;
    """,
)


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0007_queues")]

    operations = [
        RunPostgreSQL(forwards, backwards)
        for forwards, backwards in (
            LET_GO,
            PLAN_INSERTED,
            ARRIVE,
            SETTLE_CHANGED,
            OTHER_CHANGES,
            SETTINGS_OF_FUNCTIONS,
        )
    ]
