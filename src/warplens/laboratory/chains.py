"""Chains of one instruction, or of one and alpha adds: latency and throughput of arithmetic and shared memory.

Every link depends on the one before (Volkov 2016 §5.1, §5.2). `chains` copies run side by side in a thread (§6.3's
ILP). A measurement takes two kernels of N and 2N links per trip: the difference of the times of a trip is that of N
links, without loop, prologue and stamps. All warps run for a time, `size` cycles, and count their trips.

a: with shared memory a thread's word is its index times a. c: a value that no result is,
so that results stay alive. out holds the operands: what the chain begins with, four others, and at byte 64 a float that
is added. They are read from there, thread by thread b bytes further (0), because the compiler then neither knows them,
nor computes them anew in the loop, nor knows that they are the same in all threads.
"""

from __future__ import annotations

from warplens.laboratory.operations import Operation
from warplens.laboratory.source import Expectation, Kernel

_TYPES = {"f": "float", "r": "u32", "d": "double", "l": "u64"}
_TO_WORD = {"f": "__float_as_uint({})", "r": "{}", "d": "(u32)__double2loint({})", "l": "(u32){}"}
ZERO_AT = 64  # byte of `out` with the float that alpha adds add
_SHARED_WORDS = 8192  # 32 KiB: 1024 threads with 16 bytes, and with strides of up to 32 words for one warp
_FEW_WORDS = 3072  # of a mix: a word for each thread, so that 16 blocks fit on an SM


def chain(op: Operation, chains: int = 1, doubled: bool = False, alpha: int = 0, length: int | None = None) -> Kernel:
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
    turns = ["".join(f"LINK(x{k}, {others}){adds.format(x=f'x{k}')} " for k in range(chains)) for others in orders]
    body = f"      UNROLL for (int u = 0; u < {links // 2}; u++) {{ {turns[0]} {turns[1]} }}\n"
    body += f"      {turns[0]}\n" if links % 2 else ""
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
    """A word holds its own address; of an access of several words the first does, and the others are zero."""
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


def uniform(name: str, doubled: bool = False) -> Kernel:
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


def local(doubled: bool = False, address: str = "") -> Kernel:
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
