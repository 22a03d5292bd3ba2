"""The connections of a worker to its database, and what wakes it."""
