"""Prompts: a question with the one before it, the request for a summary, and files for `ask --prompts` and benchmarks.

The files are JSON lines: a line holds `prompt`, or `turns` (a list, one conversation), or is a tldr page, each example
of which becomes a question. Other keys are ignored, except `id`, which is returned with the answer.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.files import NotText, text_of

MNEMONIC = re.compile(r"\[(\w+)\]")
"""The mark of tldr pages for the letter of an option: `[c]reate an archive`."""
WHOLE_TURNS = 2
"""The last questions that a summary leaves as they are, with their answers."""
SUM_UP = (
    "Sum up our conversation so far, so that you can continue it from your summary alone. Keep what I want and why, "
    "what was decided, facts, names, numbers, files, commands and code that still matter, and what is open. "
    "Write in the language of the conversation, and nothing but the summary."
)
"""The request for a summary."""
EXAMPLE = 'Each line is a JSON object, such as {"prompt": "list files"} or {"turns": ["list files", "all of them"]}.'
"""What a prompt file holds, for those who gave another."""


class PromptsError(Exception):
    """A prompt file that cannot be used; the message names file and line."""


@dataclass(frozen=True)
class PromptEntry:
    """One conversation to have: its questions, in order."""

    turns: tuple[str, ...]
    id: str | None = None


def request_of(question: str, before: str) -> str:
    """A question with the one before it, which it may follow up, as in "and only the old ones?"."""
    return f"{question}\n\n{before}".strip()


def trimmed(text: str) -> str:
    """A text without empty lines before it and white space after it.

    The indentation of its first line stays: it means something in code, in diffs and in `git status -s`.
    """
    return text[text.rfind("\n", 0, len(text) - len(text.lstrip())) + 1 :].rstrip()


def read_prompts(path: Path) -> list[PromptEntry]:
    """Read all conversations of a prompt file; `-` is stdin. Raises `PromptsError`."""
    piped = path == Path("-")
    name = "stdin" if piped else str(path)
    try:
        text = text_of(sys.stdin.buffer.read() if piped else path.read_bytes())
    except OSError as error:
        raise PromptsError(f"{name} cannot be read: {error.strerror}.") from None
    except NotText as error:
        raise PromptsError(f"{name} {error}.") from None
    prompts: list[PromptEntry] = []
    for number, line in enumerate(text.split("\n"), 1):  # A JSON string may contain other line separators.
        if line.strip():
            try:
                prompts += _conversations(json.loads(line))
            except (json.JSONDecodeError, RecursionError):
                raise PromptsError(f"{name}, line {number} is not JSON. {EXAMPLE}") from None
            except ValueError as error:
                raise PromptsError(f"{name}, line {number}: {error}. {EXAMPLE}") from None
    if not prompts:
        raise PromptsError(f"{name} has no prompts. {EXAMPLE}")
    return prompts


def question_of(task: str) -> str:
    """Turn the task of a tldr example into a question: `[C]reate an archive` -> `How do I create an archive?`"""
    text = MNEMONIC.sub(r"\1", task).strip().rstrip(".:")
    first = text.split(" ", 1)[0]
    if sum(letter.isupper() for letter in first) < 2:  # `SSH` and `GitHub` stay as they are.
        text = text[:1].lower() + text[1:]
    return f"How do I {text}?"


def _conversations(line: Any) -> Iterator[PromptEntry]:
    """The conversations of one line. Raises `ValueError`, which says what is wrong."""
    if not isinstance(line, dict):
        raise ValueError("not a JSON object")
    name = None if line.get("id") is None else str(line["id"])
    if "prompt" in line:
        yield PromptEntry(_questions([line["prompt"]]), name)
    elif "turns" in line:
        yield PromptEntry(_questions(line["turns"]), name)
    elif "examples" in line and isinstance(line["examples"], list):
        page = name or f"{line.get('platform', 'common')}/{line.get('name', 'page')}"
        for number, example in enumerate(line["examples"], 1):
            task = example.get("task") if isinstance(example, dict) else None
            yield PromptEntry(_questions([question_of(task) if isinstance(task, str) else task]), f"{page}#{number}")
    else:
        raise ValueError("neither `prompt` nor `turns` nor a tldr page's `examples`")


def _questions(turns: Any) -> tuple[str, ...]:
    if not isinstance(turns, list) or not turns:
        raise ValueError("`turns` is not a list of questions")
    if any(not isinstance(turn, str) or not turn.strip() for turn in turns):
        raise ValueError("a question that is empty or no text")
    return tuple(turns)
