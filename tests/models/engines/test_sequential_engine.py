"""Models that cannot read a draft tree: their states are taken over, given up and counted, and serve a client."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
import torch

from models.engines.engine import UnverifiableTarget
from models.engines.sequential_engine import SequentialEngine, tensors
from models.engines.torch_engine import TorchEngine
from models.tree import DraftTree
from remote import VerifierClient
from remote.protocol import Progress, Sampling, unpack_tokens
from remote.verifier.http import create_app
from remote.verifier.loader import opened
from remote.verifier.options import ServeOptions
from remote.verifier.serve import card
from tests.remote.verifier.test_http import PATIENT, running
from tests.remote.verifier.tiny import STOP, TREELESS, plain_logits, tiny_model, tiny_tokenizer

EMPTY = DraftTree.empty()
PROMPT = [5, 9, 2, 30, 7, 7, 11, 40, 3]


@pytest.mark.parametrize("kind", TREELESS)
def test_the_batching_engine_refuses_them(kind: str) -> None:
    with pytest.raises(UnverifiableTarget):
        TorchEngine(tiny_model(kind))


@pytest.mark.parametrize("kind", TREELESS)
def test_a_state_is_taken_over_as_a_whole_and_copied(kind: str) -> None:
    model = tiny_model(kind)
    engine = SequentialEngine(model)
    first, second, third = engine.context(), engine.context(), engine.context()
    first.assign(0, PROMPT)
    engine.verify(first, EMPTY)
    for context, end in ((second, [4, 8]), (third, [6])):
        context.assign(0, [*PROMPT, *end])
        context.adopt(first, len(PROMPT))
        assert context.computed == len(PROMPT)
    shorter = engine.context()
    shorter.assign(0, [*PROMPT[:5], 1, 1])
    shorter.adopt(first, 5)
    assert shorter.computed == 0, "a part of a state is no state"
    first.commit(EMPTY, [], 8)
    for context in (second, third, first, shorter):
        wanted = torch.from_numpy(plain_logits(model, context.tokens))
        found = torch.from_numpy(engine.verify(context, EMPTY)[0])
        torch.testing.assert_close(found, wanted, atol=1e-4 * float(wanted.abs().max()), rtol=0)


@pytest.mark.parametrize("kind", TREELESS)
def test_a_state_is_counted_as_some_tokens(kind: str) -> None:
    engine = SequentialEngine(tiny_model(kind))
    context = engine.context()
    context.assign(0, PROMPT * 40)
    engine.verify(context, EMPTY)
    assert context.cache is not None
    held = sum(part.numel() * part.element_size() for layer in context.cache.layers for part in tensors(vars(layer)))
    assert held / 4 < engine.bytes_per_token * context.capacity < 4 * held


async def test_one_is_served_without_drafts_to_devices_and_other_programs(tmp_path: Path) -> None:
    """Its text is that of transformers' own `generate`."""
    model = tiny_model("mamba")
    model.config.eos_token_id = model.generation_config.eos_token_id = STOP
    model.save_pretrained(tmp_path)
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
    tokenizer.save_pretrained(tmp_path)
    found = opened(ServeOptions(str(tmp_path), threads=1))
    side, engine = found.side, found.engine
    assert found.drafter is None and side.text is not None and "without drafts" in engine.description
    words = "w5 w9 w30"
    prompt = side.text.render([("user", words)])
    read = {"input_ids": torch.tensor([prompt]), "attention_mask": torch.ones(1, len(prompt), dtype=torch.long)}
    expected = model.generate(**read, max_new_tokens=20, do_sample=False)
    wanted = expected[0, len(prompt) :].tolist()
    with running(create_app(engine, card(side, engine), text=side.text)) as url:
        async with VerifierClient(url) as device:
            stream = await device.session().stream(
                prompt, Sampling(), most=20, memory_from=None, deadline=PATIENT, silence=PATIENT
            )
            frames = [frame async for frame in stream if isinstance(frame, Progress)]
        assert [token for frame in frames for token in unpack_tokens(frame.tokens)] == wanted
        async with httpx.AsyncClient(base_url=url, timeout=PATIENT, trust_env=False) as client:
            asked = {"messages": [{"role": "user", "content": words}], "max_tokens": 20, "temperature": 0}
            answer = (await client.post("/v1/chat/completions", json=asked)).json()
    assert answer["choices"][0]["message"]["content"] == side.text.decode(wanted)
