r"""Formulas in Unicode, where a line of text can say them: `\(x^2 \le \frac{1}{2}\)` is drawn as `x² ≤ ½`.

What cannot be said well stays as it was written, as a whole: matrices, unknown commands, unbalanced braces. Nothing is
evaluated or left out but braces, alignment, typefaces and spacing. pylatexenc knows more commands, but writes
`\frac{a+b}{2}` as `a+b/2` and `x^2` as `x^2`, takes 0.1 s to import, and fails on deep braces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from app.tui.markdown.formula_signs import (
    ACCENTS,
    DELIMITER,
    HALVES,
    LETTERS,
    NEGATED,
    ROOTS,
    SCRIPTS,
    SIGNS,
    TEXTS,
    TYPEFACES,
    Kind,
)

LONGEST = 2_000
"""Most characters of a formula that is drawn."""
DEEPEST = 20
"""Most levels of braces."""
CLOSES = {"\\(": "\\)", "\\[": "\\]", "$$": "$$", "$": "$"}
WRITTEN = re.compile(r"(\\[(\[]|\${1,2})(.*)(\\[)\]]|(?<!\$)\${1,2})([.,;:!?]?)", re.DOTALL)
"""A formula with its marks, and punctuation behind it."""
ENVIRONMENT = re.compile(r"\s*\\begin\{((?:align(?:ed)?|equation|gather(?:ed)?|split)\*?)\}")
BEGUN = re.compile(r"\s*\\begin\{[a-z*]*")
TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\s+|.", re.DOTALL)
COMMAND_AT_END = re.compile(r"\\[A-Za-z]+$")
LAST_WORD = re.compile(r"\s+[A-Za-z]+$")
DIFFERENTIAL = re.compile(r"\sd[a-z](?![a-z])")
THOUSANDS = re.compile(r"\d,\d")
ROW_GAP = re.compile(r"\s*\[[\d.]+\s*[a-z]+\]")
_WORD = r"(?!d[a-z]\b)[A-Za-z]{2,}"
WORDS = re.compile(rf"(?<!\\)[\w,.)]\s+{_WORD}(?![A-Za-z(^_])|\b{_WORD}\s+[\w(]|[A-Za-z]{{2}}\\\|")
"""Words side by side: prose between two prices or two brackets, not a formula."""
PATTERN = re.compile(
    r"(?:^|\s)-[A-Za-z]+\s+(?:[\w'\"{]|-[A-Za-z])|\.[*+?]|\[\^|\[\w-\w|^\s*\?|\w[+*?]\s*$"
    r"|^\w+(?:\|\w+)+$|^[A-Za-z\d]+(?:\\\|[A-Za-z\d]+)+$"
)
"""What regular expressions and the conditions of `find` and `test` have between `\\(` and `\\)`."""
ESCAPED = re.compile(r"(?!\s)[^\\^_=<>]*|\^.*", re.DOTALL)
"""What is between brackets that are only escaped: `\\[1\\]`, `\\[^a-z\\]`."""
UNDECIDED = 20
"""Characters after which brackets count as escaped if nothing has shown that they hold a formula."""
OPERATOR = re.compile(r"[\\^=<>+*/\d]")
LONE_WORD = re.compile(r"[a-z]{3}|^\s*[A-Z_]{3,}\b")
NO_FORMULA = re.compile(
    r"\d(?:[\d.\s]*,|[\d.,\s]*[-–—])[\d.,\s]+|.*[,;:/]|\{\w.*|\([a-z]{2,}\b.*|[)\"'@].*|\|\^.*"
    r"|\w*(?:[A-Z]{2}|[a-z]{3})\d+",
    re.DOTALL,
)
"""Between dollars: two prices, a list of variables, `${name}`, `$(command)`, `PS1`."""
NAMES = re.compile(r"\\(?:text|textbf|textit|textrm|mbox|mathrm|operatorname\*?)\s*\{[^{}]*(?:\}|\Z)|\\[A-Za-z]+")
RAISED, LOWERED = (frozenset(SCRIPTS[mark].values()) - set("′″†°") for mark in "^_")


class Unsayable(Exception):
    """A formula that a line of text cannot say."""


class Unfinished(Unsayable):
    """A formula that ends too early, and might be sayable if it went on."""


class Atom(NamedTuple):
    """A part of a formula. `beside`: how it is written next to a factor, if that is not the same."""

    text: str
    kind: Kind = "ord"
    beside: str = ""


@lru_cache(maxsize=2_048)
def drawn(source: str) -> str | None:
    """A formula with its marks as text, with several lines if it has; None if it has to stay as it was written."""
    whole = source.strip()
    marked = WRITTEN.fullmatch(whole)
    if marked is not None and CLOSES[marked[1]] != marked[3]:
        return None
    mark, body, end = (marked[1], marked[2], marked[4]) if marked is not None else ("", whole, "")
    if len(body) > LONGEST or not body.strip() or (mark == "$" and NO_FORMULA.fullmatch(body)):
        return None
    if mark and (_is_prose(body) or PATTERN.search(body) or (LONE_WORD.search(body) and not OPERATOR.search(body))):
        return None
    if mark == "\\[" and ESCAPED.fullmatch(body):
        return None
    try:
        text = _Reader(body).lines()
        return text + end if text else None
    except Unsayable:
        return None


def sayable_part(mark: str, body: str) -> str | None:
    """The beginning of an unfinished formula that can be drawn; None if it will have to stay as it was written."""
    if len(body) > LONGEST or _is_prose(f"{body}^"):
        return None
    if mark == "\\[" and ESCAPED.fullmatch(body):
        return "" if len(body) < UNDECIDED else None
    reader = _Reader(body)
    try:
        reader.lines(unfinished=True)
    except Unfinished:
        pass
    except Unsayable:
        return None
    safe = body[: reader.safe]
    if _is_prose(safe):  # Unless its last word goes on as a product.
        safe = LAST_WORD.sub("", safe)
    return safe and safe + (f"\\end{{{reader.environment}}}" if reader.environment else "")


def _is_prose(body: str) -> bool:
    return WORDS.search(NAMES.sub("0", body)) is not None


class _Reader:
    """Reads one formula from left to right, in linear time."""

    def __init__(self, body: str) -> None:
        self.environment = ""
        self.safe = 0
        """The end of the part that is complete whatever follows."""
        self._body, self._at = body, 0
        self._depth = 0

    def lines(self, *, unfinished: bool = False) -> str:
        """All rows. Raises `Unsayable`."""
        if opening := ENVIRONMENT.match(self._body):
            self.environment, self._at = opening[1], opening.end()
        elif unfinished and BEGUN.fullmatch(self._body):
            raise Unfinished
        rows: list[list[list[Atom]]] = [[[]]]
        while (token := self._peek()) is not None:
            if token == "\\\\":
                self._next()
                gap = ROW_GAP.match(self._body, self._at)
                self._at = gap.end() if gap else self._at
                rows.append([[]])
            elif token == "&" and self.environment:
                self._next()
                rows[-1].append([])
            elif token == "\\end" and self.environment:
                if self._body[self._at :].strip() == f"\\end{{{self.environment}}}":
                    self._at = self.safe = len(self._body)
                    self.environment = ""
                    break
                raise Unfinished if unfinished else Unsayable
            else:
                rows[-1][-1].append(self._atom(top=True))
            self._pass()
        if self.environment or max(map(len, rows)) > 2:
            raise Unfinished if unfinished and self.environment else Unsayable
        cells = [[_joined(cell) for cell in row] for row in rows if any(map(len, row))]
        indent = max((len(row[0]) for row in cells if len(row) == 2), default=0)
        return "\n".join(row[0] if len(row) == 1 else f"{row[0]:>{indent}} {row[1]}".rstrip() for row in cells)

    def _pass(self) -> None:
        """Note that all is complete up to here, unless this is a command whose name may go on."""
        if self._at < len(self._body) or COMMAND_AT_END.search(self._body) is None:
            self.safe = self._at

    # ---- tokens ------------------------------------------------------------------------------------------------------

    def _peek(self) -> str | None:
        found = TOKEN.match(self._body, self._at)
        while found is not None and found[0].isspace():
            self._at = found.end()
            found = TOKEN.match(self._body, self._at)
        return None if found is None else found[0]

    def _next(self) -> str:
        token = self._peek()
        if token is None:
            raise Unfinished
        self._at += len(token)
        return token

    # ---- parts -------------------------------------------------------------------------------------------------------

    def _atom(self, *, top: bool = False) -> Atom:
        """An atom with what stands above and below it. `top`: outside of all braces."""
        self._go_deeper()
        base = Atom("") if self._peek() in ("^", "_", "'") else self._nucleus()
        scripts = dict[str, str]()
        if top:
            self._pass()
        while self._peek() in ("\\limits", "\\nolimits"):
            self._next()
        while (mark := self._peek()) in ("^", "_", "'"):
            self._next()
            if mark == "'":
                scripts["^"] = {"": "′", "′": "″", "″": "‴"}.get(scripts.get("^", ""), "")
                if not scripts["^"]:
                    raise Unsayable
            elif mark in scripts and scripts[mark] not in ("′", "″", "‴"):
                raise Unsayable
            else:
                scripts[mark] = scripts.get(mark, "") + _joined(self._argument(), tight=True)
        self._depth -= 1
        return _scripted(base, scripts) if scripts else base

    def _go_deeper(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise Unsayable

    def _nucleus(self) -> Atom:
        token = self._next()
        if token == "{":
            return _as_one(self._group("}"))
        if token == "," and THOUSANDS.match(self._body, self._at - 2):
            return Atom(",")
        if token == "d" and DIFFERENTIAL.match(self._body, self._at - 2):
            return Atom(" d")
        if token == "." and not self._body[self._at : self._at + 1].isdigit():
            return Atom(".", "comma")
        if token == ":" and self._peek() == "=":
            self._next()
            return Atom(":=", "relation")
        if token in SIGNS:
            if token in DELIMITER and self._peek() == ".":
                self._next()
            return Atom(*SIGNS[token])
        match token:
            case "\\frac" | "\\dfrac" | "\\tfrac" | "\\cfrac":
                return _fraction(self._argument(), self._argument())
            case "\\binom" | "\\dbinom":
                return Atom(f"C({_joined(self._argument())}, {_joined(self._argument())})")
            case "\\sqrt":
                index = ""
                if self._peek() == "[":
                    self._next()
                    index = _joined(self._group("]"), tight=True)
                return _root(index, self._argument())
            case "\\pmod":
                return Atom(f" (mod {_joined(self._argument())})", "text")
            case "\\not":
                sign = _as_one(self._argument())
                if sign.text not in NEGATED:
                    raise Unsayable
                return sign._replace(text=NEGATED[sign.text])
        if token in TEXTS:
            words = self._words()
            return Atom(words, "function" if token == "\\operatorname" else "text")
        if token in TYPEFACES:
            return Atom("".join(TYPEFACES[token].get(letter, letter) for letter in _joined(self._argument())))
        if token in LETTERS:
            return _as_one(self._argument())
        if token[1:] in ACCENTS and token[0] == "\\":
            letters = _joined(self._argument(), tight=True)
            if len(letters) != 1 and not (token[1:] in ("overline", "underline") and letters.isalnum()):
                raise Unsayable
            return Atom("".join(letter + ACCENTS[token[1:]] for letter in letters))
        if token[0] == "\\":
            raise Unfinished if self._at == len(self._body) else Unsayable
        if token in "}&#$^_`" or not token.isprintable():
            raise Unfinished if token == "$" and self._at == len(self._body) else Unsayable
        return Atom(token)

    def _argument(self) -> list[Atom]:
        self._go_deeper()
        if self._peek() == "{":
            self._next()
            inside = self._group("}")
        else:
            inside = [self._nucleus()]
        self._depth -= 1
        return inside

    def _group(self, end: str) -> list[Atom]:
        inside: list[Atom] = []
        while self._peek() != end:
            inside.append(self._atom())
        self._next()
        return inside

    def _words(self) -> str:
        """Words, whose spaces count."""
        if self._peek() == "*":
            self._next()
        if self._next() != "{":
            raise Unsayable
        words: list[str] = []
        while (found := TOKEN.match(self._body, self._at)) is not None:
            self._at = found.end()
            if found[0] == "}":
                return "".join(words)
            if found[0][0] in "{$" or (found[0][0] == "\\" and found[0][1:].isalpha()):
                raise Unsayable
            if found[0] == "\\":
                raise Unfinished
            sign, kind = SIGNS.get(found[0], (found[0], "ord"))
            if not found[0].isspace() and (not found[0].isprintable() or sign[0:1] == "\\"):
                raise Unsayable
            words.append(" " if found[0].isspace() else sign if found[0][0] == "\\" or kind == "space" else found[0])
        raise Unfinished


def _as_one(inside: Sequence[Atom]) -> Atom:
    """A group in braces: TeX draws none, so it is a factor only if it is a product."""
    if len(inside) == 1 and inside[0].kind != "comma":
        return inside[0]
    return Atom(_joined(inside), "ord" if _is_product(inside) or len(inside) == 1 else "text")


def _scripted(base: Atom, scripts: dict[str, str]) -> Atom:
    text = base.text
    if base.kind == "fraction":
        text = base.beside
    elif base.beside.startswith(("√", "∛", "∜")):
        text = f"({text})"
    elif base.beside:
        raise Unsayable  # Two scripts that are both spelt out.
    apart = False
    for mark in "_^":
        if said := scripts.get(mark):
            if text[-1:] in (RAISED if mark == "^" else LOWERED):
                raise Unsayable  # `{x^2}^3` is not x²³.
            small = [SCRIPTS[mark].get(char, "") for char in said]
            if all(small):
                text += "".join(small)
            elif said in ("′", "″", "‴"):
                text += said
            elif apart:
                raise Unsayable
            else:
                apart = len(said) == 1 or (mark == "_" and said.isascii() and said.isalnum())
                text += f"{mark}{said}" if apart else f"{mark}({said})"
    kind: Kind = base.kind if base.kind in ("function", "big", "close") else "ord"
    return Atom(text, kind, f"{text} " if apart else "")


def _fraction(above: Sequence[Atom], below: Sequence[Atom]) -> Atom:
    over, under = _joined(above), _joined(below)
    if not over or not under:
        raise Unsayable
    if (half := HALVES.get(f"{over}/{under}")) is not None:
        return Atom(half)
    if not _is_product(above):
        over = f"({over})"
    text = f"{over}/{under if _is_factor(below) else f'({under})'}"
    return Atom(text, "fraction", f"({text})")


def _root(index: str, inside: Sequence[Atom]) -> Atom:
    sign = ROOTS.get(index) or "".join(SCRIPTS["^"].get(char, "\0") for char in index) + "√"
    if "\0" in sign or not inside:
        raise Unsayable
    enclosed = f"{sign}({_joined(inside)})"
    text = _joined(inside)
    alone = len(inside) == 1 or text.replace(".", "").isdigit()  # `dx` and `n!` are factors below a line only.
    plain = alone and _is_factor(inside) and not RAISED & {*text}
    return Atom(f"{sign}{text}" if plain else enclosed, "ord", enclosed)


def _is_product(atoms: Sequence[Atom]) -> bool:
    """Whether these need no brackets above a line: there is no operator outside of brackets, but perhaps a sign."""
    if len(atoms) == 1 and atoms[0].kind == "text":
        return " " not in atoms[0].text
    depth = 0
    for at, one in enumerate(atoms):
        depth += (one.kind == "open") - (one.kind == "close")
        if not depth and one.kind not in ("ord", "open", "close", *["binary"] * (not at)):
            return False
    return True


def _is_factor(atoms: Sequence[Atom]) -> bool:
    """Whether these need no brackets below a line: a number, a letter, a name, a differential."""
    text = _joined(atoms)
    if len(atoms) == 1:
        names = atoms[0].kind == "text" and " " not in text
        return (
            names
            or re.fullmatch(r"[√∛∜]\([^()]*\)", text) is not None
            or (atoms[0].kind == "ord" and re.search(r"[\s/()^]|^−|[A-Za-zΑ-ω]{2}", text) is None)
        )
    return re.fullmatch(r"\d+(\.\d+)?|[d∂Δ]\w[^A-Za-z0-9(]?|\w!|[fghpqP]\(\w\)", text) is not None


def _takes(before: Atom) -> bool:
    """Whether this is a function of what follows, unlike a limit: `sin (x/2)`, `lim 1/x`."""
    return before.kind == "function" and not before.text.startswith(("lim", "max", "min", "sup", "inf", "arg"))


def _joined(atoms: Sequence[Atom], *, tight: bool = False) -> str:
    """The text of a row of atoms. `tight`: without spaces around operators."""
    pieces: list[str] = []
    before: Atom | None = None
    shown = [one for one in atoms if one.text]
    open_bars = 0
    for at, one in enumerate(shown):
        after = shown[at + 1] if at + 1 < len(shown) else None
        text = one.text
        behind = at + 1 + (after is not None and after.text == " ")
        follows = behind < len(shown) and shown[behind].kind in ("ord", "open", "function", "fraction", "big")
        follows = follows and not (open_bars and shown[behind].text[0] in "|‖")
        factor = before is not None and (before.kind in ("ord", "close", "fraction") or _takes(before))
        if one.beside and (follows or (one.kind == "fraction" and factor)):
            text = one.beside
        left = before is not None and before.kind in ("ord", "close", "fraction", "text")
        match one.kind:
            case "relation":
                text = text if tight else f"{' ' * (before is not None)}{text} "
            case "binary" if left and not tight:
                text = f" {text} "
            case "comma" if after is not None and not tight:
                text = f"{text} "
            case "function":
                text = f"{' ' * left}{text}{' ' * (after is not None and after.kind not in ('open', 'close', 'comma'))}"
            case "big":
                text = f"{' ' * left}{text}{' ' * (after is not None and after.kind not in ('close', 'comma'))}"
        if before is not None and before.kind in ("ord", "close", "fraction") and text[:1] in RAISED | LOWERED:
            text = f" {text}"  # It would be an exponent.
        pieces.append(text)
        opens = one.text[0] in "|‖" and not (open_bars and left)
        if one.text[0] in "|‖":
            open_bars += 1 if opens else -1
        before = None if opens or one.kind == "space" else one
        if one.kind == "space" and left:
            before = one
    return re.sub(" +", " ", "".join(pieces)).strip(" ")
