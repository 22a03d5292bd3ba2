-- Record successes of a worker. Of the jobs that are `deletable`, delete those whose rows
-- nothing needs. Return the lease tokens of both, and whether an admission has to follow.
--
-- The rows are locked before anything is asked, and pgjobs_needed asks with a snapshot that
-- is taken after that. What begins to need a row later takes a lock on it, too, and waits:
-- see functions/hold_predecessors.sql. A row that another transaction holds is recorded, and
-- so is all that has a tie to other jobs: features/keeping/prune_successes.sql deletes it
-- once nothing needs it. In a transaction that sees no new rows nothing is deleted.
--
-- It calls no function for a single row: a worker records a hundred at a time. The rest is
-- stored as in sql/worker/record/success.sql.
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
    number bigint;
BEGIN
    tokens := '{}';
    has_keys := false;
    IF current_setting('transaction_isolation') = 'read committed' THEN
        SELECT array_agg(id), array_agg(ctid), array_agg(lease_token),
            array_agg(id) FILTER (WHERE has_parent)
        INTO held, places, tokens, parents
        FROM (
            SELECT id, ctid, lease_token, meta ? 'parent_id' AS has_parent
            FROM pgjobs_job
            WHERE id = ANY (deletable)
                AND lease_token = ANY (lease_tokens)
                AND worker_id = worker
                AND num_nonnulls(keys, dependencies, batch_id, unique_until) = 0
                AND NOT awaited
            FOR UPDATE SKIP LOCKED
        ) AS free;
        tokens := coalesce(tokens, '{}');
    END IF;
    IF tokens <> '{}' THEN
        needed := pgjobs_needed(held, parents);
        IF needed <> '{}' THEN
            SELECT array_agg(id), array_agg(place), coalesce(array_agg(token), '{}')
            INTO held, places, tokens
            FROM unnest(held, places, tokens) AS each (id, place, token)
            WHERE NOT id = ANY (needed);
        END IF;
    END IF;
    IF tokens <> '{}' THEN
        -- Then triggers.sql need not look for what belongs to them.
        IF NOT pgjobs_has_rows(held) THEN
            PERFORM set_config('pgjobs.deletes', 'rows', true);
        END IF;
        DELETE FROM pgjobs_job WHERE ctid = ANY (places);
        GET DIAGNOSTICS number = ROW_COUNT;
        PERFORM set_config('pgjobs.deletes', '', true);
        IF number <> cardinality(tokens) THEN
            RAISE 'A trigger of the project keeps rows of pgjobs_job.'
                USING ERRCODE = 'triggered_data_change_violation';
        END IF;
    END IF;
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
            WHERE id = ANY (ids)
                AND lease_token = ANY (lease_tokens)
                AND worker_id = worker
            RETURNING lease_token, line
        )
        SELECT tokens || coalesce(array_agg(lease_token), '{}'),
            coalesce(bool_or(line IS NOT NULL), false)
        INTO tokens, has_keys
        FROM recorded;
    END IF;
END
$$;
