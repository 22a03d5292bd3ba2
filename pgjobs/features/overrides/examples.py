"""The examples with which the help of `tasks` ends."""

EXAMPLES = (
    (
        "tasks",
        (
            "tasks",
            'tasks pause shop.charge_card --for 1h --note "provider is down"',
            "tasks set shop.charge_card --rate 20/minute",
        ),
    ),
    ("tasks list", ("tasks list shop.charge_card --json",)),
    (
        "tasks pause",
        (
            'tasks pause shop.charge_card --note "provider is down"',
            "tasks pause --lock-key erp-7 --for 30m",
        ),
    ),
    ("tasks resume", ("tasks resume shop.charge_card",)),
    (
        "tasks set",
        (
            "tasks set shop.charge_card --max-running 2 --for 4h",
            "tasks set --rate-key mailgun --rate 20/minute",
        ),
    ),
    ("tasks lift", ("tasks lift shop.charge_card",)),
)
