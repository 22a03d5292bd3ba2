-- Record attempts that did not succeed, as record.sql does, without groups of errors.
WITH
\ir record/verdict.sql
\ir record/attempt.sql
\ir record/end.sql
