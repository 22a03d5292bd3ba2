SELECT pg_notification_queue_usage()
