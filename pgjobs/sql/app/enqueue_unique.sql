-- Insert jobs as enqueue.sql does, except those whose unique key another job holds.
-- If another transaction has inserted such a job and is not committed, this waits for
-- it. The ids and turns rise in the order given. The rows are inserted in the order of
-- their keys, so that two of these statements never wait for each other.
WITH job AS MATERIALIZED (
    SELECT nextval('pgjobs_job_id_seq') AS id, nextval('pgjobs_turn') AS turn, given.*,
        nullif(%(keys)s::jsonb -> (position - 1)::integer, 'null') AS keys
    FROM (
        SELECT * FROM unnest(
            $arrays,
            %(run_after)s::timestamptz[], %(delay)s::double precision[],
            %(expires_at)s::timestamptz[], %(expires_in)s::double precision[],
            %(unique_key)s::text[], %(unique_for)s::text[],
            %(unique_period)s::double precision[]
        ) WITH ORDINALITY AS job (
            $columns, run_after, delay, expires_at, expires_in,
            unique_key, unique_for, unique_period, position
        )
        ORDER BY position
    ) AS given
),
inserted AS (
    INSERT INTO pgjobs_job (id, turn, $all_columns)
    SELECT id, turn, $values,
        due,
        coalesce(
            expires_at,
            coalesce(due, statement_timestamp()) + make_interval(secs => expires_in)
        ),
        keys,
        unique_key, unique_for,
        statement_timestamp() + make_interval(secs => unique_period)
    FROM job
    CROSS JOIN LATERAL (
        VALUES (
            coalesce(run_after, statement_timestamp() + make_interval(secs => delay))
        )
    ) AS time (due)
    ORDER BY unique_key, unique_for, position
    ON CONFLICT (unique_key, unique_for)
        WHERE unique_key IS NOT NULL
            AND pgjobs_holds_key(
                unique_for, unique_until, status, attempts, finished_at
            )
        DO NOTHING
    RETURNING $returned, unique_until
)
SELECT position - 1, unique_until, $returned
FROM inserted JOIN (SELECT id, position FROM job) AS given USING (id)
ORDER BY position
