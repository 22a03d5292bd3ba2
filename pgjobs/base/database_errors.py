"""What errors of the database mean: what caused them, and what may help."""

import re

import psycopg
from psycopg.errors import (
    FeatureNotSupported,
    LockNotAvailable,
    QueryCanceled,
    ReadOnlySqlTransaction,
    TransactionRollback,
)

from .texts import in_a_log

# SQLSTATE classes of errors that a single row can cause: data exceptions, violated
# constraints, program limits, and what functions and triggers raise.
ROW_ERRORS = ("22", "23", "54", "P0")
OF_ENCODINGS = "mbutils.c"  # the file of PostgreSQL that converts characters
PASSING_ERRORS = (LockNotAvailable, TransactionRollback)

# The detail of a violated constraint, in which PostgreSQL quotes a row.
VALUES = re.compile(
    r"^DETAIL: +(?:Failing row contains|Key ).*?(?=^(?:HINT|CONTEXT|LINE \d+):|\Z)",
    re.M | re.S,
)


def is_lost(error: BaseException) -> bool:
    """Whether the connection or its server is gone, or takes no writes any more."""
    if isinstance(error, psycopg.InterfaceError | ReadOnlySqlTransaction):
        return True
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:  # an error of the driver itself
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(("08", "57P"))


def is_of_row(error: BaseException) -> bool:
    """Whether a single row may have caused the error."""
    if not isinstance(error, psycopg.Error) or is_lost(error):
        return False
    if error.sqlstate is None:  # the driver cannot read a value
        return isinstance(error, psycopg.DataError)
    return error.sqlstate.startswith(ROW_ERRORS) or is_of_encoding(error)


def is_of_encoding(error: psycopg.Error) -> bool:
    """Whether the database has no code for a character, as one of SQL_ASCII has none.

    Other errors of the same class are of statements: a plan that a migration outdates.
    """
    is_unsupported = isinstance(error, FeatureNotSupported)
    return is_unsupported and error.diag.source_file == OF_ENCODINGS


def is_too_slow(error: BaseException) -> bool:
    """Whether the statement ran out of time, so that a smaller one may succeed."""
    return isinstance(error, QueryCanceled)


def is_of_some_rows(error: BaseException) -> bool:
    """Whether the same statement may succeed for a part of its rows.

    A trigger may need for some of them what the role may not do.
    """
    is_refused = isinstance(error, psycopg.ProgrammingError)
    return is_of_row(error) or is_too_slow(error) or is_refused


def passes_by_itself(error: BaseException) -> bool:
    """Whether other transactions were in the way: a lock, a conflict, a deadlock."""
    return isinstance(error, PASSING_ERRORS)


def text_of(error: BaseException) -> str:
    """Return what a log says of an error."""
    return in_a_log(message_of(error))


def message_of(error: BaseException) -> str:
    """Return the message of an error without values of rows, whatever they are."""
    return VALUES.sub("", str(error)).strip() or type(error).__name__
