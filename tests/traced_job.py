"""What runs in a worker from the sleep before a plain job to the sleep after it.

The worker is warm: it has run such jobs before. The functions of pgjobs are counted as
they begin. Those of the test project, of Django and of the driver are not.
"""

import sys
from collections import Counter
from pathlib import Path
from threading import current_thread, main_thread
from types import CodeType
from typing import Any

import pgjobs
from pgjobs.worker import Loop, WorkerOptions
from pgjobs.worker.claimer import Claimer
from tests.tasks import add

ROOT = Path(pgjobs.__file__).parent
WARM, TRACED = 20, 21  # jobs
# Where a fetch is sent, or a pass ends without one.
NO_FETCH = (
    "worker/connections/connection.py",
    "worker/loop.py",
    "worker/stopping.py",
    "worker/connections/faults.py",
)
TOOL = 4  # of `sys.monitoring`: one of the numbers that are free


class Trace:
    """The calls of one job, by module and function."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.before_fetch: set[str] = set()  # modules that `Claimer` reaches
        self.is_before_fetch = False

    def begins(self, code: CodeType) -> None:
        module = str(Path(code.co_filename).relative_to(ROOT))
        self.calls[module, code.co_qualname] += 1  # type: ignore[attr-defined]
        if current_thread() is not main_thread():
            return
        if code is Claimer.run.__code__:
            self.is_before_fetch = True
        elif module in NO_FETCH:
            self.is_before_fetch = False
        if self.is_before_fetch:
            self.before_fetch.add(module)

    @property
    def modules(self) -> int:
        return len({module for module, _ in self.calls})

    @property
    def functions(self) -> int:
        return len(self.calls)

    @property
    def number(self) -> int:
        return self.calls.total()


class TracedLoop(Loop):
    """A worker that traces each job which it runs after those that warm it."""

    def __init__(self, options: WorkerOptions):
        super().__init__(options)
        self.traces: list[Trace] = []
        self.enqueued = 0
        self.trace = Trace()

    def sleep(self) -> None:
        events: Any = sys.monitoring  # type: ignore[attr-defined]
        if self.recorder.finished == self.enqueued:
            events.set_events(TOOL, events.events.NO_EVENTS)
            if self.enqueued > WARM:
                self.traces.append(self.trace)
            if self.enqueued == WARM + TRACED:
                return self.stop()
            self.enqueued += 1
            add.enqueue(1, 2)
            self.trace = Trace()
            events.set_events(TOOL, events.events.PY_START)
        return super().sleep()

    def begins(self, code: CodeType, _: int) -> Any:
        """Note that a function begins; the interpreter calls this."""
        if Path(code.co_filename).is_relative_to(ROOT):
            return self.trace.begins(code)
        return sys.monitoring.DISABLE  # type: ignore[attr-defined]


def trace_jobs(**options: Any) -> list[Trace]:
    """Run plain jobs in a worker; return what it did for each, the least first.

    A chore makes other functions run, though not always more calls.
    """
    events: Any = sys.monitoring  # type: ignore[attr-defined]
    loop = TracedLoop(WorkerOptions(database="default", **options))
    events.use_tool_id(TOOL, __name__)
    try:
        events.register_callback(TOOL, events.events.PY_START, loop.begins)
        loop.run()
    finally:
        events.set_events(TOOL, events.events.NO_EVENTS)
        events.free_tool_id(TOOL)
    return sorted(loop.traces, key=lambda trace: (trace.functions, trace.number))


def trace_job() -> Trace:
    """Return the trace of a job beside which no chore was due."""
    return trace_jobs()[0]
