"""GGUF files of many kinds: whatever llama.cpp loads is served, and it is said what a model lacks, or why it fails."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from models.engines.choice import EngineOptions, llama_engine
from models.engines.engine import Engine, UnfitDrafter
from models.errors import UnknownModel
from models.tree import DraftTree
from remote.verifier.loader import opened
from remote.verifier.options import ServeOptions
from remote.verifier.serve import build_app
from tests.remote.verifier.test_http import connected
from tests.remote.verifier.tiny import save_speaking
from tests.support.gguf_files import rewritten, texts
from tests.support.gguf_writer import write_gguf
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

WINDOWS, STATES = "gemma3-mixed", "mamba"
NO_DRAFTS = "its state cannot be taken back"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file for each kind of model."""
    pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: pip install '.[gguf]'")
    found, folder = {}, tmp_path_factory.mktemp("files")
    for kind in (WINDOWS, STATES):
        found[kind] = folder / f"tiny-{kind}.gguf"
        write_gguf(save_speaking(kind, folder / kind), found[kind])
    return found


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a model that transformers reads too, and a tokenizer that is known here."""
    pytest.importorskip("llama_cpp", reason="llama.cpp is not installed: pip install '.[gguf]'")
    folder = tmp_path_factory.mktemp("llama")
    write_gguf(save_speaking("llama", folder / "model"), folder / "tiny.gguf")
    return folder / "tiny.gguf"


@pytest.fixture(scope="module")
def parts(llama: Path) -> list[Path]:
    """This model in several files."""
    rewritten(llama, llama.parent / "parted.gguf", most_tensors=12)
    return sorted(llama.parent.glob("parted-*.gguf"))


@pytest.fixture(scope="module")
def foreign(llama: Path) -> Path:
    """A model of an architecture that transformers cannot unpack, with a tokenizer that only llama.cpp reads."""
    return rewritten(llama, llama.parent / "foreign.gguf", architecture="smollm3", pre="superbpe")


QUESTION = {"messages": [{"role": "user", "content": "list all files"}], "max_tokens": 12, "temperature": 0}


def posted(serving: VerifierProcess, path: str, **body: object) -> httpx.Response:
    return httpx.post(f"{serving.url}/v1/{path}", json=body, timeout=PATIENCE_SECONDS, trust_env=False)


def test_it_starts_answers_says_what_it_lacks_and_stops(
    files: dict[str, Path], tiny_pair: Path, tmp_path: Path
) -> None:
    said, told = tmp_path / "said", "no drafter: For tiny-gemma3-mixed, its memory cannot be read: "
    with VerifierProcess(tiny_pair, model=files[WINDOWS], home=tmp_path / "home", said=said) as serving:
        answer = posted(serving, "chat/completions", **QUESTION).json()
        assert serving.interrupt() == 0
    assert answer["usage"]["completion_tokens"] == 12 and told in said.read_text()


async def test_a_model_whose_state_cannot_be_taken_back_answers_the_same_again(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with connected(build_app(ServeOptions(str(files[STATES]), made=tmp_path, threads=1))) as client:
        one, other = [(await client.post("/v1/chat/completions", json=QUESTION)).json() for _ in range(2)]
    assert one["choices"] == other["choices"] and one["usage"]["completion_tokens"] == 12
    assert f"without drafts, because {NO_DRAFTS}" in capsys.readouterr().err


def test_what_conversations_may_take_is_known_to_what_allocates_it(files: dict[str, Path], tmp_path: Path) -> None:
    app = build_app(ServeOptions(str(files[WINDOWS]), made=tmp_path, threads=1, cache_mb=3))
    assert app.turns._engine.most_bytes == 3 << 20


def test_a_model_in_several_files_is_served_by_any_of_their_names(
    llama: Path, parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(parts) > 1
    whole = opened(ServeOptions(str(llama), threads=1))
    for part in (parts[0], parts[-1]):
        found = opened(ServeOptions(str(part), made=tmp_path, budget=1000, threads=1))
        assert found.side.name == "parted" and found.side.tokenizer == whole.side.tokenizer and not found.due
        assert _likeliest(found.engine) == _likeliest(whole.engine)
    said = capsys.readouterr().err
    assert f"PyTorch reads a model from one GGUF file, and parted is in {len(parts)}" in said
    assert f"llama-gguf-split --merge {parts[0].name} parted.gguf. Devices get plain text." in said


def _likeliest(engine: Engine) -> int:
    context = engine.context()
    context.assign(0, [5, 9, 30])
    return int(engine.verify(context, DraftTree.empty())[0].argmax())


def test_its_tokenizer_reads_and_writes_as_the_same_one_elsewhere(llama: Path) -> None:
    side, engine = llama_engine(str(llama), None, EngineOptions(threads=1))
    own = engine.text_side("tiny")
    special = side.text.spelling(side.stop_tokens[0])[0]
    for text in (*texts(), f"Never {special} in the midst", special):
        conversation = [("user", text), ("assistant", "Use tar."), ("user", text)]
        assert own.text.render(conversation) == side.text.render(conversation)
        assert own.text.render_begun(conversation[:2]) == side.text.render_begun(conversation[:2])
        tokens = side.text.encode(text)
        assert own.text.encode(text) == tokens and own.text.decode(tokens) == side.text.decode(tokens)
        assert own.text.encode_whole(text) == side.text.encode_whole(text)
        assert [own.text.spelling(token) for token in tokens] == [side.text.spelling(token) for token in tokens]
        first = own.text.render_after(None, conversation[:1])
        assert own.text.render_after(first, conversation).tokens == side.text.render(conversation)
    assert own.stop_tokens == side.stop_tokens and own.text.knows([5, 9]) and not own.text.knows([engine.vocabulary])
    engine.close()


def test_a_program_asks_it_for_text_and_json(foreign: Path, tiny_pair: Path, tmp_path: Path) -> None:
    said = tmp_path / "said"
    format = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["ab"]}}}
    with VerifierProcess(tiny_pair, model=foreign, home=tmp_path / "home", said=said) as serving:
        plain = posted(serving, "chat/completions", **QUESTION, logprobs=True).json()
        json = posted(serving, "chat/completions", **QUESTION, response_format=format).json()
        refused = posted(serving, "completions", prompt=[2**31 - 1], echo=True)
        assert serving.interrupt() == 0
    assert plain["usage"]["completion_tokens"] == 12 == len(plain["choices"][0]["logprobs"]["content"])
    assert json["choices"][0]["message"]["content"] == '"ab"', said.read_text()
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "prompt")
    assert "no drafter: Only llama.cpp reads" in said.read_text()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"architecture": "qwen99"}, "unknown model architecture: 'qwen99'.*pip install --upgrade llama-cpp-python"),
        ({"pre": "nobody-knows"}, "unknown pre-tokenizer type: 'nobody-knows'.*--upgrade"),
    ],
)
def test_why_llama_cpp_loads_no_file_is_told(llama: Path, tmp_path: Path, changes: dict[str, str], why: str) -> None:
    with pytest.raises(UnknownModel, match=why):
        opened(ServeOptions(str(rewritten(llama, tmp_path / "odd.gguf", **changes)), threads=1))


def test_a_drafter_of_another_model_is_refused(files: dict[str, Path], tiny_pair: Path) -> None:
    with pytest.raises(UnfitDrafter, match="was made for tiny, 3 layers of 2 x 8 keys; this target has 3 of 2 x 16"):
        opened(ServeOptions(str(files[WINDOWS]), tiny_pair / "drafter", threads=1))


def test_a_drafter_of_a_model_that_takes_none_is_left_out(
    files: dict[str, Path], tiny_pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert opened(ServeOptions(str(files[STATES]), tiny_pair / "drafter", threads=1)).drafter is None
    said = capsys.readouterr().err
    assert f"without the drafter {tiny_pair / 'drafter'}, because the model takes none: {NO_DRAFTS}" in said
