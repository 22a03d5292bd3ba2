-- Record and claim, as record_and_claim.sql does, and take a part of the line along that
-- stands before the cursors.
WITH recorded AS (
    \ir record/success.sql
    RETURNING lease_token, line
),
\ir claim/line_and_part.sql
\ir claim/pick.sql
\ir claim/take.sql
\ir claim/end_of_line.sql
