"""Declaring: tasks with their options, schedules, events, chains and dependencies."""

from .task import Task, aenqueue, enqueue, enqueue_many, registry, task

__all__ = ["Task", "aenqueue", "enqueue", "enqueue_many", "registry", "task"]
