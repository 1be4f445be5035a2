"""The kernel language: its words, and the element types by their short names.

Users write ``from portable import lang as kl``.
"""

from portable import dtypes as _dtypes
from portable.lang.listing import source as source
from portable.lang.words import *  # noqa: F403 - the words are many; words.__all__ lists them

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
f32 = _dtypes.float32
f64 = _dtypes.float64
c64 = _dtypes.complex64
c128 = _dtypes.complex128
