// Control flow: divergence, switches, loops with break and continue, early return, predication.
typedef unsigned char u8;
typedef unsigned u32;

extern "C" __global__ void nested_if(int n, const int *a, const int *b, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = a[i], y = b[i], r = 0;
    if (x > 0) {
        if (y > 0) {
            if (x > y) r = out[x & 1023] + y;
            else r = out[y & 1023] - x;
        } else {
            for (int k = 0; k < x; k++) r += a[(i + k) & 1023];
        }
    } else if (x < -100) {
        r = x * y;
        if (r & 1) {
            do { r = (r >> 1) ^ b[r & 1023]; } while (r & 1);
        }
    } else {
        r = a[-x] ^ b[(-x * 3) & 1023];
    }
    out[i] = r;
}

extern "C" __global__ void switch_jump_table(int n, const int *op, const int *a, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = a[i], r = 0;
    switch (op[i]) {
    case 0: r = x + out[i + 1]; break;
    case 1: r = x * x; out[i + n] = r; break;
    case 2: r = x / 3; out[i + 2 * n] = x; break;
    case 3: for (int k = 0; k < x; k++) r += a[k]; break;
    case 4: r = __popc(x); out[x & 255] = i; break;
    case 5: r = a[x & 1023]; break;
    case 6: r = atomicAdd(out, x); break;
    case 7: r = (int)sqrtf((float)x); break;
    case 8: r = x << (i & 31);
    case 9: r ^= 0x55555555; out[i + 3 * n] = r; break;
    case 10: out[i + 4 * n] = x; return;
    case 11: r = x % 10; out[i + 5 * n] = r; break;
    case 12: r = __clz(x) + a[i ^ 1]; break;
    case 13: while (x > 1) { x = x & 1 ? 3 * x + 1 : x >> 1; r++; } break;
    case 14: r = __brev(x); out[i + 6 * n] = ~r; break;
    case 15: r = -x; atomicMax(out + 1, r); break;
    case 16: r = a[x & 15] * a[x & 31]; break;
    case 17: __threadfence(); r = *(volatile int *)(out + 2); break;
    default: r = -1;
    }
    out[i] = r;
}

extern "C" __global__ void switch_sparse(const int *op, float *x)
{
    int i = threadIdx.x;
    float v = x[i];
    switch (op[i]) {
    case -1000: v = sinf(v); break;
    case 3: v = v * v; break;
    case 77: v = 1.0f / v; break;
    case 1024: v = sqrtf(v); break;
    case 65536: v = expf(v); break;
    case 1 << 30: v = floorf(v); break;
    }
    x[i] = v;
}

extern "C" __global__ void bytecode_interpreter(const u8 *code, int len, const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float acc = in[i], reg[8];
    for (int k = 0; k < 8; k++) reg[k] = 0.0f;
    int pc = 0;
    while (pc < len) {
        u8 op = code[pc++];
        int r = op & 7;
        switch (op >> 3) {
        case 0: acc += reg[r]; break;
        case 1: acc -= reg[r]; break;
        case 2: acc *= reg[r]; break;
        case 3: acc = fmaxf(acc, reg[r]); break;
        case 4: reg[r] = acc; break;
        case 5: acc = reg[r]; break;
        case 6: acc = in[(i + r) & 1023]; break;
        case 7: if (acc < 0.0f) pc += r; break;
        case 8: acc = fabsf(acc); break;
        case 9: out[i * 8 + r] = acc; break;
        case 10: if (acc > 1.0f) { acc *= 0.5f; pc -= r; } break;
        default: return;
        }
    }
    out[i * 8] = acc;
}

extern "C" __global__ void loop_break_continue(int n, const int *a, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, s = 0;
    for (int k = 0; k < n; k++) {
        int v = a[i * n + k];
        if (v == 0) continue;
        if (v < 0) break;
        if ((v & 3) == 3) {
            s -= v;
            continue;
        }
        s += v;
        if (s > 100000) break;
    }
    out[i] = s;
}

extern "C" __global__ void nested_data_loops(int n, const int *row, const int *col, const float *w, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float best = 0.0f;
    for (int e = row[i]; e < row[i + 1]; e++) {
        int j = col[e];
        float s = 0.0f;
        for (int f = row[j]; f < row[j + 1]; f++) {
            int k = col[f];
            if (k == i) break;
            float t = w[f];
            while (t > 1.0f) t *= 0.5f;
            s += t * w[e];
        }
        best = s > best ? s : best;
    }
    out[i] = best;
}

extern "C" __global__ void goto_loops(const int *a, int *out, int n)
{
    int i = threadIdx.x, x = a[i], c = 0;
again:
    if (x > n) { x -= n; c++; goto again; }
    if (x < -n) { x += n; c--; if (c > -50) goto again; goto done; }
    for (int j = 0; j < 8; j++) {
        for (int k = 0; k < 8; k++) {
            x = x * 5 + a[(j * k + i) & 255];
            if (x == 77) goto done;
        }
        if (x & 1) goto again;
    }
done:
    out[i] = x + c;
}

extern "C" __global__ void short_circuit(int n, const float *a, const float *b, const int *m, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && m[i] && (a[i] > b[i] || (a[i] < 0.0f && b[i] < 0.0f && m[i + n] != 3))) out[i] = 1;
    else if (i < n) out[i] = (a[i] == b[i]) ^ (m[i] > 2) ? 7 : -7;
}

extern "C" __global__ void predicated_select(int n, const int4 *a, int4 *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int4 v = a[i];
    bool p = v.x > v.y, q = v.z != v.w, r = (v.x ^ v.z) < 0;
    v.x = p && q ? v.x : v.y;
    v.y = p || r ? v.z + 1 : v.w - 1;
    v.z = p != q ? 11 : 22;
    v.w = (p & q) ^ r ? v.x * 3 : v.y;
    if (p) v.x++;
    if (!q) v.y += v.z;
    if (r && !p) v.z = ~v.z;
    out[i] = v;
}

extern "C" __global__ void uniform_loop(const float *__restrict__ coef, int terms, int stride, const float *x, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x * blockDim.x >= n) return;
    float v = x[i], s = 0.0f;
    int base = blockIdx.x * stride;
    for (int k = 0; k < terms; k++) {
        s = s * v + coef[base + k];
        if ((k & 15) == 15 && terms > 64) s *= 0.5f;
    }
    out[i] = s;
}

extern "C" __global__ void collatz_longest(u32 n, int *best)
{
    u32 i = blockIdx.x * blockDim.x + threadIdx.x + 1;
    if (i >= n) return;
    unsigned long long v = i;
    int k = 0;
    while (v != 1) {
        if (v & 1) v = 3 * v + 1;
        else v >>= 1;
        if (++k > 10000) return;
    }
    atomicMax(best, k);
}

extern "C" __global__ void exit_trap_paths(const int *a, int *out)
{
    int i = threadIdx.x, v = a[i];
    if (v == 12345678) asm volatile("trap;");
    if (v == 87654321) asm volatile("brkpt;");
    if (v < 0) asm volatile("exit;");
    if (v > 1000) __builtin_unreachable();
    out[i] = v + 1;
}

extern "C" __global__ void string_search(int n, const u8 *__restrict__ text, const u8 *__restrict__ pat, int m, int *hits, int *count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > n - m) return;
    int k = 0;
    while (k < m && text[i + k] == pat[k]) k++;
    if (k == m) hits[atomicAdd(count, 1)] = i;
}

extern "C" __global__ void word_count(int n, const u32 *__restrict__ text, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, c = 0;
    if (i < n) {
        u32 w = text[i], prev = i ? text[i - 1] >> 24 : 32;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            u32 ch = w >> (8 * k) & 255;
            bool sep = ch == ' ' || ch == '\n' || ch == '\t', psep = prev == ' ' || prev == '\n' || prev == '\t';
            c += !sep && psep;
            prev = ch;
        }
    }
    c = __syncthreads_count(c & 1) + 2 * __syncthreads_count(c & 2);
    if (threadIdx.x == 0) atomicAdd(out, c);
}

extern "C" __global__ void binary_search(int n, const int *__restrict__ sorted, int m, const int *__restrict__ keys, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m) return;
    int k = keys[i], lo = 0, hi = n;
    while (lo < hi) {
        int mid = (lo + hi) >> 1;
        if (sorted[mid] < k) lo = mid + 1;
        else hi = mid;
    }
    out[i] = lo;
}
