"""What a model is, on disk and running. Nothing here knows of drafting, HTTP or storage."""
