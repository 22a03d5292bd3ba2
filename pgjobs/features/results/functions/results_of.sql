-- Return what a job that begins gets of jobs before it, by argument, as JSON: how each of
-- them has ended. `keys` are its own. Of a group also how many there are, and how many
-- bytes their results have; too many are not read. See results/sources.py.
--
-- VOLATILE: it sees what was committed before it was called. The claim that calls it may
-- have an older snapshot, from before a retry of such a job that has ended meanwhile.
CREATE OR REPLACE FUNCTION pgjobs_results_of(keys jsonb) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    -- What is masked already: see masks.py.
    found jsonb := (
        SELECT coalesce(jsonb_object_agg(each, '{"masked": true}'::jsonb), '{}')
        FROM jsonb_array_elements_text(keys -> 'masked') AS each
        WHERE each IS NOT NULL
    );
    name text;
    entry jsonb;
BEGIN
    IF keys ? 'encrypted' THEN  -- see encryption/arriving.py
        found := found || jsonb_build_object('*', keys -> 'encrypted');
    END IF;
    FOR name, entry IN SELECT * FROM jsonb_each(keys -> 'results') LOOP
        found := found || jsonb_build_object(
            name, entry || pgjobs_ends_before(
                entry, ARRAY(SELECT jsonb_array_elements_text(entry -> 'path'))
            ) || jsonb_build_object('needs', coalesce(keys ->> 'needs', 'success'))
        );
    END LOOP;
    RETURN found::text;
END
$$;
