-- As record_and_claim_part.sql, and take some jobs ahead of the slots.
WITH recorded AS (
    \ir record/success.sql
    RETURNING lease_token, line
),
\ir claim/line_and_part.sql
\ir claim/take_ahead.sql
\ir claim/end_of_line.sql
