"""Check what readers and programs look up in the built site.

Usage: python -m tests.documents.check_site FOLDER
"""

import json
import re
import sys
from pathlib import Path

# What a newcomer types into the search, as the index stems it.
SEARCHED = ("cron", "retri", "celeri", "timeout", "pgbouncer", "sentri", "prometheus")


def search_index(site: Path) -> dict:
    text = (site / "searchindex.js").read_text()
    return json.loads(text[text.index("(") + 1 : text.rindex(")")])


def main(folder: str) -> None:
    """End with a message that names what is missing."""
    site = Path(folder)
    index = search_index(site)
    if lost := set(SEARCHED) - index["terms"].keys() - index["titleterms"].keys():
        sys.exit(f"The search does not find {sorted(lost)}.")
    links = re.findall(r"\]\((.+?)\)", (site / "llms.txt").read_text())
    if lost := [link for link in links if not (site / link).exists()]:
        sys.exit(f"llms.txt names pages that do not exist: {lost}")
    if not links or not (site / "objects.inv").exists():
        sys.exit("llms.txt or objects.inv is empty.")


if __name__ == "__main__":
    main(*sys.argv[1:])
