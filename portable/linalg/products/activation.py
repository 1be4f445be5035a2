"""What an operation that is given an activation applies."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from portable.lang.function import Function, helper, settled
from portable.lang.words.word import word_of
from portable.linalg.products.kernels import keep, relu

_MOST_WORDS: Final = 64


def activation_of(given: Any, operation: str) -> Function:
    """What is applied to each element of a result.

    Parameters
    ----------
    given : function, "relu" or None
        A function that kernels can call, also a word of theirs such as `portable.lang.tanh`.
    operation : str
        The operation's name, for the message.

    Raises
    ------
    TypeError
        For anything else.
    """
    function = _of_word(given) if word_of(given) is not None else helper(settled(given))
    if function is not None:
        return function
    if given is None:
        return keep
    if given == "relu":
        return relu
    raise TypeError(
        f"activation={given!r}; {operation} takes None, 'relu' or a function that kernels can call"
    )


@lru_cache(maxsize=_MOST_WORDS)
def _of_word(word: Any) -> Function | None:
    def called(x: Any) -> Any:
        return word(x)

    return helper(called)
