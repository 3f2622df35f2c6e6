"""A drafter that learns from its target's talk with itself: what it says, what is kept of it, and what a kill costs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from drafter.training.batches import AnsweredConversation, Batch
from drafter.training.birth import Shape, born
from drafter.training.distil import Distiller
from drafter.training.growth import Growth, Stock
from drafter.training.self_talk import SelfTalk
from drafter.training.target import features
from models.engines.target import Target, load_target

pytestmark = pytest.mark.training


@pytest.fixture(scope="module")
def target(tiny_pair: Path) -> Target:
    return load_target(str(tiny_pair / "target"), device="cpu")


@pytest.fixture(scope="module")
def talk(tiny_pair: Path, target: Target) -> SelfTalk:
    tokenizer = AutoTokenizer.from_pretrained(tiny_pair / "target")
    found = SelfTalk.of(target.model, tokenizer, target.stop_tokens)
    assert found is not None
    return found


def grown(target: Target, talk: SelfTalk, folder: Path) -> Growth:
    torch.manual_seed(0)
    return Growth(born(target.model, "tiny", Shape(0, 1, 1 << 20, "auto")), target.model, talk, folder / "growth.pt")


def test_a_template_that_does_not_end_a_question_allows_no_talk(tiny_pair: Path, target: Target) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_pair / "target")
    tokenizer.chat_template = "{% for message in messages %}<|user|>{{ message.content }}{% endfor %}"
    assert SelfTalk.of(target.model, tokenizer, target.stop_tokens) is None


def test_a_full_stock_drops_the_oldest_and_the_rest_is_what_the_target_computes(target: Target) -> None:
    config = born(target.model, "tiny", Shape(0, 1, 1 << 20, "auto")).config
    stock, random = Stock(config, 1), torch.Generator().manual_seed(0)
    said = [torch.randint(3, 100, (400,), generator=random).tolist() for _ in range(4)]
    for ids in said:
        stock.add(target.model, AnsweredConversation(ids, [(5, 400)]))
    assert [ids for ids, _ in stock.said()] == said[2:]
    for ids, places in zip(said[2:], stock.conversations, strict=True):
        drawn = torch.tensor([places.ids])
        batch, seen = stock.batch(Batch(drawn, drawn, drawn, drawn, drawn, drawn))
        at = torch.arange(400)
        whole = features(target.model, torch.tensor([ids]), at[None], (at[:, None] >= at)[None, None], config)
        assert batch.ids[0].tolist() == ids
        assert torch.allclose(seen.last, whole.last, atol=0.02, rtol=0.01)
        assert torch.allclose(seen.entry, whole.entry, atol=0.02, rtol=0.01)
        assert torch.allclose(seen.keys_values, whole.keys_values[:, :, config.replaced :], atol=0.02, rtol=0.01)


def steps(growth: Growth) -> int:
    with growth.grown() as model:
        return model.config.steps


def test_after_a_kill_it_goes_on_from_its_checkpoint(tiny_pair: Path, talk: SelfTalk, tmp_path: Path) -> None:
    target = load_target(str(tiny_pair / "target"), device="cpu", half=True)
    first = grown(target, talk, tmp_path)
    while steps(first) < 2:
        first.go_on(0.1)
    again = grown(target, talk, tmp_path)
    assert again.seconds == first.seconds and steps(again) == steps(first)
    with first.grown() as mine, again.grown() as its:
        assert all(map(torch.equal, learnt(mine), learnt(its)))
    while steps(again) == steps(first):
        again.go_on(0.1)
    with first.grown() as mine, again.grown() as its:
        assert again.seconds > first.seconds and not all(map(torch.equal, learnt(mine), learnt(its)))
        assert torch.equal(mine.encoder.to_hidden.weight, its.encoder.to_hidden.weight), "stored memory stays valid"


def learnt(model: Distiller) -> list[torch.Tensor]:
    return [weight for weight in model.parameters() if weight.requires_grad]
