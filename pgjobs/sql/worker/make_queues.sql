-- Make the rows of queues that have none.
INSERT INTO pgjobs_queue (name)
SELECT unnest(%(names)s::text[])
ON CONFLICT (name) DO NOTHING
