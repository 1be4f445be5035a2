"""Words are documented, typed functions, each with one meaning in the front end."""

from __future__ import annotations

import inspect
import pkgutil
import pydoc
from importlib import import_module

import pytest

import portable as pt
from portable import errors
from portable import lang as kl
from portable.lang import words
from portable.lang.frontend.handlers import HANDLERS
from portable.lang.words.word import word_of


def test_every_word_has_a_meaning_and_every_meaning_a_word() -> None:
    names = set()
    for module in pkgutil.iter_modules(words.__path__, "portable.lang.words."):
        if module.name != "portable.lang.words.word":
            names |= set(import_module(module.name).__all__) - {"target"}
    assert names == set(HANDLERS)
    for name in names:
        word = getattr(kl, name)
        assert word_of(word) is not None
        assert inspect.isfunction(word)
        assert inspect.getdoc(word)


def test_words_show_their_signatures() -> None:
    assert str(inspect.signature(kl.sub_group_shuffle)) == "(x: 'Any', index: 'Any') -> 'Any'"
    assert list(inspect.signature(kl.vload).parameters) == [
        "array", "index", "lanes", "axis", "ahead",
    ]  # fmt: skip
    text = pydoc.plain(pydoc.render_doc(kl.sqrt))
    assert "sqrt(x: Any)" in text.replace("'Any'", "Any")  # unquoted from Python 3.14 on
    assert "ulp in f32" in text


def test_the_target_says_what_it_has() -> None:
    assert "sub_group_size" in dir(kl.target)
    with pytest.raises(AttributeError, match="it has architecture, async_copy"):
        _ = kl.target.warp
    with pytest.raises(errors.PortableError, match="only inside a kernel"):
        _ = kl.target.sub_group_size


@pt.function
def doubled(x):
    return kl.add(x, x)


def test_words_are_functions_of_kernels_alone() -> None:
    for call in (kl.barrier, doubled):
        with pytest.raises(errors.PortableError, match="inside a function marked"):
            call()
