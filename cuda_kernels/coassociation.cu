// coassociation: for a tile of pairs, in how many partitions both objects have the same
// label, and in how many both have one.
//
// A block owns 32 x 32 pairs, a thread one of them. The labels of the 32 + 32 objects
// are staged for 32 partitions at a time; a missing label is staged as -1. Compiled for
// CODE u8, u16.

#define SIDE 32

__device__ __forceinline__ int label_of(const CODE* codes, i64 stride,
                                        const int* n_labels, int i, int n_partitions,
                                        const i64* objects, int at, int size) {
    if (i >= n_partitions || at >= size) return -1;
    const int label = codes[(i64)i * stride + objects[at]];
    return label == n_labels[i] ? -1 : label;
}

extern "C" __global__ void __launch_bounds__(1024)
    coassociation(const CODE* codes, i64 stride, const int* n_labels, int n_partitions,
                  const i64* rows, int n_rows, const i64* columns, int n_columns,
                  int* same, int* both) {
    __shared__ int left[SIDE][SIDE + 1], right[SIDE][SIDE + 1];
    const int tiles = (n_columns + SIDE - 1) / SIDE;
    const int row0 = (blockIdx.x / tiles) * SIDE, column0 = (blockIdx.x % tiles) * SIDE;
    int n_same = 0, n_both = 0;
    for (int first = 0; first < n_partitions; first += SIDE) {
        const int i = first + threadIdx.y;
        left[threadIdx.y][threadIdx.x] =
            label_of(codes, stride, n_labels, i, n_partitions, rows,
                     row0 + (int)threadIdx.x, n_rows);
        right[threadIdx.y][threadIdx.x] =
            label_of(codes, stride, n_labels, i, n_partitions, columns,
                     column0 + (int)threadIdx.x, n_columns);
        __syncthreads();
        for (int p = 0; p < SIDE; ++p) {
            const int a = left[p][threadIdx.y], b = right[p][threadIdx.x];
            n_both += a >= 0 && b >= 0;
            n_same += a >= 0 && a == b;
        }
        __syncthreads();
    }
    const int row = row0 + threadIdx.y, column = column0 + threadIdx.x;
    if (row < n_rows && column < n_columns) {
        same[(i64)row * n_columns + column] = n_same;
        both[(i64)row * n_columns + column] = n_both;
    }
}
