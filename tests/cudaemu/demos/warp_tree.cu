// Sums of 32 values through shared memory, within a warp.
extern "C" __global__ void warp_tree(const float* values, float* sums) {
    __shared__ float tree[64];
    float* mine = tree + threadIdx.x / 32 * 32;
    const int lane = threadIdx.x % 32;
    mine[lane] = values[blockIdx.x * blockDim.x + threadIdx.x];
    __syncwarp();
    for (int half = 16; half > 0; half /= 2) {
        if (lane < half) mine[lane] += mine[lane + half];
        __syncwarp();
    }
    if (lane == 0) sums[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = mine[0];
}
