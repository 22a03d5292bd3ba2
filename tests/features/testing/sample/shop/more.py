"""What Django's kinds of tests do, with the kit in them."""

from datetime import timedelta

from django.test import SimpleTestCase, TestCase, TransactionTestCase
from django.utils import timezone

import pgjobs
from pgjobs.testing import (
    aassert_enqueued,
    aperform,
    arefute_enqueued,
    arun_jobs,
    assert_enqueued,
    override_mode,
    perform,
    run_jobs,
)

from .models import Order
from .tasks import charge, count_orders, place_order, remind, send_receipt

BOTH = {"default", pgjobs.conf.settings.DATABASE}


class SharedDataTests(TestCase):
    databases = BOTH

    @classmethod
    def setUpTestData(cls):
        cls.order = place_order()
        cls.job = send_receipt.enqueue(cls.order.pk, copy_to="x")

    def test_first(self):
        self.assertEqual(len(run_jobs(scheduled=True)), 4)
        self.job.refresh_from_db()
        self.assertEqual(self.job.status, "SUCCESSFUL")

    def test_second(self):
        assert_enqueued(send_receipt, self.order.pk, count=2)
        self.assertEqual(len(run_jobs(scheduled=True)), 4)
        self.assertEqual(self.job.status, "READY")


class AsyncTests(TestCase):
    databases = BOTH

    async def test_jobs_of_async_code(self):
        await count_orders.aenqueue()
        await aassert_enqueued(count_orders)
        (job,) = await arun_jobs()
        self.assertEqual(job.return_value, 0)
        await arefute_enqueued()

    async def test_synchronous_functions_name_the_others(self):
        with self.assertRaisesMessage(RuntimeError, "`await arun_jobs(...)`"):
            run_jobs()
        with self.assertRaisesMessage(RuntimeError, "`await aperform(...)`"):
            perform(count_orders.bind())

    async def test_one_job(self):
        await Order.objects.acreate(bank="up")
        performed = await aperform(count_orders.bind())
        self.assertEqual(performed.return_value, 1)

    @override_mode("inline")
    async def test_inline(self):
        job = await count_orders.aenqueue()
        self.assertEqual(job.return_value, 0)


class CommittingTests(TransactionTestCase):
    databases = BOTH

    def test_jobs_run_without_a_transaction(self):
        place_order()
        self.assertEqual(len(run_jobs(scheduled=True)), 3)

    def test_worker_runs_the_jobs(self):
        place_order()
        self.assertEqual(pgjobs.drain(concurrency=1), 2)


@override_mode("inline")
class InlineTests(TestCase):
    databases = BOTH

    def test_class_is_inline(self):
        order = place_order()
        self.assertEqual(charge.enqueue(order.pk).status, "SUCCESSFUL")
        assert_enqueued(remind, run_after=timezone.now() + timedelta(days=3))


class WithoutDatabaseTests(SimpleTestCase):
    def test_one_job(self):
        self.assertEqual(perform(send_receipt.bind(5)).outcome, "SUCCESSFUL")


class OtherDatabaseTests(TestCase):
    databases = BOTH

    def test_hint_in_a_transaction(self):
        order = place_order()
        job = charge.enqueue(order.pk)
        for function in (pgjobs.drain, job.wait):
            with self.assertRaisesMessage(RuntimeError, "run_jobs()"):
                function()
