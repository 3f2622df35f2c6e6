"""Fixtures of the tests of answers: an assistant, and what the models of the tiny pair say by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from app.reply.assistant import Assistant
from drafter.runtime import Drafter
from tests.support.conversing import ask, assistant, standing_in, until_connected
from tests.support.serving import VerifierProcess

OWN_TOKENS = 48
Tokens = tuple[int, ...]
Connect = Callable[..., AbstractAsyncContextManager[Assistant]]


@pytest.fixture
def connect(drafter: Drafter, database: Path) -> Connect:
    """Opens an assistant that is connected to an address, a scripted server or nobody, with options of `assistant`.

    `met`: once it is connected.
    """

    @asynccontextmanager
    async def opened(
        where: Any, *, met: bool = False, drafter: Drafter = drafter, database: Path = database, **options: Any
    ) -> AsyncIterator[Assistant]:
        async with AsyncExitStack() as stack:
            if not isinstance(where, str | None):
                where = f"http://127.0.0.1:{await stack.enter_async_context(where.listening())}"
            core = await stack.enter_async_context(assistant(drafter, database, where, **options))
            if met:
                await until_connected(core)
            yield core

    return opened


@pytest.fixture
def stands_in(drafter: Drafter, database: Path) -> Connect:
    """Opens an assistant with a model on this device, as `standing_in` says."""
    return partial(standing_in, drafter, database)


@pytest.fixture
def served(connect: Connect, verifier: VerifierProcess) -> Connect:
    """The same, connected to the verifier that all tests share."""
    return partial(connect, verifier.url)


@pytest.fixture
async def opened(served: Connect, request: pytest.FixtureRequest) -> AsyncIterator[Assistant]:
    """An assistant with the `SETTINGS` of its file of tests, connected to the verifier."""
    async with served(met=True, settings=getattr(request.module, "SETTINGS", None)) as opened:
        yield opened


@pytest.fixture
async def alone_here(connect: Connect, request: pytest.FixtureRequest) -> AsyncIterator[Assistant]:
    """The same, connected to nobody."""
    async with connect(None, settings=request.module.SETTINGS) as opened:
        yield opened


def said(drafter: Drafter, database: Path, url: str | None) -> Tokens:
    """What is answered to `list files` without drafts."""

    async def reference() -> Tokens:
        settings = Settings(max_tokens=OWN_TOKENS)
        async with assistant(drafter, database, url, settings=settings, draft=url is None) as opened:
            heard = await ask(opened, "list files")
            return heard.done.token_ids

    return asyncio.run(reference())


@pytest.fixture(scope="module")
def own(verifier: VerifierProcess, drafter: Drafter, tmp_path_factory: pytest.TempPathFactory) -> Tokens:
    """48 tokens that the target says to `list files` by itself, one by one."""
    return said(drafter, tmp_path_factory.mktemp("own") / "db", verifier.url)


@pytest.fixture(scope="module")
def alone(drafter: Drafter, tmp_path_factory: pytest.TempPathFactory) -> Tokens:
    """48 tokens that the drafter says to it by itself."""
    return said(drafter, tmp_path_factory.mktemp("alone") / "db", None)
