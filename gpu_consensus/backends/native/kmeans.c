/* k-means on dense rows of float32 or float64: label, draw first rows, descend.

   rows are (n, d) without gaps; centroids (K, d). Scores x . c - |c|^2 / 2 never leave
   the registers: ACROSS vectors of rows and SOME centroids have theirs there, and both
   are read from the first-level cache. Products and sums are never fused. */
#include "native.h"

enum { ROWS = 64, SQUARE = 4, SOME = 4, SUM_ROWS = 4096 };
enum { ACROSS = GPC_VECTOR == 64 ? 4 : 2 };
enum { CANDIDATES = 64 };

/* What one start of Lloyd's loop works in. */
typedef struct {
    void *tile, *start, *apart;
    int64_t* counts;
    double *sums, *block;
} kmeans_memory;

typedef GPC_VECTOR_OF(float, 16) four_floats;
typedef GPC_VECTOR_OF(int32_t, 16) four_ints;
typedef GPC_VECTOR_OF(double, 32) four_doubles;
typedef GPC_VECTOR_OF(int64_t, 32) four_longs;

#if defined(__clang__)
#define CHOOSE(ints, a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define CHOOSE(ints, a, b, i, j, k, l) __builtin_shuffle(a, b, (ints){i, j, k, l})
#endif

/* Turn four rows of four numbers, d apart, into columns, ROWS apart. */
#define TRANSPOSE(name, number, four, ints)                               \
    GPC_INLINE void name(const number* from, int64_t d, number* to) {     \
        const four a = *(const four*)from;                                \
        const four b = *(const four*)(from + d);                          \
        const four c = *(const four*)(from + 2 * d);                      \
        const four e = *(const four*)(from + 3 * d);                      \
        const four ac_low = CHOOSE(ints, a, c, 0, 4, 1, 5);               \
        const four be_low = CHOOSE(ints, b, e, 0, 4, 1, 5);               \
        const four ac_high = CHOOSE(ints, a, c, 2, 6, 3, 7);              \
        const four be_high = CHOOSE(ints, b, e, 2, 6, 3, 7);              \
        *(four*)to = CHOOSE(ints, ac_low, be_low, 0, 4, 1, 5);            \
        *(four*)(to + ROWS) = CHOOSE(ints, ac_low, be_low, 2, 6, 3, 7);   \
        to += 2 * ROWS;                                                   \
        *(four*)to = CHOOSE(ints, ac_high, be_high, 0, 4, 1, 5);          \
        *(four*)(to + ROWS) = CHOOSE(ints, ac_high, be_high, 2, 6, 3, 7); \
    }

TRANSPOSE(float_transpose, float, four_floats, four_ints)
TRANSPOSE(double_transpose, double, four_doubles, four_longs)

#define NAME(x) float_##x
#define NUMBER float
#define INTEGER int32_t
#define VECTOR gpc_floats
#define MASK gpc_ints
#include "kmeans_tiles.h"
#undef NAME
#undef NUMBER
#undef INTEGER
#undef VECTOR
#undef MASK

#define NAME(x) double_##x
#define NUMBER double
#define INTEGER int64_t
#define VECTOR gpc_doubles
#define MASK gpc_longs
#include "kmeans_tiles.h"

GPC_INLINE int64_t whole_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

GPC_INLINE void* cut(char** place, int64_t bytes) {
    void* found = *place;
    *place += whole_lines(bytes);
    return found;
}

/* Bytes of scratch of gpc_kmeans_nearest for rows of numbers of `size` bytes. */
GPC_API int64_t gpc_kmeans_nearest_scratch(int64_t size, int64_t d,
                                           int64_t n_clusters) {
    return whole_lines(size * ROWS * d) + whole_lines(size * n_clusters);
}

/* Label rows begin .. end - 1 by the nearest centroid, ties to the lowest. */
GPC_API void gpc_kmeans_nearest(int64_t size, const void* rows, int64_t d,
                                const void* centroids, int64_t n_clusters,
                                int64_t cosine, int64_t begin, int64_t end,
                                int32_t* labels, char* scratch) {
    void* tile = cut(&scratch, size * ROWS * d);
    const int64_t n = end - begin;
    labels += begin;
    if (size == 4) {
        const float* from = (const float*)rows + begin * d;
        float* start = (float*)scratch;
        float_start(centroids, n_clusters, d, cosine, start);
        float_label(from, n, d, centroids, start, n_clusters, labels, tile);
    } else {
        const double* from = (const double*)rows + begin * d;
        double* start = (double*)scratch;
        double_start(centroids, n_clusters, d, cosine, start);
        double_label(from, n, d, centroids, start, n_clusters, labels, tile);
    }
}

/* Bytes of scratch of gpc_kmeans_draw. */
GPC_API int64_t gpc_kmeans_draw_scratch(int64_t size, int64_t n, int64_t d,
                                        int64_t n_candidates) {
    return whole_lines(8 * n) + whole_lines(size * n) +
           whole_lines(size * n * n_candidates) + whole_lines(size * ROWS * d);
}

/* Draw the first rows of starts first .. last - 1.

   fits (n): of a row that cannot be drawn, infinity. draws (S, K, n_candidates) in
   [0, 1), at most 64 candidates. Rows no farther apart than `equal` are equal.
   chosen (S, K) and n_chosen (S) are written. */
GPC_API void gpc_kmeans_draw(int64_t size, const void* rows, int64_t n, int64_t d,
                             const void* fits, const double* draws, int64_t n_clusters,
                             int64_t n_candidates, int64_t careful, double equal,
                             int64_t first, int64_t last, int64_t* chosen,
                             int64_t* n_chosen, char* scratch) {
    int64_t* ends = cut(&scratch, 8 * n);
    void* apart = cut(&scratch, size * n);
    void* left = cut(&scratch, size * n * n_candidates);
    for (int64_t s = first; s < last; ++s) {
        const double* drawn = draws + s * n_clusters * n_candidates;
        int64_t* to = chosen + s * n_clusters;
        n_chosen[s] =
            size == 4
                ? float_draw(rows, n, d, fits, drawn, n_clusters, n_candidates, careful,
                             (float)equal, to, ends, apart, left, (float*)scratch)
                : double_draw(rows, n, d, fits, drawn, n_clusters, n_candidates,
                              careful, equal, to, ends, apart, left, (double*)scratch);
    }
}

/* Bytes of scratch of gpc_kmeans_lloyd. */
GPC_API int64_t gpc_kmeans_lloyd_scratch(int64_t size, int64_t n, int64_t d,
                                         int64_t n_clusters) {
    return whole_lines(size * ROWS * d) + whole_lines(size * n_clusters) +
           whole_lines(size * n) + whole_lines(8 * n_clusters) +
           2 * whole_lines(8 * n_clusters * d);
}

/* Run Lloyd's loop for starts first .. last - 1, each from its own centroids.

   fits (n): a row no farther than this from its centroid fits it; infinity for one
   that moves no centroid. centroids (S, K, d), of which the first n_chosen[s] count,
   are moved; labels (S, n) and inertia (S) are written. */
GPC_API void gpc_kmeans_lloyd(int64_t size, const void* rows, int64_t n, int64_t d,
                              const void* fits, int64_t cosine, double slack,
                              int64_t n_clusters, const int64_t* n_chosen,
                              int64_t max_iter, int64_t first, int64_t last,
                              void* centroids, int32_t* labels, double* inertia,
                              char* scratch) {
    kmeans_memory memory = {0};
    memory.tile = cut(&scratch, size * ROWS * d);
    memory.start = cut(&scratch, size * n_clusters);
    memory.apart = cut(&scratch, size * n);
    memory.counts = cut(&scratch, 8 * n_clusters);
    memory.sums = cut(&scratch, 8 * n_clusters * d);
    memory.block = cut(&scratch, 8 * n_clusters * d);
    for (int64_t s = first; s < last; ++s) {
        char* own = (char*)centroids + s * n_clusters * d * size;
        inertia[s] =
            size == 4 ? float_lloyd(rows, n, d, fits, cosine, slack, n_chosen[s],
                                    max_iter, (float*)own, labels + s * n, &memory)
                      : double_lloyd(rows, n, d, fits, cosine, slack, n_chosen[s],
                                     max_iter, (double*)own, labels + s * n, &memory);
    }
}
