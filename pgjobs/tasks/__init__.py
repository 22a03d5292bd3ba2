"""Declaring: tasks with their options."""

from .enqueueing import aenqueue, enqueue, enqueue_many
from .registry import registry
from .task import Task, task

__all__ = ["Task", "aenqueue", "enqueue", "enqueue_many", "registry", "task"]
