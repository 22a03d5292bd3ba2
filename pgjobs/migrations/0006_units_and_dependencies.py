"""Process units of hosts, and dependencies: what others need to have succeeded."""

from django.db import migrations

from ._postgresql import RunPostgreSQL

# Counted anew for each claim, from running rows alone, so that nothing can leak: what a
# dead worker ran takes units until its rescue. Under a lock until the claim is committed,
# which nobody waits for (free is NULL: look again), as pgjobs_room has it. VOLATILE:
# the count sees what was committed since the statement began, and what the statement
# itself has recorded.
#
# Nothing that stands in line behind (last_priority, last_turn) may start: that is the
# place of a job for which units have been short for too long. Which others get free is
# kept for it.
HOST_ROOM = (
    """
    CREATE FUNCTION pgjobs_host_room(
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
        SELECT greatest(total - coalesce(sum(coalesce(job.process_units, 1)), 0), 0)
        INTO free
        FROM pgjobs_worker AS worker
        JOIN pgjobs_job AS job ON job.worker_id = worker.id
        WHERE worker.host = here AND job.status = 'RUNNING';

        SELECT job.priority, job.turn INTO last_priority, last_turn
        FROM pgjobs_job AS job
        WHERE job.status = 'READY'
            AND job.process_units > free AND job.process_units <= total
            AND greatest(job.enqueued_at, job.run_after, job.last_attempted_at)
                <= clock_timestamp() - make_interval(secs => patience)
            -- It does not wait for units if nobody here would take it anyway.
            AND EXISTS (
                SELECT FROM pgjobs_worker AS worker
                WHERE worker.host = here
                    AND worker.units >= job.process_units
                    AND worker.lease_until > clock_timestamp()
                    AND (
                        worker.queues = ''
                        OR job.queue_name = ANY (string_to_array(worker.queues, ','))
                    )
                    AND NOT job.queue_name
                        = ANY (string_to_array(worker.excluded, ','))
            )
            AND NOT EXISTS (
                SELECT FROM pgjobs_queue AS queue
                WHERE queue.name = job.queue_name
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
        -- Nobody: behind all others.
        last_priority := coalesce(last_priority, -1000);
        last_turn := coalesce(last_turn, 0);
    END
    $$;
    """,
    "DROP FUNCTION pgjobs_host_room(text, bigint, double precision)",
)


# `Job.dependencies` has what a job needs, and what it serves: the keys by which others
# may need it. The triggers keep the rows by which a job that serves is found.
DEPEND = (
    """
    CREATE FUNCTION pgjobs_lacks_dependency(dependencies jsonb) RETURNS boolean
    LANGUAGE plpgsql AS $$
    BEGIN
        RETURN dependencies IS NOT NULL AND EXISTS (
            SELECT FROM jsonb_to_recordset(dependencies -> 'needs')
                AS need (key text, "within" float8)
            WHERE coalesce(
                -- The latest one, which the index has at its end.
                (SELECT max(finished_at) FROM pgjobs_prerequisite WHERE key = need.key)
                    < clock_timestamp() - make_interval(secs => need."within"),
                true
            )
        );
    END
    $$;

    -- Note what has become of a job that others may need: it is on its way, or has
    -- succeeded.
    CREATE FUNCTION pgjobs_serve(served bigint) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        job pgjobs_job;
    BEGIN
        SELECT * INTO job FROM pgjobs_job WHERE id = served;
        IF NOT FOUND OR job.status IN ('FAILED', 'CANCELLED') THEN
            DELETE FROM pgjobs_prerequisite WHERE job_id = served;
            RETURN;
        END IF;
        -- Its arguments may have been replaced.
        DELETE FROM pgjobs_prerequisite AS known
        WHERE known.job_id = served
            AND NOT job.dependencies -> 'serves' @> jsonb_build_array(
                jsonb_build_object('key', known.key)
            );
        INSERT INTO pgjobs_prerequisite AS known
            (job_id, key, finished_at, needed_until)
        SELECT job.id, each.key, job.finished_at,
            job.finished_at + make_interval(secs => each."for")
        FROM jsonb_to_recordset(job.dependencies -> 'serves')
            AS each (key text, "for" float8)
        ON CONFLICT (job_id, key) DO UPDATE
            SET finished_at = excluded.finished_at, needed_until = excluded.needed_until
            WHERE known.finished_at IS DISTINCT FROM excluded.finished_at;
    END
    $$;

    CREATE FUNCTION pgjobs_serve_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pgjobs_serve(CASE WHEN TG_OP = 'DELETE' THEN OLD.id ELSE NEW.id END);
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER pgjobs_serve_inserted
        AFTER INSERT ON pgjobs_job
        FOR EACH ROW
        WHEN (NEW.dependencies -> 'serves' <> '[]' AND NEW.worker_id IS NULL)
        EXECUTE FUNCTION pgjobs_serve_changed();
    CREATE TRIGGER pgjobs_serve_changed
        AFTER UPDATE OF status, dependencies ON pgjobs_job
        FOR EACH ROW
        -- Not each time that it waits, or is READY.
        WHEN (
            NEW.dependencies IS NOT NULL AND NEW.worker_id IS NULL
            AND (
                coalesce(OLD.finished_at, NEW.finished_at) IS NOT NULL
                OR OLD.dependencies IS DISTINCT FROM NEW.dependencies
            )
        )
        EXECUTE FUNCTION pgjobs_serve_changed();
    CREATE TRIGGER pgjobs_serve_deleted
        AFTER DELETE ON pgjobs_job
        FOR EACH ROW WHEN (OLD.dependencies IS NOT NULL)
        EXECUTE FUNCTION pgjobs_serve_changed();
    DO $$
    BEGIN
        EXECUTE format(
            'ALTER FUNCTION pgjobs_serve_changed() SET search_path = pg_catalog, %I, '
            'pg_temp', current_schema()
        );
    END
    $$;
    """,
    """
    DROP TRIGGER pgjobs_serve_deleted ON pgjobs_job;
    DROP TRIGGER pgjobs_serve_changed ON pgjobs_job;
    DROP TRIGGER pgjobs_serve_inserted ON pgjobs_job;
    DROP FUNCTION pgjobs_serve_changed();
    DROP FUNCTION pgjobs_serve(bigint);
    DROP FUNCTION pgjobs_lacks_dependency(jsonb);
    """,
)


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0005_admission")]

    operations = [RunPostgreSQL(*HOST_ROOM), RunPostgreSQL(*DEPEND)]
