"""What code may not do in a transaction that promises all or nothing."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from django.db import connections
from django.db.transaction import TransactionManagementError

# What may stand before the first word of a statement; for verbose expressions.
BEFORE_STATEMENT = r"(\s | \( | --[^\n]*\n | /\*.*?\*/)*"
# Statements that write nothing: reads, blocks of reads, a session's settings.
HARMLESS = re.compile(
    rf"""{BEFORE_STATEMENT}
    (SELECT | SHOW | VALUES | TABLE | SAVEPOINT | RELEASE | ROLLBACK | SET)\b""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


@contextmanager
def writing_only_to(alias: str) -> Iterator[None]:
    """Refuse writes to other databases, which the transaction would not cover.

    Reading from them is allowed, as from replicas.
    """
    with ExitStack() as stack:
        for other in connections:
            if other != alias:
                refuse = refuse_writes(other, alias)
                stack.enter_context(connections[other].execute_wrapper(refuse))
        yield


def refuse_writes(other: str, alias: str):
    def wrapper(execute, sql, params, many, context):
        text = sql if isinstance(sql, str) else sql.as_string(None)
        if not HARMLESS.match(text):
            raise TransactionManagementError(
                f"The transaction in database {alias!r} does not cover a write to "
                f"database {other!r}. Only SELECT is allowed there; write in another "
                "task, or in one that is not atomic."
            )
        return execute(sql, params, many, context)

    return wrapper
