"""What workers ask about queues, and what wakes them when the answer changes."""

from django.db import migrations

from ._postgresql import RunPostgreSQL

# How many jobs of a limited queue may be claimed: counted anew, from running rows alone,
# and under a lock until the claim is committed, so that two workers never count on the
# same room. Nobody waits for the lock: who does not get it has no room and looks again
# within milliseconds. VOLATILE: the count sees what was committed since the statement
# began, and what the statement itself has recorded.
ROOM = (
    """
    CREATE FUNCTION pgjobs_room(queue text) RETURNS bigint
        LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
        -- The class of these locks: "pgjq" in ASCII.
        IF NOT pg_catalog.pg_try_advisory_xact_lock(
            1885825649, pg_catalog.hashtext(queue)
        ) THEN
            RETURN 0;
        END IF;
        RETURN (
            SELECT greatest(
                max_running - (
                    SELECT count(*) FROM pgjobs_job
                    WHERE status = 'RUNNING' AND queue_name = queue
                ),
                0
            )
            FROM pgjobs_queue WHERE name = queue
        );
    END
    $$;
    """,
    "DROP FUNCTION pgjobs_room(text)",
)

# Whoever resumes a queue or gives it more room, SQL too, wakes its workers.
NOTIFY_QUEUE = (
    """
    CREATE FUNCTION pgjobs_notify_queue() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_catalog.pg_notify('pgjobs', OLD.name);
        -- Lines in which only jobs of this queue stand have been passed over.
        PERFORM pg_catalog.pg_notify('pgjobs_admission', 'sweep');
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER pgjobs_notify_queue
        AFTER UPDATE OF paused_at, max_running OR DELETE ON pgjobs_queue
        FOR EACH ROW EXECUTE FUNCTION pgjobs_notify_queue();
    """,
    """
    DROP TRIGGER pgjobs_notify_queue ON pgjobs_queue;
    DROP FUNCTION pgjobs_notify_queue();
    """,
)


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0006_units_and_dependencies")]

    operations = [RunPostgreSQL(*ROOM), RunPostgreSQL(*NOTIFY_QUEUE)]
