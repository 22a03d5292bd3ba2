"""The pages in German, French and Spanish."""

import re
from html import unescape

import pytest
from django.utils.translation import override

from pgjobs.models import AuditEntry, Status, TaskDefinition
from tests.admin import test_browser
from tests.languages import SOURCE, TRANSLATED, catalogue
from tests.operators import LIST, make_job

pytestmark = pytest.mark.django_db(transaction=True)

addresses = test_browser.addresses  # the fixture
MARKUP = re.compile(
    "<script.*?</script>|<style.*?</style>|<pre.*?</pre>"
    '|(?<=<option) value="[^"]*"',  # which is sent; the text beside it is shown
    re.DOTALL,
)
# Names of tasks, parameters and hosts that are also English texts.
NAMES = {"add", "host", "message", "number"}
# Buttons of Django itself that not all of its catalogues have translated.
OF_DJANGO = {"Run"}
SHOWN = re.compile(r">([^<>]+)<|(?:aria-label|title|value|data-text)=\"([^\"]+)\"")


def texts_of(page: str) -> set[str]:
    """Return what a page shows: its texts, labels and titles."""
    found = SHOWN.findall(MARKUP.sub("", page))
    return {unescape(" ".join((one or two).split())) for one, two in found} - {""}


def translated(language: str) -> set[str]:
    """Return the sources whose translations differ; pages also begin with capitals."""
    entries = catalogue(language)
    sources = {text for each in entries for text in (each.msgid, each.msgid_plural)}
    same = {
        text for each in entries for text in (each.msgstr, *each.msgstr_plural.values())
    }
    return with_capitals(sources) - with_capitals(same)


def with_capitals(texts: set[str]) -> set[str]:
    return texts | {text[:1].upper() + text[1:] for text in texts}


@pytest.mark.parametrize("language", TRANSLATED)
def test_no_page_shows_english_that_has_a_translation(
    language, admin_client, addresses
):
    # The parameters of other tasks may be called anything.
    TaskDefinition.objects.exclude(name="tests.noop").delete()
    AuditEntry.objects.create(
        actor="ada", via="page", act="retry", model="job", object_id=7, number=1
    )
    left = {}
    for name, address in addresses.items():
        with override(language):
            response = admin_client.get(address)
        assert response.status_code == 200
        shown = texts_of(response.content.decode()) - NAMES - OF_DJANGO
        if found := shown & translated(language):
            left[name] = found
    assert left == {}


@pytest.mark.parametrize(
    "language, words",
    [
        (
            "de",
            ["Übersicht", "Warteschlangen", "Keine Probleme.", "Job #7: wiederholen"],
        ),
        ("fr", ["Files", "Workers", "Aucun problème.", "job #7 : relancer"]),
        ("es", ["Resumen", "Colas", "No hay problemas.", "trabajo #7: reintentar"]),
    ],
)
def test_overview_speaks_the_language(language, words, admin_client):
    AuditEntry.objects.create(
        actor="ada", via="page", act="retry", model="job", object_id=7, number=1
    )
    with override(language):
        page = admin_client.get(f"{LIST}overview/").content.decode()
    shown = texts_of(page)
    assert [word for word in words if word not in shown] == []


@pytest.mark.parametrize(
    "language, message",
    [
        ("de", "Abgebrochen: tests.noop #"),
        ("fr", "Annulation de tests.noop #"),
        ("es", "Cancelación de tests.noop #"),
    ],
)
def test_act_answers_in_the_language(language, message, admin_client):
    job = make_job(Status.READY)
    with override(language):
        answer = admin_client.post(f"{LIST}cancel/{job.pk}/", follow=True)
    assert message in " ".join(answer.content.decode().split())


def test_english_is_as_it_is_written(admin_client):
    with override(SOURCE):
        page = admin_client.get(f"{LIST}overview/").content.decode()
    assert "No problems." in texts_of(page)
