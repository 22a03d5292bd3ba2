-- Record successes of a worker. Of the jobs that are `deletable`, delete those whose rows
-- nothing needs. Return the lease tokens of both, and whether an admission has to follow.
--
-- The rows are locked before anything is asked, and each question has a snapshot that is
-- taken after that (VOLATILE). What begins to need a row later has to lock it, too, and waits:
-- see queue/inserting.py. A row that another transaction holds is recorded, and so is each
-- that has ties to other jobs: ../prune_successes.sql deletes it once nothing needs it. In a
-- transaction that sees no new rows nothing is deleted.
--
-- A worker records a hundred jobs at a time, which stand close together, and mostly nothing
-- needs any of them. So the first question is about all ids from the lowest to the highest
-- one: one look-up for each table. Only then each id is asked about, in pgjobs_needed.
CREATE OR REPLACE FUNCTION pgjobs_record_or_delete(
    worker bigint, named text, ids bigint[], lease_tokens bigint[],
    return_values text[], deletable bigint[],
    OUT tokens bigint[], OUT has_keys boolean
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    held bigint[];
    places tid[];
    parents bigint[];
    needed bigint[];
    low bigint;
    high bigint;
    may_be_needed boolean;
    have_rows boolean;
    said text;
    number bigint;
BEGIN
    tokens := '{}';
    has_keys := false;
    IF current_setting('transaction_isolation') = 'read committed' THEN
        SELECT array_agg(id), array_agg(ctid), coalesce(array_agg(lease_token), '{}'),
            array_agg(id) FILTER (WHERE has_parent), min(id), max(id)
        INTO held, places, tokens, parents, low, high
        FROM (
            SELECT id, ctid, lease_token, meta ? 'parent_id' AS has_parent
            FROM pgjobs_job
            WHERE id = ANY (deletable)
                AND worker_id = worker
                AND num_nonnulls(dependencies, batch_id, unique_until) = 0
                AND pgjobs_ends_for_others(keys) IS NOT TRUE
                AND NOT awaited
            FOR UPDATE SKIP LOCKED
        ) AS free;
        -- Ids and tokens are sorted, and mostly it locks all. To look for each token among
        -- all of them would take longer than the rest.
        IF tokens <> lease_tokens AND tokens <> '{}' THEN
            SELECT array_agg(id), array_agg(place), coalesce(array_agg(token), '{}')
            INTO held, places, tokens
            FROM unnest(held, places, tokens) AS each (id, place, token)
            WHERE token = ANY (lease_tokens);
        END IF;
    END IF;
    IF tokens <> '{}' THEN
        SELECT
            -- Jobs that name others in `after`, which no admission has seen.
            EXISTS (SELECT FROM pgjobs_job WHERE line = 'unlinked')
            OR EXISTS (
                SELECT FROM pgjobs_predecessor WHERE predecessor_id BETWEEN low AND high
            )
            OR EXISTS (
                SELECT FROM pgjobs_schedule
                WHERE last_job_id IS NOT NULL AND last_job_id BETWEEN low AND high
            )
            OR EXISTS (SELECT FROM pgjobs_delivery WHERE job_id BETWEEN low AND high)
            -- The constraint of a table of the project has a trigger here.
            OR EXISTS (
                SELECT FROM pg_catalog.pg_trigger
                WHERE tgrelid = 'pgjobs_job'::regclass AND tgisinternal
            ),
            EXISTS (SELECT FROM pgjobs_attempt WHERE job_id BETWEEN low AND high)
            OR EXISTS (SELECT FROM pgjobs_progress WHERE job_id BETWEEN low AND high)
            OR EXISTS (SELECT FROM pgjobs_step WHERE job_id BETWEEN low AND high)
            OR EXISTS (SELECT FROM pgjobs_wait WHERE job_id BETWEEN low AND high)
            OR EXISTS (SELECT FROM pgjobs_answer WHERE job_id BETWEEN low AND high)
            OR EXISTS (SELECT FROM pgjobs_tick WHERE job_id BETWEEN low AND high)
        INTO may_be_needed, have_rows;
        -- A process that waits for a job has this lock, too ("pgja" in ASCII): see
        -- queue/waiting.py. What is locked and at once unlocked was only asked for.
        IF pg_try_advisory_lock(1885825633, 0) THEN
            may_be_needed := NOT pg_advisory_unlock(1885825633, 0) OR may_be_needed;
        ELSE
            may_be_needed := true;
        END IF;
        IF may_be_needed OR parents IS NOT NULL THEN
            needed := pgjobs_needed(held, parents);
            SELECT array_agg(place), coalesce(array_agg(token), '{}')
            INTO places, tokens
            FROM unnest(held, places, tokens) AS each (id, place, token)
            WHERE NOT id = ANY (needed);
        END IF;
    END IF;
    IF tokens <> '{}' THEN
        IF NOT have_rows THEN  -- so triggers.sql need not look for them
            said := set_config('pgjobs.deletes', 'rows', true);
        END IF;
        DELETE FROM pgjobs_job WHERE ctid = ANY (places);
        GET DIAGNOSTICS number = ROW_COUNT;
        said := set_config('pgjobs.deletes', '', true);
        IF number <> cardinality(tokens) THEN
            RAISE 'A trigger of the project keeps rows of pgjobs_job.';
        END IF;
    END IF;
    -- The rest is stored as in sql/worker/record/success.sql.
    IF cardinality(tokens) < cardinality(ids) THEN
        WITH recorded AS (
            UPDATE pgjobs_job
            SET status = 'SUCCESSFUL',
                finished_at = clock_timestamp(),
                return_value = return_values[
                    array_position(lease_tokens, lease_token)
                ]::jsonb,
                reason = '',
                line = CASE WHEN pgjobs_ends_for_others(keys) THEN 'recorded' END,
                worker_id = NULL,
                worker_name = named,
                -- What the setting of the worker said.
                keep = CASE WHEN id = ANY (deletable) THEN 'failed' ELSE keep END
            WHERE worker_id = worker
                AND id = ANY (ids)
                AND lease_token = ANY (lease_tokens)
            RETURNING lease_token, line
        )
        SELECT tokens || coalesce(array_agg(lease_token), '{}'),
            coalesce(bool_or(line IS NOT NULL), false)
        INTO tokens, has_keys
        FROM recorded;
    END IF;
END
$$;
