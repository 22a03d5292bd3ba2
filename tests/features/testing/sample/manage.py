import os
import sys

from django.core.management import execute_from_command_line

# From Python 3.14 on, processes of `test --parallel` import this file.
if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "sample_settings")
    execute_from_command_line(sys.argv)
