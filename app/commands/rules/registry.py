"""All rules, indexed by program."""

from __future__ import annotations

from app.commands.rules.deletions import DELETIONS
from app.commands.rules.history import HISTORY
from app.commands.rules.overwrites import OVERWRITES
from app.commands.rules.rights import RIGHTS
from app.commands.rules.root import ROOT
from app.commands.rules.secrets import SECRETS
from app.commands.rules.shutdowns import SHUTDOWNS
from app.commands.rules.table import Rule, table
from app.commands.rules.unseen import UNSEEN

FUNCTIONS = (*DELETIONS, *OVERWRITES, *HISTORY, *SHUTDOWNS, *RIGHTS, *ROOT, *UNSEEN, *SECRETS)
RULES: tuple[Rule, ...] = (*FUNCTIONS, *table())
BY_PROGRAM: dict[str, list[Rule]] = {}
"""The rules of each program; rules for every command are under the empty name."""
for _rule in RULES:
    for _program in _rule.programs or ("",):
        BY_PROGRAM.setdefault(_program, []).append(_rule)


def rules_for(program: str) -> list[Rule]:
    return BY_PROGRAM.get(program, []) + BY_PROGRAM[""]
