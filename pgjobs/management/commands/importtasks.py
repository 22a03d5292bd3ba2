from ...features.importing.command import Command

__all__ = ["Command"]
