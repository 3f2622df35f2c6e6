"""Training data: the target's own answers, generated in batches and resumable.

Each line of the file is one conversation, `{"ids": [...], "learn": [[start, end], ...]}`: its token ids, and the spans
of tokens that the target generated. Processes that train together also answer together.

Some questions are set aside before training, to measure the drafter on. Their file is a prompt file like any other. It
stays the same when training runs again, even with more questions.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from accelerate.utils import broadcast_object_list, gather_object
from torch import nn
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from drafter.progress import StageProgress, stage
from drafter.training.batches import AnsweredConversation
from drafter.training.precision import autocast
from drafter.training.processes import processes
from models.engines.target import cache_argument

AT_ONCE = 512
"""Most prompts to continue at the same time."""
STRETCH = 16
"""Tokens after which finished answers are removed from the batch."""
ANSWERS, HELD_OUT = "answers.jsonl", "held_out.jsonl"
"""Files of the work folder."""
MOST, SHARE = 64, 10
"""Most conversations that are set aside, and the largest share of all: one in ten."""
FEWEST = 8
"""With fewer, tau would be meaningless, so none is set aside."""


def read_answers(path: Path) -> list[AnsweredConversation]:
    conversations = []
    for line in path.read_text().splitlines():
        raw = json.loads(line)
        conversations.append(AnsweredConversation(raw["ids"], [(start, end) for start, end in raw["learn"]]))
    return conversations


def draft_vocabulary(
    data: Sequence[AnsweredConversation], count: int, also: Iterable[int], vocabulary: int
) -> tuple[tuple[int, ...], float]:
    """A draft vocabulary: the `count` most frequent tokens of the answers, plus `also`; and their share of all tokens.

    Other tokens can only appear as the target's own bonus token. If the target's `vocabulary` is no larger than
    `count`: () for all tokens, and 1.
    """
    if count >= vocabulary:
        return (), 1.0
    uses = Counter(token for sample in data for begin, end in sample.learn for token in sample.ids[begin:end])
    kept = sorted({token for token, _ in uses.most_common(count)} | set(also))
    return tuple(kept), sum(uses[token] for token in kept) / uses.total()


Messages = Sequence[tuple[str, str]]
"""(role, text) of each message."""


def question_alone(questions: Sequence[str]) -> Messages:
    """The messages between two answers without a prompt recipe: the last question."""
    return [("user", questions[-1])]


def _rendered(tokenizer: PreTrainedTokenizerBase, messages: Messages, *, answer: bool) -> str:
    spoken = [{"role": role, "content": text} for role, text in messages]
    return str(tokenizer.apply_chat_template(spoken, add_generation_prompt=answer, tokenize=False))


def _opening(tokenizer: PreTrainedTokenizerBase, asked: Messages) -> list[int]:
    """Tokens from the beginning to the start of the first answer."""
    return list(tokenizer(_rendered(tokenizer, asked, answer=True), add_special_tokens=False)["input_ids"])


def _next(tokenizer: PreTrainedTokenizerBase, before: Messages, asked: Messages, last: int) -> list[int]:
    """Tokens from the end of an answer, whose last token is `last`, to the start of the next one.

    `before`, `asked`: the messages before the first answer, and before the next one. An answer that was cut off is
    first closed as the template closes one.
    """
    turn = [*before[:-1], ("user", "?"), ("assistant", "!")]
    said = _rendered(tokenizer, turn, answer=False).rindex("!") + 1
    text = _rendered(tokenizer, [*turn, *asked], answer=True)[said:]
    tokens = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    return tokens[1:] if tokens[0] == last else tokens


def generate_answers(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    questions: Sequence[Sequence[str]],
    out: Path,
    *,
    batch: int = 1024,
    new_tokens: int = 200,
    temperatures: Sequence[float] = (0.0, 0.8),
    half: bool = False,
    asked_as: Callable[[Sequence[str]], Messages] = question_alone,
    seconds: float = math.inf,
) -> None:
    """Let the target answer the questions of every conversation in turn, and append the lines to `out`.

    An existing file is continued after its last whole batch of conversations. `temperatures` are used in turn, one for
    each conversation. `half`: compute in bfloat16 if the model's weights have more bits. `asked_as`: the messages
    before an answer, from the questions up to it, the last of them from the user. `seconds`: after this time no further
    batch begins, and the rest stays unanswered. If there are several processes, each answers every n-th batch and the
    main one writes. The lines are the same as with a single process.
    """
    together = processes(model.device.type)
    done = broadcast_object_list([_kept(out, batch, len(questions)) if together.is_main_process else 0])[0]
    asked = sum(map(len, questions))
    answered, ends = sum(map(len, questions[:done])), time.monotonic() + seconds
    with stage("answers", asked, answered, shown=together.is_main_process) as progress:
        asking = _Target(model, tokenizer, new_tokens, temperatures, half, asked_as, progress)
        for first in range(done, len(questions), batch * together.num_processes):
            if broadcast_object_list([time.monotonic() > ends])[0]:
                break
            at = first + batch * together.process_index
            chosen = questions[at : at + batch]
            lines = gather_object(asking.answer(chosen, at) if chosen else [])
            if together.is_main_process:
                with out.open("a") as file:
                    file.writelines(lines)
                others = questions[first + batch : first + batch * together.num_processes]
                progress.advance(sum(map(len, others)))
    together.wait_for_everyone()


def _kept(out: Path, batch: int, total: int) -> int:
    """How many conversations of a file are kept: all if it is complete, else those in whole batches.

    The rest is cut off.
    """
    if not out.exists():
        return 0
    lines = out.read_bytes().splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    done = total if len(lines) == total else len(lines) // batch * batch
    out.write_bytes(b"".join(lines[:done]))
    return done


@dataclass(frozen=True)
class _Target:
    """The target with its tokenizer, and its settings for answers; see `generate_answers`."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    new_tokens: int
    temperatures: Sequence[float]
    half: bool
    asked_as: Callable[[Sequence[str]], Messages]
    progress: StageProgress

    def answer(self, chosen: Sequence[Sequence[str]], seed: int) -> list[str]:
        """The lines of one batch of conversations."""
        torch.manual_seed(seed)
        ids: list[list[int]] = [[] for _ in chosen]
        learn: list[list[tuple[int, int]]] = [[] for _ in chosen]
        for turn in range(max(map(len, chosen))):
            prompts = {i: self._prompt(asked, turn, ids[i]) for i, asked in enumerate(chosen) if turn < len(asked)}
            for first, temperature in enumerate(self.temperatures):
                # Prompts of similar length run together, to keep padding small.
                mine = (i for i in prompts if i % len(self.temperatures) == first)
                asked = sorted(mine, key=lambda i: len(prompts[i]))
                for begin in range(0, len(asked), AT_ONCE):
                    some = asked[begin : begin + AT_ONCE]
                    for i, answer in zip(some, self._continue([prompts[i] for i in some], temperature)):
                        learn[i].append((len(prompts[i]), len(prompts[i]) + len(answer)))
                        ids[i] = prompts[i] + answer
        return [json.dumps({"ids": tokens, "learn": spans}) + "\n" for tokens, spans in zip(ids, learn)]

    def _prompt(self, questions: Sequence[str], turn: int, said: list[int]) -> list[int]:
        """The tokens before an answer, after those that were `said` before."""
        opening = self.asked_as(questions[:1])
        if not turn:
            return _opening(self.tokenizer, opening)
        return said + _next(self.tokenizer, opening, self.asked_as(questions[: turn + 1]), said[-1])

    @torch.no_grad()
    def _continue(self, prompts: list[list[int]], temperature: float) -> list[list[int]]:
        """The continuation of each prompt, including its stop token. Each counts in `progress` when it ends.

        Finished answers leave the batch every `STRETCH` tokens, because the longest answer is many times as long as
        most.
        """
        model, pad = self.model, self.tokenizer.pad_token_id
        pad = self.tokenizer.eos_token_id if pad is None else pad
        stops = model.generation_config.eos_token_id
        stops = set(stops) if isinstance(stops, list) else {stops}
        width = max(map(len, prompts))
        ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts], device=model.device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device)
        sampling = {"do_sample": True, "temperature": temperature} if temperature else {"do_sample": False}
        answers: list[list[int]] = [[] for _ in prompts]
        active, cache = list(range(len(prompts))), DynamicCache()
        while active and (room := width + self.new_tokens - ids.shape[1]) > 0:
            with autocast(model.device.type) if self.half else nullcontext():
                said = model.generate(
                    input_ids=ids,
                    attention_mask=mask,
                    **cache_argument(model, cache),
                    max_new_tokens=min(STRETCH, room),
                    pad_token_id=pad,
                    **sampling,
                )
            going = []
            for place, (row, new) in enumerate(zip(active, said[:, ids.shape[1] :].tolist())):
                end = next((i + 1 for i, token in enumerate(new) if token in stops), None)
                answers[row] += new[:end]
                if end is None:
                    going.append(place)
            self.progress.advance(len(active) - len(going))
            rest = torch.tensor(going, dtype=torch.long, device=model.device)
            cache.batch_select_indices(rest)
            mask = nn.functional.pad(mask[rest], (0, said.shape[1] - ids.shape[1]), value=1)
            active, ids = [active[place] for place in going], said[rest]
        self.progress.advance(len(active))
        return answers


def hold_out(questions: Sequence[Sequence[str]], work: Path) -> tuple[list[Sequence[str]], list[str]]:
    """The conversations to learn from, and the first questions of those that are set aside.

    Only questions that are asked once are set aside, spread evenly. Once `work` has answers the choice stays, because
    any other question may have been learnt from. If there are several processes, the main one writes.
    """
    path = work / HELD_OUT
    if (work / ANSWERS).exists():
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        held = [json.loads(line)["prompt"] for line in lines]
    else:
        held = _choose(questions)
        if processes().is_main_process:
            work.mkdir(parents=True, exist_ok=True)
            text = "".join(json.dumps({"prompt": question}) + "\n" for question in held)
            path.write_text(text, encoding="utf-8")
    aside = {_plain(question) for question in held}
    return [turns for turns in questions if aside.isdisjoint(map(_plain, turns))], held


def _choose(questions: Sequence[Sequence[str]]) -> list[str]:
    asked = Counter(_plain(question) for turns in questions for question in turns)
    once = [turns[0] for turns in questions if asked[_plain(turns[0])] == 1]
    count = min(MOST, len(questions) // SHARE, len(once))
    return once[:: len(once) // count][:count] if count >= FEWEST else []


def _plain(question: str) -> str:
    return " ".join(question.split()).casefold()
