"""What is stored when a database is migrated, and when a worker starts."""

from .declaring import store_declared, store_for_an_hour, stored_ids

ON_MIGRATE = (store_for_an_hour,)
ON_WORKER_START = (store_declared,)
OF_WORKER = (("manifest_id", stored_ids.get),)  # columns of its row
