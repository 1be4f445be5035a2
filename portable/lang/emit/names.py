"""C identifiers for the names of the user's kernel."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["Names"]

_KEYWORDS = """
alignas alignof and and_eq asm atomic auto bitand bitor bool break case catch char class compl const
constant constexpr continue decltype default delete do double dynamic_cast else enum event_t explicit
export extern false float for friend generic global goto half if image inline int kernel local long
mutable namespace new noexcept not not_eq nullptr operator or or_eq pipe private protected
read_only write_only read_write uniform intptr_t
ptrdiff_t public register reinterpret_cast restrict return sampler_t short signed size_t sizeof
static static_assert static_cast struct switch template this thread_local throw true try typedef
typeid typename uchar uint uintptr_t ulong union unsigned ushort using virtual void volatile wchar_t
while xor xor_eq main printf NULL NAN INFINITY CHAR_BIT warpSize threadIdx blockIdx blockDim gridDim
half2 vec_step as_type dot cross length distance normalize step mix sign clamp select smoothstep
degrees radians any all mad mad24 mul24 isequal isless isgreater isnormal isordered bitselect
shuffle prefetch barrier fence min max abs abs_diff add_sat sub_sat hadd rhadd rotate upsample popcount
clz ctz nan modf frexp ldexp ilogb logb lgamma tgamma remquo remainder fdim fmax fmin fract maxmag
minmag sincos erf erfc expf logf sinf cosf tanf powf sqrtf acosh asinh atanh y0 y1 yn j0 j1 jn gamma
local_memory linux unix i386 assert signbit isnan isinf isfinite round
""".split()
_VECTOR = re.compile(r"^(u?(char|short|int|long)|float|double|half|bool)\d*$")


class Names:
    """Gives every name of a kernel one C identifier, distinct and free of the dialect's own words.

    Parameters
    ----------
    words : iterable of str
        Identifiers that the dialect may print, which are not to be shadowed.
    """

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._taken = {*_KEYWORDS, *words}
        self._given: dict[object, str] = {}

    def of(self, name: str, kind: str = "value") -> str:
        """The identifier for a name of the kernel; always the same for the same name and kind."""
        key = (kind, name)
        if key not in self._given:
            self._given[key] = self.fresh(name)
        return self._given[key]

    def fresh(self, name: str) -> str:
        """A new identifier close to `name`."""
        base = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
        if base[0].isdigit() or base.startswith(("pt_", "__", "CLK_", "M_", "cl_")):
            base = "v_" + base.lstrip("_")
        if _VECTOR.match(base):
            base += "_"
        chosen, count = base, 1
        while chosen in self._taken:
            count += 1
            chosen = f"{base}_" if count == 2 else f"{base}_{count - 1}"
        self._taken.add(chosen)
        return chosen
