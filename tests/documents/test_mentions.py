"""What pages mention beside their examples is there: options, modules, extras."""

import argparse
import ast
import importlib
import inspect
import pkgutil
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from benchmarks.__main__ import parser as benchmarks_parser
from chaos.__main__ import parser as chaos_parser
from pgjobs.models import Job
from pgjobs.tasks.running_job import OwnRunningJob, RunningJob
from tests.documents.examples import OF_ROOT, PAGES, ROOT

TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in {*PAGES, *OF_ROOT}}
EVERY = pytest.mark.parametrize("name", sorted(TEXTS))
COMMAND = re.compile(r"`(?:python )?manage\.py ([^`\n]+)`|`([a-z]+ --?[^`\n]+)`")
# Commands of the queues that readers come from.
FOREIGN = {
    "db_worker", "prune_db_task_results", "rqcron", "rqscheduler", "rqworker",
}  # fmt: skip
MODULE = re.compile(
    r"`[^`\n]*python -m ([\w.]+)([^`\n]*)`|^ {4}.*python -m ([\w.]+)([^\n#]*)", re.M
)
MEMBER = re.compile(r"(?:\b[Jj]ob|current_job\(\))\.([a-z]\w*)")
OF_OTHERS = {"get_status", "py"}  # a job of RQ; a name of a file
PARSERS = {"benchmarks": benchmarks_parser, "chaos": chaos_parser}
EXTRA = re.compile(r"(?:pgjobs|\.)\[([a-z,]+)\]'?")
BLOCK = re.compile(r"^ *```(\S*)[^\n]*\n(.*?)^ *```$", re.M | re.S)
# `py` is code of other queues, which runs where they are installed.
LANGUAGES = {"python", "py", "sql", "sh", "console", "text", "mermaid", "html"}


def options_of(command: str) -> set[str]:
    """Return the options that a command of `manage.py` takes."""
    made = load_command_class(get_commands()[command], command)
    found = arguments_of(made.create_parser("manage.py", command))
    return {name for action in found for name in action.option_strings}


def arguments_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield what a command takes, and what its verbs take."""
    for each in parser._actions:
        if isinstance(each, argparse._SubParsersAction):
            for verb in each.choices.values():
                yield from arguments_of(verb)
        else:
            yield each


@pytest.mark.parametrize(
    "command", [name for name, app in get_commands().items() if app == "pgjobs"]
)
def test_each_argument_of_a_command_is_explained(command):
    made = load_command_class("pgjobs", command)
    arguments = arguments_of(made.create_parser("manage.py", command))
    assert [each.dest for each in arguments if not each.help] == []


@EVERY
def test_options_that_a_sentence_names_exist(name):
    for with_manage, bare in COMMAND.findall(TEXTS[name]):
        command, *arguments = shlex.split(with_manage or bare)
        if command in FOREIGN or (bare and command not in get_commands()):
            continue
        named = {each.partition("=")[0] for each in arguments if each[:2] == "--"}
        assert named <= options_of(command), with_manage or bare


def test_option_that_does_not_exist_is_found():
    assert "--concurrency" in options_of("runjobs")
    assert "--gone" not in options_of("runjobs")


@EVERY
def test_programs_that_a_page_runs_exist(name):
    for found in MODULE.findall(TEXTS[name]):
        module, arguments = found[0] or found[2], found[1] or found[3]
        assert importlib.util.find_spec(module), module
        if arguments.strip() and (make := PARSERS.get(module)):
            make().parse_args(shlex.split(arguments))


def is_member(name: str) -> bool:
    """Whether a job has this: as a row, or while it runs."""
    fields = {each.name for each in Job._meta.get_fields()}
    own = name in fields or hasattr(Job, name) or hasattr(RunningJob, name)
    return own or f"self.{name} = " in inspect.getsource(OwnRunningJob)


@EVERY
def test_what_a_sentence_says_of_a_job_is_there(name):
    spans = re.findall(r"`([^`\n]+)`", TEXTS[name])
    named = {member for span in spans for member in MEMBER.findall(span)}
    assert {each for each in named if not is_member(each)} <= OF_OTHERS


def test_member_that_no_job_has_is_found():
    assert is_member("attempts_made") and is_member("cancel_requested")
    assert not is_member("history")


@EVERY
def test_extras_that_a_page_installs_exist(name):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = {*project["optional-dependencies"]}
    for extras in EXTRA.findall(TEXTS[name]):
        assert {*extras.split(",")} <= known


STRANGER = re.compile(r"(?<![\w./-])pgjobs\\?\[[a-z,]+\]|pip install ['\"]?pgjobs\b")
ANY_TEXT = ("*.py", "*.md", "*.po", "*.html", "*.yml", "*.yaml", "*.toml", "*.cfg")


def test_nothing_tells_to_install_the_package_of_another_project():
    """`pgjobs` on the index is another project's: this one is `django-pgjobs`."""
    names = subprocess.check_output(["git", "ls-files", *ANY_TEXT], cwd=ROOT, text=True)
    found = [
        f"{name}: {hit[0]}"
        for name in names.split()
        for hit in STRANGER.finditer((ROOT / name).read_text())
    ]
    assert found == []


@EVERY
def test_language_of_each_block_is_one_that_is_checked(name):
    languages = {language for language, _ in BLOCK.findall(TEXTS[name])}
    assert {each for each in languages if each[:1] != "{"} <= LANGUAGES


CODE_OF_OTHERS = {
    name: code
    for name, text in TEXTS.items()
    for language, code in BLOCK.findall(text)
    if language == "py"
}


@pytest.mark.parametrize("name", sorted(CODE_OF_OTHERS))
def test_code_of_other_queues_imports_what_there_is(name):
    """Read the code; look the names up where the package is installed, as in CI."""
    tree = ast.parse(CODE_OF_OTHERS[name])
    imports = [each for each in tree.body if isinstance(each, ast.ImportFrom)]
    assert imports or "import dramatiq" in CODE_OF_OTHERS[name]
    for each in imports:
        if each.module.startswith(("django.", "pgjobs")):
            continue
        source = importlib.util.find_spec(each.module.partition(".")[0])
        if source is None:
            pytest.skip(f"{each.module} is not installed.")
        source = importlib.util.find_spec(each.module)
        words = set(re.findall(r"\w+", Path(source.origin).read_text()))
        modules = pkgutil.iter_modules(source.submodule_search_locations or ())
        known = words | {module.name for module in modules}
        assert {alias.name for alias in each.names} <= known
