"""The kernel language: its words, and the element types by their short names.

Users write ``from portable import lang as kl``. A kernel is a function marked `portable.kernel`.
What kernels call, functions and methods, is by these rules too; what is outside them is refused
with the file, the line and what to write instead.

Arguments
    Positional ones are given at run time: arrays and numbers, ``*arrays`` as many as there are
    (None, dtypes, strings and helpers among them count as constants). Keyword-only ones are
    constants of the compiler, as are numbers, dtypes and helpers that a kernel names from outside:
    they are taken when it is first compiled for such arguments, and later changes of them are not
    seen. Tuples and structs are taken apart, and the rule holds for each thing in them: a struct
    given by position brings its arrays and numbers at run time and its dtypes, strings and helpers
    as constants; one given by keyword is constant throughout, so that it holds no arrays.
    Parameters may be annotated ``kl.Array``, ``kl.Scalar``, ``kl.Array | None`` or
    ``tuple[kl.Array, ...]``: a launch that gives something else ends with an error that says so.
Statements
    Assignments, ``if``, ``while``, ``for`` over ``range`` (or, in vectors and then what is left,
    over `vector_range`; or, repeated at compile time, over `static_range` or a tuple; or over
    `itertools.product` of these, as loops within each other), ``break``, ``continue``, ``return``
    and calls. An ``if`` on constants is decided at compile time. A
    variable has one type, that of all its assignments together.
Numbers
    Computed in i32, u32, i64, u64, f32, f64 and bool; what is narrower is widened when it is
    loaded and narrowed when it is stored, bf16 too, f16 unless the kernel is marked
    ``native_half=True``. Types meet as in the Array API, an integer with a float in the float;
    i64 does not meet u64, nor bool a number. Python's numbers take the type of what they meet.
    Integers wrap, shifts are modulo the width, ``//`` and ``%`` are Python's, ``/`` is for
    floats, division of an integer by zero gives 0, and a float that becomes an integer
    saturates, NaN to 0. Narrowing at a store rounds floats once and wraps integers, on which a
    `portable.errors.Remark` is given where 64 bits become fewer; floats are not stored as integers.
    An integer is a condition, which holds unless it is 0, but no operand of ``and`` and ``or``.
Arrays
    Indexed by integers, from 0 and not from the end; ``x[i]`` of two dimensions is a row,
    ``x[a:b]`` a part of extent ``b - a``, which Python would cut off where the array ends. Bounds
    are checked by the simulator, and elsewhere with ``PORTABLE_CHECK=1``. Arguments may overlap.
Structs
    A frozen dataclass or a NamedTuple is a value: made in kernels (``Point(x, y)``,
    ``dataclasses.replace(p, x=0)``), passed, returned, kept in variables. Where a branch or loop
    changes it, each number in it becomes a variable of its own; what else it holds stays the same.
    A field that is annotated with a dtype (``count: kl.i32``, or ``Annotated[int, kl.i32]``, which
    type checkers understand) has that type; other annotations mean nothing to kernels. Methods,
    inherited ones, properties and operators (``__add__``) are as in Python. ``kl.local(n,
    Point(kl.f32, kl.i32))`` is an array of structs, ``a[i]`` one of them and ``a.x`` the array of a
    field; ``kl.local(n, Point)`` where all fields are annotated.
Functions
    A function, lambda or method that a kernel calls, or is given as a constant, is inlined and
    typed anew at each call; outside of kernels Python runs it, if it has none of the words below.
    A function that is given at launch becomes another constant when a number that it names has
    changed; what the functions that it calls name is taken once, as what kernels name is.
    A property of a struct of constants alone is what Python makes of it, and may be anything in
    Python, unless it asks for such words. `portable.function` tells what its mark adds.
Tuples
    Hold anything. `len`, `zip`, `enumerate`, `reversed`, ``*``, unpacking and comprehensions work
    on them at compile time, on NamedTuples too.
Work-items
    A launch runs the work-items of its ndrange and no others. Where work-items of a kernel need one
    another, it runs whole workgroups: with barriers and other words for a workgroup or a sub-group
    together, and with local memory. Those beyond the ndrange run then, too, `global_size` counts
    them, and the kernel guards what it indexes; `portable.errors.Remark` tells where that is left
    out, and where more work-items are asked for than an array has room for. `barrier` is refused
    where not all of a workgroup provably meet. Workgroups run in any
    order.
Collectives
    What a workgroup works out together: `workgroup_reduce`, `workgroup_scan`, `workgroup_any`,
    `workgroup_all` and `workgroup_broadcast`, of numbers, tuples and structs, with barriers and
    local memory included. `workgroup_range` shares the rounds of a loop out. A workgroup of one
    work-item needs none of this and gets none, so that one source walks alone or together.
Timing
    What a kernel leaves to chance shows when times change. With ``PORTABLE_PERTURB=1`` in the
    environment (any number is a seed) compiled kernels wait before and after barriers, atomics,
    fences, copies and waits: mostly not at all, often shortly, now and then long. How long depends
    on the seed, the place in the program, the workgroup, the sub-group and the round of the loop.
    It is read when a kernel is compiled, so set it before the process starts, and part of what
    compiled programs are kept by. The simulator reports races without it.
Extending it
    ``docs/how-to/language.md`` shows how one adds a word, a statement, an expression, or a language
    that kernels are printed in.

Examples
--------
A struct of arrays and a number is one argument; one of numbers is a value like any other:

>>> from dataclasses import dataclass
>>> from typing import Any, NamedTuple
>>> import numpy as np
>>> import portable as pt
>>> from portable import lang as kl
>>> class Bodies(NamedTuple):
...     x: Any
...     mass: Any
...     count: int
>>> @dataclass(frozen=True)
... class Centre:
...     moment: kl.f32
...     mass: kl.f32
...
...     def __add__(self, other):
...         return Centre(self.moment + other.moment, self.mass + other.mass)
>>> @pt.kernel
... def centre(bodies, out):
...     total = Centre(0, 0)
...     for i in range(bodies.count):
...         total += Centre(bodies.x[i] * bodies.mass[i], bodies.mass[i])
...     out[0] = total.moment / total.mass
>>> x, mass, out = np.float32([1, 2, 4]), np.float32([1, 1, 2]), np.zeros(1, np.float32)
>>> centre[1, 1](Bodies(x, mass, 3), out)
>>> float(out[0])
2.75

A workgroup finds the largest element of an array and where it first stands; one work-item alone
would find the same:

>>> class Found(NamedTuple):
...     value: Any
...     place: Any
>>> def larger(a, b):
...     first = (a.value > b.value) | ((a.value == b.value) & (a.place < b.place))
...     return kl.where(first, a, b)
>>> @pt.kernel
... def largest(x, out):
...     best = Found(x[0], 0)
...     for i in kl.workgroup_range(1, x.shape[0]):
...         best = larger(best, Found(x[i], i))
...     best = kl.workgroup_reduce(larger, best)
...     if kl.local_linear_id() == 0:
...         out[0] = best.place
>>> x, out = np.float32([3, 1, 4, 1, 5, 9, 2, 6, 5, 9]), np.zeros(1, np.int32)
>>> for size in (1, 4):
...     largest[size, size](x, out)
...     print(out[0])
5
5
"""

from portable import dtypes as _dtypes
from portable.lang import random as random
from portable.lang.arguments.parameters import Array as Array
from portable.lang.arguments.parameters import Scalar as Scalar
from portable.lang.kernel import source as source

# The words are many; the modules list them in their __all__.
from portable.lang.words.collectives import *  # noqa: F403
from portable.lang.words.compile_time import *  # noqa: F403
from portable.lang.words.matrices import *  # noqa: F403
from portable.lang.words.memory import *  # noqa: F403
from portable.lang.words.numbers import *  # noqa: F403

bool_ = _dtypes.bool_
i8 = _dtypes.int8
i16 = _dtypes.int16
i32 = _dtypes.int32
i64 = _dtypes.int64
u8 = _dtypes.uint8
u16 = _dtypes.uint16
u32 = _dtypes.uint32
u64 = _dtypes.uint64
f16 = _dtypes.float16
bf16 = _dtypes.bfloat16
f8e4m3 = _dtypes.float8_e4m3fn
f8e5m2 = _dtypes.float8_e5m2
f32 = _dtypes.float32
f64 = _dtypes.float64
c64 = _dtypes.complex64
c128 = _dtypes.complex128
