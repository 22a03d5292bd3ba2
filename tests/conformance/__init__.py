"""The suite for backends of `django.tasks`: on good ones, and on broken ones."""
