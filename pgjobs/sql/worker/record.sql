-- Record attempts that did not succeed, and decide what becomes of their jobs.
WITH
\ir record/verdict.sql
\ir record/attempt.sql
\ir record/end.sql
