"""Work in the background of a widget or a screen."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, cast

from textual.dom import DOMNode
from textual.worker import Worker, WorkType


def begin(
    node: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], *, group: str = "default", exclusive: bool = False
) -> Worker[None]:
    """Run `work` as a worker of the node. `exclusive`: the group's workers before it are cancelled.

    The coroutine is made when the worker begins. One that is made before is never awaited if the worker is cancelled
    in between, and Python warns of it.
    """
    return node.run_worker(cast("WorkType[None]", work), group=group, exclusive=exclusive)
