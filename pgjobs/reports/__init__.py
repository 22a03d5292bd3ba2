"""Reports: the state of the queue in words, for the admin and `jobstatus`."""
