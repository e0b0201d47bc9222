// assign: put every row where its score is lowest.
//
// A thread owns ROWS rows of the data and keeps the scores of a tile of columns
// of each in registers; a column is a (restart, cluster) pair, and a tile has
// up to 4 CHUNKS of them, a last one of at most 16 no more than these. The
// block stages a tile of the table, which tiles.cu has laid out, in shared
// memory, piece by piece: one label is one line of 128 bytes, either 32 columns
// or two copies of 16. If all of it fits, there is one piece, staged once, and
// the block walks over many rows. A line of zeros behind the others stands for
// labels that another piece has.
//
// A block has one tile, or, where a restart does not fit one, all tiles of that
// restart, one after the other. Blocks of the same rows run together, so labels
// come from memory once.
//
// A line spans all 32 banks, so eight lanes that read the same 16 bytes of
// different lines would wait for each other. Slot s of a thread therefore holds
// chunk s ^ (lane % chunks): the eight lanes of a quarter warp read eight
// different chunks. Slots stay static, so they stay registers, and are put into
// the order of the columns at the end.
//
// Scores are added in partition order, in float32, without fused operations:
// every bit is that of the host. Ties go to the lowest cluster.
//
// With OWN, the score of the cluster that a row is in is what staying costs,
// which own_scores.cu adds up, and what moving saves is returned in its place.
//
// Compiled for CODE (u8, u16), CHUNKS (4, 8), ROWS (1, 2), ROW_TABLE (0 none, 1
// one sum for all rows, 2 a table of its own, whose lines are beside those of
// the other), OWN (0, 1; 1 without a row table), THREADS (the most that a block
// has) and MIN_BLOCKS (how many of them a multiprocessor should hold). One row
// without a row table means that there is one piece.

#define TABLES (ROW_TABLE == 2 ? 2 : 1)
#define LINE (128 * TABLES)
#define AHEAD 4  // partitions whose labels are loaded while others are summed
#define FLIGHT (CHUNKS == 8 ? 8 : 4)  // loads of 16 bytes under way when staging
#define RESIDENT (ROWS == 1 && ROW_TABLE == 0)

// What is staged at once: some partitions, or some labels of one that is too
// large.
struct Piece {
    int begin, end;  // partitions
    int first_line;  // row of the table
    unsigned n_lines;
    int first_quad;  // of `lines`
};

struct Arguments {
    const CODE* codes;  // row l of partition i is codes[i * stride + l]
    i64 stride, n_rows;
    const Piece* pieces;  // in the order of the table
    int n_pieces;
    const int4* lines;  // of four partitions: where label 0 is, from a piece's first
    int n_lines;        // of the table
    const float4* table;
    const float* row_table;
    const float* row_weight;
    int n_clusters;
    void* winner;
    int winner_bytes;
    float *best, *gap;
    i64 out_stride;  // restart q of row l is at q * out_stride + l
#if OWN
    const int* own_column;  // of the cluster that a row is in; -1 where it is in none
    float* own_score;       // what staying costs, then what moving saves
    float rounding;         // share of a score that its rounding may be
#endif
};

template <int N>
__device__ __forceinline__ void stage(const Piece& piece, const float4* from,
                                      float4* shared) {
    const unsigned n = piece.n_lines * TABLES * N;
#pragma unroll 1
    for (unsigned first = threadIdx.x; first < n; first += FLIGHT * blockDim.x) {
        float4 v[FLIGHT];
#pragma unroll
        for (int f = 0; f < FLIGHT; ++f)
            v[f] = __ldg(from + min(first + f * blockDim.x, n - 1));
#pragma unroll
        for (int f = 0; f < FLIGHT; ++f) {
            const unsigned t = first + f * blockDim.x;
            if (t >= n) break;
#pragma unroll
            for (int copy = 0; copy < 8 / N; ++copy)
                shared[(t / N * (8 / N) + copy) * N + t % N] = v[f];
        }
    }
    for (unsigned t = threadIdx.x; t < 8 * TABLES; t += blockDim.x)
        shared[piece.n_lines * TABLES * 8 + t] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

// Load the labels of partitions from i on.
__device__ __forceinline__ void load(const Arguments& a, const Piece& piece,
                                     const i64 (&row)[ROWS], int i,
                                     unsigned (&labels)[AHEAD][ROWS]) {
#pragma unroll
    for (int u = 0; u < AHEAD; ++u) {
        if (i + u >= piece.end) break;
#pragma unroll
        for (int j = 0; j < ROWS; ++j)
            labels[u][j] = a.codes[(i64)(i + u) * a.stride + row[j]];
    }
}

// Add up what one piece has for ROWS rows, in slots.
template <int N>
__device__ __forceinline__ void sum_piece(const Arguments& a, const Piece& piece,
                                          const i64 (&row)[ROWS], const char* shared,
                                          unsigned (&labels)[AHEAD][ROWS],
                                          float (&score)[TABLES][ROWS][4 * N]) {
    const unsigned turn = threadIdx.x & (N - 1);
    const unsigned copy = (threadIdx.x / N) & (8 / N - 1);
    const unsigned lane_offset = (copy * N + turn) * 16;
#pragma unroll 1
    for (int i = piece.begin; i < piece.end; i += AHEAD) {
        const int4 quad = __ldg(a.lines + piece.first_quad + (i - piece.begin) / AHEAD);
        const int line[AHEAD] = {quad.x, quad.y, quad.z, quad.w};
        unsigned at[AHEAD][ROWS];
#pragma unroll
        for (int u = 0; u < AHEAD; ++u)
#pragma unroll
            for (int j = 0; j < ROWS; ++j)
                at[u][j] =
                    min(line[u] + labels[u][j], piece.n_lines) * LINE + lane_offset;
        if (i + AHEAD < piece.end) load(a, piece, row, i + AHEAD, labels);
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) {
            if (i + u >= piece.end) break;
#pragma unroll
            for (int j = 0; j < ROWS; ++j)
#pragma unroll
                for (int which = 0; which < TABLES; ++which)
#pragma unroll
                    for (int s = 0; s < N; ++s) {
                        const unsigned place = at[u][j] ^ (s * 16 + which * 128);
                        const float4 v = *(const float4*)(shared + place);
                        score[which][j][4 * s] += v.x;
                        score[which][j][4 * s + 1] += v.y;
                        score[which][j][4 * s + 2] += v.z;
                        score[which][j][4 * s + 3] += v.w;
                    }
        }
    }
}

// Put the slots into the order of the columns.
template <int N>
__device__ __forceinline__ void order(float (&score)[4 * N]) {
#pragma unroll
    for (int b = 1; b < N; b *= 2) {
        const bool flip = threadIdx.x & b;
#pragma unroll
        for (int t = 0; t < 4 * N; ++t) {
            if (t & (4 * b)) continue;
            const float x = score[t], y = score[t ^ (4 * b)];
            score[t] = flip ? y : x;
            score[t ^ (4 * b)] = flip ? x : y;
        }
    }
}

struct Lowest {
    float best, second;
    int cluster;
};

__device__ __forceinline__ void take(Lowest& low, float score, int k) {
    const bool better = score < low.best;
    low.second = better ? low.best : fminf(low.second, score);
    low.best = better ? score : low.best;
    low.cluster = better ? k : low.cluster;
}

__device__ __forceinline__ void put(const Arguments& a, const Lowest& low, i64 at) {
    if (a.winner_bytes == 1)
        ((u8*)a.winner)[at] = low.cluster;
    else if (a.winner_bytes == 2)
        ((u16*)a.winner)[at] = low.cluster;
    else
        ((u32*)a.winner)[at] = low.cluster;
    if (a.best) a.best[at] = low.best;
    if (a.gap) a.gap[at] = __fsub_rn(low.second, low.best);
}

#if OWN
// Put what moving saves in the place of what staying costs. Less than rounding
// may be is 0. Where the device takes `least` for 0, being subnormal, any gain
// but 0 is above both.
__device__ __forceinline__ void note_gain(const Arguments& a, float own_score,
                                          float best, i64 at) {
    const float least = __fmul_rn(a.rounding, fabsf(own_score));
    const float gain = __fsub_rn(own_score, best);
    a.own_score[at] = gain > least ? gain : 0.0f;
}
#endif

// Find the lowest score of a row in every restart that has columns here. What a
// restart has found so far is carried to the tile in which it goes on.
template <int N>
__device__ __forceinline__ void decide(const Arguments& a, const float (&score)[4 * N],
                                       int begin, int end, i64 l, Lowest& carried) {
    const float infinity = __int_as_float(0x7f800000);
#pragma unroll 1
    for (int q = begin / a.n_clusters; q * a.n_clusters < end; ++q) {
        const int shift = begin - q * a.n_clusters;  // cluster of the tile's column 0
        const int last = a.n_clusters - shift;
        const i64 at = (i64)q * a.out_stride + l;
        Lowest low = {infinity, infinity, 0};
        if (shift > 0) low = carried;
#if OWN
        const int own_column = a.own_column[(i64)q * a.n_rows + l] - begin;
        const float own_score = a.own_score[at];
#endif
#pragma unroll
        for (int t = 0; t < 4 * N; ++t) {
            if (t < -shift || t >= last || t >= end - begin) continue;
#if OWN
            take(low, t == own_column ? own_score : score[t], t + shift);
#else
            take(low, score[t], t + shift);
#endif
        }
        carried = low;
        if (last > end - begin) break;
        put(a, low, at);
#if OWN
        note_gain(a, own_score, low.best, at);
#endif
    }
}

// Sum and decide a tile for ROWS rows; `staged` tells that it is in place.
template <int N>
__device__ __forceinline__ void work(const Arguments& a, int tile, int begin, int end,
                                     i64 base, bool staged, float4* shared,
                                     Lowest (&carried)[ROWS]) {
    const float4* table = a.table + (i64)tile * a.n_lines * (8 * TABLES);
    float score[TABLES][ROWS][4 * N];
    i64 row[ROWS];
#pragma unroll
    for (int j = 0; j < ROWS; ++j) {
        // threads beyond the last row repeat it: all take part in the barriers
        const i64 l = base + threadIdx.x + (i64)j * blockDim.x;
        row[j] = l < a.n_rows ? l : a.n_rows - 1;
    }
#if !RESIDENT
#pragma unroll
    for (int which = 0; which < TABLES; ++which)
#pragma unroll
        for (int j = 0; j < ROWS; ++j)
#pragma unroll
            for (int t = 0; t < 4 * N; ++t) score[which][j][t] = 0.0f;
    for (int p = 0; p < a.n_pieces; ++p) {
        const Piece piece = a.pieces[p];
#else
    {
        const Piece piece = a.pieces[0];
#endif
        unsigned labels[AHEAD][ROWS];
        load(a, piece, row, piece.begin, labels);
        if (!staged) {
            __syncthreads();
            stage<N>(piece, table + (i64)piece.first_line * (N * TABLES), shared);
            __syncthreads();
        }
#if RESIDENT
#pragma unroll
        for (int t = 0; t < 4 * N; ++t) score[0][0][t] = 0.0f;
#endif
        sum_piece<N>(a, piece, row, (const char*)shared, labels, score);
    }
#pragma unroll
    for (int j = 0; j < ROWS; ++j) {
#if ROW_TABLE
        const float weight = a.row_weight[row[j]];
#endif
#if ROW_TABLE == 2
#pragma unroll
        for (int t = 0; t < 4 * N; ++t)
            score[0][j][t] =
                __fadd_rn(score[0][j][t], __fmul_rn(weight, score[1][j][t]));
#endif
        order<N>(score[0][j]);
#if ROW_TABLE == 1
#pragma unroll
        for (int t = 0; t < 4 * N; ++t) {
            const float sum = begin + t < end ? __ldg(a.row_table + begin + t) : 0.0f;
            score[0][j][t] = __fadd_rn(score[0][j][t], __fmul_rn(weight, sum));
        }
#endif
        const i64 l = base + threadIdx.x + (i64)j * blockDim.x;
        if (l < a.n_rows) decide<N>(a, score[0][j], begin, end, l, carried[j]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    assign(const CODE* codes, i64 stride, i64 n_rows, const Piece* pieces, int n_pieces,
           const int4* lines, int n_lines, int n_columns, int step, int n_tiles,
           int tiles_of_chain, int n_chains, const float4* table,
           const float* row_table, const float* row_weight, int n_clusters,
           void* winner, int winner_bytes, float* best, float* gap, i64 out_stride
#if OWN
           ,
           const int* own_column, float* own_score, float rounding
#endif
    ) {
    extern __shared__ float4 shared[];
    const Arguments a = {codes,        stride,     n_rows,     pieces,
                         n_pieces,     lines,      n_lines,    table,
                         row_table,    row_weight, n_clusters, winner,
                         winner_bytes, best,       gap,        out_stride,
#if OWN
                         own_column,   own_score,  rounding
#endif
    };
    const int chain = blockIdx.x % n_chains;
    const int first = chain * tiles_of_chain;
    const int last = min(first + tiles_of_chain, n_tiles);
    const i64 rows_of_block = (i64)blockDim.x * ROWS;
    const i64 stride_of_rows = gridDim.x / n_chains * rows_of_block;
    bool staged = false;
    for (i64 base = blockIdx.x / n_chains * rows_of_block; base < n_rows;
         base += stride_of_rows) {
        Lowest carried[ROWS];
        for (int tile = first; tile < last; ++tile) {
            const int begin = tile * step, end = min(begin + step, n_columns);
#if CHUNKS == 8
            if (end - begin > 16)
                work<8>(a, tile, begin, end, base, staged, shared, carried);
            else
#endif
                work<4>(a, tile, begin, end, base, staged, shared, carried);
        }
        staged = n_pieces == 1 && last - first == 1;
    }
}
