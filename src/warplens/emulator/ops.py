"""The operations of the emulator and the columns of its code table. Plain whole numbers: compiled code reads them."""

from __future__ import annotations

# Columns of the code table, one row per instruction.
(GROUP, OP, GUARD, GUARD_NOT, D, A, B, C, A_AND, A_XOR, A_ADD, B_AND, B_XOR, B_ADD, C_AND, C_XOR, C_ADD,
 PD, PD2, PS, PS_NOT, PS2, PS2_NOT, X, Y, Z, TARGET, MODE, AWAITS) = range(29)  # fmt: skip
COLUMNS = 29

# Groups of operations: which function runs them.
NOTHING, INTEGER, SINGLE, DOUBLE, HALF, CONVERT, LANES, MEMORY, CONTROL, UNKNOWN, TENSOR, ASYNC, PACKED = range(13)

# INTEGER
(MOV, MOV2, IADD3, IMAD, IMAD_WIDE, IMAD_HI, LOP3, PLOP3, SHF, LEA, LEA_HI, ISETP, SEL, MINMAX, MINMAX3, ADDMINMAX,
 IABS, POPC, FLO, BREV, BMSK, SGXT, PRMT, IDP4, IDP2, P2R, R2P, S2R, ABSDIFF, ABSDIFF4, LOAD_CONSTANT,
 UIADD64) = range(32)  # fmt: skip
# SINGLE
FADD, FMUL, FFMA, FMNMX, FSETP, FSET, FCHK, MUFU = range(8)
# DOUBLE
DADD, DMUL, DFMA, DSETP, DMUFU, DMNMX = range(6)
# HALF
HADD2, HMUL2, HFMA2, HSETP2, HSET2, HMNMX2, HADD2_F32 = range(7)
# CONVERT
F2I, I2F, F2F, FRND, F2FP, I2I = range(6)
# LANES
SHFL, VOTE, MATCH, REDUX, R2UR, ELECT = range(6)
# MEMORY
LOAD, STORE, ATOMIC, REDUCTION, COPY, LOAD_MATRIX, STORE_MATRIX, SPACE_QUERY = range(8)
# TENSOR
MMA, MOVM = range(2)
# ASYNC
(MBARRIER_SET, MBARRIER_ARRIVE, MBARRIER_TEST, MBARRIER_WAIT, BULK_LOAD, BULK_STORE, BULK_REDUCE, TENSOR_LOAD,
 STORE_AND_SIGNAL, REDUCE_AND_SIGNAL) = range(10)  # fmt: skip
# PACKED: 64-bit values in pairs of registers, two 16-bit values in one, two floats in a pair, small floats
(SEL2, ISETP2, MINMAX2, ADD16, MINMAX16, MINMAX3_16, ADDMINMAX16, FADD2, FMUL2, FFMA2, FMNMX3, PACK_INTEGERS, UNPACK_F8,
 PACK_F8, PACK_F8_HALF, SIGN_LOGIC, PRMT_MODE,
 DSETP_EXTREME) = range(18)  # fmt: skip
# CONTROL
(BRA, BRX, BSSY, BSYNC, BREAK, BMOV_TO_R, BMOV_FROM_R, CALL, RET, EXIT, WARPSYNC, YIELD, BAR, TRAP, B2R, CALL_ABS,
 BRA_DIV, SYSTEM_CALL, BRA_ANY) = range(19)  # fmt: skip

# Comparisons: the low two bits say which of less and equal hold; see compare() in lanes.py.
COMPARE = {"F": 0, "LT": 1, "EQ": 2, "LE": 3, "GT": 4, "NE": 5, "GE": 6, "NUM": 7,
           "NAN": 8, "LTU": 9, "EQU": 10, "LEU": 11, "GTU": 12, "NEU": 13, "GEU": 14, "T": 15}  # fmt: skip
AND, OR, XOR = 0, 1, 2
NEAREST, ZERO, DOWN, UP = 0, 1, 2, 3
ROUND = {"RN": NEAREST, "RZ": ZERO, "RM": DOWN, "RP": UP, "TRUNC": ZERO, "FLOOR": DOWN, "CEIL": UP}
RCP, RSQ, EX2, LG2, SIN, COS, SQRT, TANH, RCP64H, RSQ64H = range(10)
SPECIAL_FUNCTIONS = {"RCP": RCP, "RSQ": RSQ, "EX2": EX2, "LG2": LG2, "SIN": SIN, "COS": COS, "SQRT": SQRT,
                     "TANH": TANH, "RCP64H": RCP64H, "RSQ64H": RSQ64H}  # fmt: skip
# Flags in MODE, above the two bits of rounding.
FTZ, SATURATE, NAN_WINS, XOR_SIGN, RELU, SIGNED, EXTENDED, BF16 = 4, 8, 16, 32, 64, 128, 256, 512
NO_VALUES = 1024  # of an access: where it goes is looked at, but nothing is moved

# Special registers.
(SR_TID_X, SR_TID_Y, SR_TID_Z, SR_CTAID_X, SR_CTAID_Y, SR_CTAID_Z, SR_LANE, SR_ZERO, SR_CLOCK, SR_LANE_EQ, SR_LANE_LT,
 SR_LANE_LE, SR_LANE_GT, SR_LANE_GE, SR_SMID, SR_WARPID, SR_CGA_CTAID, SR_TID, SR_SHARED_WINDOW,
 SR_ONE) = range(20)  # fmt: skip
SPECIAL = {
    "SR_TID.X": SR_TID_X, "SR_TID.Y": SR_TID_Y, "SR_TID.Z": SR_TID_Z, "SR_CTAID.X": SR_CTAID_X,
    "SR_CTAID.Y": SR_CTAID_Y, "SR_CTAID.Z": SR_CTAID_Z, "SR_LANEID": SR_LANE, "SRZ": SR_ZERO,
    "SR_CLOCKLO": SR_CLOCK, "SR_CLOCKHI": SR_ZERO, "SR_EQMASK": SR_LANE_EQ, "SR_LTMASK": SR_LANE_LT,
    "SR_LEMASK": SR_LANE_LE, "SR_GTMASK": SR_LANE_GT, "SR_GEMASK": SR_LANE_GE, "SR_VIRTUALSMID": SR_SMID,
    "SR_SMID": SR_SMID, "SR_WARPID": SR_WARPID, "SR_VIRTID": SR_WARPID, "SR_CgaCtaId": SR_CGA_CTAID,
    "SR_TID": SR_TID, "SR_GLOBALTIMERLO": SR_CLOCK, "SR_GLOBALTIMERHI": SR_ZERO,
    "SR_SWINLO": SR_ZERO, "SR_SWINHI": SR_SHARED_WINDOW, "SR_CgaSize": SR_ONE,
}  # fmt: skip

# Memory spaces.
GLOBAL, SHARED, LOCAL, GENERIC, CONSTANT = range(5)
# Atomic operations.
(ADD_TO, MIN_OF, MAX_OF, INCREMENT, DECREMENT, AND_WITH, OR_WITH, XOR_WITH, EXCHANGE, COMPARE_AND_SWAP) = range(10)
ATOMICS = {"ADD": ADD_TO, "MIN": MIN_OF, "MAX": MAX_OF, "INC": INCREMENT, "DEC": DECREMENT, "AND": AND_WITH,
           "OR": OR_WITH, "XOR": XOR_WITH, "EXCH": EXCHANGE, "CAS": COMPARE_AND_SWAP,
           "CAST": COMPARE_AND_SWAP}  # fmt: skip
# What an atomic operation works on.
T_U32, T_S32, T_U64, T_S64, T_F32, T_F64, T_F16X2, T_BF16X2 = range(8)
# Types of matrix elements.
(M_F16, M_BF16, M_TF32, M_F32, M_F64, M_S8, M_U8, M_S4, M_U4, M_B1, M_S32, M_E4M3, M_E5M2) = range(13)
# What a call to a function of the system does.
SYSTEM_RETURNS, SYSTEM_TRAPS, SYSTEM_ALLOCATES, SYSTEM_UNKNOWN = range(4)
SYSTEM = {"vprintf": SYSTEM_RETURNS, "free": SYSTEM_RETURNS, "__assertfail": SYSTEM_TRAPS,
          "malloc": SYSTEM_ALLOCATES}  # fmt: skip
