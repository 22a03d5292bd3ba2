from ..jobstatus import Command

__all__ = ["Command"]
