"""What `outrider ask` says about the commands in an answer of any server."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli.risks import complain_of, told_risks
from tests.support.chat_server import ChatServer, Script
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY

ANSWER = "Careful:\n\n```sh\nsudo rm -rf build\n```\n\n```sh\nls > out.txt\n```\n"


async def ask(home: Path, *arguments: str, answers: tuple[str, ...] = (ANSWER,)) -> subprocess.CompletedProcess[str]:
    return await call(home, "ask", *arguments, answers=answers)


async def call(home: Path, *arguments: str, answers: tuple[str, ...] = (ANSWER,)) -> subprocess.CompletedProcess[str]:
    async with ChatServer([Script([answer]) for answer in answers]).listening() as port:
        environment = {**os.environ, "OUTRIDER_HOME": str(home), "OUTRIDER_REMOTE": f"http://127.0.0.1:{port}"}
        return await asyncio.to_thread(
            subprocess.run, [sys.executable, "-m", "app.start", *arguments], cwd=REPOSITORY, env=environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS,
        )  # fmt: skip


async def test_the_risks_stand_on_stderr_and_the_answer_alone_on_stdout(tmp_path: Path) -> None:
    ran = await ask(tmp_path, "delete the build folder")
    assert (ran.returncode, ran.stdout.strip()) == (0, ANSWER.strip())
    assert [line for line in ran.stderr.splitlines() if "`" in line] == [
        "outrider: notice: `sudo rm -rf build` runs `rm` as root (your question did not ask for it)",
        "outrider: warning: `rm -rf build` deletes `build` and everything in it, without asking",
        "outrider: notice: `ls > out.txt` writes `out.txt`; what was in it before is lost"
        " (your question did not ask for it)",
    ]


async def test_json_has_every_risk_with_its_place(tmp_path: Path) -> None:
    ran = await ask(tmp_path, "delete the build folder and save the rest in out.txt", "--json")
    answer = json.loads(ran.stdout)
    text = answer["text"]
    assert [
        (text[slice(*risk["span"])], risk["kind"], risk["severity"], risk["asked"]) for risk in answer["risks"]
    ] == [
        ("sudo rm -rf build", "runs as root", "notice", False),
        ("rm -rf build", "deletes", "warning", True),
        ("ls > out.txt", "overwrites", "notice", True),
    ]
    assert answer["risks"][1]["words"] == ["build"]
    assert set(answer["risks"][1]) == {"kind", "severity", "words", "sentence", "span", "asked"}


async def test_a_question_that_goes_on_asks_for_what_the_one_before_did(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"turns": ["delete old.txt", "and new.txt?", "and what is in it?"]}) + "\n")
    fenced = "```sh\nrm new.txt\n```"
    ran = await ask(tmp_path, "--prompts", str(prompts), answers=("```sh\nrm old.txt\n```", fenced, fenced))
    asked = [[risk["asked"] for risk in json.loads(line)["risks"]] for line in ran.stdout.splitlines()]
    assert asked == [[True], [True], [False]]
    first = await ask(tmp_path, "delete old.txt", answers=("```sh\nrm old.txt\n```",))
    second = await ask(tmp_path, "-c", "and new.txt?", answers=(fenced,))
    assert "did not ask" not in first.stderr + second.stderr and "`rm new.txt` deletes" in second.stderr


async def test_a_question_that_waited_is_answered_with_its_risks(tmp_path: Path) -> None:
    await ask(tmp_path, "--queue", "show the folders")
    sent = await call(tmp_path, "queue", "send")
    assert (sent.returncode, sent.stdout.strip()) == (0, ANSWER.strip())
    assert "`rm -rf build` deletes" in sent.stderr and "your question did not ask for it" in sent.stderr
    await ask(tmp_path, "--queue", "delete the build folder")
    assert "question (your" not in (await call(tmp_path, "queue", "send")).stderr, "this one did ask for it"


async def test_an_answer_without_commands_has_no_risks(tmp_path: Path) -> None:
    ran = await ask(tmp_path, "hello", "--json", answers=("Hello! `rm` deletes files.",))
    assert json.loads(ran.stdout)["risks"] == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "coloured"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
    ids=["terminal", "NO_COLOR", "dumb", "pipe"],
)
def test_colour_is_for_terminals_that_want_it(
    stream: io.StringIO, environment: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stderr", stream)
    complain_of(told_risks("list files", "```sh\nrm -rf /\n```"))
    text = stream.getvalue()
    assert ("\x1b[1;31mdanger\x1b[0m" in text) == coloured
    assert text.replace("\x1b[1;31m", "").replace("\x1b[0m", "").startswith("outrider: danger: `rm -rf /` deletes `/`")


def test_a_command_controls_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    complain_of(told_risks("", "```sh\nrm $'\\x1b]0;x\\x07' '\x1b[2J\u202ea' " + "b" * 200 + "\n```"))
    line = capsys.readouterr().err
    assert not set("\x1b\x07\u202e") & set(line) and line.count("\n") == 1 and "…" in line
