"""Proof that drafting changes no token: answers with drafts and without, greedy and sampled with a seed.

    python -m benchmarks.exactness [--prompts FILE] [--limit 200] [--json OUT]

It runs real processes: `outrider ask --prompts`, with and without `--no-draft`, with the bundled model's own server on
loopback. `benchmarks.single_device` compares greedy answers with transformers' `generate`, in float32.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from app.prompts import read_prompts
from benchmarks.bundled import PROMPTS, REPOSITORY, write
from remote.verifier.making.measure import evenly

MOST_TOKENS = 160
SAMPLED = ("--temperature", "0.8", "--seed", "7")


def ask(prompts: Path, *options: str) -> list[list[int]]:
    """Token ids of each answer from `outrider ask --prompts`. Raises `CalledProcessError`."""
    command = [sys.executable, "-m", "app.cli", "ask", "--mode", "edge", "--max-tokens", str(MOST_TOKENS)]
    run = subprocess.run(
        [*command, "--prompts", str(prompts), *options], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True, text=True
    )
    return [json.loads(line)["token_ids"] for line in run.stdout.splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--limit", type=int, default=200, help="prompts, spread evenly over the file")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    chosen = evenly([prompt.turns[0] for prompt in read_prompts(arguments.prompts)], arguments.limit)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "prompts.jsonl"
        file.write_text("".join(json.dumps({"prompt": question}) + "\n" for question in chosen))
        drafted, plain = ask(file), ask(file, "--no-draft")
        drafted_sampled, plain_sampled = ask(file, *SAMPLED), ask(file, "--no-draft", *SAMPLED)
    pairs = {
        "greedy: drafts = no drafts": (drafted, plain),
        "sampled: drafts = no drafts": (drafted_sampled, plain_sampled),
    }
    rows = []
    for name, (left, right) in pairs.items():
        equal = sum(a == b for a, b in zip(left, right, strict=True))
        rows.append({"check": name, "equal": equal, "of": len(chosen), "tokens": sum(map(len, left))})
        print(f"{name:<30} {equal} of {len(chosen)} answers, {rows[-1]['tokens']} tokens")
        for question, a, b in zip(chosen, left, right):
            if a != b:
                print(f"  differs: {question!r}", file=sys.stderr)
    write(arguments.json, rows)
    sys.exit(0 if all(row["equal"] == row["of"] for row in rows) else 1)


if __name__ == "__main__":
    main()
