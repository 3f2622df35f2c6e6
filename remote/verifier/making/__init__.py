"""A drafter for a model that has none: made while the server is idle, and measured."""
