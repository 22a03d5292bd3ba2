"""The documentation's site: `make -C docs html`."""

import sys
from pathlib import Path

import django
from django.conf import settings

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
# Names alone: no page asks a database.
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "docs"}},
    INSTALLED_APPS=[
        "admin_actions",
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.messages",
        "django.contrib.sessions",
        "pgjobs",
    ],
    SECRET_KEY="for the documentation",  # noqa: S106 - no site
    USE_TZ=True,
)
django.setup()

import generated  # noqa: E402
import llms  # noqa: E402

import pgjobs  # noqa: E402

project = "pgjobs"
author = "The pgjobs authors"
copyright = f"2026, {author}"
version = release = pgjobs.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinxcontrib.mermaid"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
myst_fence_as_directive = ["mermaid"]
suppress_warnings = ["misc.highlighting_failure"]  # dollar quotes of PostgreSQL
autodoc_member_order = "bysource"
autodoc_typehints = "signature"

html_theme = "furo"
html_title = f"pgjobs {release}"


def setup(app):
    """Write the pages that the code itself tells before the first page is read."""
    app.connect("builder-inited", lambda _: generated.write_all(HERE / "reference"))
    app.connect("build-finished", llms.write)
