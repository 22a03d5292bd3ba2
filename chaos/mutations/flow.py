"""Bugs of what one job does to another: rates, batches, follow-ups, catching up."""

from .bug import Bug

BUGS = [
    Bug(
        "a rate forgets its starts after half its period",
        "rate exceeded",
        (
            (
                "WHERE last_start > at - make_interval(secs => longest)",
                "WHERE last_start > at - make_interval(secs => longest / 2)",
            ),
        ),
        "paced",
        "none",
        20,
    ),
    Bug(
        "a rate forgets its pace",
        "rate exceeded",
        (("IF burst < number THEN opens_at", "IF false THEN opens_at"),),
        "even",
        "none",
        20,
    ),
    Bug(
        "a follow-up that cannot be made is made without its options",
        "follow-up without its options",
        (
            (
                "WHEN OTHERS THEN fault := SQLERRM; END; PERFORM set_config("
                "'lock_timeout', longest_wait, true);",
                """WHEN OTHERS THEN
        INSERT INTO pgjobs_job (task, kwargs) VALUES (follow_up, arguments);
    END;
    PERFORM set_config('lock_timeout', longest_wait, true);""",
            ),
        ),
        "followed",
        "none",
        20,
    ),
    Bug(
        "a row may be written with older values",
        "ran again in one life",
        (
            (
                "RAISE 'Job % cannot go back:",
                "IF TG_OP = 'UPDATE' THEN RETURN NULL; END IF;\n"
                "    RAISE 'Job % cannot go back:",
            ),
        ),
        "kept_instance",
        "none",
        20,
    ),
    Bug(
        "pruning forgets what of a batch has failed",
        "batch ended otherwise",
        (("job.batch_id IS NULL OR job.status = 'SUCCESSFUL'", "true"),),
        "batched",
        "prune batches",
        30,
    ),
    Bug(
        "ticks are lost while the last run has not ended",
        "tick never fired",
        (
            (
                """if len(passed) == 1 or due.catch_up == "none":
            return Plan(""",
                "if due.overlap:\n            return Plan(",
            ),
        ),
        "plain,long",
        "stop and start the server",
        40,
    ),
]
