"""The Django project whose jobs suffer: innocent tasks, and hostile ones."""
