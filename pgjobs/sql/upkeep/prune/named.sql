-- What jobs name that no admission has seen: they have no links yet. Where that many wait
-- for an admission, pruning waits, too.
unlinked AS MATERIALIZED (
    SELECT keys FROM pgjobs_job WHERE line = 'unlinked' LIMIT 10000
),
named (ids, batches, all_seen) AS MATERIALIZED (
    SELECT ARRAY(
            SELECT each.id::bigint FROM unlinked
            CROSS JOIN LATERAL jsonb_array_elements_text(keys -> 'after') AS each (id)
        ),
        ARRAY(
            SELECT each.id::bigint FROM unlinked
            CROSS JOIN LATERAL jsonb_array_elements_text(keys -> 'after_batches')
                AS each (id)
            WHERE keys ? 'results'
        ),
        (SELECT count(*) FROM unlinked) < 10000
),
