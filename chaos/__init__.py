"""A fault-injection suite: pgjobs under kill -9, cut networks, full disks and more."""
