"""The package `warplens`: how long a GPU kernel takes, what limits it, and what each remedy would buy.

    import warplens as wl
    a = wl.analyze("saxpy.cu", launch="saxpy.toml")     # time, limit and remedies of a kernel of one's own
    wl.predict(wl.mix(alpha=32), "h200", model="volkov").cycles

All public names are listed in `warplens.api.__all__`. They load when first used, so that importing warplens is cheap.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from warplens.core.version import __version__

if TYPE_CHECKING:
    from warplens.api import *  # noqa: F403

__all__ = ["__version__"]


def __getattr__(name: str) -> Any:
    """Load the public name; a module's name is left to the import system, which asks here first."""
    if not name.startswith("_") and importlib.util.find_spec(f"warplens.{name}") is None:
        api = importlib.import_module("warplens.api")
        if name in api.__all__:
            importlib.import_module("warplens.report.notebook").register()
            globals()[name] = getattr(api, name)
            return globals()[name]
    raise AttributeError(f"module 'warplens' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *importlib.import_module("warplens.api").__all__})
