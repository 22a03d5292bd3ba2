-- Merge the starts of each slice of time, and forget those that are older than the
-- longest period: see pgjobs_count_starts.
CREATE OR REPLACE FUNCTION pgjobs_merge_starts(
    INOUT starts timestamptz[], INOUT counts integer[],
    shortest double precision, longest double precision, at timestamptz
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT coalesce(array_agg(last_start ORDER BY last_start), '{}'),
        coalesce(array_agg(number ORDER BY last_start), '{}')
    INTO starts, counts
    FROM (
        SELECT max(last_start) AS last_start,
            least(sum(number), 2147483647)::integer AS number
        FROM (
            SELECT last_start, number, power(2::float8, floor(ln(greatest(
                    shortest, extract(epoch FROM at - last_start)::float8
                ) / 64) / ln(2::float8))) AS width
            FROM (
                SELECT least(start, at), number
                FROM unnest(starts, counts) AS slice (start, number)
                WHERE number > 0
            ) AS slice (last_start, number)
            WHERE last_start > at - make_interval(secs => longest)
        ) AS slice
        GROUP BY width, floor(extract(epoch FROM last_start)::float8 / width)
    ) AS slice;
END
$$;
