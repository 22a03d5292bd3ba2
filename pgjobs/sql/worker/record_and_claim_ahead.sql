-- Record and claim, as record_and_claim.sql does, and take some jobs ahead of the slots.
WITH recorded AS (
    \ir record/success.sql
    RETURNING lease_token, line
),
\ir claim/line.sql
\ir claim/take_ahead.sql
\ir claim/end_of_line.sql
