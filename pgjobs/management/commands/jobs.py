from ...features.operating.command import Command

__all__ = ["Command"]
