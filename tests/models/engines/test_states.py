"""Models whose states cannot be taken back: they are copied as a whole, never cut, and served without drafts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from models.engines.engine import STATE_TOKENS, TargetContext
from models.engines.llama_engine import LlamaEngine
from models.engines.llama_lane import STATES, LlamaContext
from models.engines.sequential_engine import SequentialEngine, tensors
from models.tree import DraftTree
from remote.verifier.loader import opened
from remote.verifier.options import ServeOptions
from tests.models.engines.conftest import CHUNK, LLAMA_CPP_TREELESS, Bench, asked, holding
from tests.remote.verifier.tiny import TREELESS, plain_logits, tiny_model, tiny_tokenizer

EMPTY = DraftTree.empty()
PROMPT = [5, 9, 2, 30, 7, 7, 11, 40, 3]


@pytest.fixture(params=LLAMA_CPP_TREELESS)
def llama(made: Callable[[str], Bench], request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench = made(f"llama.cpp {request.param}")
    yield bench
    assert isinstance(bench.engine, LlamaEngine)
    bench.engine.close()


def begun(bench: Bench, tokens: list[int] = PROMPT) -> TargetContext:
    """A conversation whose tokens are all computed, and one more that is not."""
    context = holding(bench.engine, tokens)
    bench.engine.verify(context, EMPTY)
    context.commit(EMPTY, [], 8)
    return context


def right(bench: Bench, context: TargetContext) -> None:
    bench.close(bench.engine.verify(context, EMPTY)[0], plain_logits(bench.model, context.tokens))


def test_it_is_served_without_drafts_and_a_state_is_counted_as_some_tokens(llama: Bench) -> None:
    assert not llama.engine.takes_drafts and llama.engine.most_nodes == 1 and llama.engine.encoder is None
    assert llama.engine.description.endswith(", without drafts, because its state cannot be taken back")
    context = begun(llama, PROMPT * 20)
    assert isinstance(context, LlamaContext)
    held, rows = len(context.rows(0, context.computed)), llama.engine.bytes_per_token
    assert rows * context.computed + STATE_TOKENS > held / 2 and held > rows * STATE_TOKENS / 2


@pytest.mark.parametrize("accepted", [[0], []])
def test_a_node_that_is_tried_leaves_the_state_as_it_was(llama: Bench, accepted: list[int]) -> None:
    context = begun(llama)
    for token in (4, 17, 22):
        chain = DraftTree.chain([token])
        logits = llama.engine.verify(context, chain)
        llama.close(logits[0], plain_logits(llama.model, context.tokens))
        llama.close(logits[1], plain_logits(llama.model, [*context.tokens, token]))
        context.commit(chain, accepted, 6)
        assert context.computed == len(context.tokens) - 1 and context.rewinds == 0, "nothing is computed again"
    right(llama, context)


@pytest.mark.parametrize(
    "name", [*(f"sequential {kind}" for kind in TREELESS), *(f"llama.cpp {kind}" for kind in LLAMA_CPP_TREELESS)]
)
def test_a_state_is_taken_over_as_a_whole_and_copied(made: Callable[[str], Bench], name: str) -> None:
    bench = made(name)
    first = begun(bench)
    others = []
    for end, count in (([4, 8], len(PROMPT)), ([6], len(PROMPT)), ([1, 1], 5)):
        context = holding(bench.engine, [*PROMPT[:count], *end])
        context.adopt(first, count)
        assert context.computed == (count if count == len(PROMPT) else 0), "a part of a state is no state"
        others.append(context)
    for context in (*others, first):
        right(bench, context)


def test_a_conversation_that_changes_is_computed_again(llama: Bench) -> None:
    context = begun(llama)
    assert isinstance(context, LlamaContext)
    context.assign(4, [1, 2, 3])
    assert context.computed == 0 and context.rewinds
    right(llama, context)
    context.park()
    context.commit(EMPTY, [], 9)
    assert context.computed == len(context.tokens) - 1
    right(llama, context)
    context.park()
    context.assign(2, [9])
    assert context.computed == 0
    right(llama, context)


def test_more_conversations_than_a_lane_has_states_are_answered(llama: Bench) -> None:
    contexts = [begun(llama, [number + 1, *PROMPT]) for number in range(STATES + 3)]
    chain = DraftTree.chain([12])
    for _ in range(2):
        for context, logits in zip(contexts, llama.engine.forward([asked(context, chain) for context in contexts])):
            assert isinstance(logits, np.ndarray)
            llama.close(logits[1], plain_logits(llama.model, [*context.tokens, 12]))
            context.commit(chain, [0], 7)
    assert len({context.lane for context in contexts}) > 1
    for context in contexts:
        right(llama, context)
        context.release()


# ---- in PyTorch ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TREELESS)
def test_a_forward_that_fails_half_way_leaves_no_half_of_a_state(made: Callable[[str], Bench], kind: str) -> None:
    bench = made(f"sequential {kind}")
    context = begun(bench)

    def fail(*_: object) -> None:
        raise MemoryError("no memory for this layer")

    layers = next(part for part in bench.model.modules() if isinstance(part, torch.nn.ModuleList))
    hook = layers[-1].register_forward_pre_hook(fail)
    with pytest.raises(MemoryError):
        bench.engine.verify(context, EMPTY)
    hook.remove()
    right(bench, context)


@pytest.mark.parametrize("kind", TREELESS)
@pytest.mark.parametrize("base", [0, 4 * CHUNK - 1])
def test_a_state_that_is_begun_anew_is_read_in_chunks(made: Callable[[str], Bench], kind: str, base: int) -> None:
    bench = made(f"sequential {kind}")
    context = begun(bench, [2 + at % 40 for at in range(4 * CHUNK)])
    context.assign(base, [context.tokens[base] + 1] * (4 * CHUNK - base))
    for done in range(0, 3 * CHUNK, CHUNK):
        assert context.computed == done and bench.engine.read(context)
    right(bench, context)


@pytest.mark.parametrize("kind", TREELESS)
def test_a_state_in_pytorch_is_counted_as_some_tokens(kind: str) -> None:
    engine = SequentialEngine(tiny_model(kind))
    context = holding(engine, PROMPT * 40)
    engine.verify(context, EMPTY)
    assert context.cache is not None
    held = sum(part.nbytes for layer in context.cache.layers for part in tensors(vars(layer)))
    assert held / 4 < engine.bytes_per_token * context.capacity < 4 * held


def test_one_is_opened_without_drafts(tmp_path: Path) -> None:
    model = tiny_model("mamba")
    model.save_pretrained(tmp_path)
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
    tokenizer.save_pretrained(tmp_path)
    found = opened(ServeOptions(str(tmp_path), threads=1))
    assert found.drafter is None and found.side.text is not None and "without drafts" in found.engine.description
    prompt = found.side.text.render([("user", "w5 w9 w30")])
    logits = found.engine.verify(holding(found.engine, prompt), EMPTY)[0]
    np.testing.assert_allclose(logits, plain_logits(model, prompt), atol=1e-3)
