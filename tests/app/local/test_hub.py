"""Models are fetched from a hub on loopback: whole, resumed, checked, and never with a token for somebody else."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.local import hub
from app.local.hub import Hub, HubAway, HubModel, NoSuchModel, NotFetched
from storage.owner import try_lock
from tests.support.hub_server import REVISION, HubServer, git_digest, sha256

WEIGHTS = b"GGUF" + random.Random(5).randbytes(3_000_000)
CONFIG = b'{"model_type": "tiny"}'


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "PAUSE_SECONDS", 0.0)
    monkeypatch.delenv("HF_TOKEN", raising=False)


@contextlib.contextmanager
def running(server: HubServer, cache: Path, token: str | None = None) -> Iterator[Hub]:
    with server.running() as address:
        yield Hub(address, cache, token)


def contents(model: HubModel) -> dict[str, bytes]:
    return {
        str(path.relative_to(model.folder)): path.read_bytes() for path in model.folder.rglob("*") if path.is_file()
    }


def test_a_file_is_fetched_into_the_cache(tmp_path: Path) -> None:
    server = HubServer({"tiny-q8_0.gguf": WEIGHTS, "README.md": b"x"})
    told: list[int] = []
    with running(server, tmp_path) as here:
        model = here.find("owner/tiny")
        assert (model.name, model.licence, model.size, model.missing) == (
            "tiny-q8_0", "apache-2.0", len(WEIGHTS), len(WEIGHTS),
        )  # fmt: skip
        path = here.fetch(model, told.append)
        assert path == tmp_path / f"models--owner--tiny/snapshots/{REVISION}/tiny-q8_0.gguf"
        assert contents(model) == {"tiny-q8_0.gguf": WEIGHTS} and model.missing == 0
        assert told == sorted(told) and told[-1] == len(WEIGHTS)
        here.fetch(model)
    assert [path for _, path, _ in server.asked] == [
        "/api/models/owner/tiny",
        f"/owner/tiny/resolve/{REVISION}/tiny-q8_0.gguf",
    ], "something else was sent, or it was fetched twice"


def test_other_programs_find_it_without_a_network(tmp_path: Path) -> None:
    from huggingface_hub import try_to_load_from_cache

    with running(HubServer({"tiny.gguf": WEIGHTS}), tmp_path) as here:
        path = here.fetch(here.find("owner/tiny"))
    assert try_to_load_from_cache("owner/tiny", "tiny.gguf", cache_dir=tmp_path) == str(path)


def test_what_another_program_has_fetched_is_used(tmp_path: Path) -> None:
    server = HubServer({"tiny.gguf": WEIGHTS})
    with running(server, tmp_path) as here:
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


def test_a_connection_that_breaks_is_opened_again(tmp_path: Path) -> None:
    server = HubServer({"tiny.gguf": WEIGHTS}, cut=[400_000] * (hub.TRIES + 1))
    with running(server, tmp_path) as here:
        assert here.fetch(here.find("owner/tiny")).read_bytes() == WEIGHTS
    assert server.begins == [400_000 * times for times in range(hub.TRIES + 2)]


def test_the_next_call_resumes(tmp_path: Path) -> None:
    server = HubServer({"tiny.gguf": WEIGHTS}, cut=[1_000_000] + [0] * hub.TRIES)
    with running(server, tmp_path) as here:
        model = here.find("owner/tiny")
        with pytest.raises(HubAway, match=r"cannot be reached .* What has arrived is kept"):
            here.fetch(model)
        assert model.missing == len(WEIGHTS) - 1_000_000 and not contents(model)
        assert here.fetch(model).read_bytes() == WEIGHTS
    assert server.begins == [0, *[1_000_000] * (hub.TRIES + 1)]


def test_who_is_told_may_stop_it(tmp_path: Path) -> None:
    server = HubServer({"tiny.gguf": WEIGHTS})

    def stop(done: int) -> None:
        if done > 1_000_000:
            raise KeyboardInterrupt

    with running(server, tmp_path) as here:
        model = here.find("owner/tiny")
        with pytest.raises(KeyboardInterrupt):
            here.fetch(model, stop)
        assert 1_000_000 < len(WEIGHTS) - model.missing < len(WEIGHTS)
        assert here.fetch(model).read_bytes() == WEIGHTS


def test_a_server_that_cannot_resume_sends_all_again(tmp_path: Path) -> None:
    server = HubServer({"tiny.gguf": WEIGHTS}, cut=[1_000_000], ranges=False)
    with running(server, tmp_path) as here:
        assert here.fetch(here.find("owner/tiny")).read_bytes() == WEIGHTS


def test_a_wrong_digest_is_never_kept(tmp_path: Path) -> None:
    server = HubServer({"tiny.gguf": WEIGHTS}, damaged=1)
    with running(server, tmp_path) as here:
        model = here.find("owner/tiny")
        with pytest.raises(NotFetched, match="has not the digest that .* was deleted. Try again"):
            here.fetch(model)
        assert model.missing == len(WEIGHTS) and not contents(model)
        assert here.fetch(model).read_bytes() == WEIGHTS
    assert server.begins == [0, 0]


def test_no_more_is_taken_than_was_announced(tmp_path: Path) -> None:
    server = HubServer({"tiny.gguf": WEIGHTS}, more=bytes(1_000_000))
    with running(server, tmp_path) as here:
        model = here.find("owner/tiny")
        with pytest.raises(NotFetched, match="longer than"):
            here.fetch(model)
        assert model.missing == len(WEIGHTS)


@pytest.mark.parametrize(
    ("refuses", "kind", "said"),
    [
        ((403, "GatedRepo"), NotFetched, "terms to accept first: do so at http://.*/owner/tiny, and set HF_TOKEN"),
        ((401, "GatedRepo"), NotFetched, "terms to accept first"),
        ((401, "RepoNotFound"), NoSuchModel, "no model owner/tiny at 127.0.0.1:.* private"),
        ((404, "RepoNotFound"), NoSuchModel, "no model owner/tiny"),
        ((403, ""), NotFetched, "refuses owner/tiny with status 403. Set HF_TOKEN"),
        ((503, ""), NotFetched, "refuses owner/tiny with status 503. Try again later"),
    ],
)
def test_what_the_hub_refuses_is_said(
    refuses: tuple[int, str], kind: type[NotFetched], said: str, tmp_path: Path
) -> None:
    server = HubServer({"tiny.gguf": WEIGHTS})
    with running(server, tmp_path) as here:
        model = here.find("owner/tiny")
        server.refuses = refuses
        for call in (lambda: here.find("owner/tiny"), lambda: here.fetch(model)):
            with pytest.raises(NotFetched, match=said) as raised:
                call()
            assert type(raised.value) is kind


def test_a_token_goes_to_the_hub_alone(tmp_path: Path) -> None:
    storage = HubServer({"tiny.gguf": WEIGHTS})
    with storage.running() as elsewhere:
        server = HubServer({"tiny.gguf": WEIGHTS}, storage=elsewhere)
        with running(server, tmp_path, token="hf_secret") as here:
            assert here.fetch(here.find("owner/tiny")).read_bytes() == WEIGHTS
    assert [headers["authorization"] for _, _, headers in server.asked] == ["Bearer hf_secret"] * 2
    ((_, _, headers),) = storage.asked
    assert "authorization" not in headers and "hf_secret" not in str(headers)


def test_a_model_in_several_files_is_fetched_whole(tmp_path: Path) -> None:
    parts = {f"q4/big-0000{number}-of-00002.gguf": WEIGHTS + bytes([number]) for number in (1, 2)}
    server = HubServer({"mmproj-big.gguf": b"GGUF", **parts})
    with running(server, tmp_path) as here:
        model = here.find("owner/tiny")
        assert model.name == "big" and here.fetch(model).name == "big-00001-of-00002.gguf"
        assert contents(model) == parts
        del server.files["q4/big-00002-of-00002.gguf"]
        with pytest.raises(NoSuchModel, match=r"only some of the files .* q4/big-00002-of-00002.gguf"):
            here.find("owner/tiny")


def test_a_folder_has_weights_and_texts_only(tmp_path: Path) -> None:
    wanted = {"model-00001-of-00002.safetensors": b"1" * 1000, "model-00002-of-00002.safetensors": b"2" * 1000}
    wanted |= {"config.json": CONFIG, "tokenizer.json": b"{}", "chat_template.jinja": b"", "README.md": b"---\n"}
    others = dict.fromkeys(("pytorch_model.bin", "modeling.py", "onnx/model.onnx", "consolidated.safetensors"), b"no")
    server = HubServer({**wanted, **others})
    with running(server, tmp_path) as here:
        model = here.find("owner/tiny")
        assert here.fetch(model) == model.folder and model.name == "tiny"
        assert contents(model) == wanted
    assert {file.name: file.digest for file in model.files} == {
        name: sha256(content) if name.endswith(".safetensors") else git_digest(content)
        for name, content in wanted.items()
    }


def test_one_file_of_several_is_chosen(tmp_path: Path) -> None:
    files = {f"tiny-{kind}.gguf": WEIGHTS for kind in ("q2_k", "Q4_K_M", "q8_0")}
    server = HubServer(files)
    with running(server, tmp_path) as here:
        assert here.find("owner/tiny").name == "tiny-Q4_K_M"
        assert here.find("owner/tiny:Q8_0").name == "tiny-q8_0"
        assert here.find("owner/tiny:tiny-q2_k.gguf").name == "tiny-q2_k"
        for address, name in (
            ("hf.co/owner/tiny:Q8_0", "tiny-q8_0"),
            ("https://huggingface.co/owner/tiny/", "tiny-Q4_K_M"),
            ("https://huggingface.co/owner/tiny/tree/main", "tiny-Q4_K_M"),
            ("https://huggingface.co/owner/tiny/resolve/main/tiny-q2_k.gguf?download=true", "tiny-q2_k"),
        ):
            assert here.find(address).name == name
        del server.files["tiny-Q4_K_M.gguf"]
        for unclear in ("", ":q", ":q5"):
            with pytest.raises(
                NoSuchModel, match=r"owner/tiny:FILE. It has tiny-q2_k.gguf \(3 MB\), tiny-q8_0.gguf \(3 MB\)"
            ):
                here.find(f"owner/tiny{unclear}")


@pytest.mark.parametrize(
    "files", [{"pytorch_model.bin": b"x", "config.json": CONFIG}, {"../x.gguf": b"x"}, {"embedder.gguf": b"x"}]
)
def test_what_may_contain_code_is_not_fetched(files: dict[str, bytes], tmp_path: Path) -> None:
    with (
        running(HubServer(files), tmp_path) as here,
        pytest.raises(NoSuchModel, match="no chat model in GGUF or safetensors; other formats may contain code"),
    ):
        here.find("owner/tiny")


def test_two_programs_do_not_write_one_file(tmp_path: Path) -> None:
    with running(HubServer({"tiny.gguf": WEIGHTS}), tmp_path) as here:
        model = here.find("owner/tiny")
        part = model.part(model.files[0])
        part.parent.mkdir(parents=True)
        with part.open("ab") as other:
            assert try_lock(other)
            with pytest.raises(NotFetched, match="Another program is fetching tiny.gguf"):
                here.fetch(model)
        assert here.fetch(model).read_bytes() == WEIGHTS


def test_a_disk_without_room_is_said_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "SPARE", 1 << 60)
    server = HubServer({"tiny.gguf": WEIGHTS})
    with (
        running(server, tmp_path) as here,
        pytest.raises(NotFetched, match=r"3 MB are to be fetched, and .* are free in .* set HF_HOME"),
    ):
        here.fetch(here.find("owner/tiny"))
    assert not server.begins


def test_what_is_here_needs_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(HubServer({"tiny.gguf": WEIGHTS}), tmp_path) as here:
        model = here.find("owner/tiny")
        here.fetch(model)
        monkeypatch.setattr(hub, "SPARE", 1 << 60)
        assert here.fetch(model).read_bytes() == WEIGHTS


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        running(HubServer({"tiny.gguf": WEIGHTS}), tmp_path / "file") as here,
        pytest.raises(NotFetched, match="file.* cannot be written: Not a directory"),
    ):
        here.fetch(here.find("owner/tiny"))


@pytest.mark.parametrize("name", ["a/b/c", "/etc/passwd", "-", "a b"])
def test_what_is_no_name_is_not_asked_for(name: str, tmp_path: Path) -> None:
    server = HubServer({})
    with running(server, tmp_path) as here, pytest.raises(NoSuchModel, match="OWNER/NAME"):
        here.find(name)
    assert not server.asked


def test_a_hub_that_is_away_or_none_is_said(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(HubAway, match="cannot be reached"):
            Hub(f"http://127.0.0.1:{closed.getsockname()[1]}", tmp_path).find("owner/tiny")
    server = HubServer({"tiny.gguf": WEIGHTS})
    server.listing = lambda: {"siblings": 5}
    with running(server, tmp_path) as here, pytest.raises(NotFetched, match="does not answer as the hub does"):
        here.find("owner/tiny")
    server.listing = lambda: {"id": "owner/tiny", "sha": "5", "siblings": [{"rfilename": "a.gguf"}]}
    with running(server, tmp_path) as here, pytest.raises(NotFetched, match="names no digests"):
        here.find("owner/tiny")
