"""Diffs, of which a commit message is wanted. The changes are in diffs.toml."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recipes.shell_guide.grammar.names import domain, pick, word
from recipes.shell_guide.piped.parts import (
    NOUNS,
    PEOPLE,
    VERBS,
    Rng,
    Text,
    between,
    hexadecimal,
    number,
    run,
    some,
    unknown,
)

CHANGES: list[Mapping[str, Any]] = tomllib.loads(Path(__file__).with_name("diffs.toml").read_text(encoding="utf-8"))[
    "diff"
]
LONGEST_MESSAGE = 60
_PACKAGES = ("requests", "flask", "numpy", "pandas", "httpx", "pydantic", "pytest", "jinja2", "sqlalchemy", "pillow")
_SLOT = re.compile(r"<([A-Za-z]+2?)>")


def diff(rng: Rng) -> Text:
    """`git diff` of one change."""
    change = CHANGES[int(rng.integers(len(CHANGES)))]
    values = _values(rng)

    def filled(text: str) -> str:
        return _SLOT.sub(lambda found: values.get(found[1], found[0]), text)

    file, head = filled(change["file"]), change.get("head", "")
    lines = filled(change.get("lines", "")).split("\n") if "lines" in change else []
    to = filled(change.get("to", change["file"]))
    old, new = sum(line[:1] != "+" for line in lines), sum(line[:1] != "-" for line in lines)
    at = between(rng, 2, 300)
    shown = [f"diff --git a/{file} b/{to}"]
    index = f"index {hexadecimal(rng, 7)}..{hexadecimal(rng, 7)} 100644"
    if head == "moved":
        shown += ["similarity index 100%", f"rename from {file}", f"rename to {to}"]
    elif head == "mode":
        shown += ["old mode 100644", "new mode 100755"]
    elif head == "new":
        shown += ["new file mode 100644", "--- /dev/null", f"+++ b/{file}", f"@@ -0,0 +1,{new} @@"]
    elif head == "deleted":
        shown += ["deleted file mode 100644", f"--- a/{file}", "+++ /dev/null", f"@@ -1,{old} +0,0 @@"]
    else:
        shown += [index, f"--- a/{file}", f"+++ b/{file}", f"@@ -{at},{old} +{at},{new} @@"]
    added, removed = (sum(line[:1] == sign for line in lines) for sign in "+-")
    messages = [message for message in map(filled, change["message"]) if len(message) < LONGEST_MESSAGE]
    message = pick(rng, messages)
    told = f"It {filled(change['told'])}."
    why = (
        f"Yes: it {filled(change['told'])}."
        if change.get("fix")
        else f"It does not look like it: it {filled(change['told'])}."
    )
    asked = (
        ("change", told),
        ("commit", message),
        ("commit", message),
        ("summary", told),
        ("what", f"A diff of `{file}`. {told}"),
        ("commit (this|it)[ with a good message]|how do i commit this", run("This commits the changes of all files that git knows:", f"git commit -am {shlex.quote(message)}")),
        ("(which|what) file (changed|is changed|does it touch)", f"`{file}`" + (f", now `{to}`." if head == "moved" else ".")),
        ("how many lines (were|are) (added|new)", f"{number(added, 'line')}."),
        ("how many lines (were|are) (removed|deleted)", f"{number(removed, 'line')}."),
        ("does (it|this) fix (a bug|something)|is this a fix", why),
        ("(undo|revert|discard) (it|this|these changes)|how do i (undo|discard) this", run("If it is not committed yet, this throws the change away; it cannot be restored:", f"git restore {shlex.quote(file)}") if head not in ("moved", "new") else run("If it is committed, this adds a commit that undoes it:", "git revert HEAD")),
        ("who (made|wrote) (it|this)|when was this (changed|made)", unknown("a diff has no author and no date. For a commit, this shows them:", "git log -1")),
        ("do the tests pass|does it work", unknown("it shows the change, not its result.")),
    )  # fmt: skip
    return Text("change.diff", "\n".join([*shown, *lines]), asked)


def _values(rng: Rng) -> dict[str, str]:
    """Something for each slot."""
    (noun, noun2), (verb, verb2) = some(rng, NOUNS, 2), some(rng, VERBS, 2)
    low = between(rng, 2, 40)
    major, minor = between(rng, 0, 9), between(rng, 0, 20)
    person = pick(rng, PEOPLE)
    return {
        "noun": noun, "noun2": noun2, "verb": verb, "verb2": verb2, "low": str(low), "high": str(low + between(rng, 1, 50)),
        "version": f"{major}.{minor}.{between(rng, 0, 4)}", "version2": f"{major}.{minor}.{between(rng, 5, 9)}" if rng.random() < 0.5 else f"{major}.{minor + between(rng, 1, 5)}.0",
        "package": pick(rng, _PACKAGES), "host": domain(rng), "word": word(rng), "person": person, "Person": person.title(),
        "Noun": noun.title(), "UP": noun.upper(), "Verb": verb.title(),
    }  # fmt: skip
