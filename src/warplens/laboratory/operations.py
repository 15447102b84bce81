"""Operations measured as chains of one instruction, or of one and alpha adds: the table, and the kernels.

Every link depends on the one before (Volkov 2016 §5.1, §5.2). `chains` copies run side by side in a thread (§6.3's
ILP). A measurement takes two kernels of N and 2N links per trip: the difference of the times of a trip is that of N
links, without loop, prologue and stamps. All warps run for a time, `size` cycles, and count their trips.

a: with shared memory a thread's word is its index times a. c: a value that no result is,
so that results stay alive. out holds the operands: what the chain begins with, four others, and at byte 64 a float that
is added. They are read from there, thread by thread b bytes further (0), because the compiler then neither knows them,
nor computes them anew in the loop, nor knows that they are the same in all threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from warplens.laboratory.source import ZERO_AT, Expectation, Kernel


@dataclass(frozen=True)
class Operation:
    """One instruction, or a short sequence: name, class of the machine files, one link in PTX, its machine code."""

    name: str
    kind: str
    link: str
    expect: dict[str, int]
    register: str = "f"  # f: float, r: 32 bits, d: double, l: 64 bits
    length: int = 128  # links of one trip; the second kernel has twice as many
    since: int = 75
    width: int = 0  # of shared memory: words of an access; the chain's register holds an address there
    instructions: int = 1  # per link, of the kind that the operation is about
    others: int = 0  # per link, at most: range reduction, moves, what keeps a vector's other words alive
    over: int = 0  # instructions of the pattern that are the loop's own
    most_chains: int = 8  # beyond, the compiler does two links at once
    about: str = ""
    conflicts: bool = False  # the compiler gives some links two registers of one bank


def _one(name: str, kind: str, link: str, pattern: str, register: str = "f", **others: Any) -> Operation:
    return Operation(name, kind, link, {pattern: others.get("instructions", 1)}, register, **others)


FP32 = (
    _one("fadd", "fp32", "add.f32 %0, %0, %1;", r"FADD"),
    _one("fmul", "fp32", "mul.f32 %0, %0, %1;", r"FMUL"),
    _one("ffma", "fp32", "fma.rn.f32 %0, %0, %1, %2;", r"FFMA", about="three registers: their ports may be the limit"),
    _one("ffma_2", "fp32", "fma.rn.f32 %0, %0, %1, %1;", r"FFMA", about="two registers"),
    _one("ffma_1", "fp32", "fma.rn.f32 %0, %0, %0, %0;", r"FFMA", about="one register"),
    _one("fmnmx", "int", "min.f32 %0, %0, %1; max.f32 %0, %0, %2;", r"FMNMX3?", length=64, instructions=2),
)
INTEGER = (
    _one("iadd3", "int", "add.s32 %0, %0, %1; add.s32 %0, %0, %2;", r"IADD3|IADD", "r", over=3),
    _one("imad", "imul", "mad.lo.s32 %0, %0, %1, %2;", r"IMAD", "r"),
    _one("imad_wide", "imul", "{.reg .b32 t, u; mov.b64 {t, u}, %0; mul.wide.u32 %0, t, u;}", r"IMAD\.WIDE.*", "l"),
    _one("imad_hi", "imul", "mad.hi.u32 %0, %0, %1, %2;", r"IMAD\.HI.*", "r", length=64, others=2, conflicts=True),
    _one("lop3", "int", "lop3.b32 %0, %0, %1, %2, 0xe8;", r"LOP3.*", "r"),
    _one("shf", "int", "shf.l.wrap.b32 %0, %0, %1, %2;", r"SHF.*", "r"),
    _one("prmt", "int", "prmt.b32 %0, %0, %1, %2;", r"PRMT", "r"),
    _one("isetp_sel", "int", "{.reg .pred p; setp.lt.s32 p, %0, %1; selp.b32 %0, %2, %0, p;}",
         r"ISETP\.\w+\.AND|SEL", "r", length=64, instructions=2, over=1, about="compare and select", conflicts=True),
    _one("imnmx", "int", "min.s32 %0, %0, %1; max.s32 %0, %0, %2;", r"V?IMNMX3?.*", "r", length=64, instructions=2),
    _one("s2r", "int", "{.reg .u32 t; mov.u32 t, %%warpid; add.u32 %0, %0, t;}", r"S2R.*", "r", length=16, others=5,
         since=90, most_chains=1, about="a special register, what makes a number of it, an addition"),
)  # fmt: skip
DOUBLE = (
    _one("dadd", "fp64", "add.rn.f64 %0, %0, %1;", r"DADD", "d", length=32),
    _one("dmul", "fp64", "mul.rn.f64 %0, %0, %1;", r"DMUL", "d", length=32),
    _one("dfma", "fp64", "fma.rn.f64 %0, %0, %1, %2;", r"DFMA", "d", length=32, about="three registers"),
    _one("dfma_1", "fp64", "fma.rn.f64 %0, %0, %0, %0;", r"DFMA", "d", length=32, about="one register"),
)
HALF = (
    _one("hadd2", "half", "add.rn.f16x2 %0, %0, %1;", r"HADD2.*|HFMA2.*", "r", conflicts=True),
    _one("hfma2", "half", "fma.rn.f16x2 %0, %0, %1, %2;", r"HFMA2.*", "r", about="three registers"),
    _one("hfma2_1", "half", "fma.rn.f16x2 %0, %0, %0, %0;", r"HFMA2.*", "r", about="one register"),
    _one("bfma2", "half", "fma.rn.bf16x2 %0, %0, %1, %2;", r"HFMA2.*", "r", since=80),
)
CONVERT = (
    _one("i2f_f2i", "convert", "{.reg .f32 t; cvt.rn.f32.s32 t, %0; cvt.rzi.s32.f32 %0, t;}", r"I2F.*|F2I.*", "r",
         length=32, instructions=2, about="int32 to fp32 and back"),
    _one("f2f_half", "convert", "{.reg .f16 t; cvt.rn.f16.f32 t, %0; cvt.f32.f16 %0, t;}", r"F2F.*|HADD2.*", length=32,
         instructions=2, most_chains=1, about="fp32 to half and back"),
    _one("f2f_double", "convert", "{.reg .f64 t; cvt.f64.f32 t, %0; cvt.rn.f32.f64 %0, t;}", r"F2F.*", length=16,
         instructions=2, about="fp32 to fp64 and back"),
    _one("popc", "convert", "popc.b32 %0, %0;", r"POPC", "r", length=64),
    _one("brev", "convert", "brev.b32 %0, %0; add.s32 %0, %0, %1;", r"BREV", "r", length=64, others=1),
    _one("flo", "convert", "bfind.u32 %0, %0;", r"FLO.*", "r", length=64),
)  # fmt: skip
SFU = (
    *(
        _one(f"mufu_{name}", "sfu", f"{ptx}.approx.ftz.f32 %0, %0;", rf"MUFU\.{pattern}", length=64,
             others=int(name in ("sin", "cos")))
        for name, ptx, pattern in (
            ("rsq", "rsqrt", "RSQ"), ("sqrt", "sqrt", "SQRT"), ("ex2", "ex2", "EX2"),
            ("lg2", "lg2", "LG2"), ("sin", "sin", "SIN"), ("cos", "cos", "COS"),
        )
    ),
    _one("mufu_tanh", "sfu", "tanh.approx.f32 %0, %0;", r"MUFU\.TANH", length=64),
    _one("mufu_rcp", "sfu", "tanh.approx.f32 %0, %0; rcp.approx.ftz.f32 %0, %0;", r"MUFU\.(TANH|RCP)", length=32,
         instructions=2, about="tangent and reciprocal: two reciprocals would cancel"),
)  # fmt: skip
WARP = (
    # for compute capability 7.5 the compiler makes loops of votes around these
    _one("shfl", "shuffle", "shfl.sync.bfly.b32 %0, %0, 1, 31, -1;", r"SHFL.*", "r", length=64, since=80),
    _one("shfl_idx", "shuffle", "shfl.sync.idx.b32 %0, %0, %1, 31, -1;", r"SHFL.*", "r", length=64, since=80),
    _one("vote", "int", "{.reg .pred p; setp.ne.u32 p, %0, %1; vote.sync.ballot.b32 %0, p, -1;}", r"VOTE.*", "r",
         length=64, since=80, others=1, about="compare and ballot"),
    _one("match", "other", "match.any.sync.b32 %0, %0, -1;", r"MATCH.*", "r", length=32, since=80),
    _one("redux", "other", "redux.sync.add.u32 %0, %0, -1;", r"C?REDUX.*", "r", length=32, since=80, others=1),
)  # fmt: skip
# The chain's register holds a shared-memory address; the word there holds the same address, and stays so.
SHARED = (
    _one("lds", "shared", "ld.shared.u32 %0, [%0];", r"LDS(\.U)?", "r", length=64, width=1),
    _one("lds_64", "shared", "{.reg .b32 t; ld.shared.v2.b32 {%0, t}, [%0]; xor.b32 %0, %0, t;}", r"LDS(\.U)?\.64", "r",
         length=64, width=2, others=1),
    _one("lds_128", "shared",
         "{.reg .b32 t, u, v; ld.shared.v4.b32 {%0, t, u, v}, [%0]; "
         "xor.b32 t, t, u; xor.b32 t, t, v; xor.b32 %0, %0, t;}",
         r"LDS(\.U)?\.128", "r", length=64, width=4, others=3),
    _one("sts", "shared", "st.volatile.shared.u32 [%0], %0;", r"STS", "r", length=64, width=1),
    _one("sts_64", "shared", "st.volatile.shared.v2.b32 [%0], {%1, %2};", r"STS\.64", "r", length=64, width=2),
    _one("sts_128", "shared", "st.volatile.shared.v4.b32 [%0], {%1, %2, %3, %4};", r"STS\.128", "r", length=64,
         width=4),
    _one("sts_lds", "shared", "st.volatile.shared.u32 [%0], %0; ld.volatile.shared.u32 %0, [%0];", r"STS|LDS(\.U)?",
         "r", length=32, width=1, instructions=2, about="store, then load of the same word"),
    _one("atoms_add", "other", "atom.shared.add.u32 %0, [%0], %1;", r"ATOMS.*", "r", length=16, width=1, others=1),
    _one("atoms_cas", "other", "atom.shared.cas.b32 %0, [%0], %0, %0;", r"ATOMS.*", "r", length=16, width=1, others=1),
)  # fmt: skip


def _pair(
    name: str, kind: str, link: str, expect: dict[str, int], register: str = "r", length: int = 128, **others: Any
) -> Operation:
    return Operation(name, kind, link, expect, register, length, **others)


_TO_FLOAT = "mov.b32 t, %0; mov.b32 u, %1; add.f32 t, t, u; mov.b32 %0, t;"
# Two instructions of different classes in turn: latency by producer and consumer (§4.7). In `fadd2_iadd` nothing but
# issue can keep a scheduler to one instruction per cycle: three instructions of one register each, on two pipelines.
PAIRS = (
    _pair("fadd_mufu", "sfu", "add.f32 %0, %0, %1; rsqrt.approx.ftz.f32 %0, %0;", {"FADD": 1, r"MUFU\.RSQ": 1}, "f",
          32),
    _pair("lop3_lds", "shared", "ld.shared.u32 %0, [%0]; lop3.b32 %0, %0, %1, %2, 0xfe;",
          {r"LDS(\.U)?": 1, r"LOP3.*": 1}, length=32, width=1),
    _pair("fadd_lds", "shared",
          "{.reg .f32 t; ld.shared.u32 %0, [%0]; mov.b32 t, %0; add.f32 t, t, 0f00000000; mov.b32 %0, t;}",
          {r"LDS(\.U)?": 1, "FADD": 1}, length=32, width=1),
    _pair("lop3_fadd", "int", "{.reg .f32 t, u; lop3.b32 %0, %0, %1, %2, 0xe8; " + _TO_FLOAT + "}",
          {"FADD": 1, r"LOP3.*": 1}),
    _pair("imad_fadd", "imul", "{.reg .f32 t, u; mad.lo.s32 %0, %0, %1, %2; " + _TO_FLOAT + "}",
          {"FADD": 1, "IMAD": 1}),
    _pair("imad_lop3", "imul", "mad.lo.s32 %0, %0, %1, %2; lop3.b32 %0, %0, %1, %2, 0xe8;", {"IMAD": 1, r"LOP3.*": 1}),
    _pair("imad_wide_lop3", "imul",
          "{.reg .b64 w; .reg .b32 t, u; mul.wide.u32 w, %0, 12345; mov.b64 {t, u}, w; xor.b32 %0, t, u;}",
          {r"IMAD\.WIDE.*": 1, r"LOP3.*": 1}),
    _pair("shfl_lop3", "shuffle", "shfl.sync.bfly.b32 %0, %0, 1, 31, -1; lop3.b32 %0, %0, %1, %2, 0xe8;",
          {r"SHFL.*": 1, r"LOP3.*": 1}, length=32, since=80),
    _pair("fadd2_iadd", "fp32",
          "{.reg .f32 t; mov.b32 t, %0; add.f32 t, t, 0f3F800000; add.f32 t, t, 0f3F000000; mov.b32 %0, t; "
          "add.s32 %0, %0, 12345;}",
          {"FADD": 2, "IADD3|VIADD|IADD": 1}, length=32, over=3),
)  # fmt: skip
OPERATIONS = (*FP32, *INTEGER, *DOUBLE, *HALF, *CONVERT, *SFU, *WARP, *SHARED)
# Of these, independent of one another, a lone warp's are counted: one for each class (ILP latency).
INDEPENDENT = ("fadd", "lop3", "imad", "dadd", "hfma2_1", "popc", "mufu_rsq", "shfl", "lds")
_TYPES = {"f": "float", "r": "u32", "d": "double", "l": "u64"}
_TO_WORD = {"f": "__float_as_uint({})", "r": "{}", "d": "(u32)__double2loint({})", "l": "(u32){}"}
_SHARED_WORDS = 8192  # 32 KiB: 1024 threads with 16 bytes, and with strides of up to 32 words for one warp
_FEW_WORDS = 3072  # of a mix: a word for each thread, so that 16 blocks fit on an SM


def chain_kernel(
    op: Operation, chains: int = 1, doubled: bool = False, alpha: int = 0, length: int | None = None
) -> Kernel:
    """Return the kernel of an operation's chain with so many links per trip, twice as many if `doubled`."""
    links = (length or op.length) * (2 if doubled else 1)
    words = _FEW_WORDS if length else _SHARED_WORDS
    name = f"{op.name}_a{alpha}_i{chains}_n{links}" + ("_few" if op.width and length else "")
    expect = {pattern: count * links * chains for pattern, count in _with_adds(op, alpha).items()}
    slack = 14 + 2 * chains + op.others * links * chains
    text = _text(name, op, chains, links, alpha, words)
    facts = {"links": links, "chains": chains, "alpha": alpha, "operation": op.name}
    wanted = Expectation(expect, slack, over=op.over, conflicts=op.conflicts)
    return Kernel(name, text, wanted, op.since, facts=facts)


def _with_adds(op: Operation, alpha: int) -> dict[str, int]:
    return op.expect if alpha == 0 else {**op.expect, "FADD": op.expect.get("FADD", 0) + alpha}


def _text(name: str, op: Operation, chains: int, links: int, alpha: int, words: int) -> str:
    kind, word = _TYPES[op.register], _TO_WORD[op.register]
    shared = op.width > 0
    first = "mine + {} * 128" if shared else "given[0]"
    variables = f"  volatile {kind} *given = (volatile {kind} *)((char *)out + threadIdx.x * b);\n"
    variables += f"  float zero = ((volatile float *)given)[{ZERO_AT // 4}];\n"
    variables += "".join(f"  {kind} x{k} = {first.format(k)};\n" for k in range(chains))
    variables += "".join(f"  {kind} {name} = given[{i}];\n" for i, name in enumerate("yzvw", 1))
    adds = f" UNROLL for (int i = 0; i < {alpha}; i++) ADD({{x}});" if alpha else ""
    orders = ("y, z, v, w", "y, z, v, w" if shared else "v, w, y, z")
    ordered = ["".join(f"LINK(x{k}, {others}){adds.format(x=f'x{k}')} " for k in range(chains)) for others in orders]
    body = f"      UNROLL for (int u = 0; u < {links // 2}; u++) {{ {ordered[0]} {ordered[1]} }}\n"
    body += f"      {ordered[0]}\n" if links % 2 else ""
    c = op.register
    add = 'asm volatile("add.f32 %0, %0, %1;" : "+f"(x) : "f"(zero));'
    if c == "r":  # within the assembly: of a register of both types the compiler may make a conversion
        add = 'asm volatile("{.reg .f32 f; mov.b32 f, %0; add.f32 f, f, %1; mov.b32 %0, f;}" : "+r"(x) : "f"(zero));'
    keep = " ^ ".join(word.format(f"x{k}") for k in range(chains))
    return (
        f'#define LINK(x, p, q, r, s) asm volatile("{op.link}" : "+{c}"(x) '
        f': "{c}"(p), "{c}"(q), "{c}"(r), "{c}"(s) : "memory");\n'
        f"#define ADD(x) {add}\n"
        f"KERNEL({name}, 1024) {{\n{_shared_setup(words, op.width) if shared else ''}"
        f"{variables}"
        f"  PASSES {{\n    START_TOGETHER\n    TIMED_LOOP\n{body}    UNTIL_TIME\n  }}\n"
        f"  KEEP(({keep}) == c)\n  record(records, TIMED, done);\n}}\n"
        "#undef LINK\n#undef ADD\n"
    )


def _shared_setup(words: int, width: int) -> str:
    """Fill shared memory: a word has its own address; of a wider access the first word does, the others are zero."""
    return f"""\
  __shared__ u32 words[{words}];
  u32 mine = shared_address(words) + (threadIdx.x * a % {words - 2048}) * 4;
  for (u32 i = threadIdx.x; i < {words}; i += blockDim.x) words[i] = i % {width} ? 0 : shared_address(words + i);
  __syncthreads();
"""


_UNIFORM = {
    "uniform_int": ("x = (x ^ a) + b;", {r"ULOP3.*|UIADD3.*|UIADD": 2}),
    "uniform_imul": ("x = x * a + b;", {r"UIMAD": 1}),
}


def uniform_kernel(name: str, doubled: bool = False) -> Kernel:
    """Return a chain on the uniform datapath: plain arithmetic on what the compiler knows to be alike in all lanes."""
    step, expect = _UNIFORM[name]
    links = 64 if doubled else 32
    text = f"""\
KERNEL({name}_n{links}, 1024) {{
  u32 x = c;
  PASSES {{
    START_TOGETHER
    TIMED_LOOP UNROLL for (int u = 0; u < {links}; u++) {{ {step} }} UNTIL_TIME
  }}
  KEEP(x == 12345u + (u32)(size >> 32))
  record(records, TIMED, done);
}}
"""
    facts = {"links": links, "chains": 1, "alpha": 0, "operation": name}
    counted = {pattern: count * links for pattern, count in expect.items()}
    return Kernel(f"{name}_n{links}", text, Expectation(counted, 16, over=4), facts=facts)


UNIFORM = {name: sum(expect.values()) for name, (_, expect) in _UNIFORM.items()}
# What makes the address of the next load of its result, by class: PTX, machine code.
ADDRESSES = {"int": ("lop3.b32 %0, %0, %1, %2, 0xf8;", r"LOP3.*"), "imul": ("mad.lo.u32 %0, %0, %2, %1;", "IMAD")}


def local_kernel(doubled: bool = False, address: str = "") -> Kernel:
    """Return a chain of loads from local memory, where the compiler keeps what finds no register: hits in L1.

    `address`: the class of an instruction between two loads, that makes the address of the next.
    """
    links = 64 if doubled else 32
    name = f"local_{address}_n{links}" if address else f"local_n{links}"
    step, pattern = ADDRESSES.get(address, ("", ""))
    link, given = '"ld.local.u32 %0, [%0];" : "+r"(x) ::', ""
    if address:
        link = f'"ld.local.u32 %0, [%0]; {step}" : "+r"(x) : "r"(zero), "r"(one) :'
        given = "volatile u32 *given = (volatile u32 *)((char *)out + threadIdx.x * b);\n"
        given += f"  u32 zero = given[{ZERO_AT // 4}], one = given[{ZERO_AT // 4}] + 1;\n  "
    text = f"""\
KERNEL({name}, 1024) {{
  u32 words[16], first;
  asm volatile("{{ .reg .u64 t; cvta.to.local.u64 t, %1; cvt.u32.u64 %0, t; }}" : "=r"(first) : "l"(words));
  for (u32 i = 0; i < 16; i++) words[i] = first + 4 * ((i + 1) % 16);
  {given}u32 x = first + ((volatile u32 *)out)[16];
  PASSES {{
    START_TOGETHER
    TIMED_LOOP
      UNROLL for (int u = 0; u < {links}; u++) asm volatile({link} "memory");
    UNTIL_TIME
  }}
  KEEP(x == c)
  record(records, TIMED, done);
}}
"""
    facts = {"links": links, "chains": 1, "alpha": 0, "operation": "ldl"}
    expect = {r"LDL.*": links, **({pattern: links} if address else {})}
    return Kernel(name, text, Expectation(expect, 20, local=True, over=2 if address else 0), facts=facts)
