"""Enqueue all kinds of jobs until the standard input ends: `python -m project.load`."""

import select
import sys

import django

django.setup()

from project import tasks  # noqa: E402

from pgjobs import chain, enqueue, enqueue_many, publish  # noqa: E402

PAUSE = 0.05  # seconds between two rounds


def enqueue_all(number: int) -> None:
    enqueue(tasks.work, number)
    enqueue_many([tasks.in_order.bind(number % 3) for _ in range(3)])
    enqueue_many([tasks.few.bind(number) for _ in range(3)])
    enqueue(tasks.settle, number)
    enqueue(tasks.work.using(unique_key=f"key {number}"), number)
    chain(tasks.work.bind(number), tasks.work.bind(number)).enqueue()
    publish("upgrade.went_on", {"number": number})


number = 0
while not select.select([sys.stdin], [], [], PAUSE)[0]:
    enqueue_all(number)
    number += 1
