"""Flow control, the part of whoever writes a job: triggers that put it in a line.

A job with a lock, limit, rate, predecessor or dependency is never READY by what its
writer says: it waits in the line "arrived", or "unlinked" if it comes after other jobs, until a
worker admits it (0005_admission).
A job whose end others may wait for stands, once it has ended, in the line "left" until
a worker has seen it. So a row itself says what is to be done about it, and its writer
needs no right, takes no lock and reads no table.
"""

from django.db import migrations

from ._postgresql import RunPostgreSQL

# Who has the place of a lock or of a limit, and the first of an ordered lock. Their
# conditions are short, and begin with what a plain job fails at once: PostgreSQL reads
# them anew with each statement.
INDEXES = (
    """
    -- The last line of defence: whatever goes wrong, no two jobs of a lock can run.
    CREATE UNIQUE INDEX pgjobs_job_lock ON pgjobs_job ((keys ->> 'lock'))
        WHERE (keys ->> 'lock') IS NOT NULL AND status IN ('READY', 'RUNNING');
    CREATE INDEX pgjobs_job_lock_order ON pgjobs_job ((keys ->> 'lock'), id)
        WHERE (keys ->> 'lock') IS NOT NULL AND finished_at IS NULL
            AND (keys ->> 'is_ordered') IS DISTINCT FROM 'false';
    CREATE INDEX pgjobs_job_limit ON pgjobs_job ((keys ->> 'limit_key'))
        WHERE (keys ->> 'limit_key') IS NOT NULL AND status IN ('READY', 'RUNNING');
    """,
    """
    DROP INDEX pgjobs_job_limit;
    DROP INDEX pgjobs_job_lock_order;
    DROP INDEX pgjobs_job_lock;
    """,
)

QUEUE = (
    """
    -- The first kind of obstacle that a job may meet; NULL: none.
    CREATE FUNCTION pgjobs_first_obstacle(keys jsonb, dependencies jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
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

    -- The line in which a job begins to wait.
    CREATE FUNCTION pgjobs_first_line(keys jsonb) RETURNS text
    LANGUAGE sql IMMUTABLE AS $$
        SELECT CASE
            WHEN keys ?| ARRAY['after', 'after_batches'] THEN 'unlinked'
            ELSE 'arrived'
        END
    $$;

    -- One function without calls of others, and so without a search path of its own:
    -- each costs an INSERT a microsecond a row.
    CREATE FUNCTION pgjobs_queue_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.keys ? 'batch_id' THEN
            NEW.batch_id := NEW.keys ->> 'batch_id';
        END IF;
        IF NEW.status = 'WAITING' THEN
            NEW.line := 'unlinked';  -- an admission finds out for what it waits
            RETURN NEW;
        END IF;
        IF NEW.run_after > statement_timestamp() THEN
            NEW.status := 'SCHEDULED';
            IF NEW.keys ?| ARRAY['after', 'after_batches'] THEN
                NEW.line := 'unlinked';  -- its predecessors may be gone when it is due
            END IF;
            RETURN NEW;
        END IF;
        NEW.waiting_for := CASE
            WHEN NEW.keys ?| ARRAY['after', 'after_batches'] THEN 'predecessor'
            WHEN NEW.dependencies -> 'needs' <> '[]' THEN 'dependency'
            WHEN NEW.keys ? 'lock' THEN 'lock'
            WHEN NEW.keys ? 'limit_key' THEN 'limit'
            WHEN NEW.keys ? 'rate_key' THEN 'rate'
        END;
        IF NEW.waiting_for IS NOT NULL THEN
            NEW.status := 'WAITING';
            NEW.line := CASE NEW.waiting_for
                WHEN 'predecessor' THEN 'unlinked' ELSE 'arrived'
            END;
        END IF;
        RETURN NEW;
    END
    $$;
    CREATE TRIGGER pgjobs_queue_inserted
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
            OR NEW.status = 'WAITING' AND NEW.line IS NULL
        )
        EXECUTE FUNCTION pgjobs_queue_inserted();

    -- Statements just say READY, or that a job has ended.
    CREATE FUNCTION pgjobs_queue_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        CASE
        WHEN NEW.finished_at IS NOT NULL THEN
            IF OLD.finished_at IS NULL THEN
                NEW.line := CASE WHEN NEW.keys IS NOT NULL THEN 'left' END;
            END IF;
        WHEN NEW.status = 'READY' THEN
            IF OLD.status = 'READY'
                -- That others wait for its end changes nothing else.
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
    CREATE TRIGGER pgjobs_queue_changed
        BEFORE UPDATE OF status, keys, dependencies ON pgjobs_job
        FOR EACH ROW
        WHEN (
            NEW.worker_id IS NULL
            AND (
                NEW.keys IS NOT NULL
                OR NEW.dependencies IS NOT NULL
                OR NEW.line IS NOT NULL
                OR NEW.status = 'WAITING'
            )
            -- Said by the worker that records an end; it sees to it by itself.
            AND NEW.line IS DISTINCT FROM 'recorded'
            -- Decided by an admission.
            AND NOT (
                OLD.status = 'WAITING'
                AND (NEW.status = 'WAITING' OR NEW.status = 'READY' AND NEW.line IS NULL)
            )
        )
        EXECUTE FUNCTION pgjobs_queue_changed();
    """,
    """
    DROP TRIGGER pgjobs_queue_changed ON pgjobs_job;
    DROP TRIGGER pgjobs_queue_inserted ON pgjobs_job;
    DROP FUNCTION pgjobs_queue_changed();
    DROP FUNCTION pgjobs_queue_inserted();
    DROP FUNCTION pgjobs_first_line(jsonb);
    DROP FUNCTION pgjobs_first_obstacle(jsonb, jsonb);
    """,
)

# What no row can say, because it is gone, is left in a note. A role that may delete
# jobs, and nothing else, leaves none: then the sweep finds who waits for nothing.
NOTES = (
    """
    CREATE FUNCTION pgjobs_leave_note(job_id bigint, keys jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
    BEGIN
        IF has_table_privilege('pgjobs_note', 'INSERT') THEN
            INSERT INTO pgjobs_note (job_id, keys) VALUES (job_id, keys);
        END IF;
        PERFORM pg_notify('pgjobs_admission', '');
    END
    $$;

    CREATE FUNCTION pgjobs_note_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
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
            PERFORM pgjobs_serve(OLD.id);
        END IF;
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER pgjobs_note_deleted
        AFTER DELETE ON pgjobs_job
        FOR EACH ROW WHEN (OLD.keys IS NOT NULL OR OLD.dependencies IS NOT NULL)
        EXECUTE FUNCTION pgjobs_note_deleted();

    -- It was replaced by a job with other keys, and the old ones are free.
    CREATE FUNCTION pgjobs_note_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pgjobs_leave_note(NULL, OLD.keys);
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER pgjobs_note_changed
        AFTER UPDATE OF keys ON pgjobs_job
        FOR EACH ROW
        WHEN (
            OLD.keys ->> 'lock' <> coalesce(NEW.keys ->> 'lock', '')
            OR OLD.keys ->> 'limit_key' <> coalesce(NEW.keys ->> 'limit_key', '')
        )
        EXECUTE FUNCTION pgjobs_note_changed();

    CREATE FUNCTION pgjobs_note_truncated() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM pgjobs_predecessor;
        DELETE FROM pgjobs_batch;
        DELETE FROM pgjobs_note;
        DELETE FROM pgjobs_prerequisite;
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER pgjobs_note_truncated
        AFTER TRUNCATE ON pgjobs_job
        FOR EACH STATEMENT EXECUTE FUNCTION pgjobs_note_truncated();

    DO $$
    DECLARE
        name text;
    BEGIN
        FOREACH name IN ARRAY ARRAY[
            'pgjobs_queue_changed()', 'pgjobs_note_deleted()', 'pgjobs_note_changed()',
            'pgjobs_note_truncated()'
        ] LOOP
            EXECUTE format(
                'ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp',
                name, current_schema()
            );
        END LOOP;
    END
    $$;
    """,
    """
    DROP TRIGGER pgjobs_note_truncated ON pgjobs_job;
    DROP TRIGGER pgjobs_note_changed ON pgjobs_job;
    DROP TRIGGER pgjobs_note_deleted ON pgjobs_job;
    DROP FUNCTION pgjobs_note_truncated();
    DROP FUNCTION pgjobs_note_changed();
    DROP FUNCTION pgjobs_note_deleted();
    DROP FUNCTION pgjobs_leave_note(bigint, jsonb);
    """,
)

# Backwards: the code before knows no reason to wait.
LET_GO = (
    migrations.RunSQL.noop,
    """
    UPDATE pgjobs_job
        SET status = 'READY', waiting_for = NULL, blocked_by_id = NULL, line = NULL
        WHERE status = 'WAITING';
    UPDATE pgjobs_job SET keys = NULL, line = NULL
        WHERE keys IS NOT NULL OR line IS NOT NULL;
    """,
)


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0003_schedules")]

    operations = [
        RunPostgreSQL(forwards, backwards)
        for forwards, backwards in (LET_GO, INDEXES, QUEUE, NOTES)
    ]
