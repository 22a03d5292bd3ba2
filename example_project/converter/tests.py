"""How the converter's jobs are tested: with pgjobs.testing, without a worker."""

from datetime import timedelta

from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import TestCase
from django.urls import reverse
from pgjobs.models import Job
from pgjobs.testing import assert_enqueued, override_mode, perform, run_jobs

from .models import Conversion
from .tasks import convert_file, forget_conversion
from .views import KEPT_FOR


class ConverterTests(TestCase):
    def upload(self, content=b"a,b\n1,2\n"):
        """Upload a file as a script would; return the answer."""
        return self.client.post(
            reverse("converter:upload"),
            {"file": SimpleUploadedFile("numbers.csv", content)},
            headers={"Accept": "application/json"},
        )

    def test_upload_enqueues_its_conversion_and_its_end(self):
        self.assertEqual(self.upload().status_code, 202)
        conversion = Conversion.objects.get()
        assert_enqueued(convert_file, conversion.pk)
        assert_enqueued(forget_conversion, str(conversion.pk), run_after=KEPT_FOR)

    def test_upload_is_converted(self):
        self.upload()
        run_jobs()
        conversion = Conversion.objects.get()
        self.assertEqual((conversion.rows, conversion.columns), (1, 2))

    def test_upload_is_forgotten_after_a_week(self):
        self.upload()
        run_jobs(until=KEPT_FOR - timedelta(hours=1))
        self.assertTrue(Conversion.objects.exists())
        run_jobs(until=KEPT_FOR)
        self.assertFalse(Conversion.objects.exists())

    def test_progress_and_result_of_one_job(self):
        conversion = Conversion.objects.create(
            source_name="numbers.csv", source=b"a\n1\n2\n"
        )
        performed = perform(convert_file.bind(conversion.pk))
        self.assertEqual(performed.return_value, {"rows": 2, "columns": 1})
        self.assertEqual(performed.progress[-1].total, 2)

    def test_ragged_file_fails_for_good(self):
        self.upload(b"a,b\n1\n")
        run_jobs(raise_errors=False)
        job = Job.objects.get(task=convert_file.name)
        self.assertEqual((job.status, job.attempts), ("FAILED", 1))
        self.assertIn("Expected 2 columns", job.reason)

    @override_mode("inline")
    def test_page_of_a_finished_conversion(self):
        answer = self.upload().json()
        self.assertContains(self.client.get(answer["result_url"]), "1 row")
