"""Reports: what the admin and jobstatus say of the queue, read and put in words."""
