"""Runs schemathesis against a server's OpenAI routes: does it accept and return what its schema says?

    python -m benchmarks.conformance --schemathesis PROGRAM [--max-examples 100] [--seed 1] [--gateway]

PROGRAM is `st` in an environment of its own (`pip install schemathesis`, version 4). All its checks run, in all its
phases. The server has a token file, so that requests without its token are tried too. With `--gateway`, `outrider
gateway` is tested in front of such a server, without the check that every request that fits the schema is answered: the
gateway refuses fields that its small model cannot honour. The exit code is that of schemathesis.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from app.config import BUNDLED_DRAFTER, BUNDLED_TARGET
from benchmarks.openapi import document
from models.config import read_config
from tests.support.gateways import GatewayProcess
from tests.support.serving import VerifierProcess

TOKEN = "a-token-for-the-tool-that-asks"
LONGEST = 256
"""Tokens of a session, which bound an answer's length, because a schema says nothing about it."""
REQUEST_SECONDS = 120
"""Time for an answer. No check is about speed, and the machine may be busy."""
NOT_OF_THE_GATEWAY = "positive_data_acceptance"


def run(program: str, examples: int, seed: int, *, gateway: bool) -> int:
    """Start the server under test, and run schemathesis against it. Returns its exit code."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as started:
        folder = Path(scratch)
        (folder / "target").symlink_to(BUNDLED_TARGET)
        (folder / "drafter").symlink_to(BUNDLED_DRAFTER)
        tokens, schema = folder / "tokens", folder / "openapi.json"
        tokens.write_text(f"{TOKEN}\n")
        tokens.chmod(0o600)
        vocabulary = read_config(BUNDLED_DRAFTER).vocabulary
        schema.write_text(json.dumps(document(vocabulary, gateway=gateway)))
        options = ["--max-tokens", str(LONGEST)]
        server = VerifierProcess(
            folder, options=options, home=folder / "server", token_file=None if gateway else tokens
        )
        url = started.enter_context(server).url
        if gateway:
            between = GatewayProcess(folder / "home", BUNDLED_DRAFTER, url, ["--token-file", str(tokens)])
            url = started.enter_context(between).url
        command = [program, "run", str(schema), "--url", url, "--header", f"Authorization: Bearer {TOKEN}"]
        command += ["--checks", "all", "--max-examples", str(examples), "--seed", str(seed)]
        command += ["--request-timeout", str(REQUEST_SECONDS), "--max-response-time", str(REQUEST_SECONDS)]
        command += ["--continue-on-failure", "--generation-database", "none"]
        command += ["--exclude-checks", NOT_OF_THE_GATEWAY] if gateway else []
        return subprocess.run(command, cwd=folder, check=False).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemathesis", required=True, metavar="PROGRAM")
    parser.add_argument("--max-examples", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gateway", action="store_true")
    given = parser.parse_args()
    sys.exit(run(given.schemathesis, given.max_examples, given.seed, gateway=given.gateway))


if __name__ == "__main__":
    main()
