"""The tasks of Django's documentation, as they stand there."""

import logging

from django.core.mail import send_mail

from tests.standard import task

logger = logging.getLogger(__name__)


@task
def email_users(emails, subject, message):
    return send_mail(
        subject=subject, message=message, from_email=None, recipient_list=emails
    )


@task(priority=2, queue_name="emails")
def email_users_with_attributes(emails, subject, message):
    return send_mail(
        subject=subject, message=message, from_email=None, recipient_list=emails
    )


@task(takes_context=True)
def email_users_with_context(context, emails, subject, message):
    logger.debug(
        f"Attempt {context.attempt} to send user email. "
        f"Task result id: {context.task_result.id}."
    )
    return send_mail(
        subject=subject, message=message, from_email=None, recipient_list=emails
    )


@task()
def double_dictionary(key):
    return {key: key * 2}


@task
def my_task(thing_num):
    return thing_num
