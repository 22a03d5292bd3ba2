-- Record jobs that succeeded, as record_and_claim.sql does, before another statement.
\ir record/success.sql
RETURNING lease_token, line IS NOT NULL AS has_keys
