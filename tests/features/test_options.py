"""The options of all features, beside those of the core."""

from pgjobs.features.importing import words
from pgjobs.tasks.meant import OF_JOBS
from pgjobs.tasks.options import DECLARING, JOB_OPTIONS, TASK_OPTIONS
from pgjobs.tasks.task import Task


def test_words_of_other_queues_have_ours():
    options = TASK_OPTIONS | JOB_OPTIONS | DECLARING.keys() | {"name"}
    assert set(words.OPTIONS.values()) <= options
    assert OF_JOBS <= JOB_OPTIONS
    assert not words.CURES.keys() & options
    assert not [name for name in words.METHODS if name in dir(Task)]
