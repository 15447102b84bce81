"""The random words of read_words.json.gz, by family: made again, the same ones each time.

Operands are of both banks; some are kept for reuse, some come so few cycles before that they are read from the units.
What a word takes beyond its stall counts is what its operands and its units wait for. The result has its cycles.
"""

import random

NOP = "NOP"
Slot = tuple[str, tuple[int, ...], int, bool, int]  # opcode, registers, stall count, yield, lanes that keep operands


def s(what: str, stall: int, *registers: int, reuse: int = 0) -> Slot:
    """Return an instruction; `reuse` has a bit for each lane that keeps its operand."""
    return what, registers, stall, False, reuse


TAIL = 9
LANES = {
    "FFMA": (0, 1, 2), "MMA": (0, 1, 2), "HFMA2": (0, 1, 2), "IMAD": (0, 1, 2), "LOP3": (0, 1, 2), "DFMA": (0, 1, 2),
    "WIDE": (0, 1, 2), "HIGH": (0, 1, 2), "FADD": (0, 2), "HADD2": (0, 2), "DADD": (0, 2), "MOV": (1,),
}  # fmt: skip
PAIRS = {"DFMA": (0, 1, 2), "DADD": (0, 2), "WIDE": (2,), "HIGH": (2,)}  # operands of two registers
UNIFORM = {"UIMAD": 3, "UIADD3": 3, "ULOP3": 3, "USHF": 2}  # how many operands
RESULT = {"FFMA": 4, "FADD": 4, "LOP3": 5, "MOV": 5, "IMAD": 5, "HFMA2": 6, "HADD2": 6, "MMA": 7, "DFMA": 10,
          "DADD": 10, "WIDE": 8, "HIGH": 8}  # cycles after which a result may be read  # fmt: skip
FAMILIES: dict[str, tuple[tuple[str, ...], float, float]] = {  # instructions, shares of kept and of fresh operands
    "plain": (("FFMA",), 0.0, 0.0), "kept": (("FFMA",), 0.5, 0.0), "late": (("FFMA", "MMA"), 0.0, 0.0),
    "late kept": (("FFMA", "MMA"), 0.5, 0.0), "fresh": (("FFMA",), 0.0, 0.5), "fresh kept": (("FFMA",), 0.5, 0.5),
    "late fresh": (("FFMA", "MMA"), 0.0, 0.5), "late fresh kept": (("FFMA", "MMA"), 0.5, 0.5),
    "sums": (("FFMA", "FADD"), 0.4, 0.3), "logic": (("FFMA", "LOP3", "MOV"), 0.4, 0.3),
    "whole": (("FADD", "LOP3", "IMAD"), 0.4, 0.3), "half": (("HFMA2", "HADD2", "MMA"), 0.4, 0.3),
    "half, single": (("HFMA2", "FFMA", "LOP3"), 0.4, 0.3), "double": (("DFMA", "DADD"), 0.4, 0.3),
    "double, single": (("DFMA", "DADD", "FFMA"), 0.4, 0.3), "wide": (("WIDE", "HIGH", "LOP3"), 0.4, 0.3),
    "wide, single": (("WIDE", "HIGH", "FADD", "MOV"), 0.4, 0.3),
}  # fmt: skip
EACH, SINGLE = 600, "FFMA"
BY_WAY = ("FFMA", "LOP3", "IMAD", "HFMA2", "MMA", "DADD", "WIDE")


def word(chance: random.Random, names: tuple[str, ...], kept: float, fresh: float, stalls: tuple[int, ...]) -> list[Slot]:
    """Return random code; what an instruction reads of others was made long enough before it."""
    code, made, lanes, now = list[Slot](), dict[int, int](), dict[tuple[bool, int], int](), 0
    for k in range(chance.choice((4, 8, 12, 18))):
        if chance.random() < 0.1:
            code.append(s(NOP, 1))
            now += 1
            continue
        name = chance.choice(names)
        late = name in ("MMA", "DFMA", "DADD")
        ready = [r for r, when in made.items() if when <= now]
        registers, marks = list[int](), 0
        for lane in LANES[name]:
            pair, before = lane in PAIRS.get(name, ()), lanes.pop((late, lane), None)
            register = chance.choice((255, *range(16, 24), *range(16, 24)))
            if before is not None and chance.random() < 0.6:
                register = before
            elif ready and chance.random() < fresh:
                register = chance.choice(ready)
            if pair and register != 255:
                register &= ~1
            if register != 255 and chance.random() < kept:
                marks |= 1 << lane
                lanes[late, lane] = register
            registers.append(register)
        result = 24 + 2 * (k % 8) + (0 if name in PAIRS else chance.randrange(2))
        stall = chance.choice(stalls)
        for r in (result, result ^ 1):
            made.pop(r, None)
        if result not in lanes.values() and result + 1 not in lanes.values():
            made[result] = now + RESULT[name]
        else:
            result = 40 + 2 * (k % 2)
        code.append(s(name, stall, result, *registers, reuse=marks))
        now += stall
    return code + [s(NOP, 1)] * TAIL


def uniform(chance: random.Random) -> list[Slot]:
    """Return random code of uniform instructions among adds and products, some of which read a uniform register."""
    code = list[Slot]()
    for k in range(chance.choice((6, 12, 18))):
        name = chance.choice((*UNIFORM, "FADD", "FADD.U", "FADD.U", "FFMA.U"))
        if name in UNIFORM:
            code.append(s(name, 1, 48 + k % 8, *(chance.choice((63, 40, 41, 42, 43)) for _ in range(UNIFORM[name]))))
        else:
            others = {"FADD": (16, 17), "FADD.U": (16, 40), "FFMA.U": (16, chance.choice((40, 41)), 17)}[name]
            code.append(s(name, 1, 40 + k % 2, *others))
    return code + [s(NOP, 1)] * TAIL


def queued(chance: random.Random, name: str, one_bank: bool) -> list[Slot]:
    """Return random products with a few instructions of an SFU or of shared memory among them, from zero in R20, R21.

    Their results come back among those of products, which write all banks alike or most of the time the same one.
    """
    places = chance.sample(range(1, 6), chance.choice((1, 1, 2)) if name == "MUFU" else chance.choice((1, 2, 3)))
    share, often, bank = chance.choice((0.4, 0.6, 0.8, 1.0)), chance.choice((0.8, 0.9, 1.0)), chance.randrange(2)
    code = [s("MOV", 2, 20, 255), s("MOV", 2, 21, 255), s(NOP, 11)]
    for k in range(29):
        if k in places:
            code.append(s(name, 1, chance.choice((32, 33, 34, 35)), chance.choice((20, 21))))
            continue
        result = 24 + 2 * chance.randrange(4) + (bank ^ (chance.random() > often) if one_bank else chance.randrange(2))
        reads = (chance.choice((16, 17, 18, 19, 22, 23)) if chance.random() < share else 255 for _ in range(3))
        code.append(s(SINGLE, 1, result, *reads))
    return [*code, s(NOP, 11)]


def made_away(what: str, away: int, register: int) -> list[Slot]:
    """Return code in which the third operand could be read early, if it were there: it was made so long before."""
    pause = [s(NOP, 11)] * ((away - 2) // 11) + [s(NOP, (away - 2) % 11)] * ((away - 2) % 11 > 0)
    reads = [s(SINGLE, 1, 46, 16, 18, 255), s(SINGLE, 1, 40, 20, 255, register)]
    operands = (255,) * len(LANES[what])
    return [s(what, 1, 42, *operands), *pause, *reads, *[s(NOP, 1)] * 6]


def words() -> dict[str, list[list[Slot]]]:
    """Return the code of a lone warp, by family."""
    found = {}
    for family, (names, kept, fresh) in FAMILIES.items():
        chance = random.Random(family)
        found[family] = [word(chance, names, kept, fresh, (1, 1, 1, 1, 2, 4)) for _ in range(EACH)]
    chance = random.Random("uniform")
    found["uniform"] = [uniform(chance) for _ in range(EACH)]
    for name in ("MUFU", "LDS"):
        for one_bank in (False, True):
            family = name + ", one bank" * one_bank
            chance = random.Random(family)
            found[family] = [queued(chance, name, one_bank) for _ in range(EACH)]
    for what in BY_WAY:
        found[f"away {what}"] = [made_away(what, away, r) for away in range(2, 22) for r in (42, 22)]
    return found
