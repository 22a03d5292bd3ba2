"""Say what has changed, and enqueue what follows from it.

The receivers run in the transaction of the change: both are committed, or neither.
"""

from django.db.models.signals import post_save
from django.dispatch import receiver
from pgjobs import enqueue_many, publish

from .models import GroundStation, Satellite
from .tasks import recompute_passes


@receiver(post_save, sender=Satellite)
def announce_new_elements(instance, raw, **kwargs):
    """Publish that a satellite has new elements; tasks.py has the handlers."""
    if instance.elements_changed and not raw:
        publish(
            "tle.refreshed",
            {"satellite_id": instance.pk},
            aggregate_id=f"satellite-{instance.pk}",
        )


@receiver(post_save, sender=GroundStation)
def recompute_for_changed_station(raw, **kwargs):
    """Enqueue a job for every satellite when a station came or moved."""
    if not raw:  # Fixtures are loaded before there are satellites.
        satellites = Satellite.objects.values_list("pk", flat=True)
        enqueue_many([recompute_passes.bind(pk) for pk in satellites])
