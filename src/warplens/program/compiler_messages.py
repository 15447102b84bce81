"""A compiler's message as the user may see it: his own file names, lines and carets, and of no other file a word.

A source can include any file that its user may read, and a compiler quotes the line that it stops at. So what is said
about a file is shown where that is in the source's folder, an include folder or the toolkit's; elsewhere one line
names the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from warplens.core.units import printable

# A message's first line: the C++ front end's `k.cu(3): error`, the host compiler's `k.cu:3:5: error`.
_PLACE = re.compile(
    r"(?P<file>\S.*?)(\(\d+\)|:\d+(:\d+)?): "
    r"(?=(fatal|catastrophic|internal|command-line)? ?(error|warning|note|remark)\b)",
    re.IGNORECASE,
)
_SUMMARY = re.compile(
    r"\d+ (catastrophic )?errors? detected in the compilation of |[Cc]ompilation terminated|(nvcc|ptxas) +(fatal|error)"
)
_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?", re.DOTALL)
_MOST_LINES, _MOST_CHARACTERS = 60, 400  # of a message, and of a line


def shown(text: str, source: str, folders: Iterable[Path], names: dict[str, str], where: Path) -> str:
    """Return a compiler's message on a source as it may be shown.

    `folders` are those whose files may be quoted; `names` has what to write for the start of a file's name; `where` is
    the folder in which the compiler ran, to which other names are relative.
    """
    homes = [folder.resolve() for folder in folders]
    lines, quoted = list[str](), True
    for line in _ESCAPE.sub("", text).splitlines():
        place = _PLACE.match(line)
        if place:
            name = _renamed(place["file"], names)
            base = Path() if name != place["file"] else where
            quoted = name == source or _is_in(base / name, homes)
            if not quoted and (hidden := f"in {name} (not shown)") not in lines[-1:]:
                lines.append(hidden)
        elif _SUMMARY.match(line):
            quoted = True
        if quoted:
            lines.append(_renamed(line, names))
    clean = [printable(line.expandtabs().rstrip()[:_MOST_CHARACTERS]) for line in lines]
    more = [f"... {len(clean) - _MOST_LINES} lines more"] if len(clean) > _MOST_LINES else []
    return "\n".join([*clean[:_MOST_LINES], *more]).strip("\n")


def _is_in(file: Path, homes: list[Path]) -> bool:
    try:
        real = file.resolve()
    except (OSError, RuntimeError, ValueError):
        return False
    return any(real.is_relative_to(home) for home in homes)


def _renamed(line: str, names: dict[str, str]) -> str:
    for there, here in names.items():
        line = here.join(re.split(rf"(?<![\w./-]){re.escape(there)}(?![\w.-])", line))
    return line
