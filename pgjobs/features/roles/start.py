"""The views of roles, which hinder migrations."""

from .views import drop_views, make_views_again

BEFORE_MIGRATE = (drop_views,)
ON_MIGRATE = (make_views_again,)
