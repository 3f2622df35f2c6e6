"""What only the engine on llama.cpp has: one cache for all conversations, and rows read out of its state."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

from drafter.model import MemoryEncoder, save_weights
from models.config import ENCODER, write_config
from models.engines.engine import EngineError, Floats, Forward
from models.engines.kept_check import TreeCheck, checked
from models.engines.llama_engine import IDLE, SMALLEST, LlamaEngine
from models.engines.llama_lane import LlamaContext
from models.engines.llama_rows import CacheRows, UnreadableRows
from models.engines.memory_encoder import ArrayEncoder
from models.errors import CorruptWeights
from models.tree import DraftTree
from tests.models.engines.conftest import Bench, asked, holding
from tests.remote.verifier.tiny import encoder_config, random_tree, tiny_model
from tests.support.gguf_writer import write_gguf

EMPTY = DraftTree.empty()


def state(keys: np.ndarray, values: np.ndarray, positions: list[int], *, transposed: bool) -> bytes:
    """What llama.cpp writes of a sequence, for keys and values of shape (positions, layers, heads, size)."""
    cells, layers = keys.shape[:2]
    parts = [struct.pack("=IiII", 7, 255, 1, cells)]
    parts += [struct.pack("=iIi", position, 1, 255) for position in positions]
    parts.append(struct.pack("=II", transposed, layers))
    for layer in range(layers):
        rows = keys[:, layer].reshape(cells, -1).astype(np.float16)
        parts += [struct.pack("=iQ", 1, rows.shape[1] * 2), rows.tobytes()]
    for layer in range(layers):
        rows = values[:, layer].reshape(cells, -1).astype(np.float16)
        if transposed:
            parts += [struct.pack("=iII", 1, 2, rows.shape[1]), rows.T.tobytes()]
        else:
            parts += [struct.pack("=iQ", 1, rows.shape[1] * 2), rows.tobytes()]
    return b"".join(parts)


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:-1],
        lambda whole: whole + b"x",
        lambda whole: whole[:8] + struct.pack("=I", 2) + whole[12:],
        lambda whole: whole[:16] + struct.pack("=i", 9) + whole[20:],
        lambda whole: whole[: 16 + 4 * 12 + 4] + struct.pack("=I", 4) + whole[16 + 4 * 12 + 8 :],
        lambda whole: whole[: 16 + 4 * 12 + 8] + struct.pack("=i", 0) + whole[16 + 4 * 12 + 12 :],
    ],
    ids=["short", "long", "streams", "positions", "layers", "type"],
)
def test_an_unknown_layout_is_refused(damage: Callable[[bytes], bytes]) -> None:
    rows = np.zeros((4, 3, 2, 4), np.float32)
    written = state(rows, rows, [5, 6, 7, 8], transposed=False)
    CacheRows.read(written, range(5, 9), (3, 2, 4), interleaved=False)
    with pytest.raises(UnreadableRows):
        CacheRows.read(damage(written), range(5, 9), (3, 2, 4), interleaved=False)


def target_in(folder: Path, kind: str) -> Path:
    """A GGUF file."""
    pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: pip install '.[gguf]'")
    tiny_model(kind).save_pretrained(folder / "target")
    write_gguf(folder / "target", folder / "target.gguf")
    return folder / "target.gguf"


@pytest.fixture(params=["llama", "gemma3-mixed"])
def llama(made: Callable[[str], Bench], request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench = made(f"llama.cpp {request.param}")
    yield bench
    assert isinstance(bench.engine, LlamaEngine)
    bench.engine.close()


def test_a_conversation_that_outgrows_its_lane_takes_its_rows_along(llama: Bench) -> None:
    engine = llama.engine
    assert isinstance(engine, LlamaEngine) and engine.lane_cells == SMALLEST
    rng = random.Random(2)
    short, long = (holding(engine, [rng.randrange(48) for _ in range(20)]) for _ in range(2))
    assert isinstance(short, LlamaContext) and isinstance(long, LlamaContext)
    engine.forward([asked(context, EMPTY) for context in (short, long)])
    assert short.lane is long.lane is not None
    long.assign(20, [rng.randrange(48) for _ in range(2 * SMALLEST)])
    moved = engine.verify(long, random_tree(rng, 6))[0]
    assert long.lane is not None and long.lane.cells >= long.capacity > SMALLEST and long.rewinds == 0
    llama.same_as_anew(long, moved)
    long.release()
    other = holding(engine, [rng.randrange(48) for _ in range(SMALLEST)])
    engine.verify(other, EMPTY)
    assert all(lane.holders for lane in engine._lanes), "empty ones are gone"


def test_so_many_sessions_share_a_lane_as_it_has_room_for(llama: Bench) -> None:
    engine = llama.engine
    assert isinstance(engine, LlamaEngine)
    contexts = [holding(engine, [number, *(at % 48 for at in range(SMALLEST // 4 - 10))]) for number in range(10)]
    for context in contexts:
        while engine.read(context):
            pass
    together = engine.forward([asked(context, EMPTY) for context in contexts])
    lanes = {context.lane for context in contexts if isinstance(context, LlamaContext)}
    assert len(lanes) == 3 and all(sum(c.capacity for c in lane.holders) <= lane.cells for lane in lanes if lane)
    for context, logits in zip(contexts, together):
        assert isinstance(logits, np.ndarray)
        llama.same_as_anew(context, logits[0])
        context.release()


def test_lanes_take_no_more_memory_than_they_may(llama: Bench) -> None:
    engine = llama.engine
    assert isinstance(engine, LlamaEngine) and not engine._lanes, "what was tried at its start is gone"
    engine.most_bytes = (SMALLEST // 2 + 100) * engine.bytes_per_token
    contexts = [holding(engine, [number + 1] * 90) for number in range(4)]
    engine.forward([asked(context, EMPTY) for context in contexts])
    assert [lane.cells for lane in engine._lanes] == [SMALLEST // 2]
    for context in contexts:
        context.commit(EMPTY, [], 5)
    longer = holding(engine, [9] * 300)
    for context in (longer, *contexts):
        llama.same_as_anew(context)


def test_who_asks_nothing_for_a_while_leaves_the_lane_and_comes_back(llama: Bench) -> None:
    engine = llama.engine
    tokens = [2 + at % 40 for at in range(50)]
    idle, busy = holding(engine, tokens), holding(engine, tokens[:9])
    engine.verify(idle, EMPTY)
    for _ in range(IDLE + IDLE // 4):
        engine.verify(busy, EMPTY)
        busy.commit(EMPTY, [], 5)
    assert isinstance(idle, LlamaContext) and isinstance(busy, LlamaContext)
    assert idle.lane is None
    assert busy.lane is not None and (idle.computed, idle.capacity, idle.rewinds) == (50, 50, 0)
    like = holding(engine, [*tokens[:30], 1, 1])
    like.adopt(idle, 30)
    assert like.computed == 24
    idle.assign(20, [7, 7, 7])
    for context in (like, idle):
        llama.same_as_anew(context)
        assert context.computed == len(context.tokens) and context.rewinds == (context is idle)
    for context in (idle, busy, like):
        context.release()
        assert context.capacity == 0


@pytest.mark.parametrize("turns", [9, IDLE + IDLE // 4])
def test_who_is_asked_something_quite_different_gives_its_place_up_without_rows(llama: Bench, turns: int) -> None:
    """Nothing of it counts any more, neither when it comes back nor while others go on."""
    engine = llama.engine
    changed, busy = holding(engine, [3, 4, 5, 6]), holding(engine, [7, 8, 9])
    assert isinstance(changed, LlamaContext)
    engine.forward([asked(context, EMPTY) for context in (changed, busy)])
    changed.assign(0, [30, 31, 32])
    for _ in range(turns):
        busy.commit(EMPTY, [], 5)
        engine.verify(busy, EMPTY)
    busy.commit(EMPTY, [], 5)
    assert changed.lane is None or turns < IDLE
    for context in (changed, busy):
        llama.same_as_anew(context)


def test_a_draft_that_cannot_grow_keeps_no_place(llama: Bench) -> None:
    engine, context = llama.engine, holding(llama.engine, [3, 4, 5, 6])
    assert isinstance(context, LlamaContext)
    engine.verify(context, DraftTree.chain([7]))
    context.park()  # Its draft is lost with the lane.
    grown = DraftTree([7, 8, 9, 10, 11], [-1, -1, -1, -1, 0])
    free = []
    for _ in range(2):
        with pytest.raises(EngineError, match="Begin it again"):
            engine.forward([Forward(context, 0, grown, since=1)])
        assert context.lane is not None
        free.append(context.lane.free)
    assert free[0] == free[1]
    context.commit(EMPTY, [], 5)
    llama.same_as_anew(context)


def test_the_rows_of_a_long_idle_session_serve_a_short_one_that_begins_like_it(llama: Bench) -> None:
    engine = llama.engine
    assert isinstance(engine, LlamaEngine)
    tokens = [2 + at % 40 for at in range(SMALLEST + 50)]
    long, busy = holding(engine, tokens), holding(engine, [9] * (SMALLEST // 2))
    short = holding(engine, [*tokens[:30], 1, 1])
    assert isinstance(short, LlamaContext) and isinstance(long, LlamaContext)
    engine.verify(long, EMPTY)
    long.park()
    engine.verify(busy, EMPTY)
    short.adopt(long, 30)
    found = engine.verify(short, EMPTY)[0]
    assert short.lane is not None and short.lane.cells >= len(tokens), "all that was parked has to fit for a moment"
    short.release()
    short.assign(0, [*tokens[:30], 1, 1])
    llama.same(found, engine.verify(short, EMPTY)[0])


def test_rows_that_gave_way_to_those_of_others_are_computed_again(llama: Bench) -> None:
    """llama.cpp takes the places of rows that no layer with a window sees any more, and a rewind does see them."""
    engine, rng = llama.engine, random.Random(8)
    gone, kept, new, beside = (holding(engine, [rng.randrange(48) for _ in range(size)]) for size in (40, 60, 70, 3))
    engine.forward([asked(context, EMPTY) for context in (gone, kept)])  # Who runs alone gets a lane to itself.
    gone.release()
    engine.forward([asked(context, EMPTY) for context in (new, beside)])
    new.commit(EMPTY, [], 3)
    like = holding(engine, [*kept.tokens[:15], 4, 4])
    like.adopt(kept, 15)
    assert like.computed == (0 if llama.windowed else 8)
    kept.assign(15, [7, 7, 7])
    assert kept.computed == (0 if llama.windowed else 8) and kept.rewinds == (2 if llama.windowed else 1)
    for context in (like, kept, new):
        llama.same_as_anew(context)


def test_where_rows_cannot_be_read_there_is_no_memory_and_it_is_said(tmp_path: Path) -> None:
    file, config = target_in(tmp_path, "gemma3-mixed"), msgspec.structs.replace(encoder_config(), target_head_size=16)
    (tmp_path / "drafter").mkdir()
    save_weights(MemoryEncoder(config), tmp_path / "drafter" / ENCODER)
    write_config(tmp_path / "drafter", config)
    engine = LlamaEngine(file, ArrayEncoder.load(tmp_path / "drafter"), threads=1)
    assert engine.encoder is None and engine.takes_drafts
    assert engine.why_no_drafter is not None and "memory cannot be read" in engine.why_no_drafter
    engine.close()


def test_a_check_that_fails_once_is_made_again(tmp_path: Path) -> None:
    class WithoutRoom(LlamaEngine):
        def _run(self, requests: Sequence[Forward]) -> list[Floats]:
            raise EngineError("there is no room")

    file = target_in(tmp_path, "llama")
    for kind, takes in ((WithoutRoom, False), (LlamaEngine, True)):
        engine = kind(file, threads=1, kept=tmp_path / "kept")
        assert engine.takes_drafts == takes
        engine.close()


def test_a_file_that_is_none_says_what_to_do(tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: pip install '.[gguf]'")
    (tmp_path / "a.gguf").write_bytes(b"GGUF and nothing more")
    with pytest.raises(CorruptWeights, match=r"cannot load .*a\.gguf(?! \(failed to load).*Fetch"):
        LlamaEngine(tmp_path / "a.gguf", threads=1)


# ---- what was found out about a file ---------------------------------------------------------------------------------


def test_a_file_is_tried_once_until_it_or_the_library_changes(tmp_path: Path) -> None:
    file, kept, tries = tmp_path / "model.gguf", tmp_path / "kept", list[str]()
    file.write_bytes(b"weights")

    def check() -> TreeCheck:
        tries.append(file.read_text())
        return TreeCheck(f"it is {tries[-1]}", len(tries))

    found = checked([file], "one", kept, check)
    assert checked([file], "one", kept, check) == found == TreeCheck("it is weights", 1)
    assert checked([file], "two", kept, check) == TreeCheck("it is weights", 2)
    file.write_bytes(b"others!!")
    assert checked([file], "one", kept, check) == TreeCheck("it is others!!", 3)
    assert checked([file], "one", None, check).alike == 4
    for one in kept.iterdir():
        one.write_bytes(b"{")
    assert checked([file], "one", kept, check).alike == 5
    assert checked([file], "one", kept, check).alike == 5
    assert checked([file], "one", file, check).alike == 6, "a folder that cannot be written"
