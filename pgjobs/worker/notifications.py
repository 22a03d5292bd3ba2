"""What the worker does after a notification.

Every notification is a hint: without it the worker would find the same work later.
"""

from .claimer import Claimer
from .connections.listener import Listener, own_channel


class Notifications:
    """Knows by the channel of a notification which part of the worker it is for."""

    def __init__(self, claimer: Claimer):
        self.claimer = claimer
        self.admitting = claimer.admitting
        self.cancel_requests = claimer.upkeep.cancel_requests
        self.steps = {
            Listener.CHANNEL: self.look,
            Listener.ADMISSION: self.admitting.hear,
            Listener.SURVEY: claimer.upkeep.survey.hear,
            own_channel(claimer.worker_id): self.cancel_requests.hear,
            Listener.MISSED: self.look_everywhere,
        }

    def hear(self, channel: str, payload: str) -> None:
        self.steps[channel](payload)

    def look(self, queue_name: str) -> None:
        """Look at the queue, which may have new jobs, if the worker serves it."""
        claimer = self.claimer
        if claimer.options.serves(queue_name):
            claimer.notify_wakeups += not claimer.poll_schedule.may_hold_more
            claimer.poll_schedule.wake()

    def look_everywhere(self, _: str) -> None:
        """Look for all that may have been notified while nothing listened."""
        self.claimer.poll_schedule.wake()
        self.admitting.expect()
        if len(self.claimer.in_flight):
            self.cancel_requests.expect()
