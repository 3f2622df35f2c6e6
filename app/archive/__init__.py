"""Export and import: Markdown and HTML to read, JSON to keep, and the exports of other programs.

Knows the database and files, but neither the screen nor the models.
"""
