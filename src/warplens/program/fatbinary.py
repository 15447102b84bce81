"""Programs, libraries, objects and fat binaries: the cubins in them, compressed or not, or their PTX."""

from __future__ import annotations

import tempfile
from pathlib import Path

from warplens.core.errors import FileError
from warplens.core.files import read_bytes
from warplens.program import toolchain
from warplens.program.compile import Options, assemble
from warplens.program.cubin import embedded_cubins

_MAGIC = b"\x50\xed\x55\xba"
_BYTES_PER_SECOND, _BYTES_PER_BYTE = 5e6, 16  # what cuobjdump may take


def cubins_in(path: Path, data: bytes, options: Options) -> list[bytes]:
    """Return the cubins inside a file, whose bytes are `data`."""
    loose = list(embedded_cubins(data))
    if _MAGIC not in data:
        if not loose:
            raise FileError(f"{path}: not CUDA source, PTX, a cubin, or a program with CUDA machine code in it")
        return loose
    try:
        with tempfile.TemporaryDirectory(prefix="warplens-") as name:
            folder = Path(name)
            found = [read_bytes(file) for file in _extracted("elf", path, len(data), folder, options)]
            return found or loose or _assembled(path, len(data), options, folder)
    except toolchain.ToolError as error:
        if loose:
            return loose  # what is not compressed needs no tool
        raise FileError(f"{path}: {error}") from None


def _extracted(kind: str, path: Path, size: int, folder: Path, options: Options) -> list[Path]:
    """Let cuobjdump write what is there as machine code (`elf`) or as `ptx`."""
    seconds, memory = toolchain.TOOL_SECONDS + size / _BYTES_PER_SECOND, toolchain.TOOL_BYTES + _BYTES_PER_BYTE * size
    arguments = [f"-x{kind}", "all", str(path.resolve())]
    tool = toolchain.tool("cuobjdump", options.toolkit)
    toolchain.run("cuobjdump", *arguments, by=tool, folder=folder, limit_seconds=seconds, limit_bytes=memory)
    return sorted(folder.glob("*.cubin" if kind == "elf" else f"*.{kind}"))


def _assembled(path: Path, size: int, options: Options, folder: Path) -> list[bytes]:
    """Assemble what is there as PTX only."""
    made = []
    for i, ptx in enumerate(_extracted("ptx", path, size, folder, options)):
        out = folder / f"{i}.cubin"
        assemble(ptx, options, folder, out)
        made.append(read_bytes(out))
    if not made:
        raise FileError(f"{path}: a program without CUDA machine code or PTX in it")
    return made
