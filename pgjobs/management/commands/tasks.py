from ...features.overrides.command import Command

__all__ = ["Command"]
