"""Process units: what jobs take of their host, and how much of it is free."""

from django.db import migrations, models
from django.db.models import F, Q

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


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0007_queue_limits")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="process_units",
            field=models.BigIntegerField(
                blank=True, null=True, verbose_name="process units"
            ),
        ),
        migrations.AddField(
            model_name="worker",
            name="units",
            field=models.BigIntegerField(
                blank=True,
                null=True,
                verbose_name="process units of the host",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                F("priority").desc(),
                "turn",
                condition=Q(status="READY", process_units__isnull=False),
                name="pgjobs_job_units",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=Q(process_units__gte=1), name="pgjobs_job_process_units"
            ),
        ),
        RunPostgreSQL(*HOST_ROOM),
    ]
