"""The suite finds each fault of backends that are broken on purpose."""

import pytest

from tests.conformance.asking import ask

# A fault, and the test that must find it.
FAULTS = {
    "LongIds": "id is a text of less than 64 characters",
    "OneId": "id is unique",
    "NoErrors": "error has the class of the exception",
    "NoWorkers": "finished task has the id of its worker",
    "LateEnqueuedAt": "enqueued at is the time of enqueue",
    "FailuresAreSuccesses": "finished task has[fail status]",
    "NeverValidates": "invalid task is not enqueued[enqueue]",
    "AnyQueue": "wrong option is refused[queue]",
    "InnerFunctions": "function that is not of a module is refused",
    "WritesTextsOfObjects": "argument that is not json is refused",
    "KeywordsLost": "arguments arrive as json has them",
    "RunsTwice": "task runs once",
    "InstanceAsSender": "sender is the class of the backend",
    "SilentEnqueue": "signal is sent once",
    "StartedAtOnce": "task that waits has at first[started at]",
    "PretendsToKeepResults": "unknown id is refused",
}


def test_what_lies_beyond_tells_why_it_was_not_seen(tmp_path):
    asked = ask(
        "tests.conformance.plain_settings",
        tmp_path,
        *("-k", "unsaid"),
        CONFORMANCE_BACKEND="tests.conformance.broken.Unreachable",
    )
    said = asked.seen("a task that raises SystemExit")
    assert said == "not seen: ConnectionError: the store is away"
    assert (asked.failed, asked.code) == (set(), 0)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found(fault, tmp_path):
    asked = ask(
        "tests.conformance.plain_settings",
        tmp_path,
        CONFORMANCE_BACKEND=f"tests.conformance.broken.{fault}",
    )
    assert any(name.startswith(FAULTS[fault]) for name in asked.failed)
    assert asked.code == 1
