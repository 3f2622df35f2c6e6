"""Conversations that a target has with itself: it writes the question too, as people might ask it, and answers it.

After the opening of its chat template, a target continues with a question (arXiv 2406.08464). So a drafter can learn
from any target without a single text from outside.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

import torch
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from drafter.training.batches import AnsweredConversation
from models.engines.target import cache_argument

AT_ONCE = 64
"""Conversations that are written at the same time, so that each weight is read once for all of them: with 32, a second
of one core yields 169 tokens of SmolLM2-135M, with 64 201, with 96 221. Each takes memory for its rows."""
QUESTION, ANSWER = 48, 128
"""Longest question and answer, in tokens. One that is longer is cut."""
LONGEST_OPENING = 256
"""Most tokens before a question."""
LIKELIEST = 50
"""A token is drawn from this many."""
MARK = "@@"
"""Stands for a question while the template is read."""
TEMPERATURES = (0.0, 0.8)
"""Of the answers, in turn. Questions have 1."""


@dataclass
class _Said:
    """A conversation that is being written."""

    ids: list[int]
    temperature: float
    """Of the answer."""
    forced: list[int] = field(default_factory=list)
    """The next tokens, which the chat template says."""
    answer: int | None = None
    """Where the answer begins, once the question has ended."""


@dataclass(frozen=True)
class SelfTalk:
    """A target that talks to itself."""

    model: PreTrainedModel
    opening: list[int]
    """The tokens before a question."""
    closing: list[int]
    """The tokens between a question and its answer."""
    stops: frozenset[int]

    @classmethod
    def of(cls, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, stops: Iterable[int]) -> Self | None:
        """None if the chat template does not show where a question begins and ends."""
        asked = [{"role": "user", "content": MARK}]
        text = str(tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False))
        before, _, after = text.partition(MARK)
        opening, closing = (list(tokenizer(part, add_special_tokens=False)["input_ids"]) for part in (before, after))
        if not opening or not closing or len(opening) > LONGEST_OPENING:
            return None
        return cls(model, opening, closing, frozenset(stops))

    @torch.no_grad()
    def some(self, seed: int, count: int = AT_ONCE) -> list[AnsweredConversation]:
        """Conversations that depend on the seed alone. All of them but the opening is to be learnt."""
        random = torch.Generator().manual_seed(seed)
        live = [_Said(list(self.opening), TEMPERATURES[row % len(TEMPERATURES)]) for row in range(count)]
        done, cache = list[AnsweredConversation](), DynamicCache()
        ids = torch.tensor([one.ids for one in live])
        while live:
            out = self.model(input_ids=ids, **cache_argument(self.model, cache), use_cache=True, logits_to_keep=1)
            likeliest = out.logits[:, -1].float().topk(min(LIKELIEST, out.logits.shape[-1]), dim=-1)
            heat = torch.tensor([1.0 if one.answer is None else one.temperature for one in live])[:, None]
            drawn = torch.multinomial(torch.softmax(likeliest.values / heat.clamp(min=1e-4), -1), 1, generator=random)
            tokens = likeliest.indices.gather(1, drawn)[:, 0].tolist()
            going = [place for place, (one, token) in enumerate(zip(live, tokens)) if not self._ended(one, token)]
            ended = (one for place, one in enumerate(live) if place not in set(going))
            done += [AnsweredConversation(one.ids, [(len(self.opening), len(one.ids))]) for one in ended]
            cache.batch_select_indices(torch.tensor(going, dtype=torch.long))
            live = [live[place] for place in going]
            ids = torch.tensor([one.ids[-1:] for one in live])
        return done

    def _ended(self, one: _Said, token: int) -> bool:
        """Add the next token to a conversation. Returns whether it has ended."""
        if one.forced:
            one.ids.append(one.forced.pop(0))
        elif one.answer is not None:
            one.ids.append(token)
            return token in self.stops or len(one.ids) - one.answer >= ANSWER
        elif token in self.stops or [token] == self.closing[:1] or len(one.ids) - len(self.opening) >= QUESTION:
            one.ids += self.closing[:1]
            one.forced = self.closing[1:]
            one.answer = len(one.ids) + len(one.forced)
        else:
            one.ids.append(token)
        return False
