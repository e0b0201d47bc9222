// Sum of a vector: shuffles within a warp, shared memory between warps, one atomic.
template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
    for (int delta = 16; delta > 0; delta >>= 1)
        value += __shfl_down_sync(0xffffffffu, value, delta);
    return value;
}

template <typename T, int THREADS>
__device__ void block_sum(const T* __restrict__ values, T* total, int n) {
    static_assert(THREADS % 32 == 0, "whole warps");
    __shared__ T partial[THREADS / 32];  // one __shared__ object per instance
    T mine = T(0);
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS)
        mine += __ldg(values + i);
    mine = warp_sum(mine);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x < 32) {
        T sum = threadIdx.x < THREADS / 32 ? partial[threadIdx.x] : T(0);
        sum = warp_sum(sum);
        if (threadIdx.x == 0) atomicAdd(total, sum);
    }
}

#define INSTANCE(NAME, T, THREADS)                            \
    extern "C" __global__ void __launch_bounds__(THREADS)     \
        NAME(const T* __restrict__ values, T* total, int n) { \
        block_sum<T, THREADS>(values, total, n);              \
    }
INSTANCE(reduce_float, float, 256)
INSTANCE(reduce_double, double, 64)
