from ...features.definitions.command import Command

__all__ = ["Command"]
