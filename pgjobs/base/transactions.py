"""What code may not do in a transaction that promises all or nothing."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError
from psycopg.pq import TransactionStatus

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


@contextmanager
def sparing_transactions() -> Iterator[None]:
    """Undo what fails here in the open transactions, and nothing else in them.

    Each gets a savepoint before the first statement, and none without a statement.
    """
    with ExitStack() as stack:
        for connection in connections.all(initialized_only=True):
            if connection.connection is not None and not connection.autocommit:
                stack.enter_context(savepoint_at_first_statement(connection))
        yield


@contextmanager
def savepoint_at_first_statement(connection: BaseDatabaseWrapper) -> Iterator[None]:
    has_begun = False
    with ExitStack() as stack:

        def wrapper(execute, sql, params, many, context):
            nonlocal has_begun
            if not has_begun:
                has_begun = True
                stack.enter_context(transaction.atomic(connection.alias))
            return execute(sql, params, many, context)

        with connection.execute_wrapper(wrapper):
            yield
        if has_begun and is_aborted(connection):
            # The code has caught the error, and would leave the transaction broken.
            transaction.set_rollback(True, connection.alias)


def is_aborted(connection: BaseDatabaseWrapper) -> bool:
    """Whether a statement has failed, so that the server refuses all others."""
    if connection.vendor != "postgresql" or connection.connection is None:
        return False
    return connection.connection.info.transaction_status == TransactionStatus.INERROR
