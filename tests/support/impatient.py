"""Imported as a task module: makes a worker process lose patience sooner."""

from pgjobs.worker import session
from pgjobs.worker.connections import connection, heartbeat, listener

session.STATEMENT_SECONDS = 1.0
listener.SUBSCRIBE_SECONDS = 1.0
heartbeat.LEAST_PATIENCE = 1.0
connection.Watchdog.TICK = 0.1
