"""The example project: the geometry, the ingest, the pages and the converter."""

import math
import os
import subprocess
import sys
from datetime import datetime, timedelta
from io import BytesIO
from itertools import takewhile
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pyarrow as pa
import pytest
from converter.forms import MAX_BYTES
from converter.models import Conversion
from converter.tables import MAX_COLUMNS, UnreadableTable, convert_table
from converter.tasks import convert_file
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse
from example.database import _forget_dead_users, _unlock_after_crash
from example.settings import base
from passes.elements import InvalidElements, read_elements
from passes.geometry import Observer, sidereal_time
from passes.ingest import ingest_elements
from passes.models import GroundStation, Notice, Pass, Satellite
from passes.prediction import (
    MIN_ELEVATION,
    WINDOW_HOURS,
    Orbit,
    PropagationError,
    predict_passes,
)
from passes.tasks import recompute_passes, refresh_elements
from pyarrow import csv, parquet

from pgjobs.features.events.tables import State
from pgjobs.features.schedules.declare import declarations
from pgjobs.models import Event, Job
from pgjobs.testing import assert_enqueued, run_jobs
from tests.processes import database_url
from tests.support.declared import store_subscriptions

CBERS_2 = """CBERS 2
1 28057U 03049A   06177.78615833  .00000060  00000-0  35940-4 0  1836
2 28057  98.4283 247.6961 0000884  88.1964 271.9322 14.35478080140550
"""
ITALSAT_2 = """ITALSAT 2
1 24208U 96044A   06177.04061740 -.00000094  00000-0  10000-3 0  1600
2 24208   3.8536  80.0121 0026640 311.0977  48.3000  1.00778054 36119
"""
# Decays seven hours after its epoch.
SL_14_DEB = """SL-14 DEB
1 29141U 85108AA  06170.26783845  .99999999  00000-0  13519-0 0   718
2 29141  82.4288 273.4882 0015848 277.2124  83.9133 15.93343074  6828
"""
# A case of the verification file that must fail; its checksum is put right here.
NO_ORBIT = """NO ORBIT
1 33334U 78066F   06174.85818871  .00000620  00000-0  10000-3 0  6806
2 33334  68.4714 236.1303 5602877 123.7484 302.5767  0.00001000 67521
"""
KIRUNA = {"latitude": 67.86, "longitude": 20.96, "altitude": 400}
ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "example_project"
A_SECOND = timedelta(seconds=1)
JSON = {"Accept": "application/json"}


@pytest.fixture
def handlers(db):
    """The tests before may have emptied the table that says who subscribes."""
    store_subscriptions("default")


@pytest.fixture
def kiruna(handlers):
    return GroundStation.objects.create(name="Kiruna", **KIRUNA)


@pytest.fixture
def cbers(kiruna):
    ingest_elements(CBERS_2)
    Job.objects.all().delete()
    Event.objects.all().delete()
    return Satellite.objects.get()


def orbit_of(text):
    return Orbit(*read_elements(text)[0][2:4])


def upload(client, name, content, **kwargs):
    file = SimpleUploadedFile(name, content)
    return client.post(reverse("converter:upload"), {"file": file}, **kwargs)


def report_nothing(done, total):
    pass


# Geometry


@pytest.mark.django_db
def test_admin_speaks_the_language_of_the_browser(settings):
    settings.MIDDLEWARE = base.MIDDLEWARE
    for language, words in {"de": "Hintergrundjobs", "en": "Background jobs"}.items():
        client = Client(headers={"accept-language": language})
        client.force_login(User.objects.create_superuser(language))
        assert words in client.get("/admin/").content.decode()


def test_sidereal_time_is_that_of_the_textbook():
    # Vallado, Fundamentals of Astrodynamics, example 3-5: 1992-08-20 12:14 UT1.
    julian_date = 2448854.5 + (12 * 60 + 14) / 1440
    assert math.degrees(sidereal_time(julian_date)) == pytest.approx(152.578788)


def test_observer_sees_the_zenith_above_and_the_north_in_the_north():
    observer = Observer(latitude=0, longitude=90, altitude=0)
    assert observer.direction_of((0, 6378.137 + 500, 0)).elevation == pytest.approx(90)
    north = observer.direction_of((0, 6378.137, 100))
    assert north == pytest.approx((0, 0))
    east = observer.direction_of((-100, 6378.137, 0))
    assert east == pytest.approx((90, 0))


def test_satellite_is_above_the_mask_between_rise_and_set_only():
    orbit, observer = orbit_of(CBERS_2), Observer(**KIRUNA)

    def elevation(moment):
        minutes = (moment - orbit.epoch).total_seconds() / 60
        return orbit.direction_from(observer, minutes).elevation

    passes = predict_passes(orbit, observer)
    assert len(passes) == 11
    for predicted in passes:
        assert elevation(predicted.rise_at) >= MIN_ELEVATION
        assert elevation(predicted.rise_at - A_SECOND) < MIN_ELEVATION
        assert elevation(predicted.set_at) >= MIN_ELEVATION
        assert elevation(predicted.set_at + A_SECOND) < MIN_ELEVATION
        duration = predicted.set_at - predicted.rise_at
        during = [predicted.rise_at + duration * part / 50 for part in range(51)]
        assert min(map(elevation, during)) >= MIN_ELEVATION
        assert max(map(elevation, during)) <= predicted.max_elevation + 0.001
        assert elevation(predicted.culmination_at) == pytest.approx(
            predicted.max_elevation
        )


def test_passes_agree_with_an_independent_prediction():
    # Skyfield 1.55, find_events() with the same elements, station and mask.
    expected = [
        ("2006-06-26T19:06:21.7Z", "2006-06-26T19:16:40.3Z", 81.03),
        ("2006-06-26T20:46:29.0Z", "2006-06-26T20:55:54.8Z", 35.26),
        ("2006-06-26T22:29:58.5Z", "2006-06-26T22:33:54.9Z", 12.02),
    ]
    passes = predict_passes(orbit_of(CBERS_2), Observer(**KIRUNA))[:3]
    for predicted, (rise, set_, height) in zip(passes, expected, strict=True):
        assert abs(predicted.rise_at - datetime.fromisoformat(rise)) < A_SECOND
        assert abs(predicted.set_at - datetime.fromisoformat(set_)) < A_SECOND
        assert predicted.max_elevation == pytest.approx(height, abs=0.05)


def test_pass_that_is_shorter_than_a_step_is_not_missed(monkeypatch):
    orbit, observer = orbit_of(CBERS_2), Observer(**KIRUNA)
    usual = predict_passes(orbit, observer)
    monkeypatch.setattr("passes.prediction.STEP_MINUTES", 15)
    coarse = predict_passes(orbit, observer)
    assert [predicted.max_elevation for predicted in coarse] == pytest.approx(
        [predicted.max_elevation for predicted in usual], abs=0.01
    )


def test_geostationary_satellite_is_up_all_day_or_never():
    orbit = orbit_of(ITALSAT_2)
    below = Observer(latitude=0, longitude=150, altitude=0)
    (only,) = predict_passes(orbit, below)
    assert only.rise_at == orbit.epoch
    assert only.set_at == orbit.epoch + timedelta(hours=WINDOW_HOURS)
    assert predict_passes(orbit, Observer(**KIRUNA)) == []


def test_decayed_satellite_has_no_passes_after_its_end():
    orbit = orbit_of(SL_14_DEB)
    assert orbit.has_decayed
    end = orbit.epoch + timedelta(minutes=orbit.minutes)
    passes = predict_passes(orbit, Observer(**KIRUNA))
    assert passes
    assert all(predicted.set_at <= end for predicted in passes)


def test_elements_without_an_orbit_are_refused():
    with pytest.raises(PropagationError, match="describe no orbit: perturbed"):
        orbit_of(NO_ORBIT)


# Elements


def test_elements_are_read_with_comments_and_any_line_ends():
    text = "# Source\r\n\r\n" + CBERS_2.replace("\n", "\r\n") + ITALSAT_2
    first, second = read_elements(text)
    assert (first.catalog_number, first.name) == (28057, "CBERS 2")
    assert f"{first.epoch:%Y-%m-%d %H:%M}" == "2006-06-26 18:52"
    assert second.name == "ITALSAT 2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no elements"),
        ("# only a comment", "holds no elements"),
        ("CBERS 2\n", "Line 1: a name and two lines"),
        (CBERS_2.replace("1836", "1837"), "checksum"),
        (CBERS_2.replace("1 28057U", "1 28058U"), "different satellites"),
        (CBERS_2[8:], "Line 1:"),
        (CBERS_2.replace("CBERS", "CBERS\0"), "Line 1: a name"),
        (CBERS_2.replace("1836\n", "1836 x\n"), "69 characters"),
        ("one\ntwo\nthree\n", "got 'two'"),
    ],
)
def test_bad_elements_are_refused_with_the_reason(text, message):
    with pytest.raises(InvalidElements, match=message):
        read_elements(text)


def test_elements_that_are_shipped_are_readable_and_name_their_source():
    path = EXAMPLE / "data" / "satellites.tle"
    text = path.read_text(encoding="utf-8")
    assert len(read_elements(text)) == 10
    assert "SGP4-VER.TLE" in text


# Ingest and signals


def test_ingest_publishes_each_new_satellite_to_two_handlers(handlers):
    assert ingest_elements(CBERS_2 + ITALSAT_2) == (2, 2)
    for satellite in Satellite.objects.all():
        jobs = Job.objects.filter(kwargs={"satellite_id": satellite.pk})
        assert sorted(jobs.values_list("task", flat=True)) == [
            "passes.notify_stations",
            "passes.recompute_passes",
        ]


@pytest.mark.django_db
def test_ingest_of_the_same_elements_changes_nothing_and_publishes_nothing():
    ingest_elements(CBERS_2)
    assert ingest_elements(CBERS_2) == (1, 0)
    assert Event.objects.count() == 1


def test_new_name_is_saved_but_publishes_nothing(cbers):
    assert ingest_elements(CBERS_2.replace("CBERS 2", "CBERS-2")) == (1, 1)
    cbers.refresh_from_db()
    assert cbers.name == "CBERS-2"
    assert not Event.objects.exists()


def test_new_elements_are_published_once(cbers):
    cbers.line1 = read_elements(ITALSAT_2)[0].line1
    cbers.save()
    cbers.save()
    assert Event.objects.get().aggregate_id == f"satellite-{cbers.pk}"


def test_deferred_elements_count_as_unchanged(cbers):
    satellite = Satellite.objects.only("name").get()
    satellite.name = "Renamed"
    satellite.save()
    assert not Event.objects.exists()


def test_rolled_back_ingest_leaves_no_event_and_no_job(handlers):
    with transaction.atomic():
        ingest_elements(CBERS_2)
        assert Job.objects.count() == 2
        transaction.set_rollback(True)
    assert not Satellite.objects.exists()
    assert not Event.objects.exists()
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_satellite_is_not_saved_when_its_event_cannot_be_published(monkeypatch):
    def refuse(*args, **kwargs):
        raise RuntimeError("no")

    monkeypatch.setattr("passes.signals.publish", refuse)
    number, name, line1, line2, epoch = read_elements(CBERS_2)[0]
    satellite = Satellite(
        catalog_number=number, name=name, line1=line1, line2=line2, epoch=epoch
    )
    with pytest.raises(RuntimeError):
        satellite.save()
    assert not Satellite.objects.exists()


def test_new_station_enqueues_a_job_for_each_satellite(cbers):
    GroundStation.objects.create(name="Weilheim", latitude=47.88, longitude=11.08)
    assert_enqueued(recompute_passes, satellite_id=cbers.pk, count=1)


@pytest.mark.django_db
def test_stations_can_be_loaded_twice():
    call_command("loaddata", "ground_stations", verbosity=0)
    call_command("loaddata", "ground_stations", verbosity=0)
    assert GroundStation.objects.count() == 6


@pytest.mark.django_db
def test_command_ingests_a_file(tmp_path, capsys):
    path = tmp_path / "new.tle"
    path.write_text(CBERS_2)
    call_command("ingest_tles", str(path))
    assert capsys.readouterr().out == "1 satellites read, 1 changed.\n"


@pytest.mark.django_db
@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"hello\n", None])
def test_command_says_why_it_cannot_ingest(tmp_path, content):
    path = tmp_path / "bad.tle"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CommandError, match=r"Cannot ingest .*bad\.tle"):
        call_command("ingest_tles", str(path))


@pytest.mark.django_db
def test_elements_are_read_again_and_again_from_where_the_settings_say(
    settings, tmp_path
):
    assert "passes.refresh_elements" in {each.name for each in declarations()}
    settings.ELEMENTS_SOURCE = tmp_path / "new.tle"
    settings.ELEMENTS_SOURCE.write_text(CBERS_2)
    assert refresh_elements() == {"read": 1, "changed": 1}
    assert refresh_elements() == {"read": 1, "changed": 0}


def test_elements_changed_in_the_admin_are_published(admin_client, cbers):
    page = reverse("admin:passes_satellite_change", args=[cbers.pk])
    newer = CBERS_2.replace("06177.78", "06178.78").replace("1836", "1837")
    _, name, line1, line2, _ = read_elements(newer)[0]
    fields = {"catalog_number": 28057, "name": name, "line1": line1, "line2": line2}
    assert admin_client.post(page, fields).status_code == 302
    assert Satellite.objects.get().epoch - cbers.epoch == timedelta(days=1)
    assert Event.objects.get().payload == {"satellite_id": cbers.pk}

    for wrong, message in [
        ({"line1": line1[:-1] + "0"}, b"checksum"),
        ({"line1": "1 28057\n"}, b"No two-line elements"),
        ({"catalog_number": 5}, b"belong to satellite 28057"),
        ({"line2": ""}, b"This field is required"),
    ]:
        answer = admin_client.post(page, fields | wrong)
        assert (answer.status_code, message in answer.content) == (200, True)
    assert Event.objects.count() == 1


# Jobs that really run


@pytest.mark.django_db
def test_recomputation_converges_and_reports_its_progress(kiruna):
    ingest_elements(CBERS_2)
    run_jobs()
    first = list(Pass.objects.values_list("rise_at", "set_at"))
    assert len(first) == 11
    job = Job.objects.get(task="passes.recompute_passes")
    assert (job.status, job.return_value) == ("SUCCESSFUL", {"passes": 11})
    assert (job.progress.done, job.progress.total) == (1, 1)

    job.retry()
    run_jobs()
    assert list(Pass.objects.values_list("rise_at", "set_at")) == first


@pytest.mark.django_db
def test_stations_hear_once_of_new_elements_however_often_they_are_delivered(kiruna):
    ingest_elements(CBERS_2)
    run_jobs()
    event = Event.objects.get()
    notice = Notice.objects.get()
    assert (notice.station, notice.event) == (kiruna, event.pk)
    assert event.redeliver_all() == (2, 0)
    run_jobs()
    assert Notice.objects.get() == notice
    assert Event.objects.with_state().get().state == State.DELIVERED


@pytest.mark.django_db
def test_recomputation_fails_for_good_without_a_satellite_or_an_orbit(kiruna):
    recompute_passes.enqueue(999_999)
    ingest_elements(NO_ORBIT)
    run_jobs()
    missing, no_orbit = Job.objects.filter(task=recompute_passes.name).order_by("pk")
    assert (missing.status, missing.attempts) == ("FAILED", 1)
    assert missing.reason == "Satellite 999999 was deleted."
    assert (no_orbit.status, no_orbit.attempts) == ("FAILED", 1)
    assert "describe no orbit" in no_orbit.reason


@pytest.mark.django_db
def test_upload_is_converted_and_converted_back(client):
    content = b'id,name\n1,one\n2,"two\nlines"\n'
    there = upload(client, "numbers.csv", content, headers=JSON).json()
    run_jobs()
    page = client.get(there["result_url"])
    assert b"2 rows, 2 columns" in page.content
    packed = b"".join(client.get(there["result_url"] + "result/").streaming_content)
    assert parquet.read_table(BytesIO(packed)).to_pydict()["id"] == [1, 2]

    back = client.post(there["result_url"] + "back/", headers=JSON).json()
    run_jobs()
    result = client.get(back["result_url"] + "result/")
    assert result["Content-Type"] == "text/csv"
    assert 'filename="numbers.csv"' in result["Content-Disposition"]
    again = csv.ParseOptions(newlines_in_values=True)
    assert csv.read_csv(
        BytesIO(b"".join(result.streaming_content)), parse_options=again
    ) == csv.read_csv(BytesIO(content), parse_options=again)


@pytest.mark.django_db
def test_unreadable_upload_fails_with_a_reason_that_its_page_shows(client):
    answer = upload(client, "ragged.csv", b"a,b\n1,2\n<b>\n", headers=JSON).json()
    run_jobs()
    job = client.get(answer["status_url"]).json()
    assert (job["status"], job["finished"]) == ("FAILED", True)
    assert "Expected 2 columns, got 1" in job["reason"]
    page = client.get(answer["result_url"]).content.decode()
    assert "Expected 2 columns, got 1: &lt;b&gt;" in page


@pytest.mark.django_db
def test_conversion_of_a_deleted_upload_fails():
    conversion = Conversion.objects.create(source_name="a.csv", source=b"a\n1\n")
    job = convert_file.enqueue(conversion.pk)
    conversion.delete()
    run_jobs()
    job.refresh_from_db()
    assert (job.status, job.attempts) == ("FAILED", 1)
    assert "deleted" in job.reason


# Pages


def test_pages_show_satellites_and_passes(client, cbers, kiruna):
    for predicted in predict_passes(cbers.orbit(), kiruna.observer()):
        Pass.objects.create(satellite=cbers, station=kiruna, **vars(predicted))
    ingest_elements(ITALSAT_2)
    page = client.get(reverse("passes:satellite_list")).content.decode()
    assert 0 < page.index("ITALSAT 2") < page.index("CBERS 2")  # By catalog number.
    page = client.get(reverse("passes:satellite_detail", args=[28057])).content
    assert b"11 passes" in page
    assert b"0:10:18" in page
    assert b"24 hours from the epoch of the elements, 2006-06-26" in page


@pytest.mark.django_db
def test_pages_work_without_any_data(client):
    assert b"No satellites yet" in client.get(reverse("passes:satellite_list")).content
    for number in (1, 10**30):
        page = reverse("passes:satellite_detail", args=[number])
        assert client.get(page).status_code == 404


def test_names_are_escaped(client, cbers):
    Satellite.objects.update(name="<script>x</script>")
    for page in (reverse("passes:satellite_list"), "/satellites/28057/"):
        assert b"<script>x" not in client.get(page).content


def test_button_answers_202_with_a_status_url(client, cbers):
    answer = client.post(reverse("passes:recompute", args=[28057]), headers=JSON)
    assert answer.status_code == 202
    job = Job.objects.get()
    assert answer.json()["job"] == job.pk
    assert answer.json()["result_url"] == "/satellites/28057/"
    status = client.get(answer.json()["status_url"])
    assert status.json()["status"] == "READY"
    assert status["Retry-After"] == "1"  # jobs.js and its like look again then


def test_button_answers_202_with_a_page_when_there_is_no_script(client, cbers):
    answer = client.post(reverse("passes:recompute", args=[28057]))
    assert answer.status_code == 202
    assert b'href="/satellites/28057/"' in answer.content


def test_button_wants_a_post_with_a_token(client, cbers):
    url = reverse("passes:recompute", args=[28057])
    assert client.get(url).status_code == 405
    assert Client(enforce_csrf_checks=True).post(url).status_code == 403
    assert not Job.objects.exists()


def test_status_of_a_job_cannot_be_guessed(client, cbers):
    job = recompute_passes.enqueue(cbers.pk)
    for token in (str(job.pk), "x:y:z", "%00"):
        assert client.get(f"/jobs/{token}/").status_code == 404


# Uploads


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "The submitted file is empty."),
        ("notes.txt", b"a,b\n", "The name must end with .csv or .parquet."),
        ("csv", b"a,b\n", "The name must end with .csv or .parquet."),
        ("image.csv", b"\x89PNG\0", "This is not a CSV file: it has NUL bytes."),
        ("table.parquet", b"a,b\n", "This is not a Parquet file."),
        ("large.csv", b"a\n" * (MAX_BYTES // 2 + 1), "The file is too large."),
    ],
)
def test_bad_upload_is_a_form_error(client, name, content, message):
    answer = upload(client, name, content, headers=JSON)
    assert (answer.status_code, answer.json()) == (400, {"errors": {"file": [message]}})
    page = upload(client, name, content)
    assert (page.status_code, message in page.content.decode()) == (400, True)
    assert not Conversion.objects.exists()
    assert not Job.objects.exists()


@pytest.mark.django_db
def test_missing_upload_is_a_form_error(client):
    answer = client.post(reverse("converter:upload"), headers=JSON)
    assert answer.json() == {"errors": {"file": ["This field is required."]}}


@pytest.mark.django_db
def test_upload_is_stored_with_its_job(client):
    answer = upload(client, 'Ünïcode;"x".CSV', b"a\n1\n", headers=JSON)
    assert answer.status_code == 202
    conversion = Conversion.objects.get()
    assert conversion.job_id == answer.json()["job"]
    assert {conversion.job_id} < {job.pk for job in Job.objects.all()}
    assert client.get(answer.json()["result_url"]).status_code == 200
    for path in ("result/", "back/"):  # There is no result yet.
        send = client.get if path == "result/" else client.post
        assert send(answer.json()["result_url"] + path).status_code == 404


@pytest.mark.django_db
def test_page_of_a_conversion_survives_its_job(client):
    answer = upload(client, "a.csv", b"a\n1\n", headers=JSON)
    Job.objects.all().delete()
    page = client.get(answer.json()["result_url"])
    assert b"its job was deleted" in page.content


# Tables


def parquet_of(table):
    output = BytesIO()
    parquet.write_table(table, output)
    return output.getvalue()


def test_table_without_rows_survives_the_round_trip():
    packed = convert_table(b"a,b\n", ".csv", report_nothing)
    assert packed[1:] == (0, 2)
    back = convert_table(packed.content, ".parquet", report_nothing)
    assert back.content == b'"a","b"\n'


def test_conversion_reports_its_progress():
    reports = []
    content = b"a\n" + b"1\n" * 50_000
    convert_table(content, ".csv", lambda *report: reports.append(report))
    assert reports == [(0, 50_000), (20_000, 50_000), (40_000, 50_000)]


@pytest.mark.parametrize(
    ("content", "suffix", "message"),
    [
        (b"a,b\n1,2,3\n", ".csv", "Expected 2 columns, got 3"),
        (b"a\n\xff\n", ".csv", "not UTF-8 at byte 2"),
        (b"a,a\n1,2\n", ".csv", "two columns named 'a'"),
        (b"\n\n", ".csv", "Not a readable csv file"),
        (b"," * MAX_COLUMNS + b"\n", ".csv", "more than 1000 columns"),
        (b"PAR1", ".parquet", "Not a readable parquet file"),
        (b"PAR1" * 1000, ".parquet", "Not a readable parquet file"),
        (
            parquet_of(pa.table({"list": [[1], [2, 3]]})),
            ".parquet",
            "Not a readable parquet file",
        ),
    ],
)
def test_unreadable_tables_are_refused_with_the_reason(content, suffix, message):
    with pytest.raises(UnreadableTable, match=message):
        convert_table(content, suffix, report_nothing)


def test_parquet_that_unpacks_to_too_much_is_refused(monkeypatch):
    bomb = parquet_of(pa.table({"a": ["x" * 100] * 100_000}))
    assert len(bomb) < 10_000
    monkeypatch.setattr("converter.tables.MAX_UNPACKED_BYTES", 1024 * 1024)
    with pytest.raises(UnreadableTable, match="unpacks to more than 1 MiB"):
        convert_table(bomb, ".parquet", report_nothing)


# Its own tests and settings


@pytest.mark.slow
@pytest.mark.django_db
def test_tests_of_the_project_pass():
    printed = manage(
        *("test", "--noinput"),
        DATABASE_URL=database_url().rpartition("/")[0]
        + f"/example_of_{connection.settings_dict['NAME']}",
    )
    assert "Ran 16 tests" in printed
    assert "OK" in printed


def test_settings_for_production_leave_nothing_to_complain_of():
    printed = manage(
        *("check", "--deploy", "--fail-level", "DEBUG"),
        DJANGO_SETTINGS_MODULE="example.settings.production",
        DATABASE_URL=database_url(),
        SECRET_KEY="".join(map(chr, range(48, 110))),
        ALLOWED_HOSTS="passes.example.org",
    )
    assert "no issues" in printed


def manage(*arguments: str, **environment: str) -> str:
    """Run a command of the project; return what it prints."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=EXAMPLE,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


# The demo


@pytest.fixture
def demo_environment(transactional_db):
    """An environment in which the demo works on the test's database."""
    server, _, _ = database_url().rpartition("/")
    return os.environ | {
        "DATABASE_URL": f"{server}/{connection.settings_dict['NAME']}",
        "DJANGO_SETTINGS_MODULE": "example.settings.development",
        "PYTHONPATH": str(ROOT),
    }


@pytest.mark.slow
def test_headless_demo_tells_the_whole_story(demo_environment):
    for _ in range(2):  # It can be repeated.
        done = subprocess.run(
            [sys.executable, EXAMPLE / "manage.py", "demo", "--headless"],
            env=demo_environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        assert "10 satellites, 20 jobs by event" in done.stdout
        assert "2 dead letters" in done.stdout
        assert "everything happened as it should" in done.stdout


@pytest.mark.slow
def test_demo_ends_its_processes_when_it_is_asked_to_stop(demo_environment):
    with subprocess.Popen(
        [sys.executable, EXAMPLE / "manage.py", "demo"],
        env=demo_environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as demo:
        lines = list(takewhile(lambda line: "Press Ctrl-C" not in line, demo.stdout))
        demo.terminate()
        ends = demo.stdout.read()
    assert demo.returncode == 0
    assert any("user demo-admin, password" in line for line in lines)
    assert ends == "Stopped     worker\nStopped     web server\n"
    address = next(line.split()[-1] for line in lines if "Web server" in line)
    with pytest.raises(URLError):
        urlopen(address, timeout=20)


def test_embedded_server_is_unlocked_when_another_process_has_its_pid(tmp_path):
    lock, socket_lock = tmp_path / "postmaster.pid", tmp_path / ".s.PGSQL.5432.lock"
    socket_lock.touch()
    lines = [os.getpid(), tmp_path, 0, 5432, tmp_path, "", "0 0", "ready"]
    lock.write_text("\n".join(map(str, lines)) + "\n")
    _unlock_after_crash(tmp_path)
    assert not lock.exists()
    assert not socket_lock.exists()


def test_embedded_server_does_not_wait_for_dead_processes(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    users = tmp_path / ".handle_pids.json"
    users.write_text(f"[{gone.pid}, {os.getpid()}]")
    _forget_dead_users(tmp_path)
    assert users.read_text() == f"[{os.getpid()}]"
