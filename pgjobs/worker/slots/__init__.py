"""The slots: threads and an event loop that run jobs, one attempt at a time."""
