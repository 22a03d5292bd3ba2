"""Declaring: tasks with their options, schedules, events, chains and dependencies."""

from .enqueueing import aenqueue, enqueue, enqueue_many
from .registry import registry
from .task import Task, task

__all__ = ["Task", "aenqueue", "enqueue", "enqueue_many", "registry", "task"]
