from ...features.moving.shardids import Command

__all__ = ["Command"]
