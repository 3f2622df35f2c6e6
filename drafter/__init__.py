"""Drafting: a small model guesses what the target will say, as token ids. PyTorch is imported only where asked for."""
