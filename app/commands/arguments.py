"""Sorts the words after a program into options and operands, as getopt does."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from app.commands.script import Word


class Arguments:
    """The options and operands of a command.

    `valued`: options that take the next word as their value. `single_dash`: a word such as `-name` is a single option,
    as in find or Terraform, not four.
    """

    def __init__(self, words: Sequence[Word], valued: Collection[str] = (), *, single_dash: bool = False) -> None:
        self._options: list[tuple[str, Word | None]] = []
        operands: list[Word] = []
        rest = iter(words)
        for word in rest:
            text = word.value
            if text == "--":
                operands += rest
            elif not text.startswith("-") or text == "-":
                operands.append(word)
            elif text.startswith("--") or single_dash:
                name, equals, value = text.partition("=")
                if equals:
                    self._options.append((name, Word(value, word.span, word.plain, word.pattern)))
                else:
                    self._options.append((name, next(rest, None) if name in valued else None))
            else:
                for number, letter in enumerate(text[1:], start=2):
                    name = f"-{letter}"
                    if name not in valued:
                        self._options.append((name, None))
                        continue
                    if text[number:]:
                        self._options.append((name, Word(text[number:], word.span, word.plain, word.pattern)))
                    elif (following := next(rest, None)) is not None:
                        self._options.append((name, following))
                    break
        self.operands = tuple(operands)

    def has(self, *names: str) -> bool:
        """Whether one of the options is present; a long one may be abbreviated, as in GNU programs."""
        return any(self._is(given, name) for given, _ in self._options for name in names)

    def values(self, *names: str) -> Iterator[Word]:
        for given, value in self._options:
            if value is not None and any(self._is(given, name) for name in names):
                yield value

    def value(self, *names: str) -> Word | None:
        return next(self.values(*names), None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self._options)

    @staticmethod
    def _is(given: str, name: str) -> bool:
        if given == name:
            return True
        # `--export` is a separate option, not an abbreviation of `--export-secret-keys`.
        return given.startswith("--") and len(given) > 4 and name.startswith(given) and name[len(given)] != "-"
