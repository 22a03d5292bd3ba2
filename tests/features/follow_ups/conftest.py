from tests.telemetry.conftest import own_tasks  # noqa: F401
