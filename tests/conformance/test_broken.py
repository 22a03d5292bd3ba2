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
