-- Insert the job as which a job goes on. It starts with what the job has. If another
-- job holds its unique key by now, it goes without, and its log says so. Its predecessors
-- have ended. Its task says for which events it waits, of which version it is, and how long
-- it may take. It was enqueued with the first: from then on events count for it.
CREATE OR REPLACE FUNCTION pgjobs_insert_successor(
    old pgjobs_job, successor bigint, stores jsonb
) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    next pgjobs_job := old;
    lost CONSTANT text[] := ARRAY[
        'after', 'after_batches', 'needs', 'version', 'waits_for', 'deadline', 'ends_at',
        'results_taken'
    ];
BEGIN
    next.id := successor;
    next.turn := nextval('pgjobs_turn');
    next.args := (stores ->> 'args')::jsonb;
    next.kwargs := (stores ->> 'kwargs')::jsonb;
    next.keys := coalesce(pgjobs_rate_again(old.keys), '{}') - lost || (stores -> 'keys')
        || jsonb_build_object('first_id', coalesce(old.keys -> 'first_id', to_jsonb(old.id)));
    next.status := 'READY';
    next.life := 1;
    next.lease_token := 0;
    next.attempts := 0;
    next.failures := 0;
    next.crashes := 0;
    next.reason := '';
    next.worker_id := NULL;
    next.started_at := NULL;
    next.last_attempted_at := NULL;
    next.run_after := statement_timestamp();  -- it waits from now on
    next.expires_at := NULL;
    INSERT INTO pgjobs_job SELECT next.*
    ON CONFLICT (unique_key, unique_for)
        WHERE unique_key IS NOT NULL
            AND pgjobs_holds_key(
                unique_for, unique_until, status, attempts, finished_at
            )
        DO NOTHING;
    IF FOUND THEN
        RETURN;
    END IF;
    next.unique_key := NULL;
    next.unique_for := NULL;
    next.unique_until := NULL;
    INSERT INTO pgjobs_job SELECT next.*;
    INSERT INTO pgjobs_progress (job_id, log, updated_at)
    VALUES (
        successor,
        format(
            E'%s Another job holds the unique key %L of job %s, which goes on without.\n',
            clock_timestamp()::timestamp(3), old.unique_key, old.id
        ),
        clock_timestamp()
    );
END
$$;
