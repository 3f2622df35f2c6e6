"""Requests of OpenAI's API, read by many threads of a fresh process at the same moment."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from app.gateway.call import read_call
from remote.openai.lenient_json import BOM
from remote.openai.request_fields import FieldRefused, prepared, read_request
from remote.openai.schema import TextRequest
from tests.support.serving import REPOSITORY

MANY_THREADS = """
import sys, threading
from remote.openai.request_fields import read_request
from remote.verifier.completions.completion_requests import CHAT, TEXT

sys.setswitchinterval(1e-5)
BODIES = [
    (b'{"messages": [{"role": "user", "content": "ls"}], "logit_bias": {"5": 1}, "stop": ["x"]}', CHAT),
    (b'{"prompt": ["ls", [1, 2]], "n": 2}', TEXT),
]
begin, read = threading.Barrier(6), []

def reads(first):
    begin.wait()
    read.extend(read_request(*BODIES[(first + at) % 2]) for at in range(400))

threads = [threading.Thread(target=reads, args=(number,)) for number in range(6)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(read))
"""


def test_threads_may_read_the_first_requests_together() -> None:
    """Structs that msgspec meets for the first time in several threads crash the process."""
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    ran = subprocess.run([sys.executable, "-c", MANY_THREADS], env=environment, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.split()) == (0, ["2400"]), ran.stderr


def test_whole_numbers_may_be_written_with_a_point() -> None:
    body = b'{"prompt": [[1.0, 2]], "n": 2.0, "max_tokens": 1e1, "temperature": 1, "seed": -3.0}'
    _, request = read_request(body, prepared(TextRequest))
    assert (request.prompt, request.n, request.max_tokens, request.seed) == (((1, 2),), 2, 10, -3)


def test_a_byte_order_mark_is_skipped_and_minus_one_is_no_limit() -> None:
    for limit, most in ((-1, (1 << 31) - 1), (-1.0, (1 << 31) - 1), (5, 5)):
        body = BOM + b'{"prompt": "ls", "max_tokens": %a}' % limit
        assert read_request(body, prepared(TextRequest))[1].max_tokens == most
    for name in ("max_tokens", "max_completion_tokens"):
        body = BOM + b'{"messages": [{"role": "user", "content": "ls"}], "%s": -1, "tools": [{}]}' % name.encode()
        call = read_call(body)
        assert call.choices.max_tokens is None and call.relayed is not None and name not in call.relayed
    for wrong in (b'{"prompt": "ls", "max_tokens": -2}', b'{"prompt": "ls", "max_tokens": 0}'):
        with pytest.raises(FieldRefused):
            read_request(wrong, prepared(TextRequest))


@pytest.mark.parametrize("number", [b"1.5", b'"2"', b"true", b"1e300", b"0.0", b"17.0"])
def test_other_numbers_of_answers_are_refused_by_name(number: bytes) -> None:
    with pytest.raises(FieldRefused) as refused:
        read_request(b'{"prompt": "ls", "n": %s}' % number, prepared(TextRequest))
    assert refused.value.param == "n"
