\ir present.sql
-- As line.sql. The ranges that have a last turn are parts of one priority: the index ends
-- such a walk only if the priority is compared by "=".
line AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY priority DESC, turn) AS place
    FROM (
        SELECT job.*
        FROM unnest(
            %(are_held)s::boolean[], %(highest)s::int[], %(lowest)s::int[],
            %(first_turns)s::bigint[], %(last_turns)s::bigint[]
        ) AS range (is_held, highest, lowest, first_turn, last_turn)
        CROSS JOIN LATERAL (
            (
                \ir in_range.sql
                    AND last_turn IS NULL
                    AND priority BETWEEN lowest AND highest AND turn >= first_turn
                ORDER BY priority DESC, turn LIMIT %(reach)s
            )
            UNION ALL
            (
                \ir in_range.sql
                    AND priority = highest AND turn BETWEEN first_turn AND last_turn
                ORDER BY turn LIMIT %(reach)s
            )
        ) AS job
        LIMIT %(reach)s
    ) AS found
),
\ir eligible.sql
