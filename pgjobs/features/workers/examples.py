"""The examples with which the help of `workers` ends."""

EXAMPLES = (
    ("workers", ("workers", "workers quiet web1:4711", "workers stop web1:4711")),
    ("workers quiet", ('workers quiet --all --note "the disk is full"',)),
    ("workers resume", ("workers resume --all",)),
    ("workers stop", ('workers stop web1:4711 --note "it leaks memory"',)),
)
