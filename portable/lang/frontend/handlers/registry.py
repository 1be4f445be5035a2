"""The table from words to the functions that translate them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from portable.lang.frontend.builder import Builder

Handler = Callable[..., Any]
"""Takes the builder and the call's arguments by name; returns what the call stands for."""

HANDLERS: Final[dict[str, Handler]] = {}


def handles(*words: str) -> Callable[[Handler], Handler]:
    """Registers a function as the meaning of words; several words: it also gets ``word``."""

    def register(function: Handler) -> Handler:
        for word in words:
            HANDLERS[word] = function if len(words) == 1 else _named(function, word)
        return function

    return register


def _named(function: Handler, word: str) -> Handler:
    def handler(builder: Builder, **arguments: Any) -> Any:
        return function(builder, word, **arguments)

    return handler
