"""The queue: every statement that changes a job, and what it needs and returns."""
