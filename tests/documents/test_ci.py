"""GitHub's workflow and `.ci/run` install, and try, the same."""

import re
import tomllib

import yaml

from tests.documents.examples import ROOT

RUN = (ROOT / ".ci/run").read_text()
WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text()
JOBS = yaml.safe_load(WORKFLOW)["jobs"]
MATRIX = JOBS["matrix"]["strategy"]["matrix"]["include"]
# GitHub's machines have Chrome.
OF_GITHUB = {"chromium"}


def supported(what: str) -> set[str]:
    """Return the versions that the package's metadata names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = rf"{what} :: (\d+\.\d+)"
    return set(re.findall(named, "\n".join(project["classifiers"])))


def test_workflow_installs_the_packages_of_the_script():
    (of_script,) = re.findall(r'^packages="(.+)"$', RUN, re.M)
    (of_workflow,) = re.findall(r"apt-get install .*--no-install-recommends (.+)$",
                                WORKFLOW, re.M)  # fmt: skip
    assert {*of_workflow.split()} == {*of_script.split()} - OF_GITHUB


def test_workflow_has_the_history_from_which_upgrades_begin():
    checkouts = [
        step
        for job in JOBS.values()
        for step in job["steps"]
        if step.get("uses", "").startswith("actions/checkout@")
    ]
    assert len(checkouts) == len(JOBS)
    assert all(each["with"]["fetch-depth"] == 0 for each in checkouts)


def test_workflow_tries_each_supported_version():
    assert {each["python"] for each in MATRIX} == supported("Python")
    assert {each["django"] for each in MATRIX} == supported("Django")


def test_script_tries_each_supported_server():
    text = (ROOT / "docs/guides/upgrading.md").read_text()
    first, last = re.search(r"PostgreSQL (\d+) to (\d+)", text).groups()
    (releases,) = re.findall(r"^for release in (.+); do$", RUN, re.M)
    tried = [int(each.partition(".")[0]) for each in releases.split()]
    # The whole suite runs on the embedded server and on Debian's.
    assert sorted([*tried, 15, 18]) == [*range(int(first), int(last) + 1)]
