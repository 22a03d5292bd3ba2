"""The files that the documentation gives people to run workers with."""

import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from tests.documents.examples import ROOT, command_lines, parse_command

FOLDER = ROOT / "docs/deploy"


def pod() -> dict:
    """Return what the deployment says of its pods."""
    deployment = yaml.safe_load((FOLDER / "kubernetes.yaml").read_text())
    return deployment["spec"]["template"]["spec"]


def services() -> dict[str, dict]:
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]


@pytest.mark.parametrize("name", ["myproject-jobs.service", "compose.yaml", "Procfile"])
def test_command_lines_of_the_file_are_understood(name):
    lines = command_lines(FOLDER / name)
    assert any(line.startswith("runjobs") for line in lines)
    for line in lines:
        parse_command(line)


def test_command_line_of_the_kubernetes_pod_is_understood():
    (container,) = pod()["containers"]
    parse_command(" ".join(container["command"]).removeprefix("python manage.py "))


def test_time_to_stop_is_longer_than_the_grace_of_a_worker():
    unit = (FOLDER / "myproject-jobs.service").read_text()
    assert int(re.search(r"TimeoutStopSec=(\d+)", unit)[1]) > 30
    assert int(services()["jobs"]["stop_grace_period"].removesuffix("s")) > 30
    assert pod()["terminationGracePeriodSeconds"] > 30


def test_worker_of_the_procfile_ends_before_the_platform_kills_it():
    (line,) = [each for each in command_lines(FOLDER / "Procfile") if "runjobs" in each]
    assert int(re.search(r"--grace (\d+)s", line)[1]) < 30


def test_services_depend_on_services_that_exist():
    for service in services().values():
        assert set(service.get("depends_on", ())) <= services().keys()


def needs(tool: str):
    """Skip a test where a tool is missing; `.ci/run` installs what pip has."""
    return pytest.mark.skipif(not shutil.which(tool), reason=f"There is no {tool}.")


def accepted(*command: str) -> str:
    """Run a tool, fail if it refuses its file, and return what it prints."""
    ended = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@needs("systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path):
    text = (FOLDER / "myproject-jobs.service").read_text()
    here = text.replace("/srv/myproject/.venv/bin/python", sys.executable)
    here = here.replace("/srv/myproject", os.getcwd()).replace("User=myproject", "")
    unit = tmp_path / "myproject-jobs.service"
    unit.write_text(here)
    said = accepted("systemd-analyze", "verify", "--man=no", str(unit))
    assert unit.name not in said


@needs("docker-compose")
def test_docker_compose_accepts_its_file():
    accepted("docker-compose", "-f", str(FOLDER / "compose.yaml"), "config", "-q")


@needs("kubernetes-validate")
def test_kubernetes_accepts_the_deployment():
    file = str(FOLDER / "kubernetes.yaml")
    accepted("kubernetes-validate", "--strict", "--quiet", file)


@needs("honcho")
def test_procfile_is_one():
    accepted("honcho", "-f", str(FOLDER / "Procfile"), "check")
