"""Texts of nvdisasm for machine words of sm_90, in a plain form: asked for thousands at once, and kept.

In that form a branch names its target by the distance from the next instruction, and an address in brackets always has
an offset, `+0x0` too. A word that is refused, or written with an invalid modifier, has no text.
"""

import re
import struct
import tempfile

from warplens.core.processes import execute
from warplens.program import toolchain
from warplens.program.encoding import OPCODE, WORD_BYTES

# CALL.REL, WARPSYNC, BSSY, BRA, LEPC, RET.REL: opcodes whose last number is an address in the code.
RELATIVE = {0x344, 0x348, 0x944, 0x945, 0x947, 0x948, 0x94E, 0x950}
_TOGETHER = 40_000
_HARMLESS = 0x7F1 << 105  # a control field that any instruction may have
_TARGET = re.compile(r"-?0x[0-9a-f]+$")
_ADDRESS = re.compile(r"(\[U?R[^\[\]]*?)\]")
_REFUSED = re.compile(r"at address 0x([0-9a-f]+)")
_ROW = re.compile(r"^ +/\*([0-9a-f]{4,8})\*/([^;\n]*); +/\* 0x[0-9a-f]{16} \*/$", re.M)
_KNOWN: dict[int, str | None] = {}


def ask(words: list[int]) -> list[str | None]:
    """Return the texts of words, given without their control fields."""
    new = [word for word in dict.fromkeys(words) if word not in _KNOWN]
    for first in range(0, len(new), _TOGETHER):
        _ask(new[first : first + _TOGETHER])
    return [_KNOWN[word] for word in words]


def _ask(words: list[int]) -> None:
    """Ask for words that are not known yet; refused ones are left out and the others asked again."""
    while words:
        code, out, errors = _run(words)
        if not code:
            texts = {int(at, 16): text.strip() for at, text in _ROW.findall(out)}
            for address, word in zip(range(0, len(words) * WORD_BYTES, WORD_BYTES), words, strict=True):
                _KNOWN[word] = _plain(word, texts.get(address), address)
            return
        refused = {int(at, 16) // WORD_BYTES for at in _REFUSED.findall(errors)}
        if not refused:
            raise SystemExit(errors)
        _KNOWN.update((words[at], None) for at in refused)
        words = [word for at, word in enumerate(words) if at not in refused]


def _run(words: list[int]) -> tuple[int, str, str]:
    with tempfile.NamedTemporaryFile() as file:
        code = (word | _HARMLESS for word in words)
        file.write(b"".join(struct.pack("<QQ", word & (1 << 64) - 1, word >> 64) for word in code))
        file.flush()
        command = [str(toolchain.tool("nvdisasm")), "-b", "SM90", "-hex", file.name]
        exit_code, out, errors = execute(command, toolchain.COMPILER_SECONDS)
        return exit_code, out.decode(), errors.decode()


def _plain(word: int, text: str | None, address: int) -> str | None:
    if text is None or "INVALID" in text or "?" in text:
        return None
    if word & OPCODE in RELATIVE and (target := _TARGET.search(text)):
        text = f"{text[: target.start()]}{int(target[0], 16) - address - WORD_BYTES:#x}"
    return _ADDRESS.sub(lambda found: found[0] if "0x" in found[0] else f"{found[1]}+0x0]", text)
