"""`outrider usage`: the tokens of all answers on this device, and what they have cost.

stdout is data; exit codes: 0 ok, 2 usage.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

import typer

from app.cli.options import Json
from app.cli.output import print_json
from app.cli.settings import read_store
from app.exits import complain


def usage(
    by: Annotated[Literal["month", "conversation", "model"], typer.Option("--by", help="What to group by.")] = "month",
    most: Annotated[int | None, typer.Option("-n", metavar="N", min=1, help="Only the last N.")] = None,
    json: Json = False,
) -> None:
    """Show the tokens that your answers used, by month, and their cost if the price is known.

    A price comes from the server's list of models, or from `outrider remote add --price`.
    """
    from app.sanitise import one_line, sanitise
    from app.usage import told

    with read_store() as store:
        sums = store.usage.by(by)[:most]
        titles = {one.id: one.title for one in [*store.conversations.all(), *store.bin.conversations()]}
    if not sums and not json:
        complain("no answers have a token count")
    for one in sums:
        if json:
            print_json({by: one.key, **{name: value for name, value in asdict(one).items() if name != "key"}})
            continue
        name = one.key or "unknown model"
        if by == "conversation":
            name = f"{one.key}  {one_line(titles.get(one.key, '')) or 'Untitled'}"
        print(sanitise(name), *told(one), sep="  ")
