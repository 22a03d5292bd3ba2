"""What `.ci/release --check` lets the workflow publish."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.documents.examples import ROOT

LIST = "## What the owner fills in\n\n- [{}] The address.\n"
PERSON = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")


class Checkout:
    """A small repository with the script, whose 0.9.0 was released."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.git("init", "--quiet")
        (folder / ".ci").mkdir()
        shutil.copy(ROOT / ".ci/release", folder / ".ci/release")
        self.write("pgjobs/__init__.py", '__version__ = "0.9.0"\n')
        self.write("CHANGELOG.md", "# Changelog\n\n## 0.9.0\n")
        self.write("CONTRIBUTING.md", LIST.format("x"))
        self.commit()
        head = self.git("rev-parse", "HEAD")
        self.write("tests/upgrades/releases.txt", f"# Commits\n0.9.0 {head}\n")
        self.commit()

    def git(self, *arguments: str) -> str:
        command = ["git", *PERSON, *arguments]
        return subprocess.check_output(command, cwd=self.folder, text=True).strip()

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Change")

    def refusal(self, version: str = "0.9.0") -> str:
        """Return why the script refuses, or an empty text."""
        command = [self.folder / ".ci/release", "--check", version]
        ended = subprocess.run(command, capture_output=True, text=True)
        assert bool(ended.returncode) == bool(ended.stderr)
        return ended.stderr


@pytest.fixture
def checkout(tmp_path) -> Checkout:
    return Checkout(tmp_path)


def test_release_that_was_named_is_published(checkout):
    assert checkout.refusal() == ""


def test_commit_after_the_release_is_not_published_as_it(checkout):
    checkout.write("pgjobs/tasks.py", "new = True\n")
    checkout.commit()
    assert "is not what tests/upgrades/releases.txt names" in checkout.refusal()


def test_release_that_nobody_made_is_not_published(checkout):
    assert "pgjobs.__version__ is another one" in checkout.refusal("0.9.1")
    checkout.write("pgjobs/__init__.py", '__version__ = "0.9.1"\n')
    checkout.write("CHANGELOG.md", "# Changelog\n\n## 0.9.1\n")
    checkout.commit()
    assert "does not name the commit of 0.9.1" in checkout.refusal("0.9.1")


def test_nothing_is_published_while_a_box_is_open(checkout):
    checkout.write("CONTRIBUTING.md", LIST.format(" "))
    checkout.commit()
    assert "The owner has not filled in" in checkout.refusal()


def test_list_of_the_owner_is_where_the_script_looks():
    _, _, boxes = (ROOT / "CONTRIBUTING.md").read_text().partition(LIST[:26])
    assert "\n- [" in boxes.partition("\n## ")[0]
