"""How the jobs of each task must end, if no operator decides otherwise."""

SUCCEEDS, FAILS = ("SUCCESSFUL",), ("FAILED",)
ENDS = {
    **{
        f"project.{name}": SUCCEEDS
        for name in (
            "work",
            "brief",
            "together",
            "gives",
            "receives",
            "patient",
            "work_async",
            "settle",
            "flaky",
            "in_order",
            "alone",
            "few",
            "strict",
            "lax",
            "crowded",
            "narrow",
            "heavy",
            "single",
            "stepwise",
            "waits",
            "answers",
            "tick",
            "swift",
            "paced",
            "evenly",
            "rare",
            "leader",
            "follower",
            "chime",
            "knell",
            "pool",
            "first_handler",
            "ordered_handler",
            "bystander",
            "greedy",
            "disconnects",
            "newcomer",
        )
    },
    **{
        f"project.{name}": FAILS
        for name in (
            "doomed",
            "quitter",
            "exits",
            "leaves",
            "unspeakable",
            "unstorable",
            "endless",
            "stubborn",
        )
    },
}
# What runs only if a batch has gone well, of which one job fails by itself.
CONCLUSIONS = ("project.conclude",)
# What is enqueued at the end of another job, with all that its definition says.
FOLLOW_UPS = ("project.follower",)
# Too short to write down that it ran.
SILENT = ("project.swift",)
# Those that wait, and the least time in seconds after which a wait may be over.
WAITING, SHORTEST_WAIT = ("project.waits",), 1.0
# Whose effects stand in the transaction of their success.
ATOMIC = ("project.settle",)
