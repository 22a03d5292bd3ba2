"""Bugs of what one job does to another: rates, batches, follow-ups, catching up."""

from .bug import WITHOUT_THE_LAST_LINE, Bug

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
        WITHOUT_THE_LAST_LINE,
        "kept_instance",
        "none",
        20,
    ),
    Bug(
        "pruning forgets what of a batch has failed",
        "batch ended otherwise",
        (
            ("job.batch_id IS NOT NULL AND job.status <> 'SUCCESSFUL'", "false"),
            # The last line of defence: the batch keeps how its deleted jobs ended.
            ("failed IS NOT NULL OR of_deleted = 'FAILED'", "failed IS NOT NULL"),
        ),
        "batched",
        "prune batches",
        30,
    ),
    Bug(
        "a success is deleted although another job comes after it",
        "stuck",
        (
            ("AND NOT awaited FOR UPDATE SKIP LOCKED", "FOR UPDATE SKIP LOCKED"),
            ("IF may_be_needed OR parents IS NOT NULL THEN", "IF false THEN"),
        ),
        "brief",
    ),
    Bug(
        "results of a group stand in another order",
        "innocents failed",
        (("ORDER BY named.place NULLS LAST, named.id", "ORDER BY named.id DESC"),),
        "flowing",
    ),
    Bug(
        "pruning forgets whose results are named",
        "innocents failed",
        (
            ("link.gives_result AND link.predecessor_id = job.id", "false"),
            ("link.gives_result AND link.batch_id = job.batch_id", "false"),
        ),
        "flowing",
        "prune batches",
        30,
    ),
    Bug(
        "ticks are lost while the last run has not ended",
        "tick never fired",
        (
            (
                """if is_punctual or due.catch_up == "none":
            return Plan(""",
                "if due.overlap:\n            return Plan(",
            ),
        ),
        "plain",
        "kill all workers for a while",
        40,
    ),
    Bug(
        "the last worker that starts decides what is declared",
        "tick never fired",
        (
            (
                "declare(database, lives=LIVES, memory=FOREVER, others_go=False)",
                "declare(database, lives=LIVES, memory=FOREVER, others_go=True)",
            ),
            (
                "WHERE lives_until > clock_timestamp() OR ( is_applied",
                """WHERE manifest.id = (
        SELECT id FROM pgjobs_manifest ORDER BY lives_until DESC LIMIT 1
    ) AND ( true OR is_applied""",
            ),
        ),
        "plain",
        "kill a worker",
        40,
    ),
    Bug(
        "a job that arrives asks only whether it fits into its own limit",
        "overtaken",
        (
            (
                "bool_or(is_behind) OVER same_limit AS is_held_up",
                "false AS is_held_up",
            ),
        ),
        "mixed_limits",
        "none",
        30,
    ),
    Bug(
        "a job that arrives asks only whether its own rate lets it start",
        "overtaken",
        (
            (
                "is_head OR pgjobs_rate_opens(",
                "pgjobs_rate_opens(",
            ),
        ),
        "mixed_rates",
        "none",
        30,
    ),
    Bug(
        "an admission looks at the first thousand queues of a line",
        "line stands still",
        (
            (
                """FROM hop CROSS JOIN LATERAL (
                SELECT id, priority, turn, CASE""",
                """FROM (SELECT * FROM hop LIMIT 1000) AS hop CROSS JOIN LATERAL (
                SELECT id, priority, turn, CASE""",
            ),
        ),
        "plain",
        "a crowd of queues behind one key",
        45,
    ),
    Bug(
        "a forked process keeps the handlers of its worker",
        "stuck",
        (
            (
                """for number in own_signals:
                signal.signal(number, signal.SIG_DFL)""",
                "",
            ),
        ),
        "plain,pools",
        "none",
        15,
    ),
]
