"""Check intents and follow-ups: each phrase can be said, each command parses, each proof holds.

    python -m recipes.shell_guide.grammar.check [FILE.toml ...] [--draws 20] [--no-proofs] [--show 3]

Exit status 1 if something is wrong; every problem is one line. `--show` prints this many drawn conversations of each
intent.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tree_sitter_bash
from tree_sitter import Language, Parser

from benchmarks.execution_sandbox import NoSandbox
from benchmarks.execution_sandbox import check as check_sandbox
from recipes.shell_guide.grammar.drawing import Drawer, Spoken
from recipes.shell_guide.grammar.following import read_rules
from recipes.shell_guide.grammar.intents import FOLDER, Intent, IntentError, read_file
from recipes.shell_guide.grammar.proof import prove, prove_rule

_LEFT = re.compile(r"(?<!\$)\{[a-z_]+\d*(?:\.[a-z]+)?\}")


def parses(command: str) -> bool:
    """True if tree-sitter-bash reads the command without an error."""
    parser = Parser(Language(tree_sitter_bash.language()))
    return not parser.parse(command.encode()).root_node.has_error


def problems(intent: Intent, drawer: Drawer, draws: int, proofs: bool) -> Iterator[str]:
    """What is wrong with an intent."""
    windows = any(
        one[:1].isupper() or one in ("winget", "tasklist", "taskkill", "ipconfig", "dir") for one in intent.programs
    )
    written = "".join(
        [intent.command, *(then.command for then in intent.thens)]
        + [form for slot in intent.slots.values() for choice in slot.choices for form in choice.forms.values()]
    )
    seen: set[str] = set()
    for index in range(draws):
        for spoken in drawer.conversation(intent, np.random.default_rng([1, index])):
            if spoken.command in seen:
                continue
            seen.add(spoken.command)
            if not windows and not parses(spoken.command):
                yield f"does not parse as bash: {spoken.command}"
            if left := _LEFT.findall(spoken.question + " " + spoken.task):
                yield f"{', '.join(left)} is left in: {spoken.question} / {spoken.task}"
            if left := [one for one in _LEFT.findall(spoken.command) if one not in written]:
                yield f"{', '.join(left)} is left in: {spoken.command}"
    if sum(one.phrase.count() for one in intent.asks) < 8:
        yield "can be said in fewer than 8 ways"
    for part in (intent, *intent.thens) if proofs else ():
        for proof in part.proofs:
            if wrong := prove(part, proof):
                yield f"proof: {wrong}"


def rule_problems(proofs: bool) -> Iterator[str]:
    """What is wrong with the rules of the follow-ups."""
    for rule in read_rules() if proofs else ():
        for command, proof in rule.proofs:
            if wrong := prove_rule(rule, command, proof):
                yield f"following.toml: {rule.asks[0].told(frozenset())}: {wrong}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*", help="default: all")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--no-proofs", action="store_true")
    parser.add_argument("--show", type=int, default=0)
    arguments = parser.parse_args()
    if not arguments.no_proofs:
        try:
            check_sandbox()
        except NoSandbox as missing:
            sys.exit(f"{missing}, or pass --no-proofs")
    drawer, wrong, counts = Drawer(), 0, np.zeros(5, int)
    for problem in rule_problems(not arguments.no_proofs):
        print(problem)
        wrong += 1
    for path in arguments.files or sorted(FOLDER.glob("*.toml")):
        try:
            intents = list(read_file(path))
        except IntentError as error:
            print(error)
            wrong += 1
            continue
        for intent in intents:
            try:
                for problem in problems(intent, drawer, arguments.draws, not arguments.no_proofs):
                    print(f"{intent.place}: {problem}")
                    wrong += 1
                for index in range(arguments.show):
                    for spoken in drawer.conversation(intent, np.random.default_rng([2, index])):
                        _show(spoken)
            except IntentError as error:
                print(error)
                wrong += 1
            counts += (
                1,
                len(intent.asks),
                len(intent.thens),
                len(intent.proofs),
                sum(bool(i.proofs) for i in [intent]),
            )
    names = ("intents", "phrases", "follow-ups", "proofs", "proved intents")
    print(", ".join(f"{count} {name}" for count, name in zip(counts, names)) + f"; {wrong} problems")
    sys.exit(bool(wrong))


def _show(spoken: Spoken) -> None:
    print(f"  {spoken.question}\n      {spoken.task}\n      $ {spoken.command}")


if __name__ == "__main__":
    main()
