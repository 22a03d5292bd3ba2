"""Backends that are broken on purpose, each in one way, and one that is not."""

import importlib
from typing import Any, ClassVar
from uuid import uuid4

from django.utils import timezone

from tests.standard import (
    InvalidTask,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    signals,
    tasks,
)

backends = f"{tasks.__name__}.backends"
Dummy: Any = importlib.import_module(f"{backends}.dummy").DummyBackend
Immediate: Any = importlib.import_module(f"{backends}.immediate").ImmediateBackend


def put(result: TaskResult, **values: Any) -> TaskResult:
    for name, value in values.items():
        object.__setattr__(result, name, value)
    return result


class Altered(Immediate):
    """Runs tasks as it should, and spoils what it returns."""

    def enqueue(self, task, args, kwargs):
        return self.spoil(super().enqueue(task, args, kwargs))


class LongIds(Altered):
    def spoil(self, result):
        return put(result, id=result.id * 2)


class OneId(Dummy):
    def enqueue(self, task, args, kwargs):
        return put(super().enqueue(task, args, kwargs), id="always-this")


class NoErrors(Altered):
    def spoil(self, result):
        return put(result, errors=[])


class NoWorkers(Altered):
    def spoil(self, result):
        return put(result, worker_ids=[])


class LateEnqueuedAt(Altered):
    def spoil(self, result):
        return put(result, enqueued_at=timezone.now() + timezone.timedelta(hours=1))


class FailuresAreSuccesses(Altered):
    def spoil(self, result):
        if result.status == TaskResultStatus.FAILED:
            put(result, status=TaskResultStatus.SUCCESSFUL)
        return result


class NeverValidates(Immediate):
    """Takes what was valid when it was declared, and is no more."""

    def validate_task(self, task):
        if task.priority != 101:
            super().validate_task(task)


class AnyQueue(Immediate):
    def validate_task(self, task):
        put_back, self.queues = self.queues, set()
        try:
            super().validate_task(task)
        finally:
            self.queues = put_back


class InnerFunctions(Immediate):
    def validate_task(self, task):
        try:
            super().validate_task(task)
        except InvalidTask as error:
            if "module" not in str(error):
                raise


class WritesTextsOfObjects(Immediate):
    """Passes on the text of what is not JSON."""

    def enqueue(self, task, args, kwargs):
        return super().enqueue(task, *self.texts(args, kwargs))

    def texts(self, args, kwargs):
        plain = (str, int, float, bool, list, tuple, dict, type(None))

        def text(value):
            if isinstance(value, list):
                return [text(each) for each in value]
            if isinstance(value, dict):
                return {name: text(each) for name, each in value.items()}
            return value if isinstance(value, plain) else str(value)

        return [text(each) for each in args], text(kwargs)


class KeywordsLost(Immediate):
    def enqueue(self, task, args, kwargs):
        return super().enqueue(task, args, {})


class RunsTwice(Immediate):
    def enqueue(self, task, args, kwargs):
        super().enqueue(task, args, kwargs)
        return super().enqueue(task, args, kwargs)


class Unreachable(Immediate):
    def enqueue(self, task, args, kwargs):
        raise ConnectionError("the store is away")


class Waiting(Dummy):
    """Keeps tasks, in its own words."""

    def enqueue(self, task, args, kwargs):
        self.validate_task(task)
        result = TaskResult(
            task=task,
            id=uuid4().hex,
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        self.results.append(result)
        self.announce(result)
        return result

    def announce(self, result):
        signals.task_enqueued.send(type(self), task_result=result)


class InstanceAsSender(Waiting):
    """Sends what django-tasks-db 0.13 sends."""

    def announce(self, result):
        signals.task_enqueued.send(self, task_result=result)


class SilentEnqueue(Waiting):
    def announce(self, result):
        """Say nothing."""


class StartedAtOnce(Waiting):
    def announce(self, result):
        super().announce(put(result, started_at=timezone.now()))


class PretendsToKeepResults(Dummy):
    """Says that it keeps results, and answers with any that it has."""

    supports_get_result = True

    def get_result(self, result_id):
        return self.results[-1]

    async def aget_result(self, result_id):
        return self.results[-1]


class KeepsResults(Immediate):
    """Is right: it runs tasks at once and keeps their results."""

    supports_get_result = True
    kept: ClassVar = {}

    def enqueue(self, task, args, kwargs):
        result = super().enqueue(task, args, kwargs)
        self.kept[result.id] = result
        return result

    def get_result(self, result_id):
        if result_id not in self.kept:
            raise TaskResultDoesNotExist(result_id)
        return self.kept[result_id]
