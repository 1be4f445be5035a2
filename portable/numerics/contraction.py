"""Sums of products by Einstein's convention, as matrix products of pairs of arrays."""

from __future__ import annotations

import string
from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from portable.errors import DTypeError, ShapeError
from portable.interchange.libraries import runs_where_chosen
from portable.numerics.namespaces import is_numpys, namespace_of


@dataclass(frozen=True, slots=True)
class _Term:
    """An array whose dimensions have letters, each once."""

    letters: str
    array: Any

    def extent(self, letter: str) -> int:
        return int(self.array.shape[self.letters.index(letter)])


@runs_where_chosen
def einsum(subscripts: str, /, *operands: Any) -> Any:
    """A sum of products of arrays, by Einstein's convention.

    Parameters
    ----------
    subscripts : str
        A letter for each dimension of each operand, separated by commas; after ``->`` those of the
        result. Without the arrow these are the letters that stand once, in alphabetical order.
        ``...`` stands for dimensions that broadcast.
    *operands : array
        Numbers, of one library and device.

    Returns
    -------
    array
        Of the operands' common dtype, in which it is summed as the library's ``matmul`` does.

    Raises
    ------
    ShapeError
        For subscripts that are malformed or do not fit the operands.
    DTypeError
        For bools.

    Notes
    -----
    Pairs are contracted in the order that ``numpy.einsum_path`` finds (greedily, by the number of
    operations), each as a batch of matrix products.

    Examples
    --------
    >>> import numpy as np
    >>> from portable.numerics import einsum
    >>> einsum("ij,kj->ik", np.ones((2, 3)), np.ones((4, 3))).shape
    (2, 4)
    """
    if not isinstance(subscripts, str):
        raise TypeError(
            f"einsum's subscripts are text, such as 'ij,jk->ik', not {type(subscripts).__name__}"
        )
    if not operands:
        raise ShapeError("einsum needs at least one operand")
    xp = namespace_of(*operands)
    for x in operands:
        if xp.isdtype(x.dtype, "bool"):
            raise DTypeError("einsum takes numbers, not bools; convert them first")
    inputs, output = _parsed(subscripts, [tuple(x.shape) for x in operands])
    if is_numpys(xp):
        text = f"{','.join(inputs)}->{output}"
        return xp.asarray(xp.einsum(text, *operands, optimize="greedy"))
    kind = xp.result_type(*operands)
    terms = [
        _with_each_letter_once(xp, letters, xp.astype(x, kind, copy=False))
        for letters, x in zip(inputs, operands, strict=True)
    ]
    for pair in _path(inputs, output, operands):
        together = [terms.pop(number) for number in sorted(pair, reverse=True)]
        while len(together) > 1:
            first, second = together.pop(), together.pop()
            others = output + "".join(t.letters for t in (*terms, *together))
            together.append(_product(xp, first, second, others))
        terms.append(together[0])
    (last,) = terms
    return _in_order(xp, _summed(xp, last, output), output)


# -- subscripts -----------------------------------------------------------------------------------


def _parsed(subscripts: str, shapes: list[tuple[int, ...]]) -> tuple[list[str], str]:
    """Letters for each operand and for the result, without dots."""
    text = subscripts.replace(" ", "")
    left, arrow, output = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(shapes):
        raise ShapeError(
            f"einsum({subscripts!r}) takes {len(inputs)} operands; {len(shapes)} were given"
        )
    unused = [c for c in string.ascii_letters if c not in text]
    dots = [_dots(one, shape, subscripts) for one, shape in zip(inputs, shapes, strict=True)]
    most = max(dots)
    if most > len(unused):
        raise ShapeError(f"einsum({subscripts!r}) has more dimensions than there are letters")
    shared = "".join(unused[:most])
    inputs = [
        one.replace("...", shared[most - count :]) for one, count in zip(inputs, dots, strict=True)
    ]
    if arrow:
        output = output.replace("...", shared)
    else:
        times = Counter("".join(inputs))
        output = shared + "".join(sorted(c for c in times if times[c] == 1 and c not in shared))
    _check(subscripts, inputs, output, shapes, shared)
    return inputs, output


def _dots(letters: str, shape: tuple[int, ...], subscripts: str) -> int:
    """How many dimensions ``...`` stands for."""
    named = len(letters.replace("...", ""))
    missing = len(shape) - named
    if missing < 0 or (missing and "..." not in letters):
        raise ShapeError(
            f"einsum({subscripts!r}): {letters!r} names {named} dimensions of shape {shape}"
        )
    return missing


def _check(
    subscripts: str, inputs: list[str], output: str, shapes: list[tuple[int, ...]], shared: str
) -> None:
    given = set("".join(inputs))
    wrong = (given | set(output)) - set(string.ascii_letters)
    if wrong:
        raise ShapeError(f"einsum({subscripts!r}): {sorted(wrong)} are no letters")
    if set(output) - given or len(set(output)) < len(output) or set(shared) - set(output):
        raise ShapeError(
            f"einsum({subscripts!r}): the result has each of its letters once, all of them the "
            "operands', and the dots of the operands"
        )
    extents: dict[str, int] = {}
    for letters, shape in zip(inputs, shapes, strict=True):
        for letter, extent in zip(letters, shape, strict=True):
            known = extents.setdefault(letter, extent)
            if letter in shared and 1 in (known, extent):
                extents[letter] = max(known, extent) if 0 not in (known, extent) else 0
            elif known != extent:
                raise ShapeError(
                    f"einsum({subscripts!r}): {letter!r} has extents {known} and {extent}"
                )


def _path(inputs: list[str], output: str, operands: tuple[Any, ...]) -> list[tuple[int, ...]]:
    """Which terms to contract after one another, as NumPy counts the operations."""
    likes = [np.broadcast_to(np.float64(0), tuple(x.shape)) for x in operands]
    path, _ = np.einsum_path(f"{','.join(inputs)}->{output}", *likes, optimize="greedy")
    return path[1:] if len(operands) > 1 else []


# -- terms ----------------------------------------------------------------------------------------


def _with_each_letter_once(xp: Any, letters: str, x: Any) -> _Term:
    """The diagonals of dimensions of the same letter."""
    while len(set(letters)) < len(letters):
        letter = next(c for c in letters if letters.count(c) > 1)
        first = letters.index(letter)
        second = letters.index(letter, first + 1)
        x = xp.linalg.diagonal(xp.moveaxis(x, (first, second), (-2, -1)))
        letters = letters[:first] + letters[first + 1 : second] + letters[second + 1 :] + letter
    return _Term(letters, x)


def _summed(xp: Any, term: _Term, kept: str) -> _Term:
    """Without the letters that are not among those kept."""
    axes = tuple(a for a, c in enumerate(term.letters) if c not in kept)
    if not axes:
        return term
    total = xp.sum(term.array, axis=axes, dtype=term.array.dtype)
    return _Term("".join(c for c in term.letters if c in kept), total)


def _in_order(xp: Any, term: _Term, letters: str) -> Any:
    if term.letters == letters:
        return term.array
    return xp.permute_dims(term.array, tuple(term.letters.index(c) for c in letters))


def _product(xp: Any, first: _Term, second: _Term, others: str) -> _Term:
    """Two terms as one, without the letters that stand in no other term and not in the result."""
    first = _summed(xp, first, others + second.letters)
    second = _summed(xp, second, others + first.letters)
    both = [c for c in first.letters if c in second.letters]
    batch = "".join(c for c in both if c in others)
    inner = "".join(c for c in both if c not in others)
    rows = "".join(c for c in first.letters if c not in both)
    columns = "".join(c for c in second.letters if c not in both)
    if inner:
        left = _as_matrix(xp, first, batch, rows, inner)
        right = _as_matrix(xp, second, batch, inner, columns)
        product = xp.matmul(left, right)
    else:
        product = _as_matrix(xp, first, batch, rows, "") * _as_matrix(
            xp, second, batch, "", columns
        )
    shape = (
        *product.shape[: len(batch)],
        *(first.extent(c) for c in rows),
        *(second.extent(c) for c in columns),
    )
    return _Term(batch + rows + columns, xp.reshape(product, shape))


def _as_matrix(xp: Any, term: _Term, batch: str, rows: str, columns: str) -> Any:
    """Matrices with `rows` and `columns` as one dimension each, after those of the batch."""
    ordered = _in_order(xp, term, batch + rows + columns)
    shape = (
        *(term.extent(c) for c in batch),
        prod(term.extent(c) for c in rows),
        prod(term.extent(c) for c in columns),
    )
    return xp.reshape(ordered, shape)
