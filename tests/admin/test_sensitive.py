"""What a task calls sensitive is shown nowhere."""

import json
from base64 import b64encode
from urllib.parse import quote

import pytest
from django.utils.timezone import now

from pgjobs import current_job, enqueue, task
from pgjobs.exceptions import InvalidTask
from pgjobs.models import Job, TaskDefinition
from pgjobs.reports.json_text import is_secret
from pgjobs.reports.secrets import MOST_VALUES, Hiding, hiding, masked_key, values_of
from tests.operators import LIST, operator, page_of, text_of
from tests.processes import drain
from tests.support.leaks import WRITTEN, in_capitals

pytestmark = pytest.mark.django_db
committing = pytest.mark.django_db(transaction=True)

SECRET = "DE12345678"


def pay(iban: str, ibanez: str, order: dict):
    current_job().log(f"paying to {iban}")
    current_job().progress(1, 2, f"to {iban}")
    raise ValueError(f"{iban} is unknown, {ibanez} is not")


@pytest.fixture
def job():
    declared = task(name="tests.pay", sensitive=("iban",), max_attempts=1)(pay)
    job = enqueue(declared, SECRET, "a guitar", {"customerIban": SECRET})
    drain()
    job.refresh_from_db()
    return job


@committing
def test_reason_traceback_and_log_are_stored_without_it(job):
    attempt = job.attempts_made.get()
    assert job.reason == "ValueError: ******** is unknown, a guitar is not"
    for text in (attempt.message, attempt.traceback, job.progress.log):
        assert SECRET not in text
        assert "********" in text
    assert job.progress.message == "to ********"


def refuse(iban: str, text: str):
    raise ValueError(text.replace("{}", iban))


def refused(iban, text: str) -> Job:
    """Return a job that failed, although SQL checked no argument of it."""
    task(name="tests.refuse", sensitive=("iban",), max_attempts=1)(refuse)
    kwargs = {"iban": iban, "text": text}
    job = Job.objects.create(task="tests.refuse", kwargs=kwargs, max_attempts=1)
    drain()
    job.refresh_from_db()
    assert job.status == "FAILED"
    return job


@committing
def test_text_that_is_too_long_is_not_cut_within_it():
    """A half of it would stay: nothing tells what that is."""
    job = refused(SECRET, "{} " * 5_000)
    attempt = job.attempts_made.get()
    for text in (job.reason, attempt.message, attempt.traceback):
        assert "********" in text
        assert SECRET[:3] not in text
        assert SECRET[-3:] not in text


@committing
def test_argument_that_does_not_fit_is_not_quoted():
    job = refused(12345678, "")
    attempt = job.attempts_made.get()
    assert "iban: " in job.reason
    for text in (job.reason, attempt.message, attempt.traceback):
        assert "12345678" not in text


@committing
def test_pages_mask_it(job):
    client = operator("view_job", "view_job_arguments")
    for address in (LIST, page_of(job)):
        text = text_of(client.get(address))
        assert SECRET not in text, address
        assert "a guitar" in text, address


@committing
def test_it_cannot_be_searched(job):
    client = operator("view_job", "view_job_arguments")
    assert (
        list(client.get(LIST, {"q": f"iban:{SECRET}"}).context["cl"].result_list) == []
    )
    found = client.get(LIST, {"q": 'ibanez:"a guitar"'}).context["cl"].result_list
    assert list(found) == [job]


@pytest.mark.parametrize("value", ["iban", 5, ("",), (1,)])
def test_names_are_checked(value):
    with pytest.raises(InvalidTask, match="sensitive must be names of arguments"):
        task(name="tests.wrong", sensitive=value)(pay)


def pay_by(customer_iban: str, **details: str): ...
def pay_all(*ibans: str): ...


def test_misspelt_name_is_refused_at_the_declaration():
    says = r"sensitive: 'ibam' is no parameter of pay, which has iban, ibanez, order\."
    with pytest.raises(InvalidTask, match=says):
        task(name="tests.wrong", sensitive=("iban", "ibam"))(pay)


def test_arguments_without_a_name_cannot_be_sensitive():
    with pytest.raises(InvalidTask, match="'ibans' is no parameter of pay_all"):
        task(name="tests.wrong", sensitive=("ibans",))(pay_all)


def test_keyword_argument_of_any_name_can_be_sensitive():
    declared = task(name="tests.right", sensitive=("pin",))(pay_by)
    assert declared.options.sensitive == ("pin",)


@pytest.mark.parametrize("word", ["iban", "customer", "customer_iban"])
def test_word_of_a_parameters_name_can_be_sensitive(word):
    def pay(customer_iban: str): ...

    pay.__qualname__ = "pay"
    declared = task(name="tests.right", sensitive=(word,))(pay)
    assert declared.options.sensitive == (word,)


def test_sensitive_value_is_found_however_deep_it_is():
    value = {"password": "correct horse"}
    for _ in range(10_000):  # deeper than calls may be
        value = [value]
    assert list(values_of(value, ("password",))) == ["correct horse"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("123", "********"),
        ("ValueError: 123", "ValueError: ********"),
        ("KeyError: '123'", "KeyError: ********"),
        ("first line\nValueError: 123\n", "first line\nValueError: ********\n"),
        ("row 123 of 4123", "row 123 of 4123"),
        ("at 12:123", "at 12:123"),
        ("", ""),
    ],
)
def test_short_value_is_masked_where_it_stands_alone(text, shown):
    assert hiding(("pin",), '{"pin": 123, "note": "row"}')(text) == shown


HARD = 'Ada\'s "l+x"/é&<ñ>\n@example.org'


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("value", [HARD, "DE89370400440532013000", "x+y/1=ß?"])
def test_value_is_masked_however_it_is_written(name, value):
    hide = hiding(("iban",), json.dumps({"iban": value}))
    for text in ("before {} after", "x{}y", "?a=b&c={}&d=e", "\\n{}\\t", "%3D{}%26"):
        for written in (WRITTEN[name](value), in_capitals(WRITTEN[name](value))):
            assert written not in hide(text.format(written)), text


@pytest.mark.parametrize("padding", ["", "a", "ab"])
def test_value_is_masked_within_base64(padding):
    hide = hiding(("iban",), json.dumps({"iban": HARD}))
    text = b64encode(f"{padding}{HARD}{padding}".encode()).decode()
    assert hide(f"Basic {text}") != f"Basic {text}"
    assert len(hide(text).replace("********", "")) <= 2 * len(padding) + 6


@pytest.mark.parametrize("value", ["anna", "1234"])
def test_short_value_is_masked_as_a_word_only(value):
    hide = hiding(("name",), json.dumps({"name": value}))
    assert hide(f"for {value}, sus{value}") == f"for ********, sus{value}"
    assert hide(repr(f"\n{value} is here")) == r"'\n******** is here'"
    assert hide(quote(f"a={value}&b")) == "a%3D********%26b"


def test_key_within_a_sensitive_value_is_masked():
    hide = hiding((), '{"tokens": {"sk_live_77": {"username": 1}}}')
    assert hide("no sk_live_77 of username") == "no ******** of username"


def test_text_is_masked_as_a_whole_beside_more_values_than_are_looked_for():
    tokens = [f"token-{number:05}" for number in range(MOST_VALUES + 1)]
    arguments = json.dumps({"tokens": tokens})
    assert hiding((), arguments)(f"of {tokens[0]}\nand {tokens[-1]}") == "********"
    assert hiding((), arguments)("") == ""
    assert masked_key(f"lock-{tokens[-1]}", (), arguments) == "********"
    some = json.dumps({"tokens": tokens[1:]})
    assert hiding((), some)(f"of {tokens[1]} and {tokens[-1]}") == (
        "of ******** and ********"
    )


def test_what_meta_and_unnamed_arguments_hold_is_masked():
    hide = Hiding((), "{}", '[{"password": "correct horse"}]', '{"token": "batteries"}')
    assert hide("correct horse, batteries") == "********, ********"
    assert Hiding((), "no JSON", None)("text") == "text"


# Harmless names


@pytest.mark.parametrize(
    ("key", "words", "is_masked"),
    [
        ("s3_key", (), True),
        ("s3_key", ("!s3_key",), False),
        ("s3Key", ("!s3_key",), False),
        ("s3_key", ("!s3Key",), False),
        ("old_s3_key", ("!s3_key",), True),
        ("api_key", ("!key",), True),
        ("key", ("!key",), False),
        ("page_token", ("!page_token",), False),
        ("page_token", ("!page_token", "page_token"), True),
        ("email_template", ("email",), True),
        ("email_template", ("email", "!email_template"), False),
    ],
)
def test_name_that_only_looks_secret_can_be_harmless(key, words, is_masked, settings):
    assert is_secret(key, words) == is_masked
    settings.PGJOBS = {"SENSITIVE": []}
    if not {f"!{word}" for word in words} & set(words):
        settings.PGJOBS = {"SENSITIVE": words}
        assert is_secret(key) == is_masked


def test_task_cannot_publish_what_the_project_calls_sensitive(settings):
    settings.PGJOBS = {"SENSITIVE": ["iban"]}
    assert is_secret("iban", ("!iban",))
    assert not is_secret("iban_format", ("!iban_format",))


def list_files(s3_key: str, secret_key: str) -> dict:
    return {"page_token": s3_key, "secret": secret_key}


@committing
def test_harmless_values_are_shown_and_searched():
    words = ("!s3_key", "!page_token")
    declared = task(name="tests.list_files", sensitive=words)(list_files)
    job = enqueue(declared, "photos/1", "hunter22")
    drain()
    client = operator("view_job", "view_job_arguments")
    page = text_of(client.get(page_of(job)))
    assert page.count("photos/1") == 2
    assert "hunter22" not in page
    found = client.get(LIST, {"q": "s3_key:photos/1"}).context["cl"].result_list
    assert list(found) == [job]


@pytest.mark.parametrize("words", [("!",), ("iban", "!iban")])
def test_harmless_names_are_checked(words):
    with pytest.raises(InvalidTask, match="sensitive"):
        task(name="tests.wrong", sensitive=words)(pay)


# Searching


@pytest.fixture
def searcher():
    return operator("view_job", "view_job_arguments")


def found(client, term: str) -> list[int]:
    result = client.get(LIST, {"q": term}).context["cl"].result_list
    return [job.pk for job in result]


TERMS = [
    'customer:{"password":"1234"}',
    'customer:{"cards":[{"pin_token":"9876"}]}',
    'customer:{"password":{}}',
    'customer.cards:[{"pin_token":"9876"}]',
]


@pytest.mark.parametrize(
    "term",
    [
        *TERMS,
        'meta.user:{"token":"9876"}',
        "meta.token:9876",
    ],
)
def test_masked_value_cannot_be_guessed_within_an_object(term, searcher):
    customer = {"password": "1234", "cards": [{"pin_token": "9876"}]}
    meta = {"user": {"token": "9876"}, "token": "9876"}
    Job.objects.create(task="tests.noop", kwargs={"customer": customer}, meta=meta)
    assert found(searcher, term) == []


def test_words_of_tasks_that_this_process_does_not_know_count(searcher):
    TaskDefinition.objects.create(
        name="gone.pay",
        options={"sensitive": ["vat_id"], "aliases": ["older.pay"]},
        parameters={},
        synced_at=now(),
    )
    Job.objects.create(task="older.pay", kwargs={"vat_id": "12345678"})
    assert found(searcher, "vat_id:12345678") == []


def test_harmless_name_is_searched_only_where_it_is_harmless(searcher):
    task(name="tests.list_files", sensitive=("!s3_key",))(list_files)
    kwargs = {"s3_key": "photos/1"}
    shown = Job.objects.create(task="tests.list_files", kwargs=kwargs)
    Job.objects.create(task="tests.noop", kwargs=kwargs)
    assert found(searcher, "s3_key:photos/1") == [shown.pk]


# Keys


def plain(n: int): ...
def identify(pin_token: str, text: str): ...
def pay_once(iban: str, amount: int): ...


def with_keys(**options) -> Job:
    declared = task(name="tests.pay_once", sensitive=("iban",), **options)(pay_once)
    return enqueue(declared, SECRET, 5)


KEYS = {
    "unique_key": {"unique_key": "only-{iban}"},
    "unique": {"unique": True},
    "lock": {"lock": "acct-{iban}"},
    "limit": {"limit_key": "acct-{iban}", "max_running": 1},
    "rate": {"rate_key": "acct-{iban}", "rate": "1/hour"},
}


@committing
@pytest.mark.parametrize("options", KEYS.values(), ids=KEYS)
def test_keys_show_no_sensitive_value(options, searcher):
    with_keys(**options)
    job = with_keys(**options)
    drain()
    outputs = [text_of(searcher.get(address)) for address in (LIST, page_of(job))]
    for text in outputs:
        assert SECRET not in text


def test_unique_key_is_shown_to_those_only_who_may_see_arguments(searcher):
    job = enqueue(task(name="tests.plain", unique_key="only-{n}")(plain), 777)
    assert "only-777" in text_of(searcher.get(page_of(job)))
    assert "only-777" not in text_of(operator("view_job").get(page_of(job)))


def test_keys_of_sensitive_arguments_cannot_be_searched(searcher):
    job = with_keys(unique_key="only-{iban}", lock="acct-{iban}")
    assert found(searcher, f"unique:only-{SECRET}") == []
    assert found(searcher, f"lock:acct-{SECRET}") == []
    job.delete()
    job = with_keys(unique_key="only-{amount}", lock="acct-{amount}")
    assert found(searcher, "unique:only-5") == [job.pk]
    assert found(searcher, "lock:acct-5") == [job.pk]


def test_digest_of_sensitive_arguments_is_not_shown(searcher):
    declared = task(name="tests.long", unique=True)(identify)
    job = enqueue(declared, "1234", "long" * 200)
    page = text_of(searcher.get(page_of(job)))
    assert "tests.long:sha256:********" in page
