"""Imported before every recipe: switches off usage reports before any library that would send them is imported."""

from models.telemetry import switch_off

switch_off()
