"""What may write the status of a job: of all SQL, only the files named here."""

import re
from pathlib import Path

import pgjobs

ROOT = Path(pgjobs.__file__).parent
WRITERS = {
    # Triggers, which decide in which status a job begins to wait.
    "database/functions/admission/queue_changed.sql",
    "database/functions/admission/queue_inserted.sql",
    # Admission.
    "database/functions/admission/claim_admitted.sql",
    "database/functions/admission/move.sql",
    "database/functions/admission/record.sql",
    "database/functions/admission/sweep.sql",
    "database/functions/predecessors/end_unmet.sql",
    "database/functions/predecessors/revive.sql",
    # The application and its operators, in Python or SQL.
    "database/functions/keys/replace_held.sql",
    "features/results/functions/renew_results.sql",
    "features/keeping/functions/record_or_delete.sql",
    "database/functions/transitions/cancel_jobs.sql",
    "database/functions/transitions/retry_jobs.sql",
    "sql/app/fail.sql",
    "sql/app/run_now.sql",
    "sql/app/succeed.sql",
    # The worker, for its own jobs.
    "sql/worker/claim/set.sql",
    "sql/worker/complete.sql",
    "sql/worker/record/end.sql",
    "sql/worker/record/success.sql",
    # Every worker, for all jobs.
    "features/chunks/end_waits.sql",
    "features/dependencies/depend.sql",
    "sql/upkeep/expire.sql",
    "sql/upkeep/promote.sql",
    "sql/upkeep/rescue.sql",
    # The process of an isolated job died.
    "features/isolation/crash.sql",
    # An isolated job finds no process.
    "features/isolation/put_back.sql",
    # Tasks that wait: suspended, woken, ended, let go on by hand, or as another job.
    "features/durable/functions/continue_as.sql",
    "features/durable/functions/end_lives.sql",
    "features/durable/functions/mark_step.sql",
    "features/durable/functions/let_go_on.sql",
    "features/durable/suspend.sql",
    "features/overrides/functions/hold_ready.sql",
    "features/overrides/functions/stop_job.sql",
}
TOKENS = re.compile(
    r"\([^()]*\bstatus\b[^()]*\)\s*="  # (status, failures) = (SELECT ...)
    r"|[()]|\b(?:SET|WHERE|FROM|RETURNING|INTO)\b|;|(?<![\w.])status\s*="
)
PYTHON = re.compile(r"update\([^)]*\bstatus=|update_fields=[^\n]*\"status\"")


def test_only_these_files_write_a_status():
    found = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.sql")
        if writes_status(re.sub(r"--.*", "", path.read_text()))
    }
    assert found == WRITERS


def writes_status(text: str) -> bool:
    """Whether the text assigns to the column, outside of the brackets of a SET."""
    depth, depth_of_set = 0, None
    for token in TOKENS.findall(text):
        depth += (token == "(") - (token == ")")
        if token == "SET":
            depth_of_set = depth
        elif depth == depth_of_set and "status" in token:
            return True
        elif depth == depth_of_set and token not in "()":  # the SET has ended
            depth_of_set = None
    return "NEW.status :=" in text


def test_python_writes_no_status():
    found = [path for path in ROOT.rglob("*.py") if PYTHON.search(path.read_text())]
    assert [path for path in found if "migrations" not in path.parts] == []
