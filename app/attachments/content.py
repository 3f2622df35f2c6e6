"""A question in the form that OpenAI-compatible servers take: text, and images if it has any.

It is separate from `app/attachments/renderer.py`, which exports and the first frame need without an HTTP client.
"""

from __future__ import annotations

from app.attachments.images import is_image
from app.attachments.renderer import data_url, question_text
from remote.openai.schema import Content, ContentPart, ImageUrl
from storage import Message


def question_content(question: Message) -> Content:
    """The question for a server that accepts images: text, or parts if there is an image."""
    images = [one for one in question.attachments if is_image(one)]
    if not images:
        return question_text(question)
    return (
        ContentPart("text", question_text(question)),
        *(ContentPart("image_url", image_url=ImageUrl(data_url(one))) for one in images),
    )
