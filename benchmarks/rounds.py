"""Rounds of measurements: systems alternate, so that bad moments hit them alike."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from .cases import CASES, FILLINGS, Figures, Sizes
from .catalogue import System
from .environments import NotInstalled, install
from .processes import Crashed
from .server import Server
from .stage import Stage, fill, set_up, template_of


@dataclass
class Results:
    """What was measured, and what could not be."""

    # By case and system: the figures of each round; None where it failed.
    figures: dict[str, dict[str, list[Figures | None]]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)  # why, by system
    failures: list[str] = field(default_factory=list)


def run(
    systems: Sequence[System], cases: Sequence[str], sizes: Sizes, server: Server
) -> Results:
    """Measure every case on every system, round after round."""
    results = Results()
    try:
        usable = [each for each in systems if is_set_up(each, server, results)]
        for number in range(sizes.rounds):
            for case in cases:
                if number and CASES[case].once:
                    continue
                order = concerned(case, usable)
                # To and fro: so no system always follows the same neighbour.
                for system in order if number % 2 == 0 else reversed(order):
                    tell(f"round {number + 1} of {sizes.rounds}: {case}: {system.name}")
                    measured = measure(case, system, sizes, server, results)
                    of_case = results.figures.setdefault(case, {})
                    of_case.setdefault(system.name, []).append(measured)
    finally:
        for system in systems:
            for filling in [None, *FILLINGS]:
                server.drop_database(template_of(system, filling))
    return results


def is_set_up(system: System, server: Server, results: Results) -> bool:
    tell(f"setting up {system.name}")
    try:
        install(system)
        set_up(system, server)
    except (NotInstalled, Crashed) as error:
        results.left_out[system.name] = str(error)
        tell(f"{system.name} is left out: {error}")
        return False
    return True


def concerned(name: str, systems: Sequence[System]) -> list[System]:
    """Return the systems that the case is measured on."""
    case = CASES[name]
    if case.needs_worker:
        systems = [system for system in systems if system.works]
    systems = [
        system
        for system in systems
        if not (system.is_rival or system.is_beside_rivals)
        or (case.rivals and system.rate >= case.rate)
    ]
    if case.all_ways:
        return list(systems)
    first = {system.adapter: system for system in reversed(systems)}
    return [system for system in systems if system is first[system.adapter]]


def measure(
    name: str, system: System, sizes: Sizes, server: Server, results: Results
) -> Figures | None:
    case = CASES[name]
    try:
        if case.beside and not server.has_database(template_of(system, case.beside)):
            rows = {
                status: int(millions * sizes.million)
                for status, millions in FILLINGS[case.beside].items()
            }
            fill(system, server, case.beside, rows)
        with Stage(system, server, case.beside) as stage:
            return case.measure(stage, sizes)
    # Whatever it is, the other results stay.
    except Exception as error:  # noqa: BLE001
        results.failures.append(f"{name}: {system.name}: {str(error) or repr(error)}")
        tell(results.failures[-1])
        return None


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201
