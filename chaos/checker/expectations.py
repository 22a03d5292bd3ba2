"""How the jobs of each task must end, if no operator decides otherwise."""

SUCCEEDS, FAILS = ("SUCCESSFUL",), ("FAILED",)
ENDS = {
    **{
        f"project.{name}": SUCCEEDS
        for name in (
            "work",
            "patient",
            "work_async",
            "settle",
            "flaky",
            "in_order",
            "alone",
            "few",
            "narrow",
            "heavy",
            "single",
            "stepwise",
            "tick",
            "swift",
            "paced",
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
            "exits",
            "leaves",
            "unspeakable",
            "unstorable",
            "endless",
            "stubborn",
        )
    },
}
# Too short to write down that it ran.
SILENT = ("project.swift",)
# Whose effects stand in the transaction of their success.
ATOMIC = ("project.settle",)
