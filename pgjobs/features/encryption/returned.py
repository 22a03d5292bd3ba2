"""What `job.wait()` returns of an encrypted result; `queue/waiting.py` asks."""

from typing import Any

from .sealing import RESULT, opened, seal_of


def opened_result(value: Any, mark: Any) -> Any:
    """Return a job's result by the job's mark. Raises EncryptionError."""
    return opened(seal_of(mark), RESULT, value)
