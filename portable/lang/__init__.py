"""The kernel language: its words, element types, and the decorators' machinery."""

from portable.dtypes import bool_, complex64, complex128
from portable.dtypes import complex64 as c64
from portable.dtypes import complex128 as c128
from portable.dtypes import float16 as f16
from portable.dtypes import float32 as f32
from portable.dtypes import float64 as f64
from portable.dtypes import int8 as i8
from portable.dtypes import int16 as i16
from portable.dtypes import int32 as i32
from portable.dtypes import int64 as i64
from portable.dtypes import uint8 as u8
from portable.dtypes import uint16 as u16
from portable.dtypes import uint32 as u32
from portable.dtypes import uint64 as u64
from portable.lang.words import *  # noqa: F403 - the words are many, and listed there
