"""What `outrider ask` says about the commands in an answer of any server."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from app.cli.risks import complain_of, told_risks
from tests.support.chat_server import ChatServer, Script
from tests.support.commands import Outrider

ANSWER = "Careful:\n\n```sh\nsudo rm -rf build\n```\n\n```sh\nls > out.txt\n```\n"


@pytest.fixture
def server(server: ChatServer) -> ChatServer:
    server.scripts = [Script([ANSWER])]
    return server


@pytest.mark.usefixtures("server")
def test_the_risks_stand_on_stderr_and_the_answer_alone_on_stdout(outrider: Outrider) -> None:
    ran = outrider("ask", "delete the build folder")
    assert (ran.code, ran.out.strip()) == (0, ANSWER.strip())
    assert [line for line in ran.err.splitlines() if "`" in line] == [
        "outrider: notice: `sudo rm -rf build` runs `rm` as root (your question did not ask for it)",
        "outrider: warning: `rm -rf build` deletes `build` and everything in it, without asking",
        "outrider: notice: `ls > out.txt` overwrites `out.txt`; its previous content is lost"
        " (your question did not ask for it)",
    ]


def test_json_has_every_risk_with_its_place(outrider: Outrider, server: ChatServer) -> None:
    answer = outrider("ask", "delete the build folder and save the rest in out.txt", "--json").json
    text, risks = answer["text"], answer["risks"]
    assert [(text[slice(*risk["span"])], risk["kind"], risk["severity"], risk["asked"]) for risk in risks] == [
        ("sudo rm -rf build", "runs as root", "notice", False),
        ("rm -rf build", "deletes", "warning", True),
        ("ls > out.txt", "overwrites", "notice", True),
    ]
    assert risks[1]["words"] == ["build"]
    assert set(risks[1]) == {"kind", "severity", "words", "sentence", "span", "asked"}
    server.scripts = [Script(["Hello! `rm` deletes files."])]
    assert outrider("ask", "hello", "--json").json["risks"] == [], "it has no commands"


def test_a_follow_up_asks_for_what_the_one_before_did(outrider: Outrider, server: ChatServer, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"turns": ["delete old.txt", "and new.txt?", "and what is in it?"]}) + "\n")
    old, new = Script(["```sh\nrm old.txt\n```"]), Script(["```sh\nrm new.txt\n```"])
    server.scripts = [old, new, new, old, new]
    ran = outrider("ask", "--prompts", str(prompts))
    asked = [[risk["asked"] for risk in json.loads(line)["risks"]] for line in ran.out.splitlines()]
    assert asked == [[True], [True], [False]]
    first, second = outrider("ask", "delete old.txt"), outrider("ask", "-c", "and new.txt?")
    assert "did not ask" not in first.err + second.err and "`rm new.txt` deletes" in second.err


@pytest.mark.usefixtures("server")
def test_a_question_that_waited_is_answered_with_its_risks(outrider: Outrider) -> None:
    outrider("ask", "--queue", "show the folders")
    sent = outrider("queue", "send")
    assert (sent.code, sent.out.strip()) == (0, ANSWER.strip())
    assert "`rm -rf build` deletes" in sent.err and "your question did not ask for it" in sent.err
    outrider("ask", "--queue", "delete the build folder")
    assert "question (your" not in outrider("queue", "send").err, "this one did ask for it"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, variables, coloured in (
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb", "NO_COLOR": ""}, False),
        (io.StringIO(), {"TERM": "xterm", "NO_COLOR": ""}, False),
    ):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "stderr", stream)
        complain_of(told_risks("list files", "```sh\nrm -rf /\n```"))
        danger = "\x1b[1;31mdanger\x1b[0m" if coloured else "danger"
        assert stream.getvalue().startswith(f"outrider: {danger}: `rm -rf /` deletes `/`")


def test_a_command_controls_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    complain_of(told_risks("", "```sh\nrm $'\\x1b]0;x\\x07' '\x1b[2J\u202ea' " + "b" * 200 + "\n```"))
    line = capsys.readouterr().err
    assert not set("\x1b\x07\u202e") & set(line) and line.count("\n") == 1 and "…" in line
