"""Requests whose commands run: the form of the file, what each way of judging lets pass, and what the sandbox holds."""

from __future__ import annotations

import json
import os
import socket
import uuid
from functools import cache
from pathlib import Path

import pytest

from benchmarks.execution import REQUESTS, Request, command_of, judged, read_requests, shared_trees
from benchmarks.execution_sandbox import Folder, NoSandbox, check, run

EVERY = 25
"""Every so many requests are run here; `python -m benchmarks.execution --gold` runs all."""


@cache
def refusal() -> str:
    """Why no command can run here; empty if one can."""
    try:
        check()
    except NoSandbox as error:
        return str(error)
    return ""


needs_sandbox = pytest.mark.skipif("refusal()", reason="`python -m benchmarks.execution --gold` says what is missing")


def request(judge: dict) -> Request:
    files = {"one.txt": "b\na\n", "sub/two.txt": {"text": "2\n", "mode": "600"}}
    return Request("x", "x", "x", {"files": files}, "", judge)


def output(how: str, **said: object) -> dict:
    return {"stdout": {"how": how, **said}}


def test_the_file_has_two_hundred_whole_requests_and_a_command_is_the_first_code():
    raw = [json.loads(line) for line in REQUESTS.read_text(encoding="utf-8").splitlines()]
    assert len(raw) == len({each["id"] for each in raw}) == len({each["prompt"].lower() for each in raw}) == 200
    for each in raw:
        assert "tree" not in each["setup"] or each["setup"]["tree"] in shared_trees(), each["id"]
        # A judge that expects nothing lets everything pass.
        assert each["judge"].get("stdout") or each["judge"].get("after"), each["id"]
    assert command_of("Use `ls`:\n\n```sh\n$ ls -a\n```\n\n```\npwd\n```") == "ls -a"
    assert command_of("Either `ls -a` or `find`.") == "ls -a"
    assert command_of("```sh\nls -a") == "ls -a"
    assert command_of("I do not know.") == command_of("") == ""


@needs_sandbox
def test_gold_commands_are_right_and_empty_answers_are_wrong():
    sample = read_requests()[::EVERY]
    gold = {each.id: f"```sh\n{each.gold}\n```" for each in sample}
    assert [row["fault"] for row in judged(sample, gold, "gold")] == [None] * len(sample)
    assert all(row["fault"] == "there is no command" for row in judged(sample, {}, "edge"))
    assert all(each.command_fault("true") is not None for each in sample)


@needs_sandbox
@pytest.mark.parametrize(
    ("judge", "right", "wrong"),
    [
        (output("exact", text="b\na"), "cat ./one.txt", "sort one.txt"),
        (output("lines", text="one.txt\nsub/two.txt"), "find . -name '*.txt' | sort -r", "ls"),
        (output("contains", all=["a"], lacks=["b"]), "grep a one.txt", "cat one.txt"),
        (output("names", names=["two.txt"]), "ls -l sub/*", "ls -lR"),
        ({"after": {"new": {"dir": True}}}, "mkdir new", "touch new"),
        ({"after": {"l": {"link": "sub"}}}, "ln -s sub l", "ln -s one.txt l"),
        ({"after": {"n": {"contains": ["a"], "lacks": ["b"]}}}, "grep a one.txt > n", "cp one.txt n"),
        ({"after": {"n": {"gzip": "b\na\n"}}}, "gzip -c one.txt > n", "cp one.txt n"),
        ({"after": {"n": ""}, "only": True}, "touch n", "touch n m"),
    ],
)
def test_each_way_of_judging_knows_right_from_wrong(judge, right, wrong):
    assert request(judge).command_fault(right) is None
    assert request(judge).command_fault(wrong) is not None


@needs_sandbox
def test_what_nobody_asked_for_is_a_fault():
    judge = output("contains", all=["a"], lacks=[])
    assert request(judge).command_fault("cat one.txt; touch new") is None
    for damage in ("rm sub/two.txt", "echo >> one.txt", "chmod 644 sub/two.txt", "ln -sf /etc/passwd one.txt"):
        assert request(judge).command_fault(f"cat one.txt; {damage}") is not None


@needs_sandbox
def test_nothing_can_be_written_outside_the_folder(tmp_path):
    marker = f"outrider-{uuid.uuid4().hex}"
    places = ["/", "/usr", "/home", "/etc", "/var/tmp", str(Path.home()), str(tmp_path), str(Path.cwd())]
    with Folder() as folder:
        for place in places:
            ran = run(folder, f"touch {place}/{marker}")
            assert ran.code != 0 and not Path(place, marker).exists(), place
        # It has a /tmp of its own.
        assert run(folder, f"touch /tmp/{marker} && ls /tmp").stdout == f"{marker}\n"
        assert not Path("/tmp", marker).exists()
        assert run(folder, "touch here && mkdir -m 0 shut").code == 0 and (folder / "here").exists()
    assert not folder.exists()


@needs_sandbox
def test_there_is_no_network_and_no_sight_of_this_process():
    with socket.create_server(("127.0.0.1", 0)) as server, Folder() as folder:
        port = server.getsockname()[1]
        assert run(folder, f"echo hello > /dev/tcp/127.0.0.1/{port}").code != 0
        assert run(folder, f"ls -d /proc/{os.getpid()}/cwd/pyproject.toml").code != 0
        assert run(folder, "id -u; env | cut -d= -f1 | grep -c TOKEN").stdout == "1000\n0\n"


@needs_sandbox
def test_time_processes_and_sizes_are_limited():
    with Folder() as folder:
        assert run(folder, "sleep 30", seconds=0.2).code == 124
        assert len(run(folder, "yes", seconds=0.5).stdout) <= 2**20
        assert run(folder, "head -c 20M /dev/zero > big").code != 0
        assert (folder / "big").stat().st_size <= 16 * 2**20
        assert "fork" in run(folder, "for i in $(seq 80); do sleep 5 & done", seconds=1).stderr
