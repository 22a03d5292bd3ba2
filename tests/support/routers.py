"""The router of Django's documentation: reads go to the replica."""


class ReplicaRouter:
    def db_for_read(self, model, **hints):
        return "replica"

    def db_for_write(self, model, **hints):
        return "default"

    def allow_relation(self, one, other, **hints):
        return True

    def allow_migrate(self, db, app_label, **hints):
        return db == "default"
