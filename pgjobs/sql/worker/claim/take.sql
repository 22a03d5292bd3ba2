taken AS MATERIALIZED (
    SELECT id FROM picked
    WHERE place < (SELECT min(place) FROM picked WHERE is_suspect) IS NOT FALSE
        OR %(is_idle)s AND place = (SELECT min(place) FROM picked)
),
claimed AS (
    UPDATE pgjobs_job
    \ir set.sql
        last_attempted_at = clock_timestamp()
    WHERE id = ANY (ARRAY(SELECT id FROM taken))
    RETURNING
        \ir columns.sql
),
