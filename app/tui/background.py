"""Work in the background of a widget or a screen."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, cast

from textual.dom import DOMNode
from textual.worker import Worker, WorkType


def begin(
    node: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], *, group: str = "default", exclusive: bool = False
) -> Worker[None]:
    """Run `work` as a worker of the node. `exclusive`: cancel earlier workers of the group.

    The coroutine is created when the worker begins. Created earlier, it would never be awaited if the worker is
    cancelled in between, and Python would warn about that.
    """
    return node.run_worker(cast("WorkType[None]", work), group=group, exclusive=exclusive)
