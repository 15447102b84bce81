"""warplens: how long a GPU kernel takes, what holds it back, and what each remedy would buy.

    import warplens as wl
    gpu = wl.load_machine("h200")
    wl.predict(wl.mix(alpha=32), gpu, model="volkov").cycles

The verbs live in `warplens.api` and load when first used, so that importing warplens costs nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from warplens.version import __version__

if TYPE_CHECKING:
    from warplens.api import *  # noqa: F403

__all__ = ["__version__"]
_BOTH = ("advise", "simulate")  # verbs, and packages


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and not _is_module(name):
        api = importlib.import_module("warplens.api")
        if name in api.__all__:
            importlib.import_module("warplens.report.notebook").register()
            return getattr(api, name)
    raise AttributeError(f"module 'warplens' has no attribute {name!r}")


def _is_module(name: str) -> bool:
    """Whether a name that is asked for before the verbs are loaded is a module: `import` asks for it so."""
    if name in _BOTH or "warplens.api" in sys.modules:
        return False
    return importlib.util.find_spec(f"warplens.{name}") is not None


class _Package(ModuleType):
    """A package whose verbs are not hidden by packages of the same name: `wl.simulate` and `wl.advise` are verbs."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _BOTH and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted([*globals(), *importlib.import_module("warplens.api").__all__])
