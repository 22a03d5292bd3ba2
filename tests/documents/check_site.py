"""Check what readers and programs look up in the built site.

Usage: python -m tests.documents.check_site FOLDER
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

# What a newcomer types into the search, and the page with the answer.
ANSWERS = {
    "agent": "guides/agents",
    "alerts": "guides/monitoring",
    "aliases": "guides/renaming",
    "anchor": "reference/options",
    "approval": "guides/approvals",
    "autoscale": "guides/production",
    "callback": "guides/chains",
    "cancel": "guides/failures",
    "celery": "coming_from/celery",
    "choose feature": "index",
    "clone": "admin",
    "conformance": "guides/conformance",
    "cron": "guides/schedules",
    "current_job": "reference/api",
    "dead letter": "guides/dead_letters",
    "deploy while jobs wait": "guides/code_changes",
    "debug toolbar": "guides/production",
    "docker": "guides/production",
    "eager": "testing",
    "enqueuejob": "reference/commands",
    "error E001": "reference/checks",
    "error messages": "reference/messages",
    "EvalPlanQual": "architecture/postgresql",
    "exclude": "reference/commands",
    "exit code jobstatus": "reference/commands",
    "exit code": "reference/operations",
    "hook": "guides/chains",
    "install": "tutorial",
    "isolated": "guides/isolation",
    "segmentation fault": "guides/isolation",
    "job stuck": "guides/not_running",
    "job_finished": "telemetry",
    "kubernetes": "guides/production",
    "lease token": "reference/statuses",
    "least privilege": "security",
    "licence": "index",
    "license": "index",
    "life": "glossary",
    "log fields": "reference/operations",
    "max-time": "reference/commands",
    "max_crashes": "guides/failures",
    "memory": "guides/units",
    "encrypt": "guides/encryption",
    "migrate from celery": "coming_from/celery",
    "multiple databases": "guides/databases",
    "mypy": "guides/tasks",
    "on_failure": "guides/chains",
    "on_success": "guides/chains",
    "options of task": "reference/options",
    "periodic tasks": "guides/schedules",
    "permissions": "admin",
    "pgbouncer": "guides/pgbouncer",
    "pgjobs.E004": "reference/checks",
    "picture of the admin": "admin",
    "dark": "pictures",
    "prefetch": "reference/commands",
    "priority": "guides/tasks",
    "progress": "reference/api",
    "prometheus": "telemetry",
    "pass a result": "guides/results",
    "delete successes": "guides/keep",
    "pause a task": "guides/overrides",
    "bulk": "guides/chunks",
    "released": "reference/statuses",
    "rename a task": "guides/renaming",
    "rest framework": "guides/status_address",
    "retry": "guides/failures",
    "roll back": "guides/upgrading",
    "screenshot": "admin",
    "security roles": "security",
    "sentry": "telemetry",
    "signals": "telemetry",
    "signal of a workflow": "coming_from/temporal_dbos_inngest",
    "supported versions": "guides/upgrading",
    "temporal": "coming_from/temporal_dbos_inngest",
    "terminationGracePeriodSeconds": "guides/production",
    "testing": "testing",
    "timeout": "guides/failures",
    "unpause": "guides/monitoring",
    "upgrade": "guides/upgrading",
    "view_job_arguments": "admin",
    "waits for a free slot": "guides/not_running",
    "which feature do I need": "index",
    "why is my job not running?": "guides/not_running",
    "why not celery": "comparison",
    "zombie": "guides/failures",
}
SEEN = 5  # results that a reader looks at


def pages_found(site: Path) -> dict[str, list[str]]:
    """Return {question: the pages of the first results} of the site's own search."""
    answers = subprocess.run(
        ["node", Path(__file__).with_name("search.js"), site],
        input=json.dumps([*ANSWERS]),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(answers.stdout)
    return {each: pages[:SEEN] for each, pages in zip(ANSWERS, found, strict=True)}


def check_search(site: Path) -> None:
    if shutil.which("node") is None:
        sys.stdout.write("No Node here: the search is not asked.\n")
        return
    found = pages_found(site)
    if lost := {q: found[q] for q, page in ANSWERS.items() if page not in found[q]}:
        sys.exit(f"The search does not lead to the answer: {lost}")


def main(folder: str) -> None:
    """End with a message that names what is missing."""
    site = Path(folder)
    check_search(site)
    links = re.findall(r"\]\((.+?)\)", (site / "llms.txt").read_text())
    if lost := [link for link in links if not (site / link).exists()]:
        sys.exit(f"llms.txt names pages that do not exist: {lost}")
    if not links or not (site / "objects.inv").exists():
        sys.exit("llms.txt or objects.inv is empty.")


if __name__ == "__main__":
    main(*sys.argv[1:])
