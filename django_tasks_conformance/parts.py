"""The three parts of the suite. Each test says which it is of, and on whose word."""

from pathlib import Path
from typing import Any

import pytest

SUITE = Path(__file__).with_name("suite")
REQUIRED, SUPPORTED, BEYOND = "required", "supported", "beyond"


def required(*places: str) -> Any:
    """Mark what each backend must do, with its places in Django's documentation."""
    return pytest.mark.conformance(part=REQUIRED, flag="", places=places)


def supported(flag: str, *places: str) -> Any:
    """Mark what a backend must do that sets this flag."""
    return pytest.mark.conformance(part=SUPPORTED, flag=flag, places=places)


def beyond(subject: str) -> Any:
    """Mark what the documentation leaves open: the test tells what it saw."""
    return pytest.mark.conformance(part=BEYOND, flag="", places=(subject,))
