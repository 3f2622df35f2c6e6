"""All rules, found by the program that they are for."""

from __future__ import annotations

from app.commands.rules.deletions import DELETIONS
from app.commands.rules.history import HISTORY
from app.commands.rules.overwrites import OVERWRITES
from app.commands.rules.removals import REMOVALS
from app.commands.rules.rights import RIGHTS
from app.commands.rules.root import ROOT
from app.commands.rules.secrets import SECRETS
from app.commands.rules.shutdowns import SHUTDOWNS
from app.commands.rules.table import Rule
from app.commands.rules.unseen import UNSEEN

RULES: tuple[Rule, ...] = (*DELETIONS, *REMOVALS, *OVERWRITES, *HISTORY, *SHUTDOWNS, *RIGHTS, *ROOT, *UNSEEN, *SECRETS)


def _by_program() -> dict[str, tuple[Rule, ...]]:
    found: dict[str, list[Rule]] = {}
    for rule in RULES:
        for program in rule.programs or ("",):
            found.setdefault(program, []).append(rule)
    return {program: tuple(rules) for program, rules in found.items()}


BY_PROGRAM = _by_program()
"""The rules of each program; those for every command are under the empty name."""


def rules_for(program: str) -> tuple[Rule, ...]:
    return BY_PROGRAM.get(program, ()) + BY_PROGRAM[""]
