-- Return how the jobs have ended that an entry of `keys -> 'results'` names, in the order
-- of the group: what this does not know stands last. `part` leads to the part of the
-- result that is asked for.
CREATE OR REPLACE FUNCTION pgjobs_ends_before(entry jsonb, part text[]) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    most CONSTANT integer := 10000;
    ids bigint[];
    number integer;
    bytes bigint;
BEGIN
    ids := ARRAY(
        SELECT named.id
        FROM (
            SELECT pgjobs_newest(each.id::bigint) AS id, each.place
            FROM jsonb_array_elements_text(entry -> 'jobs')
                WITH ORDINALITY AS each (id, place)
            UNION ALL
            SELECT (each.pair ->> 1)::bigint, (each.pair ->> 0)::bigint
            FROM jsonb_array_elements(entry -> 'others') AS each (pair)
            UNION ALL
            (
                SELECT job.id, (job.keys ->> 'place')::bigint
                FROM pgjobs_job AS job
                WHERE job.batch_id = (entry ->> 'batch')::bigint
                    AND (job.keys -> 'place') IS DISTINCT FROM 'null'
                LIMIT most + 1
            )
        ) AS named
        ORDER BY named.place NULLS LAST, named.id
    );
    number := cardinality(ids);
    IF number > 1 THEN
        SELECT sum(octet_length(job.return_value::text)) INTO bytes
        FROM pgjobs_job AS job WHERE job.id = ANY (ids[:most]);
    END IF;
    IF number > most OR bytes > coalesce((entry ->> 'bytes')::numeric, 10000000) THEN
        RETURN jsonb_build_object('number', number, 'bytes_found', bytes);
    END IF;
    RETURN jsonb_build_object('ends', (
        SELECT coalesce(jsonb_agg(
            jsonb_build_object(
                'id', each.id, 'task', job.task,
                'status', coalesce(job.status, 'GONE'),
                'value', CASE
                    WHEN job.keys ? 'encrypted' THEN job.return_value
                    ELSE job.return_value #> part
                END,
                'reason', CASE
                    WHEN job.id IS NULL THEN 'The job was deleted.' ELSE job.reason
                END,
                'lacks', job.status = 'SUCCESSFUL' AND part <> '{}'
                    AND (job.return_value #> part) IS NULL
            ) || CASE
                WHEN job.keys ? 'encrypted'
                    THEN jsonb_build_object('by', job.keys #> '{encrypted,by}')
                ELSE '{}'
            END
            ORDER BY each.place
        ), '[]')
        FROM unnest(ids) WITH ORDINALITY AS each (id, place)
        LEFT JOIN LATERAL (
            SELECT * FROM pgjobs_job WHERE pgjobs_job.id = each.id OFFSET 0
        ) AS job ON true
    ));
END
$$;
