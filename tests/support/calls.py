"""Which calls of an operation went the whole way."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from portable.lang.launch import call_cache


def products_checked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that grows whenever `gemm` checks its operands: at calls that it does not know."""
    module, checked = import_module("portable.linalg.products.gemm"), list[Any]()
    whole = module._checked
    monkeypatch.setattr(module, "_checked", lambda *x: checked.append(x) or whole(*x))
    call_cache.forget()
    return checked
