"""`outrider ask --extract`: what reaches a script is whole code, or nothing."""

from __future__ import annotations

from tests.support.chat_server import ChatServer, Script
from tests.support.commands import Outrider


def test_only_the_code_is_printed_and_never_half_of_it(outrider: Outrider, server: ChatServer) -> None:
    answer = "First:\n\n1. do\n   ```sh\n   ls -l\n   ```\n\nThen:\n```py\nprint('```')\n```\nDone."
    server.scripts = [Script([answer]), Script([answer]), Script(["None."]), Script(["```sh\nrm -r /tmp/x", "/y\n"])]
    assert outrider("ask", "-x", "how?").out == "print('```')\n"
    assert outrider("ask", "--extract-all", "how?").out == "ls -l\n\nprint('```')\n"
    none, half = outrider("ask", "-x", "how?"), outrider("ask", "-x", "how?")
    assert (none.code, none.out) == (half.code, half.out) == (1, "")
    assert "the answer has no code block: None." in none.err and "is incomplete, so it is not printed" in half.err
    assert outrider("ask", "-x", "--json", "how?").says(2, "--extract prints code alone")
