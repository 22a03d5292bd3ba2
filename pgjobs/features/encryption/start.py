"""Asks for the keys when a worker starts: a callable may take long, or fail."""

import logging

from ...exceptions import EncryptionError
from .keyring import keyring

logger = logging.getLogger("pgjobs.worker")


def ask_for_keys(database: str) -> None:
    try:
        keyring()
    except EncryptionError as error:
        logger.error("Keys cannot be had: %s", error)


ON_WORKER_START = (ask_for_keys,)
