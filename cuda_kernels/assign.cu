// assign: put every row where its score is lowest.
//
// A thread owns ROWS rows of the data and keeps the scores of WIDTH columns of each in
// registers; a column is a (restart, cluster) pair. The block stages the table in
// shared memory, piece by piece: one label is one line of 128 bytes, either 32 columns
// or two copies of 16. If all of it fits, there is one piece, staged once, and the
// block walks over many rows.
//
// A line spans all 32 banks, so eight lanes that read the same 16 bytes of different
// lines would wait for each other. Slot s of a thread therefore holds chunk s ^ (lane %
// CHUNKS): the eight lanes of a quarter warp read eight different chunks. Slots stay
// static, so they stay registers; only the decoding of columns at the end knows the
// lane.
//
// Scores are added in partition order, in float32, without fused operations: every bit
// is that of the host. Ties go to the lowest cluster.
//
// With OWN, the score of the cluster that a row is in is what staying costs, which
// own_scores.cu adds up, and what moving saves is returned in its place.
//
// Compiled for CODE (u8, u16), CHUNKS (4, 8), ROWS (1, 2), ROW_TABLE (0 none, 1 one sum
// for all rows, 2 a table of its own), OWN (0, 1; 1 without a row table), THREADS (the
// most that a block has) and MIN_BLOCKS (how many of them a multiprocessor should
// hold).

#define WIDTH (4 * CHUNKS)
#define COPIES (8 / CHUNKS)
#define LINE 128

// Two blocks have 64 registers for a thread: too few at 32 columns on sm_120, where the
// compiler would spill. Its shared memory seldom has room for two anyway.
#if CHUNKS == 8 && __CUDA_ARCH__ >= 1200
#undef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

// What is staged at once: some partitions, or some labels of one that is too large.
struct Piece {
    int begin, end;  // partitions
    int first_line;  // row of the table
    unsigned n_lines;
};

struct Arguments {
    const CODE* codes;  // row l of partition i is codes[i * stride + l]
    i64 stride;
    const int* first_row;  // (n_partitions + 1,): table row of each partition's label 0
    const Piece* pieces;   // in the order of the table
    int n_pieces;
    int n_columns;
    int column_begin, column_end;  // what this launch decides, at most WIDTH
#if OWN
    const int* own_column;  // of the cluster that a row is in; -1 where it is in none
    float* own_score;       // what staying costs, then what moving saves
    float rounding;         // share of a score that its rounding may be
#endif
};

// The column that slot t of this thread holds.
__device__ __forceinline__ int column_of(const Arguments& a, int t) {
    const int turn = threadIdx.x & (CHUNKS - 1);
    return a.column_begin + 4 * ((t / 4) ^ turn) + t % 4;
}

__device__ __forceinline__ void stage(const Arguments& a, const float* table,
                                      const Piece& piece, float* shared) {
    for (unsigned t = threadIdx.x; t < piece.n_lines * WIDTH; t += blockDim.x) {
        const int column = a.column_begin + t % WIDTH;
        const i64 line = piece.first_line + (i64)(t / WIDTH);
        const float value =
            column < a.column_end ? __ldg(table + line * a.n_columns + column) : 0.0f;
#pragma unroll
        for (int copy = 0; copy < COPIES; ++copy)
            shared[(t / WIDTH * COPIES + copy) * WIDTH + t % WIDTH] = value;
    }
}

// Add up a table for ROWS rows; `staged` remembers that the only piece is in place.
__device__ __forceinline__ void sum_table(const Arguments& a, const float* table,
                                          const i64 (&row)[ROWS], float4* shared,
                                          bool& staged, float (&score)[ROWS][WIDTH]) {
    const unsigned turn = threadIdx.x & (CHUNKS - 1);
    const unsigned copy = (threadIdx.x / CHUNKS) & (COPIES - 1);
    const unsigned lane_offset = (copy * CHUNKS + turn) * 16;
    const char* lines = (const char*)shared;
#pragma unroll
    for (int j = 0; j < ROWS; ++j)
#pragma unroll
        for (int t = 0; t < WIDTH; ++t) score[j][t] = 0.0f;
    for (int p = 0; p < a.n_pieces; ++p) {
        const Piece piece = a.pieces[p];
        if (!staged) {
            __syncthreads();
            stage(a, table, piece, (float*)shared);
            __syncthreads();
            staged = a.n_pieces == 1;
        }
#pragma unroll 2
        for (int i = piece.begin; i < piece.end; ++i) {
#pragma unroll
            for (int j = 0; j < ROWS; ++j) {
                const unsigned label = a.codes[(i64)i * a.stride + row[j]];
                const unsigned line = a.first_row[i] - piece.first_line + label;
                if (line >= piece.n_lines) continue;
                const unsigned at = line * LINE + lane_offset;
#pragma unroll
                for (int s = 0; s < CHUNKS; ++s) {
                    const float4 v = *(const float4*)(lines + (at ^ (s * 16)));
                    score[j][4 * s] += v.x;
                    score[j][4 * s + 1] += v.y;
                    score[j][4 * s + 2] += v.z;
                    score[j][4 * s + 3] += v.w;
                }
            }
        }
    }
}

struct Lowest {
    float best, second;
    int cluster;
};

// Which cluster comes first depends on the lane, so the tie rule is spelled out.
__device__ __forceinline__ void take(Lowest& low, float score, int k) {
    const bool better = score < low.best || (score == low.best && k < low.cluster);
    low.second = better ? low.best : fminf(low.second, score);
    low.best = better ? score : low.best;
    low.cluster = better ? k : low.cluster;
}

#if OWN
// Put what staying costs in the place of the score of a row's own cluster. This and
// `note_gain` are apart from `decide`, in which registers would not suffice.
__device__ __forceinline__ void price_own(const Arguments& a, float (&score)[WIDTH],
                                          i64 l, i64 n_rows, int n_clusters) {
    const int last = (a.column_end - 1) / n_clusters;
    for (int q = a.column_begin / n_clusters; q <= last; ++q) {
        const int own_column = a.own_column[(i64)q * n_rows + l];
        const float own_score = a.own_score[(i64)q * n_rows + l];
#pragma unroll
        for (int t = 0; t < WIDTH; ++t)
            if (column_of(a, t) == own_column) score[t] = own_score;
    }
}
#endif

// Find the lowest score of a row in every restart that has columns here. A restart that
// began in an earlier launch goes on from what that one left.
__device__ __forceinline__ void decide(const Arguments& a, const float (&score)[WIDTH],
                                       i64 l, i64 n_rows, int n_clusters, int* winner,
                                       float* best, float* second) {
    const float infinity = __int_as_float(0x7f800000);
    const int last = (a.column_end - 1) / n_clusters;
    for (int q = a.column_begin / n_clusters; q <= last; ++q) {
        const int begin = max(q * n_clusters, a.column_begin);
        const int end = min((q + 1) * n_clusters, a.column_end);
        const i64 at = (i64)q * n_rows + l;
        Lowest low = {infinity, infinity, 0x7fffffff};
        if (begin > q * n_clusters) {
            low.best = best[at];
            low.second = second[at];
            low.cluster = winner[at];
        }
#pragma unroll
        for (int t = 0; t < WIDTH; ++t) {
            const int column = column_of(a, t);
            if (column >= begin && column < end)
                take(low, score[t], column - q * n_clusters);
        }
        winner[at] = low.cluster;
        if (best) best[at] = low.best;
        if (second) second[at] = low.second;
    }
}

#if OWN
// Put what moving saves in the place of what staying costs, for every restart that ends
// here; others leave it for the next launch. Less than rounding may be is 0. Where the
// device takes `least` for 0, being subnormal, any gain but 0 is above both.
__device__ __forceinline__ void note_gain(const Arguments& a, i64 l, i64 n_rows,
                                          int n_clusters, const float* best) {
    for (int q = a.column_begin / n_clusters; q < a.column_end / n_clusters; ++q) {
        const i64 at = (i64)q * n_rows + l;
        const float least = __fmul_rn(a.rounding, fabsf(a.own_score[at]));
        const float gain = __fsub_rn(a.own_score[at], best[at]);
        a.own_score[at] = gain > least ? gain : 0.0f;
    }
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    assign(const CODE* codes, i64 stride, i64 n_rows, const int* first_row,
           const Piece* pieces, int n_pieces, const float* table,
           const float* row_table, const float* row_weight, int n_columns,
           int column_begin, int column_end, int n_clusters, int* winner, float* best,
           float* second
#if OWN
           ,
           const int* own_column, float* own_score, float rounding
#endif
    ) {
    extern __shared__ float4 shared[];
    const Arguments a = {codes,      stride,    first_row,    pieces,
                         n_pieces,   n_columns, column_begin, column_end,
#if OWN
                         own_column, own_score, rounding
#endif
    };
    const i64 step = (i64)gridDim.x * blockDim.x * ROWS;
    bool staged = false;
    for (i64 base = (i64)blockIdx.x * blockDim.x * ROWS; base < n_rows; base += step) {
        i64 row[ROWS];
#pragma unroll
        for (int j = 0; j < ROWS; ++j) {
            // threads beyond the last row repeat it: all take part in the barriers
            const i64 l = base + threadIdx.x + (i64)j * blockDim.x;
            row[j] = l < n_rows ? l : n_rows - 1;
        }
        float score[ROWS][WIDTH];
#if ROW_TABLE == 2
        float factor[ROWS][WIDTH];
        sum_table(a, row_table, row, shared, staged, factor);
        staged = false;
        sum_table(a, table, row, shared, staged, score);
        staged = false;
#else
        sum_table(a, table, row, shared, staged, score);
#endif
#if ROW_TABLE
#pragma unroll
        for (int j = 0; j < ROWS; ++j) {
            const float weight = row_weight[row[j]];
#pragma unroll
            for (int t = 0; t < WIDTH; ++t) {
#if ROW_TABLE == 2
                const float sum = factor[j][t];
#else
                const int column = column_of(a, t);
                const float sum = column < column_end ? row_table[column] : 0.0f;
#endif
                score[j][t] = __fadd_rn(score[j][t], __fmul_rn(weight, sum));
            }
        }
#endif
#pragma unroll
        for (int j = 0; j < ROWS; ++j) {
            const i64 l = base + threadIdx.x + (i64)j * blockDim.x;
            if (l >= n_rows) continue;
#if OWN
            price_own(a, score[j], l, n_rows, n_clusters);
#endif
            decide(a, score[j], l, n_rows, n_clusters, winner, best, second);
#if OWN
            note_gain(a, l, n_rows, n_clusters, best);
#endif
        }
    }
}
