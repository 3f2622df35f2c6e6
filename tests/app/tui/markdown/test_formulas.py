"""Formulas in Unicode: what a line can say is drawn, everything else stays as it was written, also while it streams."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sanitise import sanitise
from app.tui.markdown.formulas import DEEPEST, LONGEST, drawn
from app.tui.markdown.parser import close_marks, leaves, parse

DRAWN = {
    r"\(x^2 + y_{i+1}\)": "x² + yᵢ₊₁",
    r"$\alpha \le \frac{1}{2}$": "α ≤ ½",
    r"$$E=mc^2$$": "E = mc²",
    r"\[x = \frac{-b \pm \sqrt{b^2-4ac}}{2a}.\]": "x = (−b ± √(b² − 4ac))/(2a).",
    r"\(\sum_{i=1}^n i^2 = \frac{n(n+1)(2n+1)}{6}\)": "∑ᵢ₌₁ⁿ i² = n(n + 1)(2n + 1)/6",
    r"\(\int_0^\infty e^{-x^2}\,dx = \frac{\sqrt{\pi}}{2}\)": "∫₀^∞ e^(−x²) dx = √π/2",
    r"\(\lim_{x \to 0} \frac{\sin x}{x} = 1\)": "lim_(x→0) (sin x)/x = 1",
    r"\(\operatorname{softmax}\left(\frac{QK^T}{\sqrt{d_k}}\right)V\)": "softmax(QKᵀ/√dₖ)V",
    r"\(f'(x) = \frac{dy}{dx}\)": "f′(x) = dy/dx",
    r"\(d_{\text{model}} d_k\)": "d_model dₖ",
    r"\(e^{i\pi} + 1 = 0\)": "e^(iπ) + 1 = 0",
    r"\(2\frac{x}{y} z \frac{{a+b}}{c}\)": "2(x/y)z((a + b)/c)",
    r"\(\sqrt{2}x + \sqrt[3]{x+1}^2\)": "√(2)x + (∛(x + 1))²",
    r"\(\hat{y} \not= \vec v, \overline{AB}\)": "y\u0302 ≠ v\u20d7, A\u0305B\u0305",
    r"\(x \in \{0, 1\} \iff |x - 1{,}000| > 1,000\)": "x ∈ {0, 1} ⇔ |x − 1,000| > 1,000",
    r"\(O(n \log_2 n) \text{ if } n \equiv 1 \pmod{3}\)": "O(n log₂ n) if n ≡ 1 (mod 3)",
    r"\[\begin{aligned} f(x) &= (x+1)^2 \\ &= x^2+1 \end{aligned}\]": "f(x) = (x + 1)²\n     = x² + 1",
    r"\(\binom{n}{k} p^k (1-p)^{n-k}\)": "C(n, k)pᵏ(1 − p)ⁿ⁻ᵏ",
    r"\(\frac{1}{n(n+1)} + \sqrt{n(n+1)} + \frac{a}{{bc}}\)": "1/(n(n + 1)) + √(n(n + 1)) + a/(bc)",
    r"\(\log\frac{p(x)}{q(x)} + \lim_{n} \frac{1}{n} + \sqrt{x^2}\)": "log (p(x)/q(x)) + limₙ 1/n + √(x²)",
    r"\(\operatorname{arg\,max}_x \sum\limits_{i=1}^n 5\,\text{kg if~any}\)": "arg maxₓ ∑ᵢ₌₁ⁿ 5 kg if any",
    r"\(2\sqrt[n]{x} + z^*z\)": "2 ⁿ√x + z^* z",
    r"$(x+1)^2 = 4$": "(x + 1)² = 4",
    r"\(\frac{1}{\sqrt{2\pi\sigma^2}} e^{-x}\)": "(1/√(2πσ²))e⁻ˣ",
    r"\(\mathcal{L}(\theta) := -\mathbb{E} + \mathfrak{R}\mathcal{D}\)": "ℒ(θ) := −E + ℜD",
    r"\(\frac{a}{b}\,c \quad \frac{a}{b} \quad c\)": "(a/b) c a/b c",
    r"\(|-x| = 2|x|-\||y|\|^2 - |-y|\)": "|−x| = 2|x| − ‖|y|‖² − |−y|",
    r"\(\frac12 mv^2 = \left|\frac{a}{b}\right|\)": "½mv² = |a/b|",
}
PARTS_AS_WRITTEN = r"""
\(\begin{pmatrix}1&2\\3&4\end{pmatrix}\) \(\unknown{x}\) \(\frac{a}\) \(x}\) \({x\) \(x^a^b\) \({x^2}^3\) \(\left(\)\)
\(\color{white}{x}\) \({}\) \(\text{$x$}\) $5-$10 $HOME/bin:$PATH$ $PS1$ $eth0$ ${x}/${y}$ ^[a]$|^[b]$
"""
AS_WRITTEN = [
    *PARTS_AS_WRITTEN.split(),
    *(r"\(a & b\)", r"\( and \)", "between $5 and $10, or 5$ and 10$", "$5,10$", "$(ls -l)$ $?,$!", "'$' + '$'"),
    *(r"find . \( -name a -o -name b \) -print", r"sed 's/\(a\)\(b\)/\2\1/'", r"grep 'foo\(bar\|baz\)'"),
    *(r"\([^)]*\) \(.*\)", r"see \[1\] and \[link\], and a\[0\]", r"\[^a-z\]", r"test \( -f x \)", r"\(a|b\)"),
    *(r"cp a\ b \(1\).txt", r"grep '\(a\|b\)'", '("$", "$")'),
]


@pytest.mark.parametrize(("source", "text"), DRAWN.items())
def test_what_a_line_can_say_is_drawn(source: str, text: str) -> None:
    assert drawn(source) == text
    (alone,) = leaves(source)
    assert alone.content.plain == text
    if "\n" not in text:
        (item,) = leaves(f"- so **{source}**: `{source}`")
        assert item.content.plain == f"so {text}: {source}"
        assert leaves(f"```\n{source}\n```")[0].content.plain == source


@pytest.mark.parametrize("text", AS_WRITTEN)
def test_everything_else_stays_as_it_was_written(text: str) -> None:
    assert [leaf.content.plain for leaf in leaves(text)] == [text]
    assert [leaf.content.plain for leaf in leaves(f"**{text}**")] == [text]


def streamed(text: str) -> list[str]:
    """What is shown after each character."""
    parts = (parse(close_marks(text[:end]))[0] for end in range(len(text) + 1))
    return ["\n".join(leaf.content.plain for leaf in part) for part in parts]


@pytest.mark.parametrize("source", DRAWN)
def test_a_formula_that_streams_shows_only_what_is_complete(source: str) -> None:
    shown = streamed(f"so\n\n{source}")
    assert shown[-1].removeprefix("so").lstrip() == drawn(source)
    if not source.startswith("$"):
        assert not any(mark in one for one in shown[5:] for mark in "\\{}&^" if mark not in shown[-1])


def test_a_formula_that_cannot_be_drawn_is_shown_from_then_on() -> None:
    shown = streamed(r"so \[ x^2 = \begin{pmatrix}1 & 2\end{pmatrix} \] it is")
    first = next(at for at, one in enumerate(shown) if "begin" in one)
    assert {one for one in shown[5:first]} == {"so", "so x", "so x²", "so x² ="}
    assert all(r"x^2 = \begin{" in one for one in shown[first:])
    for text in ("costs $5 and", "$HOME and $", "a $$ b", r"s/\(a", r"`\(x", r"\\(x"):
        assert streamed(text)[-1] == text.lstrip("`").replace("\\\\", "\\")


def test_each_drawn_character_has_a_place_in_its_formula() -> None:
    for text in (
        r"see \(\frac{x}{y} + \alpha\) or /x",
        "> see \\(x +\n> y\\) or x",
        "| a | b |\n|---|---|\n| $x^2$ | x \\(\\alpha^2\\) x |",
    ):
        for leaf in parse(text)[0]:
            counts = [leaf.characters_before(at) for at in range(len(text) + 1)]
            assert counts == sorted(counts) and counts[-1] == len(leaf.content.plain)
            for formula in leaf.formulas:
                first = text.index(formula.source.split("\n")[0])
                last = formula.source.split("\n")[-1]
                assert counts[first] == formula.start
                assert counts[text.index(last, first) + len(last)] == formula.end


TOKENS = (
    r"{ } \frac \sqrt \hat \not ^ _ ' \ x 1 , & \\ \text{ ( ) \left \begin{align} \end{align} \alpha + = \sum $ \( 🙂"
)
PARTS = [*TOKENS.split(), " ", "\u202e", "\x1b[2J", "\u0301"]


@given(st.lists(st.sampled_from(PARTS)).map("".join))
def test_nothing_is_drawn_that_a_terminal_obeys(body: str) -> None:
    for mark, end in (("\\(", "\\)"), ("\\[", "\\]"), ("$", "$"), ("$$", "$$")):
        text = drawn(f"{mark}{body}{end}")
        assert text is None or (sanitise(text) == text and not {"\\", "{"} & ({*text} - {*body.replace("\\", "")}))
        shown = parse(close_marks(f"{mark}{sanitise(body)}"))[0]
        assert all(sanitise(leaf.content.plain) == leaf.content.plain for leaf in shown)


@pytest.mark.parametrize(
    "part", ["{", "\\frac", "\\sqrt{", "\\hat", "\\not", "x^", "x_{", "\\left", "\\text{", "&", "\\begin{align}"]
)
def test_depth_and_length_are_bounded(part: str) -> None:
    body = part * (LONGEST // len(part))
    for source in (body, f"{body}x{'}' * body.count('{')}"):
        assert drawn(f"\\({source}\\)") is None
        assert close_marks(f"\\({source}")
    assert drawn("\\(" + "{" * (DEEPEST - 1) + "x" + "}" * (DEEPEST - 1) + "\\)") == "x"
