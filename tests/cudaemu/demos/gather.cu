// The inner loop of assign: each thread adds the table row of its label, 32 columns as
// 8 chunks of float4. Without the swizzle all lanes read the same chunk of different
// rows, which lie in the same banks; with it lane j starts at chunk j & 7.
template <bool SWIZZLED>
__device__ void gather(const unsigned char* __restrict__ labels,
                       const float4* __restrict__ table, float4* __restrict__ scores,
                       int n_labels, int n_partitions, int n, long long row_stride) {
    extern __shared__ float4 rows[];
    const int l = blockIdx.x * blockDim.x + threadIdx.x;
    const int first = SWIZZLED ? threadIdx.x & 7 : 0;
    float4 sums[8];
#pragma unroll
    for (int s = 0; s < 8; ++s) sums[s] = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int i = 0; i < n_partitions; ++i) {
        __syncthreads();
        for (int q = threadIdx.x; q < n_labels * 8; q += blockDim.x)
            rows[q] = __ldg(table + (long long)i * n_labels * 8 + q);
        __syncthreads();
        const int label = l < n ? labels[i * row_stride + l] : 0;
#pragma unroll
        for (int s = 0; s < 8; ++s) {
            const float4 v = rows[label * 8 + (s ^ first)];
            sums[s].x = __fadd_rn(sums[s].x, v.x);
            sums[s].y = __fadd_rn(sums[s].y, v.y);
            sums[s].z = __fadd_rn(sums[s].z, v.z);
            sums[s].w = __fadd_rn(sums[s].w, v.w);
        }
    }
    if (l >= n) return;
#pragma unroll
    for (int s = 0; s < 8; ++s) scores[(long long)l * 8 + (s ^ first)] = sums[s];
}

#define INSTANCE(NAME, SWIZZLED)                                               \
    extern "C" __global__ void __launch_bounds__(256, 2)                       \
        NAME(const unsigned char* labels, const float4* table, float4* scores, \
             int n_labels, int n_partitions, int n, long long row_stride) {    \
        gather<SWIZZLED>(labels, table, scores, n_labels, n_partitions, n,     \
                         row_stride);                                          \
    }
INSTANCE(gather_swizzled, true)
INSTANCE(gather_plain, false)
