"""Models that the admin only shows."""

from .texts import excerpt

LONGEST_TITLE = 200


class ReadOnlyAdmin:
    """Nobody adds or changes rows; who may view them needs no more than that."""

    def has_add_permission(self, request) -> bool:
        return False

    def has_change_permission(self, request, obj=None) -> bool:
        return False

    def has_delete_permission(self, request, obj=None) -> bool:
        return False

    def render_change_form(self, request, context, *args, obj=None, **kwargs):
        context["subtitle"] = excerpt(str(obj), LONGEST_TITLE)
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)
