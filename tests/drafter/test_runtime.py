from __future__ import annotations

import subprocess
import sys

import msgspec
import numpy as np
import pytest

from drafter.runtime import Drafter
from drafter.search import Pace
from drafter.step import StepGraph
from models.config import CONFIG, GRAPH, DrafterCorrupt, DrafterMissing, read_config, write_config


def test_conversations_share_a_drafter_and_nothing_else(tiny_pair):
    drafter = Drafter.load(tiny_pair / "drafter")
    one, other = drafter.context(), drafter.context()
    one.commit([5, 6, 7])
    other.commit([9, 8])
    before = one.draft(Pace(3, 3, 9))
    other.draft(Pace(4, 4, 16))
    np.testing.assert_array_equal(before.tokens, one.draft(Pace(3, 3, 9)).tokens)


def test_a_missing_folder_or_file_is_named(folder, tmp_path):
    with pytest.raises(DrafterMissing, match="nowhere"):
        Drafter.load(tmp_path / "nowhere")
    (folder / GRAPH).unlink()
    with pytest.raises(DrafterMissing, match=r"drafter\.onnx is missing"):
        Drafter.load(folder)


def test_a_damaged_graph_is_refused_by_its_checksum_or_by_its_form(folder):
    (folder / GRAPH).write_bytes((folder / GRAPH).read_bytes()[:500])
    with pytest.raises(DrafterCorrupt, match=r"drafter\.onnx does not match its checksum"):
        Drafter.load(folder)
    write_config(folder, read_config(folder))
    with pytest.raises(DrafterCorrupt, match=r"drafter\.onnx cannot be loaded"):
        Drafter.load(folder)


def test_a_graph_of_other_layers_is_refused(tiny_pair):
    config = msgspec.structs.replace(read_config(tiny_pair / "drafter"), inference_layers=1)
    with pytest.raises(DrafterCorrupt, match="not the graph that its config describes"):
        StepGraph.load(tiny_pair / "drafter", config)


def test_a_config_from_before_is_of_a_whole_drafter(folder):
    config, path = read_config(folder), folder / CONFIG
    fields = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode(fields | {"cross_attention": False}))
    with pytest.raises(DrafterCorrupt, match="cross_attention"):
        read_config(folder)
    for field in ("layer_self_attention", "cross_attention"):
        del fields[field]
    path.write_bytes(msgspec.json.encode(fields))
    assert read_config(folder) == config and config.layer_self_attention


def test_drafting_never_imports_torch(tiny_pair):
    program = (
        "import sys; from pathlib import Path; from drafter.runtime import Drafter;"
        "Drafter.load(Path(sys.argv[1])).context();"
        "heavy = {'torch', 'transformers', 'onnx'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", program, tiny_pair / "drafter"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
