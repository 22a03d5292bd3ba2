from ...features.events.command import Command

__all__ = ["Command"]
