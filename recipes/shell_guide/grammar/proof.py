"""Runs a command of an intent or a follow-up in a sandbox, and compares the result with its proof."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from benchmarks import execution_sandbox as sandbox
from benchmarks import execution_tree as tree
from recipes.shell_guide.grammar.following import Rule
from recipes.shell_guide.grammar.intents import Intent, Proof, proof_values
from recipes.shell_guide.grammar.values import read_value

_AGE = re.compile(r"(\d+(?:\.\d+)?) (minute|hour|day|week)s?")
_DAYS = {"minute": 1 / 1440, "hour": 1 / 24, "day": 1.0, "week": 7.0}


def prove(intent: Intent, proof: Proof) -> str | None:
    """What is wrong, or None if the command matches the proof. Raises `NoSandbox`."""
    return _proved(intent.typed(intent.command, proof_values(intent, proof)), proof)


def prove_rule(rule: Rule, command: str, proof: Proof) -> str | None:
    """The same for what a rule of the follow-ups makes of a command."""
    values = {name: read_value(rule.slots[name], text) for name, text in proof.values.items()}
    applied = rule.applied(command, values)
    return f"does not fit {command!r}" if applied is None else _proved(applied[0], proof)


def _proved(command: str, proof: Proof) -> str | None:
    with sandbox.Folder() as folder:
        tree.make(folder, {name: _file(file) for name, file in proof.files.items()})
        if proof.before:
            begun = sandbox.run(folder, proof.before)
            if begun.code:
                return f"`before` ends with {begun.code}: {begun.stderr.strip()}"
        ran = sandbox.run(folder, command)
        after = tree.read(folder)
    return _difference(proof, ran, after, command)


def _file(file: Any) -> dict[str, Any]:
    """A file of a proof in the form of `benchmarks.execution_tree`."""
    if isinstance(file, int):
        return {"size": file}
    if isinstance(file, str):
        return {"text": file}
    made = {name: value for name, value in file.items() if name != "age"}
    made.setdefault("text", "") if not {"size", "lines", "gzip", "tar", "tgz", "zip", "link"} & set(made) else None
    if found := _AGE.fullmatch(file.get("age", "")):
        made["days"] = float(found[1]) * _DAYS[found[2]]
    return made


def _difference(proof: Proof, ran: sandbox.Ran, after: Mapping[str, tree.Entry], command: str) -> str | None:
    told = f"{command!r} (status {ran.code}{', ' + ran.stderr.strip()[:200] if ran.stderr.strip() else ''})"
    if proof.prints is not None and sorted(ran.stdout.splitlines()) != sorted(proof.prints):
        return f"{told} prints {ran.stdout.splitlines()}, not {list(proof.prints)}"
    if proof.prints_exactly is not None and ran.stdout.strip("\n") != proof.prints_exactly.strip("\n"):
        return f"{told} prints {ran.stdout!r}, not {proof.prints_exactly!r}"
    for name, text in proof.makes.items():
        entry = after.get(name.rstrip("/"))
        if text is False or text is True:
            if (entry is not None) != text:
                return f"{told}: {name} is {'missing' if text else 'still there'}; there are {sorted(after)}"
        elif entry is None or entry.data.decode(errors="replace").strip("\n") != str(text).strip("\n"):
            return f"{told}: {name} is {'missing' if entry is None else entry.data!r}, not {text!r}"
    return None
