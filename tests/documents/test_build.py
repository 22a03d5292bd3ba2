"""What `.ci/build` makes of the README for a package index."""

import re
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import pytest

from tests.documents.examples import ROOT
from tests.documents.test_pages import LINK

README = ROOT / "README.md"
ADDRESS = "https://code.example/team/pgjobs"


@pytest.fixture(scope="module")
def build():
    """The script, as a module."""
    loader = SourceFileLoader("build_script", str(ROOT / ".ci/build"))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def links_of(text: str) -> list[str]:
    return [a or b for a, b in LINK.findall(text)]


def test_each_relative_link_leads_to_the_commit(build):
    before = README.read_text()
    after = build.with_absolute_links(before, ADDRESS, "c0ffee")
    changed = dict(zip(links_of(before), links_of(after), strict=True))
    assert len(changed) > 20
    for link, new in changed.items():
        kind = "raw" if link.endswith(".webp") else "blob"
        expected = f"{ADDRESS}/{kind}/c0ffee/{link}"
        assert new == (link if re.match(r"https?:|#", link) else expected)


def test_address_is_that_of_the_source(build, tmp_path):
    metadata = tmp_path / "pyproject.toml"
    metadata.write_text("[project]")
    assert build.address_of_repository(str(tmp_path)) == ""
    metadata.write_text(
        f'[project.urls]\nDocs = "{ADDRESS}/x"\nSource = "{ADDRESS}/"\n'
    )
    assert build.address_of_repository(str(tmp_path)) == ADDRESS


def test_readme_of_a_project_without_address_stays(build, tmp_path, capsys):
    (tmp_path / "README.md").write_text("[here](docs/index.md)")
    (tmp_path / "pyproject.toml").write_text("[project]")
    build.rewrite_readme(str(tmp_path))
    assert (tmp_path / "README.md").read_text() == "[here](docs/index.md)"
    assert "names no Source" in capsys.readouterr().out


def test_readme_of_a_project_with_address_is_rewritten(build, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "git", lambda *arguments: b"c0ffee\n")
    (tmp_path / "README.md").write_text("![seen](a.png), [here](docs/index.md#top)")
    (tmp_path / "pyproject.toml").write_text(f'[project.urls]\nSource = "{ADDRESS}"')
    build.rewrite_readme(str(tmp_path))
    seen, here = links_of((tmp_path / "README.md").read_text())
    assert seen == f"{ADDRESS}/raw/c0ffee/a.png"
    assert here == f"{ADDRESS}/blob/c0ffee/docs/index.md#top"
