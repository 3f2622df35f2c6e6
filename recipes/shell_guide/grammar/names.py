"""Names as people give them to files, folders, hosts and branches.

A model that met few names learns few names. Most of these are built from a word list in the styles that people use,
some have no meaning at all, so that copying is the only way to get them right.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

WORDS = tuple(
    """
    account agenda album alpha analysis annual api app april archive arrow article asset audio august auth backup banana
    bank banner beach beta bill bird birthday blog board book boot box branch bread bridge budget bug build bundle button
    cache calendar camera car card cat catalog chapter chart chat check cherry city class clean client clip cloud coffee
    color comment company concert config contact contract cookie copy core cost course cover customer daily dark dashboard
    data debug december default delivery demo deploy design desk diary dinner doc dog draft dragon dump east email energy
    engine english error essay event exam example export fall family feature february feed field film final finance fire
    first fish fix flat flight flower folder font food forest form forum front fruit future gallery game garden gift girl
    graph green group guest guide guitar hall hand header health hello help hero history holiday home hotel house icon
    image import index info input install invoice island item january job journal july june kernel key kids kitchen label
    lake landing laptop large last layout leaf lecture legacy lesson letter level library light list live local lock log
    logo loop lunch magic mail main manual map march market master match math media meeting memo menu metrics milk mobile
    model module monday money month moon morning movie music name nature network news night node note notes november number
    ocean october office old online orange order output owner package page paint panel paper parser party patch path
    payment people phone photo picture piece pilot pipe plan planet plot plugin podcast poem pool portal post poster
    presentation price print private product profile project proxy public purchase python query question queue quick
    random raw readme receipt recipe record red release remote rent reply report request resume review river road robot
    rock room rose route rules salary sales sample scan scene school score screen script search season second secret
    section sensor server session settings setup shadow shared ship shop shot signup silver simple site sketch small snow
    song sound source south space spec spring staff stage star start statement station status stock stone store story
    stream street student style sub summary summer sun survey system table task tax team temp template tennis test text
    theme thesis ticket tiger time tiny title todo token tool total tour town track train travel tree trip tutorial unit
    update upload user vacation valley vector version video view vintage wallet water web wedding week weekly white wiki
    wind window winter wood work world yard year yellow zebra zone
    """.split()
)
_CONSONANTS, _VOWELS = list("bcdfghjklmnprstvwz"), list("aeiou")
_LETTERS = list("abcdefghijklmnopqrstuvwxyz")
_DIGITS = list("0123456789")
_MARKS = (
    "old",
    "new",
    "final",
    "v2",
    "v3",
    "copy",
    "bak",
    "draft",
    "dev",
    "prod",
    "test",
    "tmp",
    "orig",
    "2",
    "backup",
)


def _pick(rng: np.random.Generator, options: Sequence[str]) -> str:
    return options[int(rng.integers(len(options)))]


def word(rng: np.random.Generator) -> str:
    """A word: mostly an English one, else syllables without a meaning, else letters."""
    draw = rng.random()
    if draw < 0.65:
        return _pick(rng, WORDS)
    if draw < 0.9:
        syllables = "".join(_pick(rng, _CONSONANTS) + _pick(rng, _VOWELS) for _ in range(int(rng.integers(2, 4))))
        return syllables + _pick(rng, ("", "", "n", "r", "s", "x", "l"))
    return "".join(_pick(rng, _LETTERS) for _ in range(int(rng.integers(2, 6))))


def digits(rng: np.random.Generator, least: int = 1, most: int = 4) -> str:
    """A run of digits that does not begin with 0."""
    number = "".join(_pick(rng, _DIGITS) for _ in range(int(rng.integers(least, most + 1))))
    return number if number[0] != "0" else _pick(rng, _DIGITS[1:]) + number[1:]


def day(rng: np.random.Generator) -> tuple[int, int, int]:
    """Year, month and day of this century's first quarter."""
    return int(rng.integers(2005, 2028)), int(rng.integers(1, 13)), int(rng.integers(1, 29))


def stem(rng: np.random.Generator, *, spaces: float = 0.04) -> str:
    """The name of a file without its ending; `spaces`: the share of those that have a space."""
    first, second = word(rng), word(rng)
    draw = rng.random()
    if draw < spaces:
        return _pick(
            rng, (f"{first} {second}", f"{first.title()} {digits(rng, 1, 2)}", f"{first.title()} {second.title()}")
        )
    if draw < 0.42:
        return first
    if draw < 0.62:
        return f"{first}{_pick(rng, '_-')}{second}"
    if draw < 0.70:
        return f"{first}{_pick(rng, ('', '_', '-'))}{digits(rng)}"
    if draw < 0.79:
        return f"{first}{_pick(rng, '_-')}{_pick(rng, _MARKS)}"
    if draw < 0.84:
        year, month, date = day(rng)
        return f"{first}{_pick(rng, '_-')}{_pick(rng, (f'{year}', f'{year}-{month:02}', f'{year}-{month:02}-{date:02}', f'{year}{month:02}{date:02}'))}"
    if draw < 0.88:
        return f"{_pick(rng, ('IMG', 'DSC', 'VID', 'scan', 'q', 'part', 'page', 'DOC'))}{_pick(rng, ('_', '-', ''))}{digits(rng, 1, 4)}"
    if draw < 0.92:
        return first + second.title()
    if draw < 0.95:
        return f"{first}.{_pick(rng, _MARKS)}"
    if draw < 0.98:
        return _pick(rng, (first.upper(), first.title()))
    return f"{first}_{second}{_pick(rng, '_-')}{_pick(rng, _MARKS)}{digits(rng, 1, 1)}"


def identifier(rng: np.random.Generator, marks: str = "-_") -> str:
    """A name without spaces and dots: of a service, a package, a branch, a table."""
    first, second = word(rng), word(rng)
    draw = rng.random()
    if draw < 0.5 or not marks:
        return first
    if draw < 0.8:
        return first + _pick(rng, marks) + second
    return first + _pick(rng, ("", marks[0])) + digits(rng, 1, 2)


def address(rng: np.random.Generator) -> str:
    """An IPv4 address, most of them private or set aside for documents."""
    first = _pick(rng, ("10", "172.16", "192.168", "192.0.2", "198.51.100", "203.0.113", digits(rng, 2, 2)))
    parts = first.split(".")
    return ".".join([*parts, *(str(int(rng.integers(1, 255))) for _ in range(4 - len(parts)))])


def domain(rng: np.random.Generator) -> str:
    """A host name with a dot."""
    ending = _pick(rng, ("com", "org", "net", "io", "dev", "local", "lan", "de", "co.uk", "internal", "example"))
    sub = _pick(rng, ("", "", "", "www.", "api.", "git.", "db.", f"{word(rng)}."))
    return f"{sub}{identifier(rng, '-')}.{ending}"
