from ...features.moving.command import Command

__all__ = ["Command"]
