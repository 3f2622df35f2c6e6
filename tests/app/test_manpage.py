"""The manual page says what the commands say."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import typer

from app.cli import cli
from docs.manpage import PAGE, commands, page, text


def test_it_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it again: python docs/manpage.py"


def test_every_command_has_a_section() -> None:
    sections = re.findall(r"^\.SS (outrider [a-z ]*[a-z])", page(), re.MULTILINE)
    paths = [path for path, _ in commands(typer.main.get_command(cli), "outrider")]
    assert sections == paths and {"outrider ask", "outrider history search", "outrider queue"} <= set(paths)


def test_text_gives_the_typesetter_no_orders() -> None:
    assert text(".so /etc/passwd") == "\\&.so /etc/passwd" and text("a\\fBb-c") == "a\\efBb\\-c"
    assert not [line for line in page().splitlines() if not line.isascii()]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_it_is_typeset_without_a_warning() -> None:
    command = ["groff", "-man", "-ww", "-Tutf8", str(PAGE)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    shown = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", ran.stdout)
    assert ran.stderr == "" and "EXIT STATUS" in shown and "outrider doctor" in shown
