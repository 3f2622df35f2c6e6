"""What `outrider serve --replicas` decides before there is any Ray."""

from __future__ import annotations

import pytest

from remote.verifier.replicas.replicas import RAY_ADDRESS, cluster_address, cpus, last_line, reach


@pytest.mark.parametrize(
    ("told", "cluster"),
    [(None, None), ("", None), ("local", None), ("localhost:6379", "localhost:6379"), ("auto", "auto")],
)
def test_the_cluster_is_the_one_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, told: str | None, cluster: str | None
):
    monkeypatch.delenv(RAY_ADDRESS, raising=False)
    if told is not None:
        monkeypatch.setenv(RAY_ADDRESS, told)
    assert cluster_address() == cluster


def test_replicas_on_one_machine_share_its_cores():
    assert [cpus(cores, None, 2) for cores in (1, 2, 3, 8)] == [0.5, 1, 1, 4]
    assert 3 * cpus(2, None, 3) <= 2
    assert cpus(None, None, 1) == 1 and cpus(None, 6, 1) == 6


def test_an_address_where_nothing_listens_is_told_at_once():
    with pytest.raises(OSError):
        reach("127.0.0.1:1")
    with pytest.raises(OSError):
        reach("ray://[::1]:1")
    reach("auto")  # A word that Ray looks up itself.


def test_an_error_of_ray_is_told_by_what_the_replica_said():
    quoted = """The deployment failed to start 1 times in a row. Error:
\x1b[36mray::ServeReplica\x1b[39m (pid=1)
  File "replica.py", line 1, in initialize
    raise RuntimeError(traceback.format_exc()) from None
RuntimeError: Traceback (most recent call last):
  File "loader.py", line 2, in opened
    raise UnknownModel("x")
remote.verifier.start_errors.UnknownModel: There is no folder /nothing. Give a model's folder."""
    assert last_line(quoted) == "There is no folder /nothing. Give a model's folder"
    assert last_line("Only one line.") == "Only one line"
    assert last_line("") == "it does not say why"
