"""The settings: defaults, units, and what is said of wrong ones."""

from datetime import timedelta

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from pgjobs.conf import SETTINGS, problems, settings


def messages() -> list[str]:
    return [problem.message for problem in problems()]


@override_settings(PGJOBS={})
def test_everything_has_a_default_that_its_own_rule_accepts():
    expected = {
        "DATABASE": "default",
        "MODE": "queue",
        "TASK_MODULES": (),
        "CONCURRENCY": 4,
        "PROCESS_UNITS": None,
        "DATABASES": None,
        "UNITS_PATIENCE": 60,
        "POLL_INTERVAL": 5,
        "HEARTBEAT_INTERVAL": 5,
        "LEASE_DURATION": 30,
        "LISTEN": True,
        "UNKNOWN_TASK_GRACE": 600,
        "UNHANDLED_EVENT_GRACE": 3_600,
        "EVENT_RETENTION": 2_592_000,
        "META": (),
        "MIDDLEWARE": (),
        "TRACES": "parent",
        "KEEP": "all",
        "KEEP_LOGS": None,
        "SENSITIVE": (),
        "ENCRYPTION_KEYS": (),
        "HASH_KEY": None,
        "ISOLATED_JOBS_PER_CHILD": 1_000,
        "VERSION": "",
        "ALERTS": {},
        "AUDIT_RETENTION": 31_536_000,
        "MINUTE_FIGURES_RETENTION": 172_800,
        "HOUR_FIGURES_RETENTION": 7_776_000,
        "STATUS_PERMISSION": "pgjobs.views.holds_address",
        "TIMEOUT": None,
        "TIMEOUT_GRACE": 10,
        "MAX_ARGUMENT_BYTES": 1_000_000,
        "MAX_RESULT_BYTES": 1_000_000,
        "RETENTION": {"SUCCESSFUL": 604_800, "CANCELLED": 604_800, "FAILED": None},
    }
    assert {name: getattr(settings, name) for name in SETTINGS} == expected
    assert all(each.read(each.default) == each.default for each in SETTINGS.values())


def test_settings_may_be_absent(settings):
    del settings.PGJOBS
    from pgjobs.conf import settings as ours

    assert ours.CONCURRENCY == 4
    assert messages() == []


def test_settings_are_read_when_they_are_used():
    with override_settings(PGJOBS={"CONCURRENCY": 9}):
        assert settings.CONCURRENCY == 9
    assert settings.CONCURRENCY == 4


@pytest.mark.parametrize("value", [90, 90.0, timedelta(minutes=1.5)])
def test_durations_are_seconds_or_timedeltas(value):
    for name in ("POLL_INTERVAL", "LEASE_DURATION", "UNKNOWN_TASK_GRACE"):
        with override_settings(PGJOBS={name: value}):
            assert getattr(settings, name) == 90.0


@pytest.mark.parametrize("value", [["iban", "!s3_key"], ("!s3_key", "!page_token"), []])
def test_names_to_mask_and_harmless_ones_are_a_list(value):
    with override_settings(PGJOBS={"SENSITIVE": value}):
        assert messages() == []
        assert tuple(value) == settings.SENSITIVE


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (["!"], "must name what is harmless"),
        (["iban", "!iban"], "says of 'iban' both that it is sensitive and not"),
        ("!s3_key", "must be a list of strings"),
        ([""], "must be a non-empty string"),
        ([5], "must be a non-empty string"),
    ],
)
def test_names_to_mask_that_mean_nothing_are_reported(value, rule):
    with override_settings(PGJOBS={"SENSITIVE": value}):
        (message,) = messages()
        assert message.startswith("PGJOBS['SENSITIVE']")
        assert rule in message
        (check,) = [
            each
            for each in run_checks(tags=["pgjobs"], databases=[])
            if rule in each.msg
        ]
        assert check.is_serious()


def test_retention_of_one_status_leaves_the_others_as_they_are():
    given = {"SUCCESSFUL": timedelta(hours=1), "FAILED": 5, "CANCELLED": None}
    for status in given:
        with override_settings(PGJOBS={"RETENTION": {status: given[status]}}):
            changed = settings.RETENTION
        default = SETTINGS["RETENTION"].default
        assert {key for key in changed if changed[key] != default[key]} == {status}


WRONG = [
    ("DATABASE", ["", 5, None, b"default"]),
    ("TASK_MODULES", ["app.tasks", 5, [5], [""], None]),
    ("CONCURRENCY", [0, -1, 1.5, "4", True, None]),
    ("PROCESS_UNITS", [0, -1, 1.5, "8000", True, 10**15 + 1]),
    ("UNITS_PATIENCE", [-1, "60", None, float("inf")]),
    ("POLL_INTERVAL", [0, -1, "5", True, None, float("nan"), float("inf")]),
    ("POLL_INTERVAL", [timedelta(0), timedelta(-1)]),
    ("TIMEOUT", [0, -1, "5", True, float("nan"), float("inf"), timedelta(0)]),
    ("TIMEOUT_GRACE", [-1, "5", True, None, float("nan"), timedelta(-1)]),
    ("HEARTBEAT_INTERVAL", [0, -0.5, "5"]),
    ("LEASE_DURATION", [0, -30, "30", 1e300]),
    ("RETENTION", [5, [], {"DONE": 5}, {"READY": 5}, {"FAILED": -1}, {"FAILED": "7d"}]),
    ("LISTEN", [None, 1, "yes", "host=x options=-c", [], {5: "x"}]),
    ("MAX_ARGUMENT_BYTES", [0, -1, "1MB", 1e6, 50_000_001]),
    ("MAX_RESULT_BYTES", [0, None, 10**9]),
    ("UNKNOWN_TASK_GRACE", [-1, "600", None, float("nan")]),
    ("STATUS_PERMISSION", ["", None, 5, len]),
]


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG for value in values]
)
def test_wrong_value_is_reported_with_its_name_and_the_rule(name, value):
    with override_settings(PGJOBS={name: value}):
        (message,) = messages()
        assert message.startswith(f"PGJOBS[{name!r}] ")
        with pytest.raises(ImproperlyConfigured) as caught:
            getattr(settings, name)
    assert str(caught.value) == message


def test_unknown_name_is_reported_with_the_nearest_match():
    with override_settings(PGJOBS={"POLL_INTERVALL": 5}):
        (problem,) = problems()
    assert problem.message == "PGJOBS has no setting 'POLL_INTERVALL'."
    assert problem.hint == "Did you mean 'POLL_INTERVAL'?"


def test_unknown_name_without_a_match_is_reported_with_all_names():
    for name in ("zzz", 5, None):
        with override_settings(PGJOBS={name: 5}):
            (problem,) = problems()
        assert problem.hint == f"The settings are {', '.join(SETTINGS)}."


def test_every_problem_is_reported():
    with override_settings(PGJOBS={"CONCURRENCY": 0, "nonsense": 1, "LISTEN": 5}):
        assert len(messages()) == 3


@pytest.mark.parametrize("value", [None, [], "CONCURRENCY", 5, [("CONCURRENCY", 4)]])
def test_setting_that_is_no_dict_is_reported(value):
    with override_settings(PGJOBS=value):
        assert messages() == [f"PGJOBS must be a dict, got {value!r}."]
        with pytest.raises(ImproperlyConfigured, match="PGJOBS must be a dict"):
            settings.CONCURRENCY  # noqa: B018


def test_unknown_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="pgjobs has no setting 'NOPE'"):
        settings.NOPE  # noqa: B018


def test_whole_process_can_work_on_another_database():
    with settings.using_database("other"):
        assert settings.DATABASE == "other"
        with settings.using_database(None):
            assert settings.DATABASE == "default"
    assert settings.DATABASE == "default"
