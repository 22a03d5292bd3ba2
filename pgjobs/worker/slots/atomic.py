"""Atomic tasks: the body, the jobs it enqueues and its completion commit together."""

from collections.abc import Callable
from time import monotonic

from django.db import OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError
from psycopg import ClientCursor
from psycopg import Error as PostgreSQLError
from psycopg.pq import ExecStatus, TransactionStatus

from ...base.transactions import writing_only_to
from ...conf import settings
from ...exceptions import Cancel, Fail, LeaseLost
from ...models.job import Job
from ...queue.claiming import ClaimedJob
from ...queue.recording import Completed, deleting
from ...sql import statement
from ..job_log import log_failure
from .outcomes import Hide, unsuccessful

# The SQLSTATE that pgjobs_refuse() raises in complete.sql.
ENDED = "PGJ01"
OVERTAKEN = "PGJ02"

# By lease token: since when the transactions of this worker are open.
open_since: dict[int, tuple[ClaimedJob, float]] = {}


class Overtaken(Exception):
    """The job was taken away or cancelled before its transaction could commit."""


def run(job: ClaimedJob, body: Callable[[], str | None], hide: Hide = str) -> Completed:
    """Run the body, which returns the result as JSON text, and record its success.

    `hide` masks what is logged of an error after the commit.
    Raises whatever keeps the transaction from being committed. Then nothing was done.
    If the connection is lost during COMMIT, it may be done all the same. The worker
    notices that when it records the failure, because the job has no owner any more.
    """
    open_since[job.lease_token] = job, monotonic()
    is_committed = False
    try:
        with transaction.atomic(settings.DATABASE, durable=True):
            connection = connections[settings.DATABASE]
            begin(connection, job)
            with writing_only_to(settings.DATABASE):
                return_value = body()
            refuse_broken(connection)
            complete(connection, job, return_value)
            is_committed = True
            open_since.pop(job.lease_token, None)  # on_commit hooks may take long
    except Overtaken:
        raise why_overtaken(job) from None
    except BaseException as error:
        if not is_committed:
            raise
        log_failure(
            job,
            "succeeded, but a function that it gave to on_commit failed; those after "
            "it were not called",
            unsuccessful(job, "FAIL", "", error, hide=hide),
        )
    finally:
        open_since.pop(job.lease_token, None)
    return Completed(job.id, job.lease_token)


def begin(connection: BaseDatabaseWrapper, job: ClaimedJob) -> None:
    """Begin the transaction and leave a mark that ends with it, in one round trip.

    By itself the driver would send BEGIN and wait for its answer.
    """
    server = connection.connection
    level = server.isolation_level
    how = f"ISOLATION LEVEL {level.name.replace('_', ' ')}" if level else ""
    both = f"BEGIN {how}; SET LOCAL pgjobs.lease_token = '{job.lease_token}'"
    result = server.pgconn.exec_(both.encode())
    if result.status != ExecStatus.COMMAND_OK:
        raise OperationalError(result.error_message.decode(errors="replace"))


def refuse_broken(connection: BaseDatabaseWrapper) -> None:
    """Raise TransactionManagementError if the transaction cannot be committed."""
    if connections[connection.alias] is not connection:
        connection.connection.close()
        raise TransactionManagementError("The task has replaced its connection.")
    if connection.closed_in_transaction:
        raise TransactionManagementError(
            "The task has closed its connection, and so rolled back what it did."
        )
    status = connection.connection.info.transaction_status
    if connection.needs_rollback or status == TransactionStatus.INERROR:
        raise TransactionManagementError(
            "The transaction cannot be committed: the task has caught a database error "
            "in it, or asked for a rollback. Put a transaction.atomic() block around "
            "what may fail, and catch the error outside of it."
        ) from connection.rollback_exc


def complete(connection, job: ClaimedJob, return_value: str | None) -> None:
    """Record the success and commit it with what the task did, in one round trip."""
    parameters = {
        "id": job.id,
        "lease_token": job.lease_token,
        "return_value": return_value,
        "ended": ENDED,
        "overtaken": OVERTAKEN,
    }
    query = statement("complete")
    if job.keep is not None:
        query = deleting().completing(query, job.keep)
    with connection.wrap_database_errors:
        try:
            # The server binds parameters in one statement only, so the client does it.
            ClientCursor(connection.connection).execute(query, parameters)
        except PostgreSQLError as error:
            if error.sqlstate == ENDED:
                # This attempt may have committed; another one would do everything
                # twice.
                raise Fail(
                    "The task has ended its transaction by itself. An atomic task must "
                    "not commit or roll back: its work until then may be half done."
                ) from None
            if error.sqlstate == OVERTAKEN:
                raise Overtaken from None
            raise


def why_overtaken(job: ClaimedJob) -> Exception:
    """Return the error that says why the job could not be completed."""
    owned = Job.objects.filter(pk=job.id, lease_token=job.lease_token)
    row = owned.values_list("worker_id", "cancel_requested_at").first()
    if row is None or row[0] is None:
        return LeaseLost(job.id)
    if row[1] is None:
        return Fail("The task has changed the row of its own job; it is rolled back.")
    return Cancel("Cancelled while it ran; what it had done is rolled back.")
