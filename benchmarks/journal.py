"""Saves what a long benchmark has measured: each sample as soon as it is available, each row once it is complete.

Samples are lines of a file next to the results, so a killed run continues with the next one. The results are rewritten
atomically with each row.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.answer_cells import Sample


class OtherPlan(Exception):
    """The files are from another run. The message says what to do."""


class Key(NamedTuple):
    """What identifies a row."""

    profile: str
    mode: str
    paced_ms: float


class _Line(msgspec.Struct):
    key: Key
    prompt: int
    sample: Sample


class Journal:
    """The files of one run. `plan`: everything that must be equal for two runs to be comparable.

    Raises `OtherPlan` if the files at `out` have another plan.
    """

    def __init__(self, out: Path, plan: Mapping[str, Any], machine: Mapping[str, Any]) -> None:
        self.rows: list[dict[str, Any]] = []
        self._out, self._samples_file = out, out.with_suffix(out.suffix + ".samples")
        self._document = {"machine": dict(machine), "plan": dict(plan)}
        self._samples: dict[Key, dict[int, Sample]] = {}
        if out.exists():
            document = json.loads(out.read_text(encoding="utf-8"))
            self._check(document.get("plan"), out)
            self._document, self.rows = {"machine": document["machine"], "plan": document["plan"]}, document["rows"]
        self._read_samples()

    def whole(self, key: Key) -> bool:
        """True if the row is complete."""
        return any(key == Key(row["profile"], row["mode"], row["paced_ms"]) for row in self.rows)

    def samples(self, key: Key) -> dict[int, Sample]:
        """The samples of a row, by prompt."""
        return self._samples.get(key, {})

    def add(self, key: Key, samples: Mapping[int, Sample]) -> None:
        """Save these samples, all or none."""
        lines = [msgspec.json.encode(_Line(key, prompt, sample)) + b"\n" for prompt, sample in samples.items()]
        with self._samples_file.open("ab") as file:
            file.write(b"".join(lines))
        self._samples.setdefault(key, {}).update(samples)

    def finish(self, row: dict[str, Any]) -> None:
        """Write a row to the results."""
        self.rows.append(row)
        partial = self._out.with_suffix(self._out.suffix + ".partial")
        partial.write_text(json.dumps({**self._document, "rows": self.rows}, indent=1) + "\n", encoding="utf-8")
        os.replace(partial, self._out)

    def _read_samples(self) -> None:
        if not self._samples_file.exists():
            self._samples_file.write_bytes(msgspec.json.encode(self._document["plan"]) + b"\n")
            return
        content = self._samples_file.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):  # The run was killed while writing.
            self._samples_file.write_bytes(whole)
        plan, *lines = whole.splitlines() or [b"null"]
        self._check(msgspec.json.decode(plan), self._samples_file)
        for line in lines:
            each = msgspec.json.decode(line, type=_Line)
            self._samples.setdefault(each.key, {})[each.prompt] = each.sample

    def _check(self, plan: object, path: Path) -> None:
        if plan != self._document["plan"]:
            raise OtherPlan(
                f"{path} is of a run with other prompts, models or sizes: delete it, or give another --json."
            )
