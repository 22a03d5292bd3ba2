"""Two functions as an ordinary owner can install them; freeze.py wrote it.

As 0.9.0 had them, only a superuser could. A database that 0.9.0 has migrated gets them
anew, and so does one that an ordinary role restored from a dump without them. Backwards
they stay as they are: 0002 has the same text now.
"""

from django.db import migrations

from pgjobs.database.install import InstallSQL

CHANGES = {
    "function pgjobs_record": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_record(
    worker bigint, ids bigint[], lease_tokens bigint[], return_values text[],
    admits boolean,
    OUT recorded bigint[], OUT touched jsonb[], OUT linked bigint[],
    OUT batches bigint[]
) LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM set_config('pgjobs.admits', 'on', true);
    WITH stored AS (
        UPDATE pgjobs_job
        SET status = 'SUCCESSFUL',
            finished_at = clock_timestamp(),
            return_value = return_values[
                array_position(lease_tokens, lease_token)
            ]::jsonb,
            reason = '',
            line = CASE WHEN keys IS NOT NULL AND NOT admits THEN 'recorded' END,
            worker_id = NULL,
            worker_name = (SELECT name FROM pgjobs_worker AS own WHERE own.id = worker)
        WHERE id = ANY (ids) AND lease_token = ANY (lease_tokens)
            AND worker_id = worker
        RETURNING id, lease_token, keys, batch_id
    )
    SELECT array_agg(lease_token),
        coalesce(
            array_agg(keys) FILTER (WHERE keys ?| ARRAY['lock', 'limit_key']), '{}'
        ),
        array_agg(id) FILTER (WHERE keys ? 'has_successors'),
        array_agg(DISTINCT batch_id) FILTER (WHERE batch_id IS NOT NULL)
    INTO recorded, touched, linked, batches
    FROM stored;
    PERFORM set_config('pgjobs.admits', '', true);
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_record(
    worker bigint, ids bigint[], lease_tokens bigint[], return_values text[],
    admits boolean,
    OUT recorded bigint[], OUT touched jsonb[], OUT linked bigint[],
    OUT batches bigint[]
) LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM set_config('pgjobs.admits', 'on', true);
    WITH stored AS (
        UPDATE pgjobs_job
        SET status = 'SUCCESSFUL',
            finished_at = clock_timestamp(),
            return_value = return_values[
                array_position(lease_tokens, lease_token)
            ]::jsonb,
            reason = '',
            line = CASE WHEN keys IS NOT NULL AND NOT admits THEN 'recorded' END,
            worker_id = NULL,
            worker_name = (SELECT name FROM pgjobs_worker AS own WHERE own.id = worker)
        WHERE id = ANY (ids) AND lease_token = ANY (lease_tokens)
            AND worker_id = worker
        RETURNING id, lease_token, keys, batch_id
    )
    SELECT array_agg(lease_token),
        coalesce(
            array_agg(keys) FILTER (WHERE keys ?| ARRAY['lock', 'limit_key']), '{}'
        ),
        array_agg(id) FILTER (WHERE keys ? 'has_successors'),
        array_agg(DISTINCT batch_id) FILTER (WHERE batch_id IS NOT NULL)
    INTO recorded, touched, linked, batches
    FROM stored;
    PERFORM set_config('pgjobs.admits', '', true);
END
$$;
""",
    ),
    "function pgjobs_move": (
        r"""CREATE OR REPLACE FUNCTION pgjobs_move(candidates pgjobs_candidate[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM set_config('pgjobs.admits', 'on', true);  -- as in record.sql
    UPDATE pgjobs_job AS job
    SET status = CASE WHEN obstacle IS NULL THEN 'READY' ELSE 'WAITING' END,
        waiting_for = CASE obstacle
            WHEN 'undecided' THEN 'dependency'
            WHEN 'unserved' THEN job.waiting_for
            ELSE obstacle
        END,
        blocked_by_id = blocker,
        line = next_line,
        -- Behind the jobs enqueued while it waited, so that limit keys take turns.
        turn = CASE
            WHEN obstacle IS NULL AND starts_with(job.line, 'limit ')
                THEN nextval('pgjobs_turn')
            ELSE job.turn
        END
    FROM (
        SELECT obstacle, blocker, line,
            CASE WHEN obstacle IS NOT NULL THEN pgjobs_line_of(candidate) END
                AS next_line,
            (SELECT ctid FROM pgjobs_job WHERE pgjobs_job.id = candidate.id) AS place
        FROM unnest(candidates) AS candidate
        OFFSET 0
    ) AS decided
    WHERE job.ctid = place AND decided.line IS DISTINCT FROM next_line;
    PERFORM set_config('pgjobs.admits', '', true);
END
$$;
""",
        r"""CREATE OR REPLACE FUNCTION pgjobs_move(candidates pgjobs_candidate[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM set_config('pgjobs.admits', 'on', true);  -- as in record.sql
    UPDATE pgjobs_job AS job
    SET status = CASE WHEN obstacle IS NULL THEN 'READY' ELSE 'WAITING' END,
        waiting_for = CASE obstacle
            WHEN 'undecided' THEN 'dependency'
            WHEN 'unserved' THEN job.waiting_for
            ELSE obstacle
        END,
        blocked_by_id = blocker,
        line = next_line,
        -- Behind the jobs enqueued while it waited, so that limit keys take turns.
        turn = CASE
            WHEN obstacle IS NULL AND starts_with(job.line, 'limit ')
                THEN nextval('pgjobs_turn')
            ELSE job.turn
        END
    FROM (
        SELECT obstacle, blocker, line,
            CASE WHEN obstacle IS NOT NULL THEN pgjobs_line_of(candidate) END
                AS next_line,
            (SELECT ctid FROM pgjobs_job WHERE pgjobs_job.id = candidate.id) AS place
        FROM unnest(candidates) AS candidate
        OFFSET 0
    ) AS decided
    WHERE job.ctid = place AND decided.line IS DISTINCT FROM next_line;
    PERFORM set_config('pgjobs.admits', '', true);
END
$$;
""",
    ),
    "rights": (
        r"""DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT format(
            CASE
                WHEN proname IN (
                    'pgjobs_is_job', 'pgjobs_holds_key', 'pgjobs_provide',
                    'pgjobs_first_obstacle', 'pgjobs_first_line', 'pgjobs_leave_note',
                    'pgjobs_free_keys', 'pgjobs_replace_held', 'pgjobs_follow_up'
                )
                    THEN 'GRANT EXECUTE ON ROUTINE %s TO PUBLIC'
                ELSE 'REVOKE ALL ON ROUTINE %s FROM PUBLIC'
            END,
            oid::regprocedure
        )
        FROM pg_proc
        WHERE proname LIKE 'pgjobs\_%'
            AND pronamespace = quote_ident(current_schema())::regnamespace
    LOOP
        EXECUTE statement;
    END LOOP;
END
$$;
""",
        r"""DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT format(
            CASE
                WHEN proname IN (
                    'pgjobs_is_job', 'pgjobs_holds_key', 'pgjobs_provide',
                    'pgjobs_first_obstacle', 'pgjobs_first_line', 'pgjobs_leave_note',
                    'pgjobs_free_keys', 'pgjobs_replace_held', 'pgjobs_follow_up'
                )
                    THEN 'GRANT EXECUTE ON ROUTINE %s TO PUBLIC'
                ELSE 'REVOKE ALL ON ROUTINE %s FROM PUBLIC'
            END,
            oid::regprocedure
        )
        FROM pg_proc
        WHERE proname LIKE 'pgjobs\_%'
            AND pronamespace = quote_ident(current_schema())::regnamespace
    LOOP
        EXECUTE statement;
    END LOOP;
END
$$;
""",
    ),
}
# What the statements of this release call: its workers run beside those of the next.
CALLS = [
    "pgjobs_admit",
    "pgjobs_cancel_jobs",
    "pgjobs_deliver",
    "pgjobs_deliver_late",
    "pgjobs_free_keys",
    "pgjobs_host_room",
    "pgjobs_is_served",
    "pgjobs_matches",
    "pgjobs_pick",
    "pgjobs_provide",
    "pgjobs_publish",
    "pgjobs_refuse",
    "pgjobs_replace_held",
    "pgjobs_retry_jobs",
    "pgjobs_room",
    "pgjobs_timeline",
]
FILES = {
    "constraints/holds_key.sql": "232a8973b8223d6f171d76530d89df8fa53949a2a9ce6af45332cd05082b5ab0",
    "constraints/is_job.sql": "fd082cb2a8dd301b5ec46b2dc199ddb94ee5dd4cbf1d4e166130d3c535dfbf18",
    "tables/jobs.sql": "d5aa9c87bf0a0f07c9b575a768adde7858e12abf2ca7aaeaa469808e0e3e2f69",
    "tables/admission.sql": "020c642d819f5692aa97a4c7f66ea49dcbe8254c9a273f0394d37d67efd36797",
    "tables/schedules.sql": "44acd465abe0d2c30c2e0e94d980b7044c5b4fe2e7cc0a773009668d5d536472",
    "tables/events.sql": "4f8b70e6115abf540e3a473c6288e5509e48d428bb2b1da29df2bd41d7a0d676",
}


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0002_functions")]

    operations = [InstallSQL(CHANGES, CALLS, FILES)]
