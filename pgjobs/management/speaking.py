"""What all commands share: examples in their help, and no noise when a pipe closes."""

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, DjangoHelpFormatter
from django.core.management.base import SystemCheckError as Unprefixed

from ..features import entries

CLOSED_PIPE = 141  # as a shell reports a program that SIGPIPE has ended


class HelpFormatter(DjangoHelpFormatter):
    """Keeps the lines of examples as they are."""

    def _fill_text(self, text, width, indent):
        is_example = text.startswith("Examples:\n")
        return text if is_example else super()._fill_text(text, width, indent)


class Problems(Unprefixed):
    """Found by a command that looks for them: Django prints them as they are."""


def examples_of(command: str) -> dict[str, Any]:
    """Return what a parser is made with, so that its help ends with examples."""
    lines = dict(entries("examples", "EXAMPLES")).get(command, ())
    shown = "\n".join(f"  manage.py {line}" for line in lines)
    epilog = f"Examples:\n{shown}" if lines else None
    return {"epilog": epilog, "formatter_class": HelpFormatter}


class HelpfulCommand(BaseCommand):
    """A command whose help ends with examples."""

    def create_parser(self, prog_name, subcommand, **options: Any):
        options |= examples_of(subcommand)
        return super().create_parser(prog_name, subcommand, **options)

    def run_from_argv(self, argv):
        # What is no UTF-8 comes as surrogates, which no database takes.
        for text in argv:
            if any("\ud800" <= each <= "\udfff" for each in text):
                given = ascii(text)
                self.stderr.write(f"Error: the argument {given} is not UTF-8.")
                sys.exit(2)
        super().run_from_argv(argv)


class QuietCommand(HelpfulCommand):
    """A command that ends in silence when what reads its output has left."""

    def run_from_argv(self, argv):
        try:
            super().run_from_argv(argv)
            sys.stdout.flush()
        except BrokenPipeError:
            # Python flushes once more when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(CLOSED_PIPE)
