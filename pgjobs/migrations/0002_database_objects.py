"""What Django's models cannot say: the token sequence, triggers, and hot-table settings."""

from django.db import migrations

from ._postgresql import RunPostgreSQL

LEASE_TOKEN = (
    "CREATE SEQUENCE pgjobs_lease_token AS bigint START 1",
    "DROP SEQUENCE pgjobs_lease_token",
)

# Attempts, progress and steps go with their job, whoever deletes it.
CASCADES = (
    """
    ALTER TABLE pgjobs_attempt ADD CONSTRAINT pgjobs_attempt_job
        FOREIGN KEY (job_id) REFERENCES pgjobs_job (id) ON DELETE CASCADE;
    ALTER TABLE pgjobs_progress ADD CONSTRAINT pgjobs_progress_job
        FOREIGN KEY (job_id) REFERENCES pgjobs_job (id) ON DELETE CASCADE;
    ALTER TABLE pgjobs_step ADD CONSTRAINT pgjobs_step_job
        FOREIGN KEY (job_id) REFERENCES pgjobs_job (id) ON DELETE CASCADE;
    """,
    """
    ALTER TABLE pgjobs_attempt DROP CONSTRAINT pgjobs_attempt_job;
    ALTER TABLE pgjobs_progress DROP CONSTRAINT pgjobs_progress_job;
    ALTER TABLE pgjobs_step DROP CONSTRAINT pgjobs_step_job;
    """,
)

# What SQL could insert but Python not read, or nobody find again, is refused here.
CHECKS = (
    """
    ALTER TABLE pgjobs_job
        ADD CONSTRAINT pgjobs_job_arguments CHECK (
            jsonb_typeof(args) = 'array' AND jsonb_typeof(kwargs) = 'object'
        ),
        ADD CONSTRAINT pgjobs_job_names CHECK (
            task <> '' AND queue_name ~ '^[^,[:cntrl:]]+$'
        ),
        ADD CONSTRAINT pgjobs_job_times CHECK (
            least(
                run_after, expires_at, enqueued_at, started_at, last_attempted_at,
                finished_at, cancel_requested_at
            ) >= '1970-01-01 00:00+00'
            AND greatest(
                run_after, expires_at, enqueued_at, started_at, last_attempted_at,
                finished_at, cancel_requested_at
            ) < '9999-01-01 00:00+00'
        );
    """,
    """
    ALTER TABLE pgjobs_job
        DROP CONSTRAINT pgjobs_job_arguments,
        DROP CONSTRAINT pgjobs_job_names,
        DROP CONSTRAINT pgjobs_job_times;
    """,
)

# READY means: can run now. Whoever inserts a job for later, psql too, gets a SCHEDULED
# one. The condition is tested in place, so that a job for now pays nothing.
SCHEDULE_INSERTED = (
    """
    CREATE FUNCTION pgjobs_schedule_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        NEW.status := 'SCHEDULED';
        RETURN NEW;
    END
    $$;
    CREATE TRIGGER pgjobs_schedule_inserted
        BEFORE INSERT ON pgjobs_job
        FOR EACH ROW
        WHEN (NEW.status = 'READY' AND NEW.run_after > statement_timestamp())
        EXECUTE FUNCTION pgjobs_schedule_inserted();
    """,
    """
    DROP TRIGGER pgjobs_schedule_inserted ON pgjobs_job;
    DROP FUNCTION pgjobs_schedule_inserted();
    """,
)

# Any INSERT wakes the workers, psql's too: once per queue and statement. Scheduled
# jobs also do: a worker sleeps no longer than until the next one is due.
NOTIFY_INSERTED = (
    """
    CREATE FUNCTION pgjobs_notify_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_catalog.pg_notify('pgjobs', queue.name)
        FROM (SELECT DISTINCT queue_name FROM inserted) AS queue (name);
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER pgjobs_notify_inserted
        AFTER INSERT ON pgjobs_job REFERENCING NEW TABLE AS inserted
        FOR EACH STATEMENT EXECUTE FUNCTION pgjobs_notify_inserted();
    """,
    """
    DROP TRIGGER pgjobs_notify_inserted ON pgjobs_job;
    DROP FUNCTION pgjobs_notify_inserted();
    """,
)

# The conditions are tested in place, so that claiming and recording pay nothing.
NOTIFY_CHANGED = (
    """
    CREATE FUNCTION pgjobs_notify_queued() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_catalog.pg_notify('pgjobs', NEW.queue_name);
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER pgjobs_notify_queued
        AFTER UPDATE OF status ON pgjobs_job
        FOR EACH ROW
        WHEN (NEW.status IN ('READY', 'SCHEDULED') AND OLD.status <> NEW.status)
        EXECUTE FUNCTION pgjobs_notify_queued();

    CREATE FUNCTION pgjobs_notify_finished() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_catalog.pg_notify('pgjobs_finished', NEW.id::text);
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER pgjobs_notify_finished
        AFTER UPDATE OF status ON pgjobs_job
        FOR EACH ROW
        WHEN (
            NEW.awaited AND NEW.finished_at IS NOT NULL AND OLD.finished_at IS NULL
        )
        EXECUTE FUNCTION pgjobs_notify_finished();
    """,
    """
    DROP TRIGGER pgjobs_notify_finished ON pgjobs_job;
    DROP FUNCTION pgjobs_notify_finished();
    DROP TRIGGER pgjobs_notify_queued ON pgjobs_job;
    DROP FUNCTION pgjobs_notify_queued();
    """,
)

# Lets a statement fail that must not be committed, with an error of our own.
REFUSE = (
    """
    CREATE FUNCTION pgjobs_refuse(code text) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'refused by pgjobs' USING ERRCODE = code;
    END
    $$;
    """,
    "DROP FUNCTION pgjobs_refuse(text)",
)

# With the defaults a table of ten million rows is vacuumed once in two million dead
# ones. Truncation would take an exclusive lock and make every worker wait.
STORAGE = (
    """
    ALTER TABLE pgjobs_job SET (
        autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_threshold = 20000,
        autovacuum_analyze_scale_factor = 0.02,
        vacuum_truncate = off
    );
    ALTER TABLE pgjobs_worker SET (fillfactor = 50, vacuum_truncate = off);
    ALTER TABLE pgjobs_progress SET (fillfactor = 50, vacuum_truncate = off);
    """,
    """
    ALTER TABLE pgjobs_job RESET (
        autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,
        autovacuum_analyze_scale_factor, vacuum_truncate
    );
    ALTER TABLE pgjobs_worker RESET (fillfactor, vacuum_truncate);
    ALTER TABLE pgjobs_progress RESET (fillfactor, vacuum_truncate);
    """,
)


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0001_initial")]

    operations = [
        RunPostgreSQL(forwards, backwards)
        for forwards, backwards in (
            LEASE_TOKEN,
            CASCADES,
            CHECKS,
            SCHEDULE_INSERTED,
            NOTIFY_INSERTED,
            NOTIFY_CHANGED,
            REFUSE,
            STORAGE,
        )
    ]
