-- Return whether all transactions have ended that inserted jobs and did not notify.
SELECT CASE
    WHEN pg_try_advisory_lock(1885825645, 0)
        THEN pg_advisory_unlock(1885825645, 0)
    ELSE false
END
