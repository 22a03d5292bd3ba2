\ir present.sql
-- The ranges come in the order of the line, and the first ones may fill the list. Each
-- comes twice: jobs that are held are listed only if the others do not fill the list. So
-- several workers do not want the same jobs. Queues are compared with arrays, because in
-- most projects none is paused or limited.
line AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY priority DESC, turn) AS place
    FROM (
        SELECT job.*
        FROM unnest(
            %(are_held)s::boolean[],
            %(highest)s::int[], %(lowest)s::int[], %(first_turns)s::bigint[]
        ) AS range (is_held, highest, lowest, first_turn)
        CROSS JOIN LATERAL (
            \ir in_range.sql
                AND priority BETWEEN lowest AND highest AND turn >= first_turn
            ORDER BY priority DESC, turn LIMIT %(reach)s
        ) AS job
        LIMIT %(reach)s
    ) AS found
),
\ir eligible.sql
