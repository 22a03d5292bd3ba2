from ...features.operating.pausing import ResumeCommand as Command

__all__ = ["Command"]
