"""Notes each signal of tasks, with the result that it brings."""

import inspect
from typing import Any

from .journal import note
from .standard import Status, signals

SIGNALS = ("task_enqueued", "task_started", "task_finished")
TIMES = ("enqueued_at", "started_at", "last_attempted_at", "finished_at")


def listen() -> None:
    for name in SIGNALS:
        receiver = receiver_of(name)
        getattr(signals, name).connect(receiver, weak=False, dispatch_uid=receiver)


def receiver_of(name: str) -> Any:
    def receive(sender: Any, task_result: Any, **kwargs: Any) -> None:
        try:
            seen = picture(task_result)
        except Exception as error:  # noqa: BLE001  # the backend's fault, told by a test
            seen = dict.fromkeys(("status", "return_value"), repr(error))
        note(
            name,
            id=getattr(task_result, "id", None),
            sender=path_of(sender) if inspect.isclass(sender) else repr(sender),
            result=seen,
        )

    return receive


def path_of(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def picture(result: Any) -> dict[str, Any]:
    """Return a result as JSON data."""
    times = {name: getattr(result, name) for name in TIMES}
    return {
        "id": result.id,
        "status": str(result.status),
        **{name: time and time.isoformat() for name, time in times.items()},
        "args": list(result.args),
        "kwargs": dict(result.kwargs),
        "backend": result.backend,
        "errors": [[e.exception_class_path, e.traceback] for e in result.errors],
        "worker_ids": list(result.worker_ids),
        "return_value": (
            result.return_value if result.status == Status.SUCCESSFUL else None
        ),
    }
