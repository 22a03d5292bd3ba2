-- Return why `keys -> 'results'` cannot be, or NULL. A job may name results of jobs for
-- which it waits. It gets them with a worker's rights, so whoever inserts it must be
-- allowed to read them.
CREATE OR REPLACE FUNCTION pgjobs_fault_of_results(keys jsonb) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    IF jsonb_typeof(keys -> 'results') <> 'object' THEN
        RETURN 'keys: results must be an object';
    END IF;
    IF EXISTS (
        SELECT FROM jsonb_each(keys -> 'results') AS named (name, entry)
        WHERE CASE
            WHEN jsonb_typeof(entry) <> 'object' THEN true
            WHEN (entry ->> 'of') IN ('result', 'results', 'outcomes') IS NOT TRUE
                THEN true
            WHEN jsonb_typeof(entry -> 'path') <> 'array' THEN true
            WHEN jsonb_typeof(entry -> 'is_one') <> 'boolean' THEN true
            WHEN (entry -> 'bytes')::text !~ '^[0-9]{1,18}$' THEN true
            WHEN num_nonnulls(entry -> 'jobs', entry -> 'batch') <> 1 THEN true
            WHEN NOT coalesce(keys -> 'after', '[]') @> coalesce(entry -> 'jobs', '[]')
                THEN true
            WHEN NOT coalesce(keys -> 'after_batches', '[]')
                @> coalesce(entry -> 'batch', '[]') THEN true
            WHEN jsonb_typeof(entry -> 'jobs') <> 'array' THEN true
            WHEN jsonb_typeof(entry -> 'others') <> 'array' THEN true
            ELSE EXISTS (
                SELECT FROM jsonb_array_elements(entry -> 'others') AS each (pair)
                WHERE pair::text !~ '^\[[0-9]{1,9}, [1-9][0-9]{0,17}\]$'
                    OR NOT coalesce(keys -> 'after', '[]') @> (pair -> 1)
            )
        END
    ) THEN
        RETURN 'keys: results must be '
            '{argument: {"of": "result", "jobs": [id]}}, with jobs of after, or '
            '"batch" with one of after_batches';
    END IF;
    IF NOT has_column_privilege('pgjobs_job', 'return_value', 'SELECT') THEN
        RETURN 'keys: results names what the role may not read: return_value';
    END IF;
    RETURN NULL;
END
$$;
