"""Enqueue a recomputation when what it depends on changes.

The receivers run in the transaction of the change: both are committed, or neither.
"""

from django.db.models.signals import post_save
from django.dispatch import receiver
from pgjobs import enqueue, enqueue_many

from .models import GroundStation, Satellite
from .tasks import recompute_passes


@receiver(post_save, sender=Satellite)
def recompute_for_new_elements(instance, raw, **kwargs):
    """Enqueue one job when a satellite has new elements."""
    if instance.elements_changed and not raw:
        enqueue(recompute_passes, instance.pk)


@receiver(post_save, sender=GroundStation)
def recompute_for_changed_station(raw, **kwargs):
    """Enqueue a job for every satellite when a station came or moved."""
    if not raw:  # Fixtures are loaded before there are satellites.
        satellites = Satellite.objects.values_list("pk", flat=True)
        enqueue_many([recompute_passes.bind(pk) for pk in satellites])
