"""manage.py demo_child: what the demo starts its web server and its worker with."""

import argparse
import os
import signal
import sys
import threading

from django.core.management import execute_from_command_line
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Run another command until the demo that started it is gone."
    requires_system_checks = []

    def add_arguments(self, parser):
        parser.add_argument("command", nargs=argparse.REMAINDER)

    def handle(self, *, command, **options):
        threading.Thread(target=end_with_parent, daemon=True).start()
        execute_from_command_line([sys.argv[0], *command])


def end_with_parent():
    """End this process when the parent is gone, even if it was killed."""
    # The parent holds the other end of the pipe and never writes to it. os.read,
    # because sys.stdin has a lock that the interpreter wants when it exits.
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
