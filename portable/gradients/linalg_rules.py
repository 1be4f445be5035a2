"""What goes back through decompositions and solutions of real matrices.

After M. Giles, "An extended collection of matrix derivative results for forward and reverse mode
algorithmic differentiation" (2008), I. Murray, "Differentiation of the Cholesky decomposition"
(2016), S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions" (2010)
for QR, and J. Townsend, "Differentiating the singular value decomposition" (2016). Where a
derivative does not exist (vectors of values that are equal) it is refused.

A rule is given the gradients of the results (None for nothing), the results and the arguments, and
gives for each array among the arguments a function that works out its share, as `array_rules` has
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from portable.dtypes import dtype, float64
from portable.errors import UnsupportedError
from portable.linalg import cholesky, det, eigh, eigvalsh, inv, qr, slogdet, solve, svd, svdvals
from portable.numerics.namespaces import namespace_of

Share = Callable[[], Any] | None


def _t(x: Any) -> Any:
    return namespace_of(x).matrix_transpose(x)


def _wide(x: Any, g: Any) -> Any:
    """An array in the precision of gradients."""
    return x if x.dtype == g.dtype else namespace_of(x).astype(x, g.dtype)


def _some(g: Any, y: Any) -> Any:
    """A gradient, or nought like the result."""
    return namespace_of(y).zeros_like(y) if g is None else g


def _lower(x: Any) -> Any:
    return namespace_of(x).tril(x)


def _half_lower(x: Any) -> Any:
    """The lower triangle with half of the diagonal."""
    xp = namespace_of(x)
    return (xp.tril(x) + xp.tril(x, k=-1)) / 2


def _columns(values: Any) -> Any:
    """Values as factors of columns."""
    return values[..., None, :]


# -- solutions --------------------------------------------------------------------------------


def _solve(g: Any, y: Any, a: Any, b: Any) -> Sequence[Share]:
    vectors = b.ndim == 1 or b.ndim < y.ndim == a.ndim - 1
    right = solve(_t(_wide(a, g)), g)

    def by_matrix() -> Any:
        if vectors:
            return _summed(-right[..., :, None] * _wide(y, g)[..., None, :], a)
        return _summed(-(right @ _t(_wide(y, g))), a)

    return [by_matrix, lambda: _summed(right, b)]


def _summed(g: Any, x: Any) -> Any:
    """A gradient summed over leading dimensions that were repeated."""
    xp, more = namespace_of(g), g.ndim - x.ndim
    axes = tuple(range(more)) + tuple(
        i + more for i, n in enumerate(x.shape) if n == 1 and g.shape[i + more] != 1
    )
    return xp.reshape(xp.sum(g, axis=axes), tuple(x.shape)) if axes else g


def _inv(g: Any, y: Any, a: Any) -> Sequence[Share]:
    inverse = _t(_wide(y, g))
    return [lambda: -(inverse @ g @ inverse)]


def _det(g: Any, y: Any, a: Any) -> Sequence[Share]:
    return [lambda: (g * y)[..., None, None] * _t(inv(_wide(a, g)))]


def _slogdet(gs: Any, ys: Any, a: Any) -> Sequence[Share]:
    g = _some(gs[1], ys[1])
    return [lambda: g[..., None, None] * _t(inv(_wide(a, g)))]


# -- factors ----------------------------------------------------------------------------------


def _cholesky(g: Any, y: Any, a: Any, *, upper: bool = False) -> Sequence[Share]:
    """Symmetric: half of what belongs to a pair of elements in each."""

    def share() -> Any:
        left, grown = (_t(y), _t(g)) if upper else (y, g)
        left = _wide(left, grown)
        inner = _half_lower(_t(left) @ _lower(grown))
        both = solve(_t(left), _t(solve(_t(left), _t(inner))))
        return (both + _t(both)) / 2

    return [share]


def _qr(gs: Any, ys: Any, a: Any, *, mode: str = "reduced") -> Sequence[Share]:
    m, n = a.shape[-2:]
    if mode != "reduced" or m < n:
        why = f'mode="{mode}"' if mode != "reduced" else f"matrices of {m} x {n}, wider than high"
        raise UnsupportedError(f'linalg.qr has no gradient for {why}; take mode="reduced" of tall')
    q, r = ys
    gq, gr = _some(gs[0], q), _some(gs[1], r)

    def share() -> Any:
        if not bool(
            namespace_of(r).all(abs(_diagonal(r)) > _tolerance(r) * _largest(_diagonal(r)))
        ):
            raise UnsupportedError(
                "linalg.qr of a matrix whose columns depend on each other has no gradient"
            )
        inner = r @ _t(gr) - _t(gq) @ q
        mirrored = namespace_of(r).tril(inner) + _t(namespace_of(r).tril(inner, k=-1))
        return _t(solve(r, _t(gq + q @ mirrored)))

    return [share]


def _diagonal(x: Any) -> Any:
    return namespace_of(x).linalg.diagonal(x)


def _largest(x: Any) -> Any:
    """The greatest value of each matrix."""
    return namespace_of(x).max(abs(x), axis=-1, keepdims=True)


def _tolerance(x: Any) -> float:
    return 1e-12 if dtype(x.dtype) is float64 else 1e-5


# -- values and vectors -----------------------------------------------------------------------


def _apart(values: Any, what: str, signs: float = -1.0) -> Any:
    """``1 / (values[j] + signs * values[i])``, zeros where i is j; refuses equal ones."""
    xp = namespace_of(values)
    gaps = values[..., None, :] + signs * values[..., :, None]
    identity = xp.eye(values.shape[-1], dtype=values.dtype, **_there(values))
    least = _tolerance(values) * _largest(values)[..., None]
    if not bool(xp.all((abs(gaps) > least) | (identity != 0))):
        raise UnsupportedError(
            f"{what} has no gradient by its vectors where two of the values are equal"
        )
    return (1 - identity) / (gaps + identity)


def _there(x: Any) -> dict[str, Any]:
    return {} if namespace_of(x).__name__ in ("numpy", "cupy") else {"device": x.device}


def _eigh(gs: Any, ys: Any, a: Any) -> Sequence[Share]:
    values, vectors = ys

    def share() -> Any:
        inner = vectors * 0
        if gs[1] is not None:
            inner = (_t(vectors) @ gs[1]) * _apart(values, "linalg.eigh")
        made = vectors @ inner @ _t(vectors)
        if gs[0] is not None:
            made = made + (vectors * _columns(gs[0])) @ _t(vectors)
        return (made + _t(made)) / 2

    return [share]


def _eigvalsh(g: Any, y: Any, a: Any) -> Sequence[Share]:
    def share() -> Any:
        values, vectors = eigh(_wide(a, g))
        _refuse_alike(values, g, "linalg.eigvalsh")
        return (vectors * _columns(g)) @ _t(vectors)

    return [share]


def _refuse_alike(values: Any, g: Any, what: str) -> None:
    """Refuses values that are equal and whose gradients are not."""
    if values.shape[-1] < 2:
        return
    close = abs(values[..., 1:] - values[..., :-1]) <= _tolerance(values) * _largest(values)
    if bool(namespace_of(g).any(close & (g[..., 1:] != g[..., :-1]))):
        raise UnsupportedError(f"{what} has no gradient where two of the values are equal")


def _svdvals(g: Any, y: Any, a: Any, **options: Any) -> Sequence[Share]:
    def share() -> Any:
        u, values, vh = svd(_wide(a, g))
        _refuse_alike(values, g, "linalg.svdvals")
        return (u * _columns(g)) @ vh

    return [share]


def _svd(gs: Any, ys: Any, a: Any, *, full_matrices: bool = False) -> Sequence[Share]:
    if full_matrices and a.shape[-2] != a.shape[-1]:
        raise UnsupportedError(
            "linalg.svd has no gradient with full_matrices=True: the vectors beyond min(m, n) are "
            "not determined"
        )
    u, values, vh = ys
    gu, gvh = gs[0], gs[2]

    def share() -> Any:
        made = (u * _columns(_some(gs[1], values))) @ vh
        if gu is None and gvh is None:
            return made
        apart = _apart(values, "linalg.svd") * _apart_from_sum(values)
        if gu is not None:
            made = made + _by_vectors(u, values, vh, gu, apart)
        if gvh is not None:
            made = made + _t(_by_vectors(_t(vh), values, _t(u), _t(gvh), apart))
        return made

    return [share]


def _apart_from_sum(values: Any) -> Any:
    """``1 / (values[j] + values[i])``; refuses values that are zero."""
    if bool(namespace_of(values).any(values <= _tolerance(values) * _largest(values))):
        raise UnsupportedError("linalg.svd has no gradient by its vectors where a value is zero")
    return 1 / (values[..., None, :] + values[..., :, None])


def _by_vectors(u: Any, values: Any, vh: Any, gu: Any, apart: Any) -> Any:
    """The share of the vectors on one side."""
    inner = _t(u) @ gu
    skew = apart * (inner - _t(inner))
    made = ((u @ skew) * _columns(values)) @ vh
    beyond = (gu - u @ inner) / _columns(values)
    return made + beyond @ vh


LINALG_RULES: Final[dict[Any, Callable[..., Sequence[Share]]]] = {
    solve: _solve,
    inv: _inv,
    det: _det,
    slogdet: _slogdet,
    cholesky: _cholesky,
    qr: _qr,
    eigh: _eigh,
    eigvalsh: _eigvalsh,
    svd: _svd,
    svdvals: _svdvals,
}
