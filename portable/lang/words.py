"""The words of the kernel language, as users write and read about them.

Each is a marker that the front end gives its meaning (`portable.lang.frontend.handlers`); called
outside a kernel it raises. ``x`` stands for a number or vector, ``dtype`` for one of the element
types.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from portable.errors import PortableError
from portable.lang.functions import FUNCTIONS

__all__ = [
    "Word",
    "abs",
    "accumulator",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "assume_uniform",
    "atan",
    "atan2",
    "atanh",
    "atomic_add",
    "atomic_and",
    "atomic_compare_exchange",
    "atomic_exchange",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_store",
    "atomic_sub",
    "atomic_xor",
    "barrier",
    "bitcast",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bulk_copy",
    "bulk_wait",
    "cast",
    "cbrt",
    "cdiv",
    "ceil",
    "clip",
    "clz",
    "completion",
    "complex",
    "conj",
    "copy",
    "copy_async",
    "copy_commit",
    "copy_wait",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "elements",
    "equal",
    "exp",
    "exp2",
    "expm1",
    "fence",
    "floor",
    "floor_divide",
    "fma",
    "global_id",
    "global_size",
    "greater",
    "greater_equal",
    "group_id",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "local",
    "local_id",
    "local_linear_id",
    "local_size",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matrix",
    "maximum",
    "minimum",
    "mma",
    "mulhi",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "num_groups",
    "num_sub_groups",
    "popcount",
    "positive",
    "pow",
    "print",
    "private",
    "range",
    "real",
    "reciprocal",
    "remainder",
    "rint",
    "round",
    "rsqrt",
    "shuffle2",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "splat",
    "sqrt",
    "square",
    "static_assert",
    "static_range",
    "sub_group_all",
    "sub_group_any",
    "sub_group_broadcast",
    "sub_group_id",
    "sub_group_local_id",
    "sub_group_reduce_add",
    "sub_group_reduce_and",
    "sub_group_reduce_max",
    "sub_group_reduce_min",
    "sub_group_reduce_or",
    "sub_group_reduce_xor",
    "sub_group_scan_add",
    "sub_group_shuffle",
    "sub_group_shuffle_down",
    "sub_group_shuffle_up",
    "sub_group_shuffle_xor",
    "sub_group_size",
    "subtract",
    "tan",
    "tanh",
    "target",
    "trunc",
    "vector",
    "vload",
    "vstore",
    "where",
    "workgroup_all",
    "workgroup_any",
    "workgroup_broadcast",
    "workgroup_range",
    "workgroup_reduce",
    "workgroup_scan",
    "workgroup_uniform",
]


class Word:
    """A word of the kernel language; it means something only inside a kernel.

    Attributes
    ----------
    name : str
        As written after ``kl.``.
    signature : inspect.Signature
        Its parameters, which calls in kernels are checked against.
    """

    def __init__(self, name: str, signature: inspect.Signature, doc: str | None) -> None:
        self.name: Final = name
        self.__name__ = name
        self.signature: Final = signature
        self.__doc__ = doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises: the front end knows words by their identity and never calls them."""
        raise PortableError(
            f"kl.{self.name} has a meaning only inside a function marked @portable.kernel or "
            "@portable.function"
        )

    def __repr__(self) -> str:
        return f"<word kl.{self.name}{self.signature}>"


def _word(function: Callable[..., Any]) -> Word:
    return Word(function.__name__, inspect.signature(function), function.__doc__)


class _Target:
    """The capabilities of the device that the kernel is compiled for, as constants.

    ``kl.target.sub_group_size``, ``kl.target.matrix_units`` and every other attribute of
    `portable.backend.Capabilities`.
    """

    def __repr__(self) -> str:
        return "<kl.target>"

    def __getattr__(self, name: str) -> Any:
        raise PortableError(f"kl.target.{name} has a value only inside a kernel")


target: Final = _Target()

# -- where a work-item stands ---------------------------------------------------------------


@_word
def global_id(dim: int = 0) -> Any:
    """This work-item's index in the ndrange; dimension 0 varies fastest."""


@_word
def local_id(dim: int = 0) -> Any:
    """This work-item's index in its workgroup."""


@_word
def group_id(dim: int = 0) -> Any:
    """This workgroup's index."""


@_word
def global_size(dim: int = 0) -> Any:
    """The ndrange padded to whole workgroups."""


@_word
def local_size(dim: int = 0) -> int:  # type: ignore[empty-body]
    """The workgroup's extent, a compile-time constant."""


@_word
def num_groups(dim: int = 0) -> Any:
    """The number of workgroups."""


@_word
def local_linear_id() -> Any:
    """This work-item's number in its workgroup, dimension 0 fastest."""


@_word
def sub_group_id() -> Any:
    """The number of this work-item's sub-group in the workgroup."""


@_word
def sub_group_local_id() -> Any:
    """This work-item's number in its sub-group."""


@_word
def sub_group_size() -> int:  # type: ignore[empty-body]
    """Work-items per sub-group, a compile-time constant: 1 where the device has none."""


@_word
def num_sub_groups() -> int:  # type: ignore[empty-body]
    """Sub-groups per workgroup, a compile-time constant."""


# -- memory -----------------------------------------------------------------------------------


@_word
def local(shape: int | Sequence[int], dtype: Any) -> Any:
    """An array shared by the workgroup, of static shape; its contents start undefined."""


@_word
def private(shape: int | Sequence[int], dtype: Any, lanes: int = 1) -> Any:
    """An array of this work-item alone, of static shape; elements may be vectors of `lanes`."""


@_word
def vload(array: Any, *index: Any, lanes: int, axis: int = -1, ahead: int = 0) -> Any:
    """A vector of `lanes` (2, 4, 8, 16) neighbours along `axis`, the first at `index`.

    A processor brings what lies `ahead` elements further in memory, a constant, to its caches.
    """


@_word
def vstore(array: Any, *index_and_value: Any, axis: int = -1, streaming: bool = False) -> None:
    """Writes a vector, the last argument, to neighbours along `axis`, the first at the index.

    `streaming`, a constant, says that it will not be read soon: where it fills a line of the
    processor's caches, it passes them by, and the line is not read from memory first.
    """


@_word
def vector(*elements: Any) -> Any:
    """A vector of 2, 4, 8 or 16 numbers.

    ``v[l]`` takes a lane (`l` a constant), ``v[a:b]`` some lanes as a shorter vector.
    """


@_word
def splat(x: Any, lanes: int) -> Any:
    """A vector whose lanes all hold `x`."""


@_word
def shuffle2(x: Any, y: Any, lanes: Sequence[int]) -> Any:
    """A vector of lanes of two alike, numbered through both; `lanes` are constants."""


# -- order ------------------------------------------------------------------------------------


@_word
def barrier() -> None:
    """All work-items of the workgroup meet; orders their local and global memory accesses.

    Refused unless every work-item provably gets here together.
    """


@_word
def fence(order: str = "acq_rel", scope: str = "device") -> None:
    """Orders this work-item's accesses as others in `scope` ("workgroup", "device") see them."""


@_word
def workgroup_uniform(x: Any) -> Any:
    """`x` as the workgroup's first work-item has it, for all of them; counts as uniform.

    `workgroup_broadcast` gives that of any work-item.
    """


@_word
def assume_uniform(x: Any) -> Any:
    """`x`, which the author vouches is the same for the workgroup; the simulator checks it."""


# -- atomics ----------------------------------------------------------------------------------


@_word
def atomic_load(array: Any, index: Any, *, order: str = "relaxed", scope: str = "device") -> Any:
    """The element, read indivisibly; `order` is "relaxed" or "acquire"."""


@_word
def atomic_store(
    array: Any, index: Any, value: Any, *, order: str = "relaxed", scope: str = "device"
) -> None:
    """Writes the element indivisibly; `order` is "relaxed" or "release".

    A relaxed one may be of 8 or 16 bits too. Of those that several work-items store, one stays.
    """


def _atomic(name: str, what: str) -> Word:
    def function(
        array: Any, index: Any, value: Any, *, order: str = "relaxed", scope: str = "device"
    ) -> Any: ...

    function.__name__ = f"atomic_{name}"
    function.__doc__ = f"{what}, indivisibly; returns the element from before."
    return _word(function)


atomic_add = _atomic("add", "Adds to the element")
atomic_sub = _atomic("sub", "Subtracts from the element")
atomic_min = _atomic("min", "Makes the element the smaller of itself and the value")
atomic_max = _atomic("max", "Makes the element the larger of itself and the value")
atomic_and = _atomic("and", "Bitwise and with the element")
atomic_or = _atomic("or", "Bitwise or with the element")
atomic_xor = _atomic("xor", "Bitwise exclusive or with the element")
atomic_exchange = _atomic("exchange", "Replaces the element")


@_word
def atomic_compare_exchange(
    array: Any,
    index: Any,
    expected: Any,
    value: Any,
    *,
    order: str = "relaxed",
    scope: str = "device",
) -> Any:
    """Replaces the element where it equals `expected`; returns the element from before."""


# -- sub-groups -------------------------------------------------------------------------------


def _sub_group(name: str, doc: str, *, argument: str | None = None) -> Word:
    def with_argument(x: Any, index: Any) -> Any: ...

    def without(x: Any) -> Any: ...

    function = with_argument if argument else without
    function.__name__ = f"sub_group_{name}"
    function.__doc__ = doc
    return _word(function)


sub_group_shuffle = _sub_group("shuffle", "`x` of the work-item numbered `index`.", argument="i")
sub_group_shuffle_xor = _sub_group(
    "shuffle_xor", "`x` of the work-item numbered own xor `index`.", argument="i"
)
sub_group_shuffle_up = _sub_group(
    "shuffle_up", "`x` of the work-item `index` below; own `x` where there is none.", argument="i"
)
sub_group_shuffle_down = _sub_group(
    "shuffle_down", "`x` of the work-item `index` above; own `x` where there is none.", argument="i"
)
sub_group_broadcast = _sub_group(
    "broadcast", "`x` of the work-item numbered `index`, the same for all.", argument="i"
)
sub_group_reduce_add = _sub_group("reduce_add", "The sum of `x` over the sub-group.")
sub_group_reduce_min = _sub_group("reduce_min", "The least `x` of the sub-group.")
sub_group_reduce_max = _sub_group("reduce_max", "The greatest `x` of the sub-group.")
sub_group_reduce_and = _sub_group("reduce_and", "Bitwise and over the sub-group.")
sub_group_reduce_or = _sub_group("reduce_or", "Bitwise or over the sub-group.")
sub_group_reduce_xor = _sub_group("reduce_xor", "Bitwise exclusive or over the sub-group.")
sub_group_scan_add = _sub_group("scan_add", "The sum of `x` up to and including this work-item.")
sub_group_any = _sub_group("any", "Whether some work-item's `x` is true.")
sub_group_all = _sub_group("all", "Whether every work-item's `x` is true.")

# -- collectives of a workgroup ---------------------------------------------------------------


@_word
def workgroup_reduce(op: Any, x: Any) -> Any:
    """`x` of all work-items, combined by `op`; every work-item gets it, and it counts as uniform.

    `op` is a function of two values that gives one of the same types: `add`, `maximum`, or any
    marked `portable.function`. It has to be associative and need not commute: values are combined
    in the order of `local_linear_id`. `x` is a number, or a tuple or struct of numbers. The whole
    workgroup has to get here. Local memory and barriers that are needed are included; memory of
    the caller's own is not ordered by it. A workgroup of one costs nothing.

    >>> @pt.function
    ... def larger(x, y):
    ...     return x if x.value >= y.value else y
    >>> best = kl.workgroup_reduce(larger, Found(value, index))  # doctest: +SKIP
    """


@_word
def workgroup_scan(
    op: Any, x: Any, *, inclusive: bool = True, initial: Any = None, total: bool = False
) -> Any:
    """`x` of the work-items up to this one, combined by `op` as `workgroup_reduce` does.

    With ``inclusive=False`` that of the work-items before this one; then `initial` is needed, which
    is combined from the left in any case where it is given: it is what the first work-item gets.
    ``total=True`` gives a pair, with what all have combined, `initial` included, as the second.
    """


@_word
def workgroup_any(x: Any) -> Any:
    """Whether some work-item's `x`, a bool, is true; counts as uniform."""


@_word
def workgroup_all(x: Any) -> Any:
    """Whether every work-item's `x`, a bool, is true; counts as uniform."""


@_word
def workgroup_broadcast(x: Any, index: Any) -> Any:
    """`x` of the work-item whose `local_linear_id` is `index`, the same for all; uniform.

    `x` is a number, or a tuple or struct of numbers.
    """


@_word
def workgroup_range(start: Any, stop: Any = None, step: Any = 1, *, unroll: int = 0) -> Any:
    """For loops only: a range whose rounds the work-items of the workgroup share out.

    Neighbours take neighbouring rounds (in CUDA's words, a block-stride loop); one work-item alone
    walks through all of them.
    """


# -- copies -----------------------------------------------------------------------------------


@_word
def copy_async(target: Any, source: Any) -> None:
    """The workgroup starts copying `source` to `target`, parts of a global and a local array.

    Both have the same static shape and dtype. What lies outside the global array reads as zero and
    is not written. Completion: `copy_commit`, `copy_wait`, then `barrier`.
    """


@_word
def copy(target: Any, source: Any) -> None:
    """As `copy_async`, but this work-item's share is done when it returns; `barrier` follows."""


@_word
def copy_commit() -> None:
    """Closes the current group of asynchronous copies."""


@_word
def copy_wait(pending: int = 0) -> None:
    """Waits until at most `pending` (a constant) closed groups of copies are unfinished."""


@_word
def completion(slots: int = 1) -> Any:
    """`slots` places to wait for bulk copies into local memory."""


@_word
def bulk_copy(
    target: Any, target_index: Any, source: Any, source_index: Any, count: Any, done: Any = None
) -> None:
    """This one work-item starts copying `count` consecutive elements to or from local memory.

    Into local memory, `done` is an element of a `completion` (``done[slot]``) for `bulk_wait`; to
    global memory it is left out, and `copy_commit` and `copy_wait` of this work-item follow.
    """


@_word
def bulk_wait(done: Any, phase: Any) -> None:
    """The workgroup waits for the bulk copies into ``done`` (``completion[slot]``); also a barrier.

    `phase` is the number of earlier waits on the slot modulo 2.
    """


# -- matrices ---------------------------------------------------------------------------------


@_word
def matrix(
    shape: Sequence[int],
    dtype: Any,
    *,
    scope: str = "workgroup",
    use: str = "accumulator",
    units: bool = True,
) -> Any:
    """A matrix fragment held by a ``"work_item"``, ``"sub_group"`` or ``"workgroup"`` together.

    Where the device has matrix units for its types it is held as they want it unless `units` is
    False, else as a tile of registers per work-item.

    It has ``fill(x)``, ``load(part)``, ``store(part)`` and ``map(function, *more)``, where the
    function takes an element, or an element, its row and its column, and then `more`.
    """


@_word
def mma(accumulator: Any, a: Any, b: Any, *, valid: Any = None) -> None:
    """``accumulator += a @ b``; the operands are fragments or 2-d parts of local arrays.

    ``valid=(m, n, k)`` says that columns of `a` and rows of `b` from `k` on are zeros, and that
    rows of the accumulator from `m` on and columns from `n` on are not needed, so that they may be
    skipped.
    """


@_word
def elements(fragment: Any) -> Any:
    """For loops only: ``for row, column, value in kl.elements(m)``, what this work-item holds."""


# -- compile time -------------------------------------------------------------------------------


@_word
def static_range(start: int, stop: int | None = None, step: int = 1) -> Any:
    """For loops only: a range of constants whose body is repeated at compile time."""


@_word
def range(start: Any, stop: Any = None, step: Any = 1, *, unroll: int = 0) -> Any:
    """For loops only: ``range`` with so many copies of the body asked for (-1: all, 1: never)."""


@_word
def accumulator(dtype: Any) -> Any:
    """The dtype to sum in: f32 for f16, i64 and u64 for integers, else the dtype itself."""


@_word
def cdiv(x: Any, y: Any) -> Any:
    """``x / y`` rounded up, of integers that are not negative."""


@_word
def static_assert(condition: bool, message: str = "") -> None:
    """Refuses to compile unless a compile-time condition holds."""


@_word
def print(*pieces: Any) -> None:
    """Prints strings and numbers from each work-item, for debugging."""


# -- numbers ------------------------------------------------------------------------------------


@_word
def cast(x: Any, dtype: Any) -> Any:
    """`x` converted, ``dtype(x)`` for short: floats to integers saturate, integers wrap."""


@_word
def bitcast(x: Any, dtype: Any) -> Any:
    """The same bits as another type of the same width."""


@_word
def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where `condition`, else `y`; both are evaluated."""


@_word
def minimum(x: Any, y: Any) -> Any:
    """The smaller; NaN if either is."""


@_word
def maximum(x: Any, y: Any) -> Any:
    """The larger; NaN if either is."""


@_word
def complex(real: Any, imag: Any) -> Any:
    """A complex number of two real ones."""


def _function(name: str) -> Word:
    """An element-wise function of `FUNCTIONS`."""
    function = FUNCTIONS[name]
    accuracy = f"Within {function.ulp32:g} ulp in f32, {function.ulp64:g} in f64."
    doc = f"Element-wise {name}. {accuracy if function.ulp32 else 'Exact.'}"
    if function.complex_ulp:
        doc += f" Of complex numbers within {function.complex_ulp:g} ulp of the larger part."
    return _element_wise(name, function.arity, doc)


def _element_wise(name: str, arity: int, doc: str) -> Word:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(p, kind) for p in ("x", "y", "z")[:arity]]
    return Word(name, inspect.Signature(parameters), doc)


abs = _function("abs")
acos = _function("acos")
acosh = _function("acosh")
asin = _function("asin")
asinh = _function("asinh")
atan = _function("atan")
atan2 = _function("atan2")
atanh = _function("atanh")
cbrt = _function("cbrt")
ceil = _function("ceil")
clz = _function("clz")
copysign = _function("copysign")
cos = _function("cos")
cosh = _function("cosh")
exp = _function("exp")
exp2 = _function("exp2")
expm1 = _function("expm1")
floor = _function("floor")
fma = _function("fma")
hypot = _function("hypot")
isfinite = _function("isfinite")
isinf = _function("isinf")
isnan = _function("isnan")
log = _function("log")
log10 = _function("log10")
log1p = _function("log1p")
log2 = _function("log2")
mulhi = _function("mulhi")
nextafter = _function("nextafter")
popcount = _function("popcount")
pow = _function("pow")
rint = _function("rint")
rsqrt = _function("rsqrt")
signbit = _function("signbit")
sin = _function("sin")
sinh = _function("sinh")
sqrt = _function("sqrt")
tan = _function("tan")
tanh = _function("tanh")
trunc = _function("trunc")

add = _element_wise("add", 2, "x + y.")
subtract = _element_wise("subtract", 2, "x - y.")
multiply = _element_wise("multiply", 2, "x * y.")
divide = _element_wise("divide", 2, "x / y.")
floor_divide = _element_wise("floor_divide", 2, "x // y.")
remainder = _element_wise("remainder", 2, "x % y.")
equal = _element_wise("equal", 2, "x == y.")
not_equal = _element_wise("not_equal", 2, "x != y.")
less = _element_wise("less", 2, "x < y.")
less_equal = _element_wise("less_equal", 2, "x <= y.")
greater = _element_wise("greater", 2, "x > y.")
greater_equal = _element_wise("greater_equal", 2, "x >= y.")
bitwise_and = _element_wise("bitwise_and", 2, "x & y.")
bitwise_or = _element_wise("bitwise_or", 2, "x | y.")
bitwise_xor = _element_wise("bitwise_xor", 2, "x ^ y.")
bitwise_left_shift = _element_wise("bitwise_left_shift", 2, "x << y.")
bitwise_right_shift = _element_wise("bitwise_right_shift", 2, "x >> y.")
logical_and = _element_wise("logical_and", 2, "x & y, of bools.")
logical_or = _element_wise("logical_or", 2, "x | y, of bools.")
logical_xor = _element_wise("logical_xor", 2, "x ^ y, of bools.")
logaddexp = _element_wise("logaddexp", 2, "log(exp(x) + exp(y)) without overflow.")
bitwise_invert = _element_wise("bitwise_invert", 1, "~x.")
logical_not = _element_wise("logical_not", 1, "~x, of bools.")
negative = _element_wise("negative", 1, "-x.")
positive = _element_wise("positive", 1, "x.")
reciprocal = _element_wise("reciprocal", 1, "1 / x.")
round = _element_wise("round", 1, "x rounded, halves to even.")
sign = _element_wise("sign", 1, "-1, 0 or 1; NaN of NaN.")
square = _element_wise("square", 1, "x * x.")
real = _element_wise("real", 1, "the real part.")
imag = _element_wise("imag", 1, "the imaginary part.")
conj = _element_wise("conj", 1, "the complex conjugate.")


@_word
def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """`x` limited to what lies between the bounds that are given."""
