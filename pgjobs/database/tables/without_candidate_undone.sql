-- As tables/admission.sql has it, for the functions of older releases.
CREATE TYPE pgjobs_candidate AS (
    id bigint, queue_name text, priority integer, turn bigint, line text,
    lock text, is_ordered boolean, limit_key text, max_running integer,
    rate_key text, rate_interval double precision, rate_burst integer,
    obstacle text, blocker bigint
);
