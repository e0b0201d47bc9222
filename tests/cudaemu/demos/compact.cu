// Indices of the values above a threshold: one ballot and one atomic per warp.
extern "C" __global__ void compact(const float* values, float threshold, int* kept,
                                   int* n_kept, int n) {
    const int l = blockIdx.x * blockDim.x + threadIdx.x;
    const int lane = threadIdx.x % 32;
    const bool keep = l < n && values[l] > threshold;
    const unsigned votes = __ballot_sync(0xffffffffu, keep);
    int first = 0;
    if (lane == 0 && votes) first = atomicAdd(n_kept, __popc(votes));
    first = __shfl_sync(0xffffffffu, first, 0);
    if (keep) kept[first + __popc(votes & ((1u << lane) - 1))] = l;
}
