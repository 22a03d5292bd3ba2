"""How events and their handlers are tested."""

from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.test import TestCase, TransactionTestCase
from pgjobs import enqueue, publish
from pgjobs.testing import assert_enqueued, refute_enqueued, run_jobs

from .ingest import ingest_elements
from .models import GroundStation, Notice, Pass, Satellite
from .tasks import notify_stations, recompute_passes, retire_satellite

ELEMENTS = (settings.BASE_DIR / "data" / "satellites.tle").read_text(encoding="utf-8")
ONE = "\n".join([line for line in ELEMENTS.splitlines() if line[0] != "#"][:3])
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


class RetireTests(TransactionTestCase):
    """How a task that waits is tested: answer, publish, let time pass.

    An event of the transaction that enqueues a job counts for the job. A TestCase has
    only one, in which the satellites are published, too. So here each change commits.
    """

    fixtures = ("ground_stations",)

    def setUp(self):
        ingest_elements(ONE)
        run_jobs()
        self.satellite = Satellite.objects.first()
        self.page = f"/satellites/{self.satellite.catalog_number}/"
        self.client.post(f"{self.page}retire/")
        run_jobs()

    def exists(self):
        return Satellite.objects.filter(pk=self.satellite.pk).exists()

    def test_satellite_goes_a_day_after_somebody_confirms(self):
        self.assertContains(self.client.get(self.page), "Yes, tomorrow")
        self.client.post(f"{self.page}retire/", {"answer": "yes"})
        run_jobs(until=timedelta(hours=23))
        self.assertTrue(self.exists())
        run_jobs(until=timedelta(hours=25))
        self.assertFalse(self.exists())

    def test_admin_asks_whether_the_satellite_shall_go(self):
        self.client.force_login(User.objects.create_superuser("ada"))
        page = self.client.get("/admin/pgjobs/job/overview/")
        self.assertContains(page, "Waits for you (1)")
        self.assertContains(page, "Shall the satellite go?")
        (wait,) = self.client.get("/admin/pgjobs/wait/").context["cl"].result_list
        self.client.post(wait.answer_at, {"answer-answer": "true"})
        run_jobs(until=timedelta(hours=25))
        self.assertFalse(self.exists())

    def test_satellite_stays_after_a_no(self):
        self.client.post(f"{self.page}retire/", {"answer": "no"})
        run_jobs(until=timedelta(days=9))
        self.assertTrue(self.exists())

    def test_satellite_stays_if_nobody_confirms(self):
        run_jobs(until=timedelta(days=9))
        self.assertTrue(self.exists())

    def test_satellite_stays_if_new_elements_come(self):
        job = enqueue(retire_satellite, satellite_id=self.satellite.pk)
        payload = {"satellite_id": self.satellite.pk}
        about = f"satellite-{self.satellite.pk}"
        publish("tle.refreshed", payload, aggregate_id=about)
        run_jobs()
        job.refresh_from_db()
        self.assertEqual((job.status, job.reason), ("CANCELLED", "It stays."))
