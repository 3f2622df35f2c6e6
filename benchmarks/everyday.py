"""How many everyday questions get a right command.

    python -m benchmarks.everyday [--model PATH] [--questions FILE] [--json OUT]

Questions, and patterns of right commands, are in tests/data/everyday.jsonl. The recipe keeps them out of its data. In
tests/data/everyday_rephrased.jsonl, every second question is asked in other words, which were written after the model
was trained and before it was asked.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path

from app.cli.machine import machine
from benchmarks.answers import FENCE, INLINE

QUESTIONS = Path(__file__).parents[1] / "tests/data/everyday.jsonl"
BUNDLED = Path(__file__).parents[1] / "remote/verifier/pretrained/shell-guide"


@dataclass(frozen=True)
class EverydayQuestion:
    id: str
    prompt: str
    accept: tuple[re.Pattern[str], ...]
    reject: tuple[re.Pattern[str], ...]

    def right(self, answer: str) -> bool:
        """True if a command of the answer is accepted and none is rejected."""
        commands = commands_of(answer)
        found = any(pattern.search(commands) for pattern in self.accept)
        return found and not any(pattern.search(commands) for pattern in self.reject)


def commands_of(answer: str) -> str:
    """The text of code fences; without any, that of inline code; without any, all of it."""
    return "\n".join(FENCE.findall(answer)) or "\n".join(INLINE.findall(answer)) or answer


def read_questions(path: Path = QUESTIONS) -> list[EverydayQuestion]:
    questions = []
    for line in path.read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)
        patterns = [tuple(re.compile(p, re.MULTILINE) for p in raw.get(key, ())) for key in ("accept", "reject")]
        questions.append(EverydayQuestion(raw["id"], raw["prompt"], *patterns))
    return questions


def main() -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=BUNDLED)
    parser.add_argument("--questions", type=Path, default=QUESTIONS, metavar="FILE")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32).eval()
    rows = []
    for question in read_questions(arguments.questions):
        message = [{"role": "user", "content": question.prompt}]
        prompt = tokenizer.apply_chat_template(
            message, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        out = model.generate(**prompt, max_new_tokens=120, do_sample=False)
        answer = tokenizer.decode(out[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True)
        rows.append({"id": question.id, "prompt": question.prompt, "answer": answer, "right": question.right(answer)})
        if not rows[-1]["right"]:
            print(f"wrong  {question.prompt!r}: {commands_of(answer)!r}")
    right = sum(row["right"] for row in rows)
    print(f"{right} of {len(rows)} right ({right / len(rows):.1%})")
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
