"""Sentry as a project gets it, in a worker of its own: its integrations are on."""

import json
import os

import sentry_sdk
from sentry_sdk.transport import Transport

from pgjobs import current_job, task
from pgjobs.contrib.sentry import PgJobsIntegration


class Writing(Transport):
    """Appends what would be sent to a file, a line each."""

    def capture_envelope(self, envelope):
        with open(os.environ["PGJOBS_TEST_SENTRY"], "a") as file:
            for item in envelope.items:
                line = json.dumps({"type": item.type, "sent": item.payload.json})
                file.write(f"{line}\n")


if "PGJOBS_TEST_SENTRY" in os.environ:
    sentry_sdk.init(
        dsn="https://key@sentry.invalid/1",
        transport=Writing({}),
        traces_sample_rate=1.0,
        send_default_pii=True,
        integrations=[PgJobsIntegration()],
    )


@task(name="tests.fail_in_process", isolated=True, max_attempts=1)
def fail_in_process():
    raise ValueError(f"broken in {os.getpid()}")


@task(name="tests.pay_with_sentry", sensitive=("iban",), max_attempts=1)
def pay(iban: str, customer: dict, amount: int):
    copied = {"of": [iban, customer]}
    import logging

    logging.getLogger("shop").info("paying to %s", iban)
    current_job().log(f"to {iban}")
    with sentry_sdk.start_span(op="bank", name=f"POST /accounts/{iban}") as span:
        span.set_data("body", {"password": customer["password"]})
    raise ValueError(f"{copied['of'][0]} of {customer['password']} is unknown")
