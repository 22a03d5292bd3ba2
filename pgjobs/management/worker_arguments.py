"""The options of `runjobs`."""

from argparse import SUPPRESS

from ..features import modules
from .parameters import (
    add_database,
    count,
    count_or_auto,
    memory,
    positive_seconds,
    queue_names,
    seconds,
    units,
    whole_number,
    worker_name,
)


def add_worker_arguments(parser) -> None:
    add_queue_arguments(parser)
    add_slot_arguments(parser)
    add_fetch_arguments(parser)
    add_end_arguments(parser)
    add_process_arguments(parser)


def add_queue_arguments(parser) -> None:
    """Add the options for the queues that the worker serves."""
    queues = parser.add_mutually_exclusive_group()
    queues.add_argument(
        "--queues",
        type=queue_names,
        metavar="A,B",
        help="serve only these queues (default: all)",
    )
    queues.add_argument(
        "--exclude",
        type=queue_names,
        metavar="C",
        default=(),
        help="serve all queues but these",
    )


def add_slot_arguments(parser) -> None:
    """Add the options for how much the worker runs at a time."""
    parser.add_argument(
        "--concurrency",
        "--threads",
        type=whole_number,
        metavar="N",
        dest="slots",
        help="jobs at the same time (default: PGJOBS['CONCURRENCY'], 4)",
    )
    parser.add_argument(
        "--processes",
        type=whole_number,
        metavar="N",
        help="run N workers, each a process with its own slots, and replace those "
        "that die (default: one worker, this process)",
    )
    parser.add_argument(
        "--units",
        type=units,
        metavar="N",
        help="process units that the running jobs of all workers of this host may "
        "take together; each takes its task's process_units, or 1 (default: "
        "PGJOBS['PROCESS_UNITS'], no limit)",
    )
    parser.add_argument(
        "--isolated",
        type=count,
        metavar="N",
        help="jobs of tasks with isolated=True at the same time; 0: none (default: "
        "the slots, at most one for each core)",
    )
    parser.add_argument(
        "--prefetch",
        type=count_or_auto,
        metavar="N|auto",
        default=0,
        help="claim jobs beyond the free slots, up to N (auto: 500): those that the "
        "slots will begin within 5 ms, by the time that the jobs before took; faster "
        "with short jobs (default: 0)",
    )


def add_fetch_arguments(parser) -> None:
    """Add the options for when the worker fetches."""
    parser.add_argument(
        "--poll",
        type=positive_seconds,
        metavar="TIME",
        help="the longest time between two fetches (default: "
        "PGJOBS['POLL_INTERVAL'], 5)",
    )
    parser.add_argument(
        "--no-listen",
        action="store_false",
        dest="listen",
        help="do not LISTEN for notifications, only poll",
    )


def add_end_arguments(parser) -> None:
    """Add the options for when and how the worker ends."""
    parser.add_argument(
        "--drain",
        action="store_true",
        help="stop when nothing is ready to run (with --processes: each stops when "
        "it finds nothing, the command when all have)",
    )
    parser.add_argument(
        "--max-jobs",
        type=whole_number,
        metavar="N",
        help="stop after N jobs (with --processes: each process makes way for a "
        "fresh one after N jobs)",
    )
    parser.add_argument(
        "--max-memory",
        type=memory,
        metavar="SIZE",
        help="finish the running jobs and stop with exit code 5, to be started "
        "again, when the process has grown beyond 300MB, say (with --processes: it "
        "makes way for a fresh one)",
    )
    parser.add_argument(
        "--max-time",
        type=positive_seconds,
        metavar="TIME",
        help="claim no more jobs after this time, and stop when the last has ended "
        "(with --processes: counted from the start of the first)",
    )
    parser.add_argument(
        "--grace",
        type=seconds,
        metavar="TIME",
        default=30.0,
        help="time that running jobs get to end when the worker is asked to stop; "
        "then they go back to the queue (default: 30)",
    )


def add_process_arguments(parser) -> None:
    """Add the options of the process itself."""
    parser.add_argument(
        "--name",
        type=worker_name,
        metavar="NAME",
        help="name of the worker (default: host:pid; "
        "with --processes: NAME-1, NAME-2...)",
    )
    for module in modules("runjobs"):
        module.add_arguments(parser)
    parser.add_argument(
        "--reload",
        action="store_true",
        help="for development: when code changes, start again once the running "
        "jobs have ended, or --grace is over",
    )
    # Set by a supervisor for its workers.
    parser.add_argument("--child", type=int, metavar="FD", help=SUPPRESS)
    parser.add_argument("--first", action="store_true", help=SUPPRESS)
    add_database(parser, "all runs a worker process for each, or --processes of them")
