"""What `outrider ask --queue`, `outrider queue` and `outrider verify` do: answers on stdout, talk on stderr.

Their output and exit codes are an interface.
"""

from __future__ import annotations

from app.cli.ask import Answered, listen, new_conversation, say
from app.config import Folders, Settings
from app.exits import FAILED, OK, UNREACHABLE
from app.reply.bootstrap import open_assistant
from app.reply.judgement import nothing_to_verify, unverified
from app.sanitise import sanitise
from storage import Store


def keep(question: str, folders: Folders, conversation: str | None = None, *, last: bool = False) -> int:
    """Queue a question, in a new conversation or as `ask` goes on with one; its id in the queue goes to stdout.

    Raises `StorageError`.
    """
    with Store.open(folders.database) as store:
        chosen = store.conversations.to_continue(conversation, last=last) or new_conversation(store, question)
        queued = store.queue.add(chosen, question)
    print(queued.id)
    say("queued: it is sent when the verifier is back and the chat is open, or with `outrider queue send`")
    return OK


def show(folders: Folders) -> int:
    """A line for each that waits. Raises `StorageError`."""
    with Store.open(folders.database) as store:
        for queued in store.queue.all():
            print(queued.id, queued.conversation_id, queued.kind, " ".join(sanitise(queued.text).split()), sep="  ")
    return OK


def replace(queued_id: str, text: str, folders: Folders) -> int:
    """Raises `StorageError`."""
    with Store.open(folders.database) as store:
        store.queue.edit(queued_id, text)
    return OK


def drop(queued_id: str, folders: Folders) -> int:
    """Raises `StorageError`."""
    with Store.open(folders.database) as store:
        store.queue.remove(queued_id)
    return OK


async def send_all(settings: Settings, folders: Folders) -> int:
    """Answer or verify everything that waits; returns the exit code. Raises what `open_assistant` does."""
    code = OK
    async with open_assistant(settings, folders) as assistant:
        waiting = assistant.outbox.queued()
        if not waiting:
            say("nothing is queued")
            return OK
        await assistant.settled()
        for queued in waiting:
            say(f"{queued.kind}: {' '.join(sanitise(queued.text).split())}")
            answered = await listen(assistant.outbox.send(queued))
            _print(answered)
            if answered.failed is not None:
                code = FAILED
            if answered.failed is not None and answered.failed.code in ("unavailable", "incompatible"):
                break
        sent = {queued.id for queued in waiting}
        if left := sum(queued.id in sent for queued in assistant.outbox.queued()):
            say(f"{left} of {len(waiting)} stay queued")
            return UNREACHABLE
    return code


async def verify_last(conversation_id: str | None, settings: Settings, folders: Folders) -> int:
    """Verify the last answer of a conversation; returns the exit code. Raises what `open_assistant` does."""
    async with open_assistant(settings, folders) as assistant:
        store = assistant.store
        if conversation_id is None:
            conversation_id = next((conversation.id for conversation in store.conversations.recent(1)), "")
        thread = store.branches.thread(conversation_id) if conversation_id else []
        answer = next((message for message in reversed(thread) if message.role == "assistant"), None)
        if answer is None:
            say("there is no answer to verify")
            return FAILED
        if not unverified(answer):
            print(sanitise(answer.text))
            say(nothing_to_verify(answer))
            return OK
        await assistant.settled()
        answered = await listen(assistant.verify(answer.id))
        _print(answered)
        if answered.failed is None:
            return OK
        return UNREACHABLE if answered.failed.code in ("unavailable", "incompatible") else FAILED


def _print(answered: Answered) -> None:
    """The answer on stdout; on stderr what the target did not keep."""
    if answered.done is not None:
        print(answered.text, flush=True)
        if drafted := answered.done.provenance.count(False):
            say(f"{drafted} of {len(answered.done.provenance)} tokens come from the drafter alone, not verified")
    if answered.judged is not None:
        say(str(answered.judged))
        if answered.judged.dropped:
            say(f"it did not keep: {answered.judged.dropped}")
