"""Imported as a task module: makes a supervisor replace and reload sooner."""

from django.utils.autoreload import StatReloader

from pgjobs.worker.process import supervisor

supervisor.SHORTEST_PAUSE = 0.05
StatReloader.SLEEP_TIME = 0.1
