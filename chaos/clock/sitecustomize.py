"""Only for the worker whose clock is stepped: Python's sleep as libfaketime bears it.

Version 0.9.10 refuses (EINVAL) the absolute sleeps by the monotonic clock that
`time.sleep` asks for; select() it leaves alone.
"""

import select
import time


def sleep(seconds: float) -> None:
    select.select([], [], [], max(seconds, 0))


time.sleep = sleep
