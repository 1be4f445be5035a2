"""The words of the kernel language, as users write and read about them.

Each is a typed function without a body, to which the front end gives its meaning
(`portable.lang.frontend.handlers`); called outside a kernel it raises. ``x`` stands for a number or
vector, ``dtype`` for one of the element types.
"""

# All public names, which the modules list in their __all__.
from portable.lang.words.collectives import *  # noqa: F403
from portable.lang.words.compile_time import *  # noqa: F403
from portable.lang.words.matrices import *  # noqa: F403
from portable.lang.words.memory import *  # noqa: F403
from portable.lang.words.numbers import *  # noqa: F403
