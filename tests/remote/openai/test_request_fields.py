"""Requests of OpenAI's API, read by many threads of a fresh process at the same moment."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.serving import REPOSITORY

MANY_THREADS = """
import sys, threading
from remote.openai.request_fields import FOREIGN, FieldRefused, read_request
from remote.verifier.completion_requests import CHAT, TEXT

sys.setswitchinterval(1e-5)
BODIES = [
    (CHAT, b'{"messages": [{"role": "user", "content": "ls"}], "logit_bias": {"5": 1}, "stop": ["x"]}'),
    (TEXT, b'{"prompt": ["ls", [1, 2]], "n": 2}'),
    (CHAT, b'{"messages": [{"role": "user"}], "temperature": -1}'),
    (TEXT, b'{'),
]
begin, read = threading.Barrier(6), []

def reads(first):
    begin.wait()
    for at in range(2000):
        kind, body = BODIES[(first + at) % len(BODIES)]
        try:
            read_request(body, kind, FOREIGN)
            read.append(True)
        except FieldRefused:
            read.append(False)

threads = [threading.Thread(target=reads, args=(number,)) for number in range(6)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(read), sum(read))
"""


def test_threads_may_read_the_first_requests_together() -> None:
    """Structs that msgspec meets for the first time in several threads crash the process."""
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    ran = subprocess.run([sys.executable, "-c", MANY_THREADS], env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.split()) == (0, ["12000", "6000"]), ran.stderr
