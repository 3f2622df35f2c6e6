"""Finds the name nearest to a misspelt one, by the number of mistyped keys."""

from __future__ import annotations

from collections.abc import Iterable

COMMON = (
    "ls", "cd", "git", "cat", "grep", "find", "rm", "cp", "mv", "mkdir", "ssh", "sudo", "vim", "nano", "less", "tar",
    "make", "python", "python3", "docker", "curl", "ps", "kill", "top", "man", "echo", "touch", "chmod", "chown", "df",
    "du", "head", "tail", "sort", "sed", "awk", "which", "history", "clear", "exit", "npm", "node", "pip", "apt",
    "systemctl", "status", "commit", "checkout", "push", "pull", "branch", "add", "diff", "log",
)  # fmt: skip
"""Names that are often typed. They are preferred among equally near ones."""


def distance(one: str, other: str) -> int:
    """Number of letters added, omitted, replaced or swapped with a neighbour (Damerau, optimal string alignment)."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, its in enumerate(other, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != its))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == its:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that was most likely meant, or None if no name is near or if it is itself one of them.

    One mistake is allowed up to five letters, two from six on. In a name of two letters, only a swap is allowed.
    """
    most = 1 if len(name) < 6 else 2
    best: tuple[tuple[int, int, int, int, str], str] | None = None
    for known in set(names):
        if known == name:
            return None
        if abs(len(known) - len(name)) > most:
            continue
        swapped = sorted(known) == sorted(name)
        if len(name) < 3 and not swapped:
            continue
        far = distance(name.lower(), known.lower()) if name.lower() != known.lower() else 0
        if far > most:
            continue
        common = COMMON.index(known) if known in COMMON else len(COMMON)
        rank = far, 0 if swapped else 1, 0 if known[:1] == name[:1] else 1, common, known
        if best is None or rank < best[0]:
            best = rank, known
    return best[1] if best else None
