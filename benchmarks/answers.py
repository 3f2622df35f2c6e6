"""What `outrider ask --prompts` answers, and the code in an answer."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FENCE = re.compile(r"```[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
"""A code fence; the end of the text closes one that is open."""
INLINE = re.compile(r"`([^`\n]+)`")
"""Code inside a line."""

_REPOSITORY = Path(__file__).parents[1]


class NoAnswers(Exception):
    """Not all prompts were answered, so that a share would mislead. The message says why."""


def ask_all(
    prompts: Sequence[Mapping[str, Any]], mode: str, *, remote: str | None = None, options: Sequence[str] = ()
) -> dict[str, str]:
    """The answers to prompts, by their `id`, greedily and without any setting of the caller's.

    `remote`: a server's address, which gets the caller's `OUTRIDER_TOKEN`; None: the bundled model. `options`: more of
    `outrider ask`. Of a conversation (`turns`), the last answer. Raises `NoAnswers`.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    if remote is not None and (token := os.environ.get("OUTRIDER_TOKEN")):
        environment["OUTRIDER_TOKEN"] = token
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "prompts.jsonl"
        file.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts), encoding="utf-8")
        command = [sys.executable, "-m", "app.cli", "ask", "--prompts", str(file), "--mode", mode]
        command += ["--temperature", "0", *options]
        # A token goes to an address in the environment, and to none of the command line.
        environment |= {"OUTRIDER_HOME": home, "OUTRIDER_REMOTE": remote or "bundled"}
        ran = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", env=environment, cwd=_REPOSITORY)
    answers = answers_in(ran.stdout)
    if len(answers) < len(prompts):
        raise NoAnswers(f"`outrider ask --mode {mode}` ended with {ran.returncode}, after {len(answers)} answers")
    return answers


def answers_in(lines: str) -> dict[str, str]:
    """The last answer to each prompt in JSON lines, by id. Lines without an answer are left out."""
    rows = [json.loads(line) for line in lines.splitlines() if line.strip()]
    return {row["id"]: row["text"] for row in rows if "text" in row}
