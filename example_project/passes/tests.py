"""How events and their handlers are tested."""

from django.conf import settings
from django.test import TestCase
from pgjobs.testing import assert_enqueued, refute_enqueued, run_jobs

from .ingest import ingest_elements
from .models import GroundStation, Notice, Pass, Satellite
from .tasks import notify_stations, recompute_passes

ELEMENTS = (settings.BASE_DIR / "data" / "satellites.tle").read_text(encoding="utf-8")
NO_ORBIT = (settings.BASE_DIR / "data" / "no_orbit.tle").read_text(encoding="utf-8")


class PassesTests(TestCase):
    fixtures = ("ground_stations",)

    def test_new_elements_are_published_to_both_handlers(self):
        changed = ingest_elements(ELEMENTS).changed
        assert_enqueued(recompute_passes, count=changed)
        assert_enqueued(notify_stations, count=changed)

    def test_same_elements_again_enqueue_nothing(self):
        ingest_elements(ELEMENTS)
        run_jobs()
        ingest_elements(ELEMENTS)
        refute_enqueued()

    def test_handlers_predict_passes_and_tell_the_stations(self):
        ingest_elements(ELEMENTS)
        jobs = run_jobs()
        self.assertEqual({job.status for job in jobs}, {"SUCCESSFUL"})
        self.assertTrue(Pass.objects.exists())
        self.assertEqual(
            Notice.objects.count(),
            Satellite.objects.count() * GroundStation.objects.count(),
        )

    def test_elements_without_an_orbit_fail_one_handler_only(self):
        ingest_elements(NO_ORBIT)
        run_jobs(raise_errors=False)
        self.assertFalse(Pass.objects.exists())
        self.assertTrue(Notice.objects.exists())

    def test_new_station_recomputes_every_satellite(self):
        ingest_elements(ELEMENTS)
        run_jobs()
        GroundStation.objects.create(name="Alert", latitude=82.5, longitude=-62.3)
        assert_enqueued(recompute_passes, count=Satellite.objects.count())
