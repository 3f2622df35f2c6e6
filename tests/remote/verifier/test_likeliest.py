"""What the target might have said is what its model says, and comes after everything that somebody waits for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from drafter.learning.distributions import MOST, NONE
from models.engines.torch_engine import TorchEngine
from models.tree import DraftTree
from remote.protocol import MOST_REJECTED, Likeliest, Memory, Progress, Sampling, Verdict, encode_frame, unpack_tokens
from remote.verifier.learning.likeliest import LEAST, likeliest
from tests.remote.verifier.conftest import LIMITS
from tests.remote.verifier.test_hosted import streaming
from tests.remote.verifier.test_http import PROMPT
from tests.remote.verifier.test_sessions import Device, frames_of, table
from tests.remote.verifier.tiny import VOCABULARY, generated


def said(target: TorchEngine, tokens: Sequence[int]) -> np.ndarray:
    """The log-probabilities of the token after these, by one plain pass: (V,)."""
    with torch.no_grad():
        logits = target.model(input_ids=torch.tensor([list(tokens)])).logits[0, -1]
    return logits.log_softmax(-1).numpy()


def agrees(wanted: np.ndarray, tokens: np.ndarray, log_probs: np.ndarray) -> bool:
    """Whether these are the likeliest of it, in float16."""
    count = int((tokens != NONE).sum())
    best = np.sort(wanted)[::-1]
    if count < MOST and best[count] > np.log(LEAST) + 0.01:
        return False
    near = np.allclose(wanted[tokens[:count]], best[:count], atol=1e-4)
    return near and np.allclose(log_probs[:count], best[:count], atol=0.01)


def test_a_sure_target_has_one_token_and_infinite_logits_share_all() -> None:
    logits = np.full((4, 2000), -np.inf, np.float32)
    logits[0, 7] = 1.0
    logits[1, [2, 4]] = np.inf
    logits[2, :20] = 0.0
    logits[3] = -5.0
    tokens, log_probs = likeliest(logits, 3)
    assert tokens[0].tolist() == [7] + 7 * [NONE] and log_probs[0, 0] == 0
    assert sorted(tokens[1, :2].tolist()) == [2, 4] and tokens[1, 2] == NONE
    assert np.allclose(log_probs[1, :2], np.log(0.5), atol=1e-3)
    assert tokens[2].tolist() == [0, 1, 2] + 5 * [NONE] and np.allclose(log_probs[2, :3], np.log(1 / 20), atol=2e-3)
    assert tokens[3].tolist() == [0] + 7 * [NONE], "one is told even where all are below the least chance"


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=2.0, top_k=2, seed=3)])
def test_a_round_tells_what_the_target_might_have_said(target: TorchEngine, sampling: Sampling) -> None:
    device = Device(table(target))
    expected = generated(target.model, PROMPT, 3)
    others = [token for token in range(2, 2 + 12) if token not in expected]
    # A chain of what the target says when it is greedy, with wrong nodes beside each level and below a wrong one.
    parents = [-1, -1, 0, 0, 1, 2, 2, 2, -1, -1, -1, -1, -1]
    tokens = [expected[0], others[0], expected[1], others[1], others[2], expected[2], others[3], others[4]]
    tree = DraftTree(np.array([*tokens, *others[1:6]]), np.array(parents))
    message = device.message(PROMPT, tree, sampling=sampling, memory_from=0, likeliest=8)
    verdict, *memory, told = frames = list(frames_of(device.sessions, message))
    assert isinstance(verdict, Verdict) and all(isinstance(one, Memory) for one in memory) and len(memory) == 1
    assert isinstance(told, Likeliest)
    nodes, listed, log_probs = told.unpack(8)
    gained = [int(tree.tokens[node]) for node in verdict.accepted] + [verdict.bonus]
    assert (told.start, told.count) == (len(PROMPT), len(gained))
    for at in range(told.count):
        assert agrees(said(target, [*PROMPT, *gained[:at]]), listed[at], log_probs[at])
    assert nodes == tree.rejected(verdict.accepted, MOST_REJECTED) and nodes
    for row, node in enumerate(nodes, told.count):
        path = [int(tree.tokens[each]) for each in tree.path(node)]
        assert agrees(said(target, [*PROMPT, *path]), listed[row], log_probs[row])
    if not sampling.temperature:
        assert len(verdict.accepted) == 3 and 4 not in nodes and len(nodes) == MOST_REJECTED
    again = [encode_frame(frame) for frame in frames_of(device.sessions, message)]
    assert again == [encode_frame(frame) for frame in frames], "a repeated round gets the same bytes"


def test_nodes_keep_their_numbers_where_the_tree_is_cut_to_the_room_that_is_left(target: TorchEngine) -> None:
    device = Device(table(target))
    device.play([5 + at % 40 for at in range(LIMITS.max_tokens - 3)])
    wrong = DraftTree(np.array([2, 3, 4, 6, 7]), np.array([-1, 0, 1, -1, -1]))
    message = device.message([], wrong, likeliest=4)
    verdict, told = frames_of(device.sessions, message)
    assert isinstance(verdict, Verdict) and isinstance(told, Likeliest)
    nodes, listed, log_probs = told.unpack(4)
    assert nodes == [node for node in wrong.rejected(verdict.accepted, 8) if wrong.depths()[node] <= 1]
    for row, node in enumerate(nodes, told.count):
        assert int(wrong.depths()[node]) == 1
        wanted = said(target, [*device.tokens, int(wrong.tokens[node])])
        assert listed[row, 0] == wanted.argmax() and np.isclose(log_probs[row, 0], wanted.max(), atol=0.01)


def test_a_stream_tells_it_of_each_new_token(target: TorchEngine) -> None:
    tokens, told = list(PROMPT), 0
    kinds, remembered = [], 0
    for frame in streaming(table(target), [], PROMPT, most=6, likeliest=8, memory_from=0):
        kinds.append(type(frame))
        if isinstance(frame, Memory):
            remembered += frame.count
        if isinstance(frame, Progress):
            tokens += unpack_tokens(frame.tokens)
        if isinstance(frame, Likeliest):
            nodes, listed, log_probs = frame.unpack(8)
            assert not nodes and frame.start + frame.count == len(tokens)
            for at in range(frame.count):
                assert agrees(said(target, tokens[: frame.start + at]), listed[at], log_probs[at])
            told += frame.count
    assert told == 6 == len(tokens) - len(PROMPT) and max(tokens) < VOCABULARY
    assert kinds.index(Progress) < kinds.index(Likeliest) and remembered == len(tokens) - 1
