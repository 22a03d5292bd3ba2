-- Give jobs that hold these unique keys other arguments and another time, unless they
-- have started: see the function. Of several jobs for one key the last one counts.
SELECT pgjobs_replace_held(
    array_agg(unique_key), array_agg(unique_for),
    array_agg(coalesce(args, (%(args)s::text[])[1])::jsonb),
    array_agg(kwargs::jsonb), array_agg(keys), array_agg(dependencies),
    array_agg(due),
    array_agg(
        coalesce(
            expires_at,
            coalesce(due, statement_timestamp()) + make_interval(secs => expires_in)
        )
    ),
    array_agg(coalesce(meta, (%(meta)s::text[])[1])::jsonb)
)
FROM (
    SELECT DISTINCT ON (unique_key, unique_for) *,
        nullif(%(keys)s::jsonb -> (position - 1)::integer, 'null') AS keys
    FROM unnest(
        %(args)s::text[], %(kwargs)s::text[], %(dependencies)s::jsonb[],
        %(run_after)s::timestamptz[], %(delay)s::double precision[],
        %(expires_at)s::timestamptz[], %(expires_in)s::double precision[],
        %(unique_key)s::text[], %(unique_for)s::text[], %(meta)s::text[]
    ) WITH ORDINALITY AS job (
        args, kwargs, dependencies, run_after, delay, expires_at, expires_in,
        unique_key, unique_for, meta, position
    )
    ORDER BY unique_key, unique_for, position DESC
) AS wanted
CROSS JOIN LATERAL (
    VALUES (coalesce(run_after, statement_timestamp() + make_interval(secs => delay)))
) AS time (due)
