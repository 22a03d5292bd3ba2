"""The queue: what sends the statements that change jobs."""
