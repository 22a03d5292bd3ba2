"""What `manage.py jobs` does besides acts: it follows a log."""

from .log_lines import TAIL

VERBS = (TAIL,)
