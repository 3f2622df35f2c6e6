"""OpenAI's API: requests in, text out."""
