"""The signs of formulas: LaTeX's commands, the characters above and below a line, accents.

Only signs that the fonts of terminals have: no letters from beyond the Basic Multilingual Plane.
"""

from __future__ import annotations

from typing import Literal

Kind = Literal["ord", "text", "function", "big", "binary", "relation", "open", "close", "comma", "space", "fraction"]
"""What a part of a formula is, as far as the spaces around it depend on that. `big`: an operator such as a sum."""

_UP = (
    "0⁰1¹2²3³4⁴5⁵6⁶7⁷8⁸9⁹+⁺−⁻=⁼(⁽)⁾aᵃbᵇcᶜdᵈeᵉfᶠgᵍhʰiⁱjʲkᵏlˡmᵐnⁿoᵒpᵖrʳsˢtᵗuᵘvᵛwʷxˣyʸzᶻ"
    "AᴬBᴮDᴰEᴱGᴳHᴴIᴵJᴶKᴷLᴸMᴹNᴺOᴼPᴾRᴿTᵀUᵁVⱽWᵂ∘°′′″″††⊤ᵀ"
)
_DOWN = "0₀1₁2₂3₃4₄5₅6₆7₇8₈9₉+₊−₋=₌(₍)₎aₐeₑhₕiᵢjⱼkₖlₗmₘnₙoₒpₚrᵣsₛtₜuᵤvᵥxₓβᵦγᵧρᵨφᵩχᵪ"
SCRIPTS = {mark: dict(zip(table[::2], table[1::2])) for mark, table in (("^", _UP), ("_", _DOWN))}
_HALVES = "1/2 1/3 2/3 1/4 3/4 1/5 2/5 3/5 4/5 1/6 5/6 1/8 3/8 5/8 7/8"
HALVES = dict(zip(_HALVES.split(), "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"))
ACCENTS = {"hat": "\u0302", "widehat": "\u0302", "bar": "\u0304", "overline": "\u0305", "vec": "\u20d7",
           "dot": "\u0307", "ddot": "\u0308", "tilde": "\u0303", "underline": "\u0332"}  # fmt: skip
ROOTS = {"": "√", "2": "√", "3": "∛", "4": "∜"}
_SCRIPT = dict(zip("BEFHILMRego", "ℬℰℱℋℐℒℳℛℯℊℴ"))
TYPEFACES = {"\\mathbb": dict(zip("CHNPQRZ", "ℂℍℕℙℚℝℤ")), "\\mathcal": _SCRIPT, "\\mathscr": _SCRIPT,
             "\\mathfrak": dict(zip("CHIRZ", "ℭℌℑℜℨ"))}  # fmt: skip
"""Letters of typefaces. Those that are missing here stay as they are."""


_FUNCTIONS = (
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp lim max min sup inf det dim ker "
    "deg gcd arg hom Pr"
)


def _table(kind: Kind, named: str) -> dict[str, tuple[str, Kind]]:
    """A table of `name character` pairs."""
    words = named.split()
    return {f"\\{name}": (sign, kind) for name, sign in zip(words[::2], words[1::2])}


SIGNS: dict[str, tuple[str, Kind]] = {
    **_table(
        "ord",
        "alpha α beta β gamma γ delta δ epsilon ε varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ lambda λ "
        "mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi φ varphi φ chi χ "
        "psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω infty ∞ "
        "partial ∂ nabla ∇ hbar ℏ ell ℓ Re ℜ Im ℑ aleph ℵ emptyset ∅ varnothing ∅ forall ∀ exists ∃ nexists ∄ neg ¬ "
        "lnot ¬ angle ∠ triangle △ square □ Box □ top ⊤ bot ⊥ prime ′ degree ° circ ∘ dagger † ldots … dots … cdots ⋯ "
        "dotsc … dotsb ⋯ vdots ⋮ ddots ⋱ imath ı jmath ȷ checkmark ✓ star ⋆ bullet • therefore ∴ because ∵ vert | "
        "Vert ‖ lvert | rvert | lVert ‖ rVert ‖ | ‖ % % # # & & _ _ $ $ backslash ∖ complement ∁ S §",
    ),
    **_table(
        "binary",
        "pm ± mp ∓ times × div ÷ cdot · ast ∗ cup ∪ cap ∩ setminus ∖ wedge ∧ land ∧ vee ∨ lor ∨ oplus ⊕ ominus ⊖ "
        "otimes ⊗ odot ⊙ uplus ⊎ sqcup ⊔ bmod mod",
    ),
    **_table(
        "relation",
        "le ≤ leq ≤ leqslant ≤ ge ≥ geq ≥ geqslant ≥ ne ≠ neq ≠ equiv ≡ approx ≈ sim ∼ simeq ≃ cong ≅ propto ∝ ll ≪ gg "
        "≫ in ∈ notin ∉ ni ∋ subset ⊂ subseteq ⊆ subsetneq ⊊ supset ⊃ supseteq ⊇ to → rightarrow → leftarrow ← gets ← "
        "longrightarrow ⟶ longleftarrow ⟵ Rightarrow ⇒ Leftarrow ⇐ implies ⇒ impliedby ⇐ iff ⇔ Leftrightarrow ⇔ "
        "leftrightarrow ↔ mapsto ↦ longmapsto ⟼ uparrow ↑ downarrow ↓ hookrightarrow ↪ rightharpoonup ⇀ "
        "rightleftharpoons ⇌ mid | parallel ∥ perp ⊥ vdash ⊢ models ⊨ triangleq ≜ coloneqq ≔ doteq ≐ prec ≺ succ ≻ "
        "lt < gt > asymp ≍ nmid ∤ Longrightarrow ⟹ Longleftrightarrow ⟺",
    ),
    **_table("big", "sum ∑ prod ∏ coprod ∐ int ∫ iint ∬ iiint ∭ oint ∮  bigcup ⋃ bigcap ⋂ bigoplus ⨁ bigotimes ⨂"),
    **_table("open", "{ { lbrace { lfloor ⌊ lceil ⌈ langle ⟨ lparen ( lbrack ["),
    **_table("close", "} } rbrace } rfloor ⌋ rceil ⌉ rangle ⟩ rparen ) rbrack ]"),
    **{f"\\{name}": (name, "function") for name in _FUNCTIONS.split()},
    "\\argmax": ("arg max", "function"), "\\argmin": ("arg min", "function"), "\\limsup": ("lim sup", "function"),
    "\\liminf": ("lim inf", "function"), "\\colon": (":", "comma"),
    **{char: (char, "binary") for char in "+*×·±"}, "-": ("−", "binary"), "−": ("−", "binary"),
    **{char: (char, "relation") for char in "=<>≤≥≠≈∈→⇒↔⇔≡"}, **{char: (char, "comma") for char in ",;:"},
    **{char: (char, "open") for char in "(["}, **{char: (char, "close") for char in ")]"},
    **{space: (" ", "space") for space in ("\\,", "\\:", "\\;", "\\ ", "~")},
    "\\quad": ("  ", "space"), "\\qquad": ("  ", "space"),
    **{nothing: ("", "space") for nothing in (
        "\\!", "\\left", "\\right", "\\middle", "\\big", "\\Big", "\\bigg", "\\Bigg", "\\bigl", "\\bigr", "\\Bigl",
        "\\Bigr", "\\biggl", "\\biggr", "\\displaystyle", "\\textstyle", "\\limits", "\\nolimits")},
}  # fmt: skip
DELIMITER = ("\\left", "\\right", "\\middle")
LETTERS = ("\\mathrm", "\\mathbf", "\\mathit", "\\mathsf", "\\mathtt", "\\boldsymbol", "\\bm", "\\boxed")
TEXTS = ("\\text", "\\textbf", "\\textit", "\\textrm", "\\mbox", "\\operatorname")
NEGATED = {"=": "≠", "∈": "∉", "<": "≮", ">": "≯", "≡": "≢", "⊂": "⊄", "⊆": "⊈", "∃": "∄", "≤": "≰", "≥": "≱"}
