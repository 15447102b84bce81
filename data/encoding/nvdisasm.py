"""What nvdisasm writes for machine words of sm_90: asked for thousands of them at once, kept, in a plain form.

In that form a branch names its target by the distance from the next instruction, and an address in brackets always has
an offset, `+0x0` too. A word that is refused, or written with an invalid modifier, has no text.
"""

import re
import struct
import subprocess
import tempfile

from warplens.frontend import toolchain
from warplens.frontend.encoding import WORD_BYTES

# BRA, BSSY, CALL.REL, RET.REL, WARPSYNC, LEPC: opcodes that name a place in the code.
RELATIVE = {0x344, 0x348, 0x944, 0x945, 0x947, 0x948, 0x94E, 0x950}
_TOGETHER = 40_000
_HARMLESS = 0x7F1 << 105  # a control field that any instruction may have
_PLACE = re.compile(r"-?0x[0-9a-f]+$")
_ADDRESS = re.compile(r"(\[U?R[^\[\]]*?)\]")
_REFUSED = re.compile(r"at address 0x([0-9a-f]+)")
_ROW = re.compile(r"^ +/\*([0-9a-f]{4,8})\*/(.*?) +/\* 0x([0-9a-f]{16}) \*/\n +/\* 0x([0-9a-f]{16}) \*/\n", re.M)

KNOWN: dict[int, str | None] = {}


def ask(words: list[int]) -> list[str | None]:
    """Return the texts of words, without their control fields."""
    new = [word for word in dict.fromkeys(words) if word not in KNOWN]
    for first in range(0, len(new), _TOGETHER):
        _ask(new[first : first + _TOGETHER])
    return [KNOWN[word] for word in words]


def plain(word: int, text: str, address: int) -> str | None:
    """Return a text in its plain form."""
    if "INVALID" in text or "?" in text:
        return None
    if word & 0xFFF in RELATIVE and (place := _PLACE.search(text)):
        text = f"{text[: place.start()]}{int(place[0], 16) - address - WORD_BYTES:#x}"
    return _ADDRESS.sub(lambda found: found[0] if "0x" in found[0] else f"{found[1]}+0x0]", text)


def _ask(words: list[int]) -> None:
    """Ask for words that are not known yet; refused ones are left out and the others asked again."""
    while words:
        done = _run(words)
        if not done.returncode:
            texts = {int(at, 16): text.strip() for at, text, _, _ in _ROW.findall(done.stdout)}
            for place, word in enumerate(words):
                text = texts.get(place * WORD_BYTES, "")
                whole = text.endswith(";") and text.count(";") == 1
                KNOWN[word] = plain(word, text[:-1].strip(), place * WORD_BYTES) if whole else None
            return
        refused = {int(at, 16) // WORD_BYTES for at in _REFUSED.findall(done.stderr)}
        if not refused:
            raise SystemExit(done.stderr)
        KNOWN.update((words[place], None) for place in refused)
        words = [word for place, word in enumerate(words) if place not in refused]


def _run(words: list[int]) -> subprocess.CompletedProcess[str]:
    with tempfile.NamedTemporaryFile() as file:
        code = (word | _HARMLESS for word in words)
        file.write(b"".join(struct.pack("<QQ", word & (1 << 64) - 1, word >> 64) for word in code))
        file.flush()
        command = [str(toolchain.tool("nvdisasm")), "-b", "SM90", "-hex", file.name]
        return subprocess.run(command, capture_output=True, text=True, check=False)
