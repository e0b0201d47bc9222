// Counts of labels: a histogram in dynamic shared memory, flushed once per block.
extern "C" __global__ void histogram(const unsigned char* labels, unsigned* counts,
                                     int n_labels, long long n) {
    extern __shared__ unsigned mine[];
    for (int j = threadIdx.x; j < n_labels; j += blockDim.x) mine[j] = 0;
    __syncthreads();
    const long long step = (long long)gridDim.x * blockDim.x;
    long long l = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; l < n; l += step) atomicAdd(&mine[labels[l]], 1u);
    __syncthreads();
    for (int j = threadIdx.x; j < n_labels; j += blockDim.x)
        if (mine[j]) atomicAdd(&counts[j], mine[j]);
}
