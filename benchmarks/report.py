"""The results as JSON and as Markdown."""

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pgjobs

from . import server
from .cases import CASES, Figures, Sizes
from .catalogue import BY_NAME, REFERENCES
from .environments import version_of
from .rounds import Results
from .server import Server

Rounds = Sequence[Figures | None]
Measured = dict[str, list[Figures | None]]  # one case, by system


def conditions(own: Server, sizes: Sizes, command: str) -> dict[str, Any]:
    """Return all that a reader needs in order to repeat the run."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "command": command,
        "date": f"{datetime.now(UTC):%F %R} UTC",
        "hardware": f"{os.cpu_count()} x {processor()}, {memory / 2**30:.0f} GiB",
        "system": platform.platform(),
        "python": platform.python_version(),
        "pgjobs": pgjobs.__version__,
        "postgresql": own.version,
        "server settings": {name: own.setting(name) for name in server.DURABILITY},
        "sizes": asdict(sizes),
    }


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def as_json(conditions: dict[str, Any], results: Results) -> dict[str, Any]:
    names = {name for figures in results.figures.values() for name in figures}
    return {
        "conditions": conditions,
        "settings": {name: described(name) for name in sorted(names)},
        **asdict(results),
    }


def as_markdown(conditions: dict[str, Any], results: Results) -> str:
    """Return tables of medians (least-most), with ratios of the same rounds."""
    lines = [f"- {name}: {plain(value)}" for name, value in conditions.items()]
    lines += ["", "How each system is run:", ""]
    for name in systems_of(results):
        lines.append(f"- **{name}**: {described(name)}")
    for name, why in results.left_out.items():
        lines.append(f"- **{name}** is left out: {first_line(why)}")
    for case, measured in results.figures.items():
        otherwise = results.figures.get(CASES[case].against or "")
        lines += ["", f"### {CASES[case].title}", "", *table(case, measured, otherwise)]
    if results.failures:
        lines += ["", "### Failures", ""]
        lines += [f"- {first_line(failure)}" for failure in results.failures]
    return "\n".join(lines) + "\n"


def described(name: str) -> str:
    system = BY_NAME[name]
    return "; ".join(filter(None, [version_of(system), system.settings]))


def systems_of(results: Results) -> list[str]:
    measured = {name for figures in results.figures.values() for name in figures}
    return [name for name in BY_NAME if name in measured]


def table(case: str, measured: Measured, otherwise: Measured | None) -> list[str]:
    """Return one case's table: a row for each system, in the catalogue's order.

    `otherwise`: the case to compare this one with.
    """
    good = {name: rounds for name, rounds in measured.items() if any(rounds)}
    if not good:
        return ["Nothing could be measured."]
    names = [name for name in BY_NAME if name in good]
    references = [name for name in REFERENCES if name in good]
    columns = list(next(each for each in good[names[0]] if each))
    heads = ["system", *columns, *(f"/ {name}" for name in references)]
    if otherwise:
        heads.append(f"/ its {CASES[case].against}")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name in names:
        cells = [spread(column, good[name]) for column in columns]
        cells += [
            ratio(columns[0], good[name], good[reference]) for reference in references
        ]
        if otherwise:
            cells.append(ratio(columns[0], good[name], otherwise.get(name, [])))
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return lines


def spread(column: str, rounds: Rounds) -> str:
    values = [figures[column] for figures in rounds if figures]
    least, median, most = min(values), statistics.median(values), max(values)
    if len(values) == 1:
        return number(median)
    return f"{number(median)} ({number(least)}-{number(most)})"


def ratio(column: str, rounds: Rounds, reference: Rounds) -> str:
    """Return the median of the ratios within each round."""
    ratios = [
        figures[column] / other[column]
        for figures, other in zip(rounds, reference, strict=False)
        if figures and other and other[column]
    ]
    return f"{number(statistics.median(ratios))}" if ratios else "-"


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
