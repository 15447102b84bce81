// More conditions that all threads share than there are predicates for: the compiler keeps them in registers.
extern "C" __global__ void flags(int *out, int n, int turns)
{
    int sum = 0;
    bool f[12];
#pragma unroll
    for (int k = 0; k < 12; k++) f[k] = (n >> k & 3) > (turns >> k & 1);
#pragma unroll 1
    for (int t = 0; t < turns; t++)
#pragma unroll
        for (int k = 0; k < 12; k++)
            if (f[k]) out[k * 32 + threadIdx.x] = sum = sum * 3 + t + threadIdx.x;
}
