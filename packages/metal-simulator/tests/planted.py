"""Right kernels with a fault in each: old text, new text, and the line that must be named."""

from metal_simulator import Kind

from .planting import Planted
from .right.elementwise import AXPY, BIAS, GATHER, GELU, MANDELBROT, ROPE, SWIGLU
from .right.matrices import GRAM, REGISTERS, SIMDGROUP, STAGED, TILED, TRANSPOSE
from .right.matvecs import Q8, SPLIT_K
from .right.reductions import ARGMAX, RMS_NORM, ROW_SUM, SOFTMAX, TREE
from .right.scans import HISTOGRAM, SCAN
from .right.sequences import CONVOLUTION, DECODE, FLASH, LIFE, PAGES, QUADS

BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
NORM = RMS_NORM[0]

BOUNDS = [
    Planted(Kind.OUT_OF_BOUNDS, AXPY, "i >= x_shape[0]", "i > x_shape[0]", ("out[i] = alpha",), "[100]"),
    Planted(
        Kind.OUT_OF_BOUNDS,
        AXPY,
        """    if (i >= x_shape[0]) {
        return;
    }
    out[i] = alpha * x[i] + y[i];""",
        """    float sum = alpha * x[i] + y[i];
    if (i < x_shape[0]) {
        out[i] = sum;
    }""",
        ("float sum =",),
        "[100]",
    ),
    Planted(Kind.OUT_OF_BOUNDS, TREE, "partial[t + step]", "partial[t + 2 * step]", ("partial[t] +=",), "256"),
    Planted(
        Kind.OUT_OF_BOUNDS,
        GATHER,
        "table[wanted * columns",
        "table[(wanted + 11) * columns",
        ("table[",),
        "264 elements",
    ),
    Planted(Kind.OUT_OF_BOUNDS, CONVOLUTION, "tile[32 + 4]", "tile[32 + 3]", ("tile[j] =",), "35"),
    Planted(Kind.OUT_OF_BOUNDS, LIFE, "(x + dx + width) % width", "(x + dx)", ("neighbors +=",), "reads cells[-1]"),
    Planted(Kind.OUT_OF_BOUNDS, ROPE, "out + (head", "out - 1 + (head", ("to[pair] =",), "writes out[-1]"),
    Planted(Kind.OUT_OF_BOUNDS, REGISTERS, "sums[r] += a", "sums[r + 2] += a", ("sums[r + 2] +=",), "index 5"),
    Planted(Kind.OUT_OF_BOUNDS, SOFTMAX, "x + row * N", "x + row * N - 1u", ("from[i]",), "reads x["),
]
INPUTS = [
    Planted(
        Kind.INPUT_WRITTEN,
        AXPY,
        "out[i] = alpha",
        "((device float*)y)[i] = alpha",
        ("(device float*)y",),
        "writes y[0]",
    ),
    Planted(
        Kind.INPUT_WRITTEN, SWIGLU, "((device V*)out)[i]", "((device V*)up)[i]", ("(device V*)up",), "writes up[0]"
    ),
    Planted(Kind.INPUT_WRITTEN, ROW_SUM, "out[row] = sum", "x[row] = sum", ("x[row] = sum",), "x"),
    Planted(Kind.INPUT_WRITTEN, PAGES, "out[slot * COLUMNS", "pages[slot * COLUMNS", ("pages[slot",), "pages"),
]
RACES = [
    Planted(
        Kind.RACE, TREE, "        }\n        " + BARRIER + "\n    }", "        }\n    }", ("partial[t] +=",), "partial"
    ),
    Planted(
        Kind.RACE, NORM, "sums[group] = sum;\n    " + BARRIER, "sums[group] = sum;\n", ("sums[group] = sum",), "sums[1]"
    ),
    Planted(
        Kind.RACE,
        TRANSPOSE,
        BARRIER,
        "threadgroup_barrier(mem_flags::mem_device);",
        ("tile[in.y][in.x] =",),
        "mem_threadgroup",
    ),
    Planted(
        Kind.RACE, TRANSPOSE, BARRIER, "simdgroup_barrier(mem_flags::mem_threadgroup);", ("tile[in.y][in.x] =",), "tile"
    ),
    Planted(Kind.RACE, TILED, "        }\n        " + BARRIER, "        }\n", ("_tile[ty][tx] =", "sum +="), "_tile"),
    Planted(
        Kind.RACE, SCAN, "    }\n    " + BARRIER + "\n    if (t < N)", "    }\n    if (t < N)", ("out[t] =",), "totals"
    ),
    Planted(
        Kind.RACE,
        SPLIT_K,
        "atomic_fetch_add_explicit(&out[row], sum, memory_order_relaxed);",
        "((device float*)out)[row] += sum;",
        ("(device float*)out",),
        "out",
    ),
    Planted(
        Kind.RACE,
        DECODE,
        "sums[sg] = sum; }\n    " + BARRIER,
        "sums[sg] = sum; }\n",
        ("best[sg] =", "parts[sg]"),
        "no barrier",
    ),
]
BARRIERS = [
    Planted(
        Kind.DIVERGENT_BARRIER,
        TREE,
        "        }\n        " + BARRIER + "\n    }",
        "        " + BARRIER + "\n        }\n    }",
        (BARRIER,),
        "128 threads",
    ),
    Planted(
        Kind.DIVERGENT_BARRIER,
        TILED,
        "    float sum = 0;\n",
        "    float sum = 0;\n    if (row >= M) return;\n",
        (BARRIER,),
        "ended",
    ),
    Planted(
        Kind.DIVERGENT_BARRIER,
        SCAN,
        "(totals[lane]);\n    }\n    " + BARRIER,
        "(totals[lane]);\n        " + BARRIER + "\n    } else {\n        " + BARRIER + "\n    }",
        (BARRIER,),
        "others wait at line",
    ),
    # Who is not to wait reads what the one who waits has written: a race, and yet not what is wrong.
    Planted(
        Kind.DIVERGENT_BARRIER,
        NORM,
        "sums[group] = sum;\n    " + BARRIER,
        "{ sums[group] = sum; " + BARRIER + " }",
        (BARRIER,),
    ),
    Planted(
        Kind.DIVERGENT_BARRIER,
        DECODE,
        "sums[sg] = sum; }\n    " + BARRIER,
        "sums[sg] = sum; " + BARRIER + " }",
        (BARRIER,),
        "4 threads of a threadgroup wait, and 124 have ended without it",
    ),
]
UNINITIALIZED = [
    Planted(
        Kind.UNINITIALIZED_READ,
        NORM,
        "lane < simdgroups_per_threadgroup ? sums[lane] : 0.0f",
        "sums[lane]",
        ("sum = simd_sum(sums[lane])",),
        "reads sums[3]",
    ),
    Planted(
        Kind.UNINITIALIZED_READ,
        HISTOGRAM,
        "    if (t < 16) atomic_store_explicit(&local[t], 0u, memory_order_relaxed);\n",
        "",
        ("atomic_fetch_add_explicit(&local",),
        "local",
    ),
    Planted(
        Kind.UNINITIALIZED_READ, QUADS, "beside = quad_shuffle_xor(x[i], 1);", "beside;", ("x[i] + beside",), "beside"
    ),
    Planted(
        Kind.UNINITIALIZED_READ,
        TREE,
        "partial[t] = x",
        "if (t % 2 == 0) partial[t] = x",
        ("partial[t] +=",),
        "partial[1",
    ),
    Planted(
        Kind.UNINITIALIZED_READ,
        BIAS,
        "out[at.y * columns + at.x] = ",
        "out[at.y * columns + at.x] += ",
        ("out[",),
        "out[0]",
    ),
]
UNWRITTEN = [
    Planted(Kind.OUTPUT_UNWRITTEN, AXPY, "out[i] = alpha", "if (i != 42) out[i] = alpha", ("out[i]",), "out[42]"),
    Planted(Kind.OUTPUT_UNWRITTEN, GATHER, "out[row", "if (row) out[row", ("out[row",), "24 of 216"),
    Planted(
        Kind.OUTPUT_UNWRITTEN,
        TILED,
        "    if (row < M && column < N) {",
        "    if (row < M && column < 16) {",
        ("out[",),
        "220 of",
    ),
    Planted(Kind.OUTPUT_UNWRITTEN, ARGMAX, "out[0] = index;", "", (), "never writes out"),
]
LOOPS = [
    Planted(Kind.ENDLESS_LOOP, ROW_SUM, "i += threads_per_simdgroup", "i += 0", ("sum += x", "for (uint i")),
    Planted(Kind.ENDLESS_LOOP, MANDELBROT, " && n < 40", "", ("while", "z = ", "n++")),
    Planted(
        Kind.ENDLESS_LOOP,
        TREE,
        "step > 0; step /= 2",
        "step > 0; step /= 1",
        ("for (uint step", "if (t < step", "partial[t] +=", "threadgroup_barrier"),
    ),
]
MEMORY = [
    Planted(Kind.TOO_MUCH_MEMORY, TREE, "partial[256]", "partial[9000]", ("partial[9000]",), "36,000"),
    Planted(Kind.TOO_MUCH_MEMORY, TRANSPOSE, "tile[TILE]", "tile[TILE * 9]", ("tile[TILE * 9]",), "38,016"),
    Planted(Kind.TOO_MUCH_MEMORY, FLASH, "value[32 * 32]", "value[32 * 256]", ("value[32 * 256]",), "value"),
]
COMPILER = [
    Planted(Kind.DOES_NOT_COMPILE, AXPY, "+ y[i]", "+ z[i]", ("z[i]",), "'z'"),
    Planted(Kind.DOES_NOT_COMPILE, SOFTMAX, "simd_max(largest);", "simd_max(largest;", ("simd_max(",)),
    Planted(Kind.DOES_NOT_COMPILE, NORM, "metal::rsqrt", "metal::rsqroot", ("rsqroot",), "rsqroot"),
    Planted(Kind.DOES_NOT_COMPILE, GELU[0], "float v", "double v", ("double v",), "Metal has no double"),
]
DIVISIONS = [
    Planted(Kind.DIVISION_BY_ZERO, LIFE, "% width]", "% (width - 13)]", ("neighbors +=",)),
    Planted(Kind.DIVISION_BY_ZERO, PAGES, "at / PAGE", "at / (i / 5)", ("table[",)),
    Planted(
        Kind.DIVISION_BY_ZERO, GATHER, "table[wanted * columns", "table[wanted / (columns - 24) * columns", ("table[",)
    ),
]
ALIGNMENT = [
    Planted(
        Kind.MISALIGNED,
        REGISTERS,
        "(const device float4*)b",
        "(const device float4*)(b + 1)",
        ("float4 right",),
        "b[1]",
    ),
    Planted(
        Kind.MISALIGNED, SWIGLU, "((const device V*)gate)[i]", "*(const device V*)(gate + i)", ("float4 g",), "gate[1]"
    ),
    Planted(
        Kind.MISALIGNED, Q8, "((const device float4*)x)", "((const device float4*)(x + 2))", ("float4 v",), "16 bytes"
    ),
]
SIMD = [
    Planted(
        Kind.DIVERGENT_SIMD,
        SIMDGROUP,
        "    simdgroup_store(",
        "    if (K > thread_index_in_simdgroup) simdgroup_store(",
        ("simdgroup_store",),
        "24 threads",
    ),
    Planted(
        Kind.DIVERGENT_SIMD,
        STAGED,
        "simdgroup_load(l,",
        "if (t != 5) simdgroup_load(l,",
        ("simdgroup_load(l",),
        "31 threads",
    ),
    Planted(
        Kind.DIVERGENT_SIMD,
        GRAM,
        "simdgroup_multiply(",
        "if (thread_index_in_simdgroup < 8) simdgroup_multiply(",
        ("simdgroup_multiply",),
        "8 threads",
    ),
]

PLANTED = [
    *BOUNDS,
    *INPUTS,
    *RACES,
    *BARRIERS,
    *UNINITIALIZED,
    *UNWRITTEN,
    *LOOPS,
    *MEMORY,
    *COMPILER,
    *DIVISIONS,
    *ALIGNMENT,
    *SIMD,
]
