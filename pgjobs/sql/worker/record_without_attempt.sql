-- Record how jobs ended, as record.sql does, and nothing else about their attempts.
WITH
\ir record/verdict.sql
\ir record/end.sql
