"""Process units of hosts, and dependencies: what others need to have succeeded."""

import re
from importlib import import_module

from django.db import migrations, models
from django.db.models import F, Q

import pgjobs.plain_json

from ._postgresql import RunPostgreSQL

settling = import_module("pgjobs.migrations.0009_settling_chains")
SETTINGS = settling.SETTINGS  # to replace a function is to forget its settings


def as_in_0009(name: str) -> str:
    """Return what makes a function as migration 0009 made it."""
    made = settling.PLAN_INSERTED + settling.SETTLE_CHANGED
    pattern = rf"CREATE OR REPLACE FUNCTION {name}\(.*?\$\$;"
    found = re.search(pattern, made, re.DOTALL)
    assert found is not None
    return f"{found[0]}\n"


def changed(name: str, *replacements: tuple[str, str]) -> str:
    """Return the same with other code in places that read so only once."""
    made = as_in_0009(name)
    for place, code in replacements:
        assert made.count(place) == 1, place
        made = made.replace(place, code)
    return made


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
# may need it. Jobs that need and serve nothing pay nothing: there is no trigger more.
# Who needs what has succeeded lately pays for that look alone (its `keys` stay NULL). All
# others get `keys`, so that they are looked at when a transaction commits, as all are
# that wait or are waited for.
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
    """,
    """
    DROP FUNCTION pgjobs_serve(bigint);
    DROP FUNCTION pgjobs_lacks_dependency(jsonb);
    """,
)

# A dependency is an obstacle after predecessors and before locks: who waits for it has no
# place. If nobody knows for which job it waits a worker has to find or enqueue one. Once
# it knows, the job waits by a link to that one, as for a predecessor.
PLAN_INSERTED = changed(
    "pgjobs_plan_inserted",
    (
        "        IF NEW.keys ?| ARRAY['after', 'after_batches', 'batch_id'] THEN",
        """
        IF NEW.dependencies -> 'serves' <> '[]'
            OR NEW.dependencies IS NOT NULL AND NEW.run_after > statement_timestamp()
        THEN
            NEW.keys := coalesce(NEW.keys, '{}');
        END IF;
        IF NEW.keys ?| ARRAY['after', 'after_batches', 'batch_id'] THEN""",
    ),
    (
        "        IF NEW.waiting_for IS NULL THEN\n            found",
        """
        IF NEW.waiting_for IS NULL AND pgjobs_lacks_dependency(NEW.dependencies) THEN
            NEW.waiting_for := 'dependency';
            NEW.keys := coalesce(NEW.keys, '{}');
        END IF;
        IF NEW.waiting_for IS NULL AND NEW.keys <> '{}' THEN
            found""",
    ),
)
PLAN_INSERTED_TRIGGER = """
    DROP TRIGGER pgjobs_plan_inserted ON pgjobs_job;
    CREATE TRIGGER pgjobs_plan_inserted
        BEFORE INSERT ON pgjobs_job
        FOR EACH ROW
        WHEN (
            NEW.status = 'READY'
            AND (NEW.run_after > statement_timestamp() OR NEW.keys IS NOT NULL{more})
        )
        EXECUTE FUNCTION pgjobs_plan_inserted();
"""
ARRIVE = changed(
    "pgjobs_arrive",
    (
        "FROM pgjobs_open_link(job.id);",
        """FROM pgjobs_open_link(job.id);
        IF obstacle IS NULL AND pgjobs_lacks_dependency(job.dependencies) THEN
            obstacle := 'dependency';
            PERFORM pgjobs_note_unsettled('dependency', job.id);
        END IF;""",
    ),
)
SETTLE_CHANGED = changed(
    "pgjobs_settle_changed",
    (
        "        IF TG_OP = 'INSERT' AND NOT is_held_back AND NOT is_linked THEN",
        """
        IF NEW.dependencies IS NOT NULL THEN
            PERFORM pgjobs_serve(NEW.id);
        END IF;
        IF TG_OP = 'INSERT' AND NOT is_held_back AND NOT is_linked
            AND NEW.waiting_for IS DISTINCT FROM 'dependency'
        THEN""",
    ),
    (
        "            IF hold.state IS DISTINCT FROM job.waiting_for",
        """
            IF job.waiting_for = 'dependency'
                OR hold.state IS DISTINCT FROM job.waiting_for""",
    ),
)
SETTLE_DELETED = changed(
    "pgjobs_settle_deleted",
    (
        "        IF OLD.finished_at IS NULL THEN",
        """
        IF OLD.dependencies IS NOT NULL THEN
            PERFORM pgjobs_serve(OLD.id);
        END IF;
        IF OLD.finished_at IS NULL THEN""",
    ),
)
SETTLE_TRUNCATED = changed(
    "pgjobs_settle_truncated",
    (
        "        DELETE FROM pgjobs_unsettled;",
        """
        DELETE FROM pgjobs_unsettled;
        DELETE FROM pgjobs_prerequisite;""",
    ),
)
CHANGED = (
    PLAN_INSERTED
    + PLAN_INSERTED_TRIGGER.format(more=" OR NEW.dependencies IS NOT NULL")
    + ARRIVE
    + SETTLE_CHANGED
    + SETTLE_DELETED
    + SETTLE_TRUNCATED
    + SETTINGS,
    as_in_0009("pgjobs_plan_inserted")
    + PLAN_INSERTED_TRIGGER.format(more="")
    + as_in_0009("pgjobs_arrive")
    + as_in_0009("pgjobs_settle_changed")
    + as_in_0009("pgjobs_settle_deleted")
    + as_in_0009("pgjobs_settle_truncated")
    + SETTINGS,
)


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0009_settling_chains")]

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
        migrations.RemoveConstraint(model_name="job", name="pgjobs_job_timeout_range"),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=Q(
                    timeout__gt=0, timeout__lte=3_153_600_000.0, process_units__gte=1
                ),
                name="pgjobs_job_timeout_and_units_range",
            ),
        ),
        RunPostgreSQL(*HOST_ROOM),
        migrations.CreateModel(
            name="Prerequisite",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                ("job_id", models.BigIntegerField()),
                ("key", models.CharField(max_length=500)),
                ("finished_at", models.DateTimeField(null=True)),
                ("needed_until", models.DateTimeField(null=True)),
            ],
            options={
                "verbose_name": "prerequisite",
                "verbose_name_plural": "prerequisites",
                "default_permissions": (),
                "indexes": [
                    models.Index(
                        F("key"), F("finished_at"), name="pgjobs_prerequisite_key"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("job_id", "key"), name="pgjobs_prerequisite_once"
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="job",
            name="dependencies",
            field=models.JSONField(
                blank=True,
                decoder=pgjobs.plain_json.LenientDecoder,
                null=True,
                verbose_name="dependencies",
            ),
        ),
        RunPostgreSQL(*DEPEND),
        RunPostgreSQL(*CHANGED),
    ]
