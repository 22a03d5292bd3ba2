"""What `@task` says of isolated tasks, and what `check` says of the machine."""

from pathlib import Path

import pytest
from django.conf import LazySettings, global_settings
from django.test import override_settings

from pgjobs import task
from pgjobs.exceptions import InvalidTask
from pgjobs.features.isolation import checks, pool
from pgjobs.features.isolation.checks import check_connections, check_isolation
from pgjobs.features.isolation.child_process import CannotStart
from tests.tasks import noop

SIZES = {
    "500MB": 500_000_000,
    "1.5GB": 1_500_000_000,
    "512MiB": 2**29,
    "64000kB": 64_000_000,
    2_000_000: 2_000_000,
}


def nothing() -> None:
    pass


@pytest.mark.parametrize("given", SIZES)
def test_memory_limit_is_a_size_with_its_unit_or_a_number_of_bytes(given):
    declared = task(name="isolated.sized", isolated=True, memory_limit=given)(nothing)
    assert declared.options.memory_limit == SIZES[given]


@pytest.mark.parametrize("given", ["500", "a lot", "1kB", 0, -5, True, 1.5, "9" * 50])
def test_memory_limit_that_is_no_size_is_refused(given):
    with pytest.raises(InvalidTask, match="memory_limit must be a size"):
        task(name="isolated.odd", isolated=True, memory_limit=given)(nothing)


def test_memory_limit_without_a_process_is_refused():
    with pytest.raises(InvalidTask, match="needs isolated=True"):
        task(name="isolated.thread", memory_limit="500MB")(nothing)


def test_isolated_is_a_truth_value():
    with pytest.raises(InvalidTask, match="isolated must be True or False"):
        task(name="isolated.word", isolated="yes")(nothing)


@pytest.mark.parametrize("option", ["isolated", "memory_limit"])
def test_a_single_job_cannot_choose(option):
    with pytest.raises(InvalidTask, match=rf"say @task\({option}=\.\.\.\)"):
        noop.using(**{option: True})


def test_settings_module_is_found_behind_overrides():
    with override_settings(DEBUG=True), override_settings(DEBUG=False):
        assert pool.settings_module() == "tests.settings"


def test_settings_without_a_module_are_refused_with_the_reason(monkeypatch):
    configured = LazySettings()
    configured.configure(global_settings)
    monkeypatch.setattr(pool, "django_settings", configured)
    with pytest.raises(CannotStart, match=r"settings\.configure"):
        pool.settings_module()
    task(name="isolated.configured", isolated=True)(nothing)
    errors = [each.id for each in check_isolation()]
    assert "pgjobs.E070" in errors


def test_memory_that_cannot_be_read_is_named(monkeypatch):
    task(name="isolated.measured", isolated=True, memory_limit="500MB")(nothing)
    assert "pgjobs.W071" not in [each.id for each in check_isolation()]
    monkeypatch.setattr(checks, "MEMORY", Path("/nowhere"))
    assert "pgjobs.W071" in [each.id for each in check_isolation()]


def test_check_names_the_connections_of_a_worker_with_its_processes(
    monkeypatch, settings
):
    settings.PGJOBS = {**settings.PGJOBS, "CONCURRENCY": 8}
    monkeypatch.setattr(checks.os, "cpu_count", lambda: 2)
    task(name="isolated.connected", isolated=True)(nothing)
    (message,) = check_connections(databases=["default"])
    assert message.id == "pgjobs.I072"
    assert message.msg.startswith("A worker opens up to 13 connections: 3 of its own")
    assert check_connections(databases=[]) == []
