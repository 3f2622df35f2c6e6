"""Flags and what they mean, in commands as people type them."""

from __future__ import annotations

import pytest

from models.guide.flags import flags_of, meanings


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("tar -xzf photos.tar.gz -C out", ["-x", "-z", "-f", "-C"]),
        ("tar xzvf photos.tar.gz", ["-x", "-z", "-v", "-f"]),
        ("find . -type f -name '*.log' -mtime +7 -delete", ["-type f", "-name", "-mtime", "-delete"]),
        ("sudo du -h --max-depth=1 /var | sort -hr | head -n5", ["-h", "--max-depth", "-h", "-r", "-n"]),
        ("LC_ALL=C sort -t, -k2 data.csv", ["-t", "-k"]),
        ("tar czpvf x.tgz x", ["-c", "-z", "-p", "-v", "-f"]),
        ("tar -cvf c.tar x", ["-c", "-v", "-f"]),
        ("ps axuww", ["a", "x", "u", "w"]),
        ("ps -ef", ["-e", "-f"]),
        ("netstat -tulpn", ["-t", "-u", "-l", "-p", "-n"]),
        ("ps aux --sort=-%mem", ["aux", "--sort"]),
        ("git commit -m 'it -x works'", ["-m"]),
        ("dd if=/dev/zero of=x.img bs=1M count=10", ["if=", "of=", "bs=", "count="]),
        ('grep -rn "don\'t" src', ["-r", "-n"]),
        ("frobnicate -x", []),
        ("ls report-l", []),
        ("", []),
        ("echo 'torn", []),
    ],
)
def test_the_flags_of_a_command(command: str, flags: list[str]) -> None:
    assert [one.flag for one in flags_of(command)] == flags


def test_a_flag_is_told_once_for_a_program() -> None:
    assert [(one.program, one.flag) for one in flags_of("grep -i a x | grep -i b")] == [("grep", "-i")]


def test_meanings_are_ends_of_a_sentence() -> None:
    for program, flags in meanings().items():
        for flag, meaning in flags.items():
            assert meaning and not meaning[0].isspace() and meaning[-1] != ".", f"{program} {flag}"
