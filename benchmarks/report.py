"""The results as JSON and as Markdown."""

import os
import platform
import statistics
import subprocess
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import django
import psycopg

import pgjobs

from . import server
from .cases import CASES, Sizes
from .catalogue import BY_NAME, REFERENCES, System
from .environments import version_of
from .goals import GOALS, Measured, Rounds, ratio
from .rounds import Results
from .server import Server


def conditions(own: Server, sizes: Sizes, command: str) -> dict[str, Any]:
    """Return all that a reader needs in order to repeat the run."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    load, _, _ = os.getloadavg()
    return {
        "command": command,
        "date": f"{datetime.now(UTC):%F %R} UTC",
        "hardware": f"{os.cpu_count()} x {processor()}, {memory / 2**30:.0f} GiB",
        "load before": f"{load:.2f}",
        "system": platform.platform(),
        "python": platform.python_version(),
        "django": django.get_version(),
        "psycopg": psycopg.__version__,
        "pgjobs": pgjobs.__version__,
        "postgresql": own.version,
        "server settings": {name: own.setting(name) for name in server.DURABILITY},
        "redis": printed_by("redis-server", "--version"),
        "node": printed_by("node", "--version"),
        "sizes": asdict(sizes),
    }


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def printed_by(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return "none"


def as_json(conditions: dict[str, Any], results: Results) -> dict[str, Any]:
    names = {name for figures in results.figures.values() for name in figures}
    return {
        "conditions": conditions,
        "settings": {name: described(name) for name in BY_NAME if name in names},
        **asdict(results),
    }


def described(name: str) -> str:
    system = BY_NAME[name]
    return "; ".join(filter(None, [version_of(system), system.settings]))


def as_markdown(run: dict[str, Any]) -> str:
    """Return the tables of a run, as `as_json` gives it.

    Figures are medians (least-most), ratios the medians of those within each round.
    """
    figures: dict[str, Measured] = run["figures"]
    lines = ["### Where others are faster", "", *losses(figures)]
    lines += ["", "### Goals", "", *goals_table(figures)]
    for case, measured in figures.items():
        otherwise = figures.get(CASES[case].against or "")
        lines += ["", f"### {CASES[case].title}", "", *table(case, measured, otherwise)]
        if missing := not_measured(case, measured, run["settings"]):
            lines += ["", f"Not measured: {missing}."]
    if run["failures"]:
        lines += ["", "### Failures", ""]
        lines += [f"- {first_line(failure)}" for failure in run["failures"]]
    lines += ["", "### Conditions", ""]
    lines += [f"- {name}: {plain(value)}" for name, value in run["conditions"].items()]
    lines += ["", "### Settings of each system", ""]
    lines += [f"- **{name}**: {text}" for name, text in run["settings"].items()]
    for name, why in run["left_out"].items():
        lines.append(f"- **{name}** is left out: {first_line(why)}")
    return "\n".join(lines) + "\n"


def goals_table(figures: dict[str, Measured]) -> list[str]:
    """Return the goals that the run tells something about, those missed first."""
    missed, reached = [], []
    for goal in GOALS:
        value = goal.value(figures)
        if value is not None:
            row = f"| {goal.title} | {goal.asked} | {number(value)} |"
            if goal.is_reached_by(value):
                reached.append(f"{row} yes |")
            else:
                missed.append(f"{row} **no** |")
    head = ["| goal | asked | reached | |", "|---|---|---|---|"]
    return head + missed + reached


def losses(figures: dict[str, Measured]) -> list[str]:
    """Return a line for each case in which rivals are better than pgjobs is at best."""
    lines = []
    for case, measured in figures.items():
        medians = {
            name: median(columns_of(rounds)[0], rounds)
            for name, rounds in measured.items()
            if any(rounds)
        }
        own = [name for name in medians if takes_part(BY_NAME[name])]
        if not own:
            continue
        column = columns_of(measured[own[0]])[0]
        # Of rates the most is best, of waits and of requests the least.
        sign = 1 if column == "jobs/s" else -1
        best = max(own, key=lambda name: sign * medians[name])
        better = [
            f"{name} {number(medians[name])}"
            for name in BY_NAME
            if name in medians
            and BY_NAME[name].is_rival
            and sign * medians[name] > sign * medians[best]
        ]
        if better:
            title = (
                f"- {CASES[case].title} ({column}): {best} {number(medians[best])}; "
            )
            lines.append(f"{title}{', '.join(better)}.")
    return lines or ["Nowhere in this run."]


def takes_part(system: System) -> bool:
    """Say whether it stands for pgjobs beside rivals: as a worker of one process.

    With several processes a worker is several, whatever the number in a case's title.
    """
    return system.adapter == "pgjobs" and system.processes == 1


def median(column: str, rounds: Rounds) -> float:
    return statistics.median(each[column] for each in rounds if each)


def not_measured(case: str, measured: Measured, names: Iterable[str]) -> str:
    """Say which systems of the run the case leaves out, and why."""
    left = [BY_NAME[name] for name in names if name not in measured]
    adapters = {BY_NAME[name].adapter for name in measured}
    rivals = [each.name for each in left if each.is_rival]
    if not CASES[case].rivals:
        return "the rivals (pgjobs and bare SQL alone have this case)" if rivals else ""
    slow = [
        each.name
        for each in left
        if each.is_rival
        and each.adapter not in adapters
        and each.rate < CASES[case].rate
    ]
    return f"{', '.join(slow)} (too slow for it)" if slow else ""


def table(case: str, measured: Measured, otherwise: Measured | None) -> list[str]:
    """Return one case's table: a row for each system, in the catalogue's order.

    `otherwise`: the case to compare this one with.
    """
    good = {name: rounds for name, rounds in measured.items() if any(rounds)}
    if not good:
        return ["Nothing could be measured."]
    names = [name for name in BY_NAME if name in good]
    references = [name for name in REFERENCES if name in good]
    columns = list(
        dict.fromkeys(column for name in names for column in columns_of(good[name]))
    )
    heads = ["system", *columns, *(f"/ {name}" for name in references)]
    if otherwise:
        heads.append(f"/ its {CASES[case].against}")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name in names:
        cells = [spread(column, good[name]) for column in columns]
        others = [good[reference] for reference in references]
        others += [otherwise.get(name, [])] if otherwise else []
        cells += [
            optional(ratio(columns[0], good[name], columns[0], other))
            for other in others
        ]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return lines


def columns_of(rounds: Rounds) -> list[str]:
    return list(next(figures for figures in rounds if figures))


def spread(column: str, rounds: Rounds) -> str:
    values = [figures[column] for figures in rounds if figures and column in figures]
    if not values:
        return "-"
    least, median, most = min(values), statistics.median(values), max(values)
    if len(values) == 1:
        return number(median)
    return f"{number(median)} ({number(least)}-{number(most)})"


def optional(value: float | None) -> str:
    return "-" if value is None else number(value)


def number(value: float) -> str:
    """Write a figure with three digits that count."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {each}" for name, each in value.items())
    return str(value)


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
