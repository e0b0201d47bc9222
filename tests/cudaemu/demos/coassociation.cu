// How often two objects share a label: a tile of pairs per block, partitions in steps.
#ifndef TILE
#define TILE 16
#endif
extern "C" __global__ void __launch_bounds__(TILE* TILE)
    coassociation(const unsigned char* codes, int* same, int n_partitions, int n) {
    __shared__ unsigned char left[TILE][TILE], right[TILE][TILE + 1];
    const int row = blockIdx.y * TILE + threadIdx.y;
    const int column = blockIdx.x * TILE + threadIdx.x;
    int count = 0;
    for (int first = 0; first < n_partitions; first += TILE) {
        const int i = first + threadIdx.y;
        const int l = blockIdx.y * TILE + threadIdx.x;
        const bool inside = i < n_partitions;
        left[threadIdx.y][threadIdx.x] = inside && l < n ? codes[i * n + l] : 0;
        right[threadIdx.y][threadIdx.x] =
            inside && column < n ? codes[i * n + column] : 1;
        __syncthreads();
        for (int t = 0; t < TILE; ++t)
            count += left[t][threadIdx.y] == right[t][threadIdx.x];
        __syncthreads();
    }
    if (row < n && column < n) same[row * n + column] = count;
}
