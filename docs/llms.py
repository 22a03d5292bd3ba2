"""`llms.txt`: each page of the site with its first sentence, for programs that read."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx


def write(app: Sphinx, error: Exception | None) -> None:
    """Write the list beside the built pages, in the order of the table of contents."""
    if error is None and app.builder.name == "html":
        lines = ["# pgjobs", "", f"> {sentence(app, 'index')}", "", "## Pages", ""]
        lines += [entry(app, name) for name in pages(app)]
        Path(app.outdir, "llms.txt").write_text("\n".join(lines) + "\n")


def pages(app: Sphinx) -> list[str]:
    """Return the names of all pages but the first."""
    listed = app.env.toctree_includes["index"]
    return [*listed, *sorted(app.env.found_docs - {*listed, "index"})]


def entry(app: Sphinx, name: str) -> str:
    title = app.env.titles[name].astext()
    link = f"[{title}]({app.builder.get_target_uri(name)})"
    return f"- {link}: {sentence(app, name)}".removesuffix(": ")


def sentence(app: Sphinx, name: str) -> str:
    """Return the first sentence of a page that is no part of a table or a list."""
    for paragraph in app.env.get_doctree(name).findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            text = " ".join(paragraph.astext().split())
            return text.partition(". ")[0].rstrip(".:") + "."
    return ""
