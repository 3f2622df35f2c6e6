"""Conversations out of the program and into it: Markdown and HTML to read, JSON to keep, other programs' exports to
take along.

Knows the database and files; knows neither the screen nor the models.
"""
