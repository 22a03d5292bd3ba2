from ...features.schedules.command import Command

__all__ = ["Command"]
