-- Record jobs that succeeded, as record_and_claim.sql does, at the beginning of an
-- admission. If it `admits`, it sees to their keys and successors at once, so that no
-- row has to say that they have ended. Otherwise they stand in the line "recorded".
--
-- The setting tells the trigger pgjobs_queue_changed who writes. A SET clause would put it
-- back by itself, but only a superuser may give one for a setting of our own. After an
-- error the savepoint puts it back, or the end of the transaction.
CREATE OR REPLACE FUNCTION pgjobs_record(
    worker bigint, ids bigint[], lease_tokens bigint[], return_values text[],
    admits boolean,
    OUT recorded bigint[], OUT freed_keys jsonb[], OUT linked bigint[],
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
            line = CASE
                WHEN pgjobs_ends_for_others(keys) AND NOT admits THEN 'recorded'
            END,
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
    INTO recorded, freed_keys, linked, batches
    FROM stored;
    PERFORM set_config('pgjobs.admits', '', true);
END
$$;
