"""Which words and statements of the language random kernels are made of, and programs of arrays.

``python -m tests.support.random_coverage`` prints the report.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from random import Random
from typing import Final

import click

from portable import array
from portable.dtypes import DType
from portable.lang import words
from portable.lang.words.word import word_of
from tests.support import random_arrays
from tests.support.random_arrays import random_program
from tests.support.random_checks import FAMILIES

_SAMPLES: Final = 150
"""Kernels of each family that are looked at."""

WORDS: Final = {name for name, x in vars(words).items() if word_of(x)} | {"target"}
"""Every word of the language."""

LEFT_OUT: Final = {
    "check": "does nothing unless PORTABLE_CHECK is set; tests/lang/test_checked.py tests it",
    "dot": "is products and sums, which are there; tests/lang/test_vectors.py tests their order",
    "pipeline": "takes readers and tiles; tests/lang/test_pipelines.py tests it",
    "print": "writes text that devices order as they like; tests/lang tests it",
    "signbit": "of a NaN is the device's affair; tests/lang tests it with all other numbers",
}
"""Words that no random kernel uses, and why."""


@functools.cache
def _texts() -> dict[str, list[str]]:
    return {
        family: [make(Random(seed)).text for seed in range(_SAMPLES)]
        for family, make in FAMILIES.items()
    }


def covered_words() -> set[str]:
    """The words in the sample."""
    return {word for texts in _texts().values() for text in texts for word in _words(text)}


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"\bkl\.(\w+)", text) if word in WORDS]


def covered_statements() -> set[str]:
    """Python's statements and expressions in the sample, by the names of `ast`."""
    return {type(node).__name__ for texts in _texts().values() for t in texts for node in _nodes(t)}


def _nodes(text: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text)))


def missing_words(covered: set[str]) -> set[str]:
    """Words that are neither covered nor left out for a reason."""
    return WORDS - covered - LEFT_OUT.keys()


@functools.cache
def covered_functions() -> set[str]:
    """The functions of arrays in a sample of programs."""
    texts = (random_program(Random(seed)).text for seed in range(5 * _SAMPLES))
    return {name for text in texts for name in re.findall(r"\bxp\.(\w+)", text)}


def missing_functions() -> set[str]:
    """Functions of arrays that are neither covered nor left out for a reason."""
    named = {name for name in array.__all__ if callable(getattr(array, name))}
    types = {name for name in named if isinstance(getattr(array, name), type | DType)}
    inner = {name for name in named if name.startswith("__")}
    return named - types - inner - covered_functions() - random_arrays.LEFT_OUT.keys()


def report() -> str:
    """How often each word comes, by family, and what is left out."""
    lines = []
    for family, texts in _texts().items():
        counts = Counter(word for text in texts for word in _words(text))
        listed = ", ".join(f"{word} {count}" for word, count in sorted(counts.items()))
        lines.append(f"{family}: {len(counts)} words in {len(texts)} kernels: {listed}")
    covered = covered_words()
    lines.append(f"{len(covered)} of {len(WORDS)} words are covered")
    lines += [f"left out: {word}, which {why}" for word, why in LEFT_OUT.items()]
    lines += [f"missing: {word}" for word in sorted(missing_words(covered))]
    lines.append(f"arrays: {len(covered_functions())} functions")
    lines += [f"left out: {name}, which {why}" for name, why in random_arrays.LEFT_OUT.items()]
    lines += [f"missing: {name}" for name in sorted(missing_functions())]
    return "\n".join(lines)


if __name__ == "__main__":
    click.echo(report())
