"""The clients of `benchmarks.churn`: devices and programs, those that stay to the end and those that do not.

Each visit is a function of a client's kind, with random choices of its own. What an answer must say is known from
before: the same question was asked when nobody else was there.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import httpx

from benchmarks.churn_requests import (
    CASES,
    MOST_TOKENS,
    PLAIN,
    REFUSED,
    WrittenAlone,
    check_marks,
    events_of,
    request,
    text_of,
)
from benchmarks.hostile import Attack
from benchmarks.service_ways import PATIENCE, hosted, in_rounds
from models.text.chat_text import ChatText
from models.tree import DraftTree
from remote import RemoteSession, VerifierClient
from remote.openai.schema import DONE

AT_ONCE = 12
"""Clients that are there at the same time."""
DEVICE, FOLLOW_UP = "device", "device, second question"


@dataclass
class Met:
    """What the clients met, all together."""

    answers: Counter[str] = field(default_factory=Counter)
    """Right ones, by the kind of client."""
    left: Counter[str] = field(default_factory=Counter)
    """Visits that the client itself broke off."""
    refused: Counter[str] = field(default_factory=Counter)
    """Requests that had to be refused, and were."""
    alone: Counter[str] = field(default_factory=Counter)
    """Visits at a gateway whose answers its small model wrote in part alone; they may say anything."""
    failures: list[str] = field(default_factory=list)
    different: list[dict[str, str]] = field(default_factory=list)


@dataclass(eq=False)
class Device:
    """A device with a session, and what it has asked and heard in it."""

    client: VerifierClient
    session: RemoteSession
    question: str
    tokens: list[int]


class Clients:
    """All kinds of clients of one server. `gateway`: they ask Outrider's gateway, so all are programs."""

    def __init__(self, url: str, attack: Attack, drafts: Mapping[str, Sequence[DraftTree]], text: ChatText) -> None:
        """`drafts`: those of a device, for each question; empty: this is a gateway, where only programs come."""
        self.met = Met()
        self._url, self._attack, self._drafts, self._text = url, attack, drafts, text
        self._wanted: dict[tuple[str, str], list[str]] = {}
        """The texts that a request must give, by its case and its question."""
        self._second: dict[str, list[DraftTree]] = {}
        """Drafts of the second question after each first one."""
        self._parked: list[Device] = []
        """Devices that will come again."""
        self.kinds: Mapping[str, tuple[int, Callable[[random.Random], Awaitable[None]]]] = {
            "program": (8, self._program),
            "program that reads slowly": (1, self._slow_program),
            "program that hangs up": (2, self._program_that_leaves),
            "program that is killed": (2, self._killed),
            "refused": (1, self._refused),
            "hostile": (2, self._hostile),
        }
        if drafts:
            self.kinds = {
                **self.kinds,
                "device": (4, self._device),
                "device that comes again": (3, self._second_visit),
                "device that leaves": (2, self._device_that_leaves),
            }

    @property
    def questions(self) -> list[str]:
        return sorted({question for _, question in self._wanted})

    async def know(self, questions: Sequence[str]) -> None:
        """Ask everything once, one after another, for what the answers must be.

        Then so many programs ask at once that whatever is opened for them is open before anything is measured.
        """
        async with self._program_client() as client:
            for case, question in itertools.product(CASES if self._drafts else PLAIN, questions):
                while (case, question) not in self._wanted:
                    with contextlib.suppress(WrittenAlone):
                        self._wanted[case, question] = await self._asked(client, case, question, stream=False)
            together = itertools.islice(itertools.cycle(questions), AT_ONCE)
            asked = (self._asked(client, "chat", question, stream=False) for question in together)
            for failed in await asyncio.gather(*asked, return_exceptions=True):
                if isinstance(failed, Exception) and not isinstance(failed, WrittenAlone):
                    raise failed
        if self._drafts:
            async with VerifierClient(self._url) as device:
                for question in questions:
                    said = await self._heard(hosted(device.session(), self._prompt(question), MOST_TOKENS))
                    self._wanted[DEVICE, question] = [self._text.decode(said)]
                    prompt = self._follow_up(question, said)
                    second = await self._heard(hosted(device.session(), prompt, MOST_TOKENS))
                    self._wanted[FOLLOW_UP, question] = [self._text.decode(second)]
                    half = len(second) // 2
                    self._second[question] = [DraftTree.chain(part) for part in (second[:half], second[half:])]

    async def visit(self, rng: random.Random) -> None:
        """One client comes, and goes."""
        kind = rng.choices(list(self.kinds), [weight for weight, _ in self.kinds.values()])[0]
        try:
            async with asyncio.timeout(PATIENCE):
                await self.kinds[kind][1](rng)
        except WrittenAlone:
            self.met.alone[kind] += 1
        except Exception as error:  # Whatever it is, the visit has failed.
            self.met.failures.append(f"{kind}: {type(error).__name__}: {error}"[:500])

    async def close(self) -> None:
        """Let the devices go that would have come again."""
        while self._parked:
            await self._gone(self._parked.pop())

    def _right(self, kind: str, case: str, question: str, texts: list[str]) -> None:
        wanted = self._wanted[case, question]
        if texts == wanted:
            self.met.answers[kind] += 1
        else:
            found = {"kind": kind, "case": case, "question": question}
            self.met.different.append({**found, "wanted": json.dumps(wanted), "said": json.dumps(texts)})

    # ---- programs ----------------------------------------------------------------------------------------------------

    def _program_client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self._url, timeout=PATIENCE, trust_env=False, verify=False)

    def _case(self, rng: random.Random) -> tuple[str, str]:
        case, question = rng.choice([key for key in self._wanted if key[0] not in (DEVICE, FOLLOW_UP)])
        return case, question

    async def _asked(
        self, client: httpx.AsyncClient, case: str, question: str, *, stream: bool, pause: float = 0.0
    ) -> list[str]:
        path, body = request(case, question)
        if not stream:
            answer = await client.post(path, json=body)
            answer.raise_for_status()
            check_marks(answer.json())
            return [text_of(choice) for choice in answer.json()["choices"]]
        texts = dict[int, str]()
        async with client.stream("POST", path, json={**body, "stream": True}) as response:
            response.raise_for_status()
            ended = False
            async for data in events_of(response, pause):
                ended = data == DONE
                chunk = {"choices": []} if ended else json.loads(data)
                check_marks(chunk)
                for choice in chunk["choices"]:
                    texts[choice["index"]] = texts.get(choice["index"], "") + text_of(choice)
        if not ended:
            raise ValueError("a stream that does not end")
        return [texts[index] for index in sorted(texts)]

    async def _program(self, rng: random.Random) -> None:
        """One to three questions on one connection."""
        async with self._program_client() as client:
            for _ in range(rng.randint(1, 3)):
                case, question = self._case(rng)
                stream = rng.random() < 0.6
                kind = f"{case}{', streamed' if stream else ''}"
                self._right(kind, case, question, await self._asked(client, case, question, stream=stream))

    async def _slow_program(self, rng: random.Random) -> None:
        async with self._program_client() as client:
            case, question = self._case(rng)
            pause = rng.uniform(0.05, 0.3)
            self._right("slow", case, question, await self._asked(client, case, question, stream=True, pause=pause))

    async def _program_that_leaves(self, rng: random.Random) -> None:
        """It closes its connection after some events, or while it waits for a whole answer."""
        path, body = request(*self._case(rng))
        async with self._program_client() as client:
            if rng.random() < 0.5:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(rng.uniform(0.0, 0.2)):
                        await client.post(path, json=body)
            else:
                async with client.stream("POST", path, json={**body, "stream": True}) as response:
                    events = rng.randint(0, 4)
                    async for _ in events_of(response):
                        if (events := events - 1) < 0:
                            break
        self.met.left["hung up"] += 1

    async def _killed(self, rng: random.Random) -> None:
        """Its connection is reset, as by a system whose process dies with unread bytes: anywhere in the request, or in
        the answer."""
        path, body = request(*self._case(rng))
        data = json.dumps({**body, "stream": True}).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        whole = f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data
        url = httpx.URL(self._url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        try:
            writer.write(whole if rng.random() < 0.6 else whole[: rng.randrange(len(whole))])
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rng.uniform(0.0, 0.3)):
                    await reader.readexactly(rng.randint(1, 2000))
        except asyncio.IncompleteReadError:
            pass
        finally:
            reset: socket.socket = writer.get_extra_info("socket")
            reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            writer.transport.abort()
        self.met.left["killed"] += 1

    async def _refused(self, rng: random.Random) -> None:
        path, body, status = rng.choice(REFUSED)
        async with self._program_client() as client:
            answer = await client.post(path, json=body)
        if answer.status_code != status:
            raise ValueError(f"{answer.status_code} instead of {status}: {answer.text[:200]}")
        self.met.refused[str(status)] += 1

    async def _hostile(self, rng: random.Random) -> None:
        """Some requests of `benchmarks.hostile`."""
        before = len(self._attack.faults)
        async with self._program_client() as client:
            for _ in range(rng.randint(1, 5)):
                await self._attack.one(client)
        if len(self._attack.faults) > before:
            raise ValueError(f"a fault of the server: {self._attack.faults[-1]}")

    # ---- devices -----------------------------------------------------------------------------------------------------

    def _prompt(self, question: str) -> list[int]:
        return self._text.render([("user", question)])

    def _follow_up(self, question: str, said: Sequence[int]) -> list[int]:
        asked = self.questions[(self.questions.index(question) + 1) % len(self.questions)]
        return self._text.render([("user", question), ("assistant", self._text.decode(said)), ("user", asked)])

    async def _heard(self, pieces: AsyncGenerator[list[int], None]) -> list[int]:
        return [token async for piece in pieces for token in piece]

    def _writing(
        self, rng: random.Random, session: RemoteSession, question: str, prompt: Sequence[int], second: bool = False
    ) -> AsyncGenerator[list[int], None]:
        """An answer that is hosted, or written in rounds."""
        if rng.random() < 0.5:
            return hosted(session, prompt, MOST_TOKENS)
        return in_rounds(session, prompt, (self._second if second else self._drafts)[question], MOST_TOKENS)

    async def _device(self, rng: random.Random) -> None:
        """A new session, which may be used again later."""
        question = rng.choice(self.questions)
        client = VerifierClient(self._url)
        session, prompt = client.session(), self._prompt(question)
        try:
            said = await self._heard(self._writing(rng, session, question, prompt))
        except BaseException:
            await client.close()
            raise
        self._right("device", DEVICE, question, [self._text.decode(said)])
        device = Device(client, session, question, said)
        if len(self._parked) < 8 and rng.random() < 0.7:
            self._parked.append(device)
        else:
            await self._gone(device, forgets=rng.random() < 0.5)

    async def _second_visit(self, rng: random.Random) -> None:
        """A session is used again; its server may have dropped it for another one."""
        if not self._parked:
            await self._device(rng)
            return
        device = self._parked.pop(rng.randrange(len(self._parked)))
        try:
            prompt = self._follow_up(device.question, device.tokens)
            said = await self._heard(self._writing(rng, device.session, device.question, prompt, second=True))
            self._right("device that comes again", FOLLOW_UP, device.question, [self._text.decode(said)])
        finally:
            await self._gone(device, forgets=rng.random() < 0.5)

    async def _device_that_leaves(self, rng: random.Random) -> None:
        """It goes in the middle of an answer, without a word."""
        question = rng.choice(self.questions)
        async with VerifierClient(self._url) as client:
            pieces = self._writing(rng, client.session(), question, self._prompt(question))
            async with contextlib.aclosing(pieces):
                rounds = rng.randint(0, 3)
                async for _ in pieces:
                    if (rounds := rounds - 1) < 0:
                        break
        self.met.left["device"] += 1

    async def _gone(self, device: Device, *, forgets: bool = True) -> None:
        """A device goes. `forgets`: it tells the server so."""
        async with device.client:
            if forgets:
                await device.session.close(PATIENCE)
