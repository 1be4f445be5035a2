"""The languages that programs are generated in, found by name among those that are installed.

Whoever adds one registers it, as backends are registered: an entry point of the group
``portable.dialects``, whose name is what `portable.backend.Capabilities.dialect` says, and whose
object is a `dialect.Dialect`, the spellings of a language much like C, or a `Language`, which
prints by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Protocol, runtime_checkable

from portable.backend import Capabilities, Program
from portable.errors import UnsupportedError
from portable.lang.emit.dialect import Dialect
from portable.lang.ir.kernel import Kernel
from portable.lang.passes.semantics import Semantics
from portable.system.locks import fork_safe_lock

GROUP: Final = "portable.dialects"


@runtime_checkable
class Language(Protocol):
    """A language outside the C family.

    Attributes
    ----------
    semantics : Semantics
        What its operators mean by themselves; kernels are reduced to these.
    """

    @property
    def semantics(self) -> Semantics:
        """What its operators mean by themselves."""

    def program(self, kernel: Kernel, capabilities: Capabilities) -> Program:
        """The program of a kernel that `portable.lang.passes.reduced` gave.

        Raises
        ------
        UnsupportedError
            For a statement or expression that the language cannot say, with its name.
        """


class Languages:
    """The installed languages; each is loaded when it is first asked for.

    Parameters
    ----------
    find_entries : callable
        Returns the entry points; called once, when first needed.
    """

    def __init__(self, find_entries: Callable[[], Iterable[EntryPoint]]) -> None:
        self._find_entries = find_entries
        self._lock = fork_safe_lock()
        self._entries: dict[str, EntryPoint] | None = None
        self._loaded: dict[str, Dialect | Language] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Their names; loads none of them."""
        return tuple(sorted(self._registered()))

    def language(self, name: str) -> Dialect | Language:
        """The language of a name.

        Raises
        ------
        UnsupportedError
            If none is registered, or what is registered is no language or cannot be imported.
        """
        with self._lock:
            language = self._loaded.get(name)
            if language is None:
                language = self._loaded[name] = self._load(name)
        return language

    def _registered(self) -> dict[str, EntryPoint]:
        if self._entries is None:
            self._entries = {entry.name: entry for entry in self._find_entries()}
        return self._entries

    def _load(self, name: str) -> Dialect | Language:
        entry = self._registered().get(name)
        if entry is None:
            raise UnsupportedError(
                f"no source is generated for {name!r} devices; the languages that are installed "
                f"are {', '.join(self.names) or 'none'} (entry points of the group {GROUP!r})"
            )
        try:
            loaded: Any = entry.load()
        except Exception as error:
            raise UnsupportedError(
                f"the language {name!r} is registered as {entry.value}, which cannot be imported: "
                f"{error}"
            ) from error
        if not isinstance(loaded, Dialect | Language):
            raise UnsupportedError(
                f"the language {name!r} is registered as {entry.value}, which is a "
                f"{type(loaded).__name__}; it must be a Dialect, or have semantics and program()"
            )
        return loaded


LANGUAGES: Final = Languages(lambda: entry_points(group=GROUP))
