"""The catalogues are complete, true to their sources, and up to date."""

import re
import shutil
from string import Formatter

import polib
import pytest
from django.core.management import call_command
from django.utils.translation import gettext, ngettext, override

from pgjobs.models import Status
from tests.languages import (
    LANGUAGES,
    SOURCE,
    TRANSLATED,
    catalogue,
    collected,
    compiled,
    texts,
)
from tests.operators import make_job

PLACEHOLDER = re.compile(r"%\(\w+\)[sdrfg]|%[ds%]")


def translations(entry: polib.POEntry) -> list[tuple[str, str]]:
    """Return pairs of a source and a translation, one for each plural form."""
    if not entry.msgid_plural:
        return [(entry.msgid, entry.msgstr)]
    plurals = entry.msgstr_plural
    return [
        (entry.msgid_plural if number else entry.msgid, text)
        for number, text in plurals.items()
    ]


def placeholders(text: str, is_brace_format: bool) -> list[str]:
    if is_brace_format:
        return sorted(str(name) for _, name, _, _ in Formatter().parse(text) if name)
    return sorted(PLACEHOLDER.findall(text))


@pytest.mark.parametrize("language", TRANSLATED)
def test_catalogue_leaves_no_text_untranslated_or_fuzzy(language):
    entries = catalogue(language)
    left = [each.msgid for each in entries if not each.translated() or each.fuzzy]
    assert left == []
    assert texts(entries) == texts(catalogue(SOURCE))
    assert len(entries) > 500


@pytest.mark.parametrize("language", TRANSLATED)
def test_each_translation_has_the_placeholders_of_its_source(language):
    different = [
        (source, text)
        for entry in catalogue(language)
        for source, text in translations(entry)
        for is_brace_format in ["python-brace-format" in entry.flags]
        if placeholders(source, is_brace_format) != placeholders(text, is_brace_format)
    ]
    assert different == []


@pytest.mark.parametrize("language", TRANSLATED)
def test_translation_ends_as_its_source_does(language):
    different = [
        (source, text)
        for entry in catalogue(language)
        for source, text in translations(entry)
        if source.endswith((".", ":")) != text.endswith((".", ":"))
    ]
    assert different == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_compiled_catalogue_is_that_of_the_texts(language):
    found = {
        (each.msgctxt, each.msgid): (each.msgstr, each.msgstr_plural)
        for each in compiled(language)
    }
    assert found == {
        (each.msgctxt, each.msgid): (each.msgstr, each.msgstr_plural)
        for each in catalogue(language)
        if each.translated()
    }


@pytest.mark.skipif(shutil.which("xgettext") is None, reason="There is no xgettext.")
def test_catalogue_has_the_texts_of_the_code_and_the_templates(tmp_path):
    """If it fails: `python -m tests.languages`, then translate what is new."""
    for language, now in collected(tmp_path):
        assert texts(catalogue(language)) == texts(now), language


@pytest.mark.parametrize(
    "language, one, three",
    [
        ("de", "1 Tag", "3 Tage"),
        ("fr", "1 jour", "3 jours"),
        ("es", "1 día", "3 días"),
    ],
)
def test_numbers_have_the_plurals_of_the_language(language, one, three):
    with override(language):
        shown = [
            ngettext("%(count)d day", "%(count)d days", number) % {"count": number}
            for number in (1, 3)
        ]
    assert shown == [one, three]


@pytest.mark.parametrize("language", ["de", "fr", "es"])
def test_language_of_a_region_uses_its_main_language(language):
    with override(language):
        main = gettext("Dead letters")
    with override(f"{language}-ch"):
        assert gettext("Dead letters") == main != "Dead letters"


@pytest.mark.django_db
def test_commands_speak_english_in_every_language(settings, capsys):
    """As Django's own do: scripts read them, and logs stand beside them."""
    make_job(Status.READY, queue_name="nowhere")
    settings.LANGUAGE_CODE = "de"
    with override("de"):
        call_command("jobs", "list")
        assert "no worker is alive" in capsys.readouterr().out
