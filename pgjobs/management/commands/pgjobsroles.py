from ...features.roles.command import Command

__all__ = ["Command"]
