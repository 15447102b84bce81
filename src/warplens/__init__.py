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
from typing import TYPE_CHECKING, Any

from warplens.core.version import __version__

if TYPE_CHECKING:
    from warplens.api import *  # noqa: F403

__all__ = ["__version__"]


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and not _is_module(name):
        api = importlib.import_module("warplens.api")
        if name in api.__all__:
            importlib.import_module("warplens.report.notebook").register()
            return getattr(api, name)
    raise AttributeError(f"module 'warplens' has no attribute {name!r}")


def _is_module(name: str) -> bool:
    """Whether a name that is asked for before the verbs are loaded is a module: `import` asks for it so."""
    if "warplens.api" in sys.modules:
        return False
    return importlib.util.find_spec(f"warplens.{name}") is not None


def __dir__() -> list[str]:
    return sorted([*globals(), *importlib.import_module("warplens.api").__all__])
