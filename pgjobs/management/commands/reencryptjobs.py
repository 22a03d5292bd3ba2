from ...features.encryption.command import Command

__all__ = ["Command"]
