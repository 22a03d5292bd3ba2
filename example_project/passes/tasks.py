"""The background work: read new elements, predict the passes of a satellite."""

from datetime import timedelta
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from django.conf import settings
from django.db import transaction
from pgjobs import Answer, Cancel, Fail, current_event, current_job, subscribe, task

from .ingest import ingest_elements
from .models import GroundStation, Notice, Pass, Satellite
from .prediction import PropagationError, predict_passes

FETCH_SECONDS = 30
TOO_OFTEN = (403, 429)


@task(every=timedelta(hours=2), anchor="end")
def refresh_elements() -> dict:
    """Read the newest elements; each satellite that they change is recomputed."""
    try:
        text = read_source(str(settings.ELEMENTS_SOURCE))
    except HTTPError as error:
        if error.code not in TOO_OFTEN:
            raise
        # Nothing is wrong but the hour: the next run will do.
        current_job().log(f"{settings.ELEMENTS_SOURCE} answers {error}.")
        return {"read": 0, "changed": 0}
    return ingest_elements(text)._asdict()


def read_source(source):
    """Return the text of a file, or of what an address leads to."""
    if source.startswith(("http://", "https://")):
        with urlopen(source, timeout=FETCH_SECONDS) as response:
            return response.read().decode()
    return Path(source).read_text(encoding="utf-8")


@subscribe("tle.refreshed", ordered_by="aggregate")
@task
def recompute_passes(satellite_id: int) -> dict:
    """Predict the passes of a satellite over every station, and replace the old ones.

    Any job may run twice, after a crash for instance: this one leaves the same then.
    """
    with transaction.atomic():
        # The lock comes first: of two jobs for one satellite the second waits here,
        # and then it sees all that changed. So the last one stores the newest.
        satellites = Satellite.objects.select_for_update()
        satellite = satellites.filter(pk=satellite_id).first()
        if satellite is None:
            raise Fail(f"Satellite {satellite_id} was deleted.")
        passes = predict_all(satellite)
        satellite.passes.all().delete()
        Pass.objects.bulk_create(passes)
    return {"passes": len(passes)}


@subscribe("tle.refreshed", ordered_by="aggregate")
@task
def notify_stations(satellite_id: int) -> dict:
    """Let every station know that a satellite has new elements.

    A delivery may run twice, or long after its publication if an operator redelivers
    it. Then each station has the same notice, with the newest elements.
    """
    satellite = Satellite.objects.filter(pk=satellite_id).first()
    if satellite is None:
        raise Fail(f"Satellite {satellite_id} was deleted.")
    stations = GroundStation.objects.all()
    for station in stations:
        Notice.objects.update_or_create(
            station=station,
            satellite=satellite,
            defaults={"epoch": satellite.epoch, "event": current_event().id},
        )
    return {"stations": len(stations)}


@task(waits_for="tle.refreshed", unique=True, deadline=timedelta(days=30))
def retire_satellite(satellite_id: int) -> None:
    """Ask whether a satellite shall go, and let it go a day after somebody says yes.

    It holds nothing while it waits. New elements say that the satellite is alive.
    """
    job = current_job()
    name, answer = job.wait_for_first(
        {
            "confirm": Answer(bool, title="Shall the satellite go?"),
            "alive": ("tle.refreshed", f"satellite-{satellite_id}"),
        },
        timeout=timedelta(days=7),
    )
    if name != "confirm" or not answer:
        raise Cancel("It stays." if name else "Nobody has confirmed it in a week.")
    job.sleep("last thoughts", timedelta(days=1))
    job.step("delete", delete_satellite, satellite_id, atomic=True)


def delete_satellite(satellite_id):
    """Delete a satellite with its passes and notices."""
    Satellite.objects.filter(pk=satellite_id).delete()


def predict_all(satellite):
    """Return the passes over every station, and report the progress meanwhile."""
    job = current_job()
    orbit = follow(satellite)
    stations = list(GroundStation.objects.all())
    passes = []
    for done, station in enumerate(stations):
        job.progress(done, len(stations), f"{satellite} over {station}")
        passes += [
            Pass(satellite=satellite, station=station, **vars(predicted))
            for predicted in predict_passes(orbit, station.observer())
        ]
    job.progress(len(stations), len(stations), f"{len(passes)} passes")
    return passes


def follow(satellite):
    """Return the satellite's orbit; fail the job for good if there is none."""
    try:
        orbit = satellite.orbit()
    except PropagationError as error:
        raise Fail(str(error)) from error  # The next attempt would fare no better.
    if orbit.has_decayed:
        current_job().log(f"{satellite} decays {orbit.minutes} minutes after epoch.")
    return orbit
