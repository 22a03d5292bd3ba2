"""A small project; its environment says where its database and its queue are."""

import json
import os

SECRET_KEY = "sample"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["pgjobs", "shop"]
DATABASES = {"default": json.loads(os.environ["SAMPLE_DATABASE"])}
PGJOBS = {"DATABASE": os.environ.get("SAMPLE_QUEUE", "default")}
if PGJOBS["DATABASE"] == "queue":
    name = DATABASES["default"]["TEST"]["NAME"]
    DATABASES["queue"] = {**DATABASES["default"], "TEST": {"NAME": f"{name}_queue"}}
