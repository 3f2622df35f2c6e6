"""Outrider's two themes. All styles use theme variables, so any Textual theme fits too."""

from textual.theme import Theme

DARK = Theme(
    name="outrider-dark",
    primary="#5B9DD9",
    secondary="#7C8FA6",
    accent="#C9A227",
    warning="#E0A458",
    error="#E5647A",
    success="#6BBF8A",
    foreground="#DDE3EA",
    background="#12161C",
    surface="#1B212A",
    panel="#2A323E",
    dark=True,
)
LIGHT = Theme(
    name="outrider-light",
    primary="#2367A8",
    secondary="#5D6F85",
    accent="#8A6A00",
    warning="#935600",
    error="#B3263E",
    success="#22683F",
    foreground="#10151C",
    background="#FAFAF7",
    surface="#EFEFEA",
    panel="#DDDDD5",
    dark=False,
)
