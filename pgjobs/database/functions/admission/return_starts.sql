-- Give back the places of jobs that were released before their bodies began: each takes
-- one from the slice in which its start was counted. Evenly spaced starts that came
-- later keep their distance: what they would have without it is the least for `even_at`.
CREATE OR REPLACE FUNCTION pgjobs_return_starts(returned jsonb[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    start record;
BEGIN
    FOR start IN
        SELECT keys ->> 'rate_key' AS key, count(*) AS number,
            to_timestamp((keys -> 'rate_returned_at')::float8) AS at,
            max((keys -> 'rate_interval')::float8) AS step
        FROM unnest(returned) AS note (keys) GROUP BY 1, at
    LOOP
        UPDATE pgjobs_rate AS rate
        SET counts[place] = greatest(0, counts[place] - start.number),
            even_at = least(even_at, greatest(
                even_at - make_interval(secs => start.number * start.step),
                (
                    SELECT max(last + make_interval(secs => later * start.step))
                    FROM (
                        SELECT last, sum(left_over) OVER (ORDER BY slice.place DESC)
                            AS later, left_over
                        FROM unnest(starts, counts)
                            WITH ORDINALITY AS slice (last, number, place)
                        CROSS JOIN LATERAL (SELECT slice.number - CASE slice.place
                            WHEN found.place THEN start.number ELSE 0
                        END) AS own (left_over)
                        WHERE slice.place >= found.place
                    ) AS slice
                    WHERE left_over > 0
                )
            )),
            opens_at = CASE WHEN opens_at IS NOT NULL THEN clock_timestamp() END
        FROM (
            SELECT key, (
                    SELECT place FROM unnest(starts) WITH ORDINALITY AS slice (last, place)
                    WHERE last >= start.at - interval '1 ms' ORDER BY place LIMIT 1
                ) AS place
            FROM pgjobs_rate WHERE key = start.key
        ) AS found
        WHERE rate.key = found.key AND place IS NOT NULL;
    END LOOP;
END
$$;
