"""The background work: predict the passes of a satellite."""

from django.db import transaction
from pgjobs import Fail, current_job, task

from .models import GroundStation, Pass, Satellite
from .prediction import PropagationError, predict_passes


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
