"""Models are fetched from a hub on loopback, whole and checked; one that cannot answer is told from its files.

No token goes to anybody but the hub, and the check needs neither llama.cpp nor PyTorch.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.local import hub
from app.local.hub import Hub, HubAway, HubModel, NoSuchModel, NotFetched
from app.local.suitability import check
from models.errors import BadTemplate, CorruptWeights, MissingTokenizer, ModelError, UnknownModel
from storage.owner import try_lock
from tests.support.gguf_files import byte_level, entries_of, rewritten, write_vocabulary
from tests.support.gguf_writer import write_gguf
from tests.support.hub_server import REVISION, HubServer, git_digest, sha256

WEIGHTS = b"GGUF" + random.Random(5).randbytes(3_000_000)
CONFIG = b'{"model_type": "tiny"}'


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "PAUSE_SECONDS", 0.0)
    monkeypatch.delenv("HF_TOKEN", raising=False)


@pytest.fixture
def server() -> HubServer:
    return HubServer({"tiny.gguf": WEIGHTS})


@pytest.fixture
def here(server: HubServer, tmp_path: Path) -> Iterator[Hub]:
    """The hub, as it is reached and kept here."""
    with server.running() as address:
        yield Hub(address, tmp_path)


def contents(model: HubModel) -> dict[str, bytes]:
    files = (path for path in model.folder.rglob("*") if path.is_file())
    return {str(path.relative_to(model.folder)): path.read_bytes() for path in files}


def test_a_file_is_fetched_to_where_other_programs_find_it(server: HubServer, here: Hub, tmp_path: Path) -> None:
    from huggingface_hub import try_to_load_from_cache

    server.files = {"tiny-q8_0.gguf": WEIGHTS, "README.md": b"x"}
    told: list[int] = []
    model = here.find("owner/tiny")
    assert (model.name, model.licence, model.size) == ("tiny-q8_0", "apache-2.0", model.missing)
    path = here.fetch(model, told.append)
    assert path == tmp_path / f"models--owner--tiny/snapshots/{REVISION}/tiny-q8_0.gguf"
    assert contents(model) == {"tiny-q8_0.gguf": WEIGHTS} and model.missing == 0
    assert told == sorted(told) and told[-1] == len(WEIGHTS)
    here.fetch(model)
    asked = ["/api/models/owner/tiny", f"/owner/tiny/resolve/{REVISION}/tiny-q8_0.gguf"]
    assert [path for _, path, _ in server.asked] == asked, "something else was sent, or it was fetched twice"
    assert try_to_load_from_cache("owner/tiny", "tiny-q8_0.gguf", cache_dir=tmp_path) == str(path)


def test_what_another_program_has_fetched_is_used(server: HubServer, here: Hub) -> None:
    model = here.find("owner/tiny")
    path = here.fetch(model)
    assert path.is_symlink(), "the content is kept twice"
    path.unlink()  # As where another revision has the same file.
    assert model.missing == 0 and here.fetch(model).read_bytes() == WEIGHTS
    model.blob(model.files[0]).replace(path)  # As on a file system without links.
    assert model.missing == 0 and here.fetch(model).read_bytes() == WEIGHTS
    assert server.begins == [0]
    path.write_bytes(WEIGHTS[:-1])  # As after a power cut.
    assert model.missing == len(WEIGHTS) and here.fetch(model).read_bytes() == WEIGHTS
    model.blob(model.files[0]).write_bytes(WEIGHTS[:-1])
    assert model.missing == len(WEIGHTS) and here.fetch(model).read_bytes() == WEIGHTS


def test_a_connection_that_breaks_is_opened_again(server: HubServer, here: Hub) -> None:
    server.cut = [400_000] * (hub.TRIES + 1)
    assert here.fetch(here.find("owner/tiny")).read_bytes() == WEIGHTS
    assert server.begins == [400_000 * times for times in range(hub.TRIES + 2)]


def test_the_next_call_resumes(server: HubServer, here: Hub) -> None:
    server.cut = [1_000_000] + [0] * hub.TRIES
    model = here.find("owner/tiny")
    with pytest.raises(HubAway, match=r"cannot be reached .* What has arrived is kept"):
        here.fetch(model)
    assert model.missing == len(WEIGHTS) - 1_000_000 and not contents(model)
    assert here.fetch(model).read_bytes() == WEIGHTS
    assert server.begins == [0, *[1_000_000] * (hub.TRIES + 1)]


def test_a_server_that_cannot_resume_sends_all_again(server: HubServer, here: Hub) -> None:
    server.cut, server.ranges = [1_000_000], False
    assert here.fetch(here.find("owner/tiny")).read_bytes() == WEIGHTS


def test_a_wrong_digest_or_more_than_was_announced_is_never_kept(server: HubServer, here: Hub) -> None:
    server.damaged, model = 1, here.find("owner/tiny")
    with pytest.raises(NotFetched, match="does not have the digest that .* was deleted. Try again"):
        here.fetch(model)
    assert model.missing == len(WEIGHTS) and not contents(model)
    server.more = bytes(1_000_000)
    with pytest.raises(NotFetched, match="longer than"):
        here.fetch(model)
    server.more = b""
    assert model.missing == len(WEIGHTS) and here.fetch(model).read_bytes() == WEIGHTS
    assert server.begins == [0, 0, 0]


def test_what_the_hub_refuses_is_said(server: HubServer, here: Hub) -> None:
    model = here.find("owner/tiny")
    for server.refuses, kind, said in (
        ((403, "GatedRepo"), NotFetched, "terms to accept first: do so at http://.*/owner/tiny, and set HF_TOKEN"),
        ((401, "RepoNotFound"), NoSuchModel, "no model owner/tiny at 127.0.0.1:.* private"),
        ((403, ""), NotFetched, "refuses owner/tiny with status 403. Set HF_TOKEN"),
        ((503, ""), NotFetched, "refuses owner/tiny with status 503. Try again later"),
    ):
        for call in (lambda: here.find("owner/tiny"), lambda: here.fetch(model)):
            with pytest.raises(NotFetched, match=said) as raised:
                call()
            assert type(raised.value) is kind


def test_a_token_goes_to_the_hub_alone(server: HubServer, tmp_path: Path) -> None:
    storage = HubServer(server.files)
    with storage.running() as server.storage, server.running() as address:
        here = Hub(address, tmp_path, "hf_secret")
        assert here.fetch(here.find("owner/tiny")).read_bytes() == WEIGHTS
    assert [headers["authorization"] for _, _, headers in server.asked] == ["Bearer hf_secret"] * 2
    ((_, _, headers),) = storage.asked
    assert "authorization" not in headers and "hf_secret" not in str(headers)


def test_a_model_in_several_files_is_fetched_whole(server: HubServer, here: Hub) -> None:
    parts = {f"q4/big-0000{number}-of-00002.gguf": WEIGHTS + bytes([number]) for number in (1, 2)}
    server.files = {"mmproj-big.gguf": b"GGUF", **parts}
    model = here.find("owner/tiny")
    assert model.name == "big" and here.fetch(model).name == "big-00001-of-00002.gguf"
    assert contents(model) == parts
    del server.files["q4/big-00002-of-00002.gguf"]
    with pytest.raises(NoSuchModel, match=r"only some of the files .* q4/big-00002-of-00002.gguf"):
        here.find("owner/tiny")


def test_a_folder_has_weights_and_texts_only(server: HubServer, here: Hub) -> None:
    wanted = {f"model-0000{number}-of-00002.safetensors": bytes([number]) * 1000 for number in (1, 2)}
    wanted |= {"config.json": CONFIG, "tokenizer.json": b"{}", "chat_template.jinja": b"", "README.md": b"---\n"}
    others = dict.fromkeys(("pytorch_model.bin", "modeling.py", "onnx/model.onnx", "consolidated.safetensors"), b"no")
    server.files = {**wanted, **others}
    model = here.find("owner/tiny")
    assert here.fetch(model) == model.folder and model.name == "tiny"
    assert contents(model) == wanted
    assert {file.name: file.digest for file in model.files} == {
        name: sha256(content) if name.endswith(".safetensors") else git_digest(content)
        for name, content in wanted.items()
    }


def test_one_file_of_several_is_chosen(server: HubServer, here: Hub) -> None:
    server.files = {f"tiny-{kind}.gguf": WEIGHTS for kind in ("q2_k", "Q4_K_M", "q8_0")}
    for address, name in (
        ("owner/tiny:Q8_0", "tiny-q8_0"),
        ("owner/tiny:tiny-q2_k.gguf", "tiny-q2_k"),
        ("hf.co/owner/tiny:Q8_0", "tiny-q8_0"),
        ("https://huggingface.co/owner/tiny/", "tiny-Q4_K_M"),
        ("https://huggingface.co/owner/tiny/tree/main", "tiny-Q4_K_M"),
        ("https://huggingface.co/owner/tiny/resolve/main/tiny-q2_k.gguf?download=true", "tiny-q2_k"),
    ):
        assert here.find(address).name == name
    del server.files["tiny-Q4_K_M.gguf"]
    advice = r"owner/tiny:FILE. It has tiny-q2_k.gguf \(3 MB\), tiny-q8_0.gguf \(3 MB\)"
    for unclear in ("", ":q", ":q5"):
        with pytest.raises(NoSuchModel, match=advice):
            here.find(f"owner/tiny{unclear}")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "../x.gguf", "embedder.gguf"])
def test_what_may_contain_code_is_not_fetched(name: str, server: HubServer, here: Hub) -> None:
    server.files = {name: b"x", "config.json": CONFIG}
    with pytest.raises(NoSuchModel, match="no chat model in GGUF or safetensors; other formats may contain code"):
        here.find("owner/tiny")


def test_two_programs_do_not_write_one_file(here: Hub) -> None:
    model = here.find("owner/tiny")
    part = model.part(model.files[0])
    part.parent.mkdir(parents=True)
    with part.open("ab") as other:
        assert try_lock(other)
        with pytest.raises(NotFetched, match="Another program is fetching tiny.gguf"):
            here.fetch(model)
    assert here.fetch(model).read_bytes() == WEIGHTS


def test_a_disk_without_room_is_said_before(server: HubServer, here: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    model = here.find("owner/tiny")
    with monkeypatch.context() as full:
        full.setattr(hub, "SPARE", 1 << 60)
        with pytest.raises(NotFetched, match=r"3 MB are to be fetched, and .* are free in .* set HF_HOME"):
            here.fetch(model)
    assert not server.begins
    here.fetch(model)
    monkeypatch.setattr(hub, "SPARE", 1 << 60)
    assert here.fetch(model).read_bytes() == WEIGHTS


def test_a_folder_that_cannot_be_written_is_said(here: Hub, tmp_path: Path) -> None:
    (tmp_path / "models--owner--tiny").touch()
    with pytest.raises(NotFetched, match="models--owner--tiny.* cannot be written: Not a directory"):
        here.fetch(here.find("owner/tiny"))


def test_what_is_no_name_is_not_asked_for(server: HubServer, here: Hub) -> None:
    for name in ("a/b/c", "/etc/passwd", "-", "a b"):
        with pytest.raises(NoSuchModel, match="OWNER/NAME"):
            here.find(name)
    assert not server.asked


def test_a_hub_that_is_away_or_none_is_said(server: HubServer, here: Hub, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(HubAway, match="cannot be reached"):
            Hub(f"http://127.0.0.1:{closed.getsockname()[1]}", tmp_path).find("owner/tiny")
    for listing, said in (
        ({"siblings": 5}, "does not answer like the Hugging Face hub"),
        ({"id": "owner/tiny", "sha": "5", "siblings": [{"rfilename": "a.gguf"}]}, "names no digests"),
    ):
        server.listing = lambda listing=listing: listing
        with pytest.raises(NotFetched, match=said):
            here.find("owner/tiny")


# ---- models that cannot answer are told, with what to do -------------------------------------------------------------


BROKEN = struct.pack("<Q", 3) + b"[1]"
"""A file of safetensors whose header is none."""


@pytest.fixture
def gguf(tiny_pair: Path, tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    write_gguf(tiny_pair / "target", path, "f16")
    return path


@pytest.fixture
def folder(tiny_pair: Path, tmp_path: Path) -> Path:
    shutil.copytree(tiny_pair / "target", tmp_path / "tiny")
    (tmp_path / "tiny/target.onnx").unlink()
    return tmp_path / "tiny"


def test_whole_models_pass(gguf: Path, folder: Path, tiny_pair: Path, tmp_path: Path) -> None:
    for whole in (gguf, rewritten(gguf, tmp_path / "split.gguf", most_tensors=5), folder):
        check(whole)
    (folder / "model.safetensors").unlink()
    shutil.copy(tiny_pair / "target/target.onnx", folder)
    check(folder)


@pytest.mark.parametrize("kept", [0.01, 0.5, 1])
def test_a_file_that_is_cut_is_told(kept: float, gguf: Path, folder: Path) -> None:
    for path, model in ((gguf, gguf), (folder / "model.safetensors", folder)):
        os.truncate(path, int(path.stat().st_size * kept) - 1)
        with pytest.raises(
            CorruptWeights, match=r"(is cut short: it has .* of .* bytes|is damaged: .*)\. Fetch it again"
        ):
            check(model)


def test_a_model_with_a_file_missing_is_told(gguf: Path, tmp_path: Path) -> None:
    first = rewritten(gguf, tmp_path / "split.gguf", most_tensors=5)
    second = next(tmp_path.glob("split-00002-of-*.gguf"))
    os.truncate(second, second.stat().st_size - 1)
    with pytest.raises(CorruptWeights, match=f"{second.name} is cut short"):
        check(first)
    second.unlink()
    with pytest.raises(UnknownModel, match=f"{second.name} is not beside"):
        check(first)


def test_a_template_that_does_not_work_is_told(folder: Path, tmp_path: Path) -> None:
    for template, said in (
        ("", "base model, which continues text and does not answer. Choose its instruct version"),
        ("{% for %}", "is not valid Jinja: .* outrider local catalogue"),
        ("{{ raise_exception('not today') }}", "fails. .*not today. Choose another one"),
        ("hello", "leaves out what is asked"),
    ):
        (folder / "chat_template.jinja").write_text(template)
        entries = {**entries_of(byte_level()), "tokenizer.chat_template": template}
        for path in (write_vocabulary(tmp_path / "tiny.gguf", entries), folder):
            with pytest.raises(BadTemplate, match=said):
                check(path)


def test_a_file_that_cannot_be_read_is_told(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()
    with pytest.raises(ModelError, match="model.safetensors cannot be read: Is a directory"):
        check(folder)


def test_a_part_of_a_model_or_one_larger_than_the_memory_is_told(gguf: Path, tmp_path: Path) -> None:
    part = write_vocabulary(tmp_path / "lora.gguf", {"general.type": "adapter"})
    with pytest.raises(UnknownModel, match=r"only a part of a model \(adapter\). Give the model itself"):
        check(part)
    os.truncate(gguf, 1 << 43)  # Sparse: it takes no room on the disk.
    with pytest.raises(UnknownModel, match=r"takes 8796\.1 GB of memory, and this device has .* Choose a smaller one"):
        check(gguf)


def test_what_is_no_model_is_told(tmp_path: Path) -> None:
    for name, content, said in (
        ("page.gguf", b"<html>", "is not a GGUF file: it does not begin with GGUF"),
        ("blob", b"GGUF", "ends within its header"),
        ("model.bin", b"\x80\x02}", "is not a model. Give a GGUF file, or a folder with config.json and safetensors"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelError, match=said):
            check(tmp_path / name)


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (lambda folder: (folder / "model.safetensors").unlink(), UnknownModel, "has no model: .* other formats"),
        (lambda folder: (folder / "config.json").unlink(), UnknownModel, "has no model: it needs config.json"),
        (lambda folder: (folder / "tokenizer.json").unlink(), MissingTokenizer, "has no tokenizer.json"),
        (lambda folder: (folder / "model.safetensors").write_bytes(BROKEN), CorruptWeights, "its header cannot be"),
        (lambda folder: (folder / "model.safetensors").rename(folder / "a.gguf"), UnknownModel, "such as .*a.gguf"),
    ],
)
def test_a_folder_that_lacks_something_is_told(
    change: Callable[[Path], object], kind: type[ModelError], said: str, folder: Path
) -> None:
    change(folder)
    with pytest.raises(kind, match=said):
        check(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b'{"text_config": ["x"]}'),
        ("generation_config.json", b'{"eos_token_id": "x"}'),
        ("generation_config.json", b'{"eos_token_id": [{}]}'),
        ("generation_config.json", b'{"eos_token_id": Infinity}'),
        ("tokenizer_config.json", b'{"eos_token": {"special": true}}'),
        ("tokenizer_config.json", b'{"chat_template": [{"name": "default"}]}'),
        ("model.safetensors", struct.pack("<Q", 8) + b'{"\xff":{}}'),
    ],
)
def test_a_file_that_holds_something_else_is_told(name: str, content: bytes, folder: Path) -> None:
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    (folder / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name}.*Fetch it again"):
        check(folder)
