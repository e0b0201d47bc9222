/* Counts of labels by cluster, from nothing: integers, so that no order matters. */
#include "native.h"

#if defined(__SSSE3__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum {
    SIDE = 16, /* restarts that are counted side by side */
    MOST = 255 /* objects that 8 bits can count */
};

/* columns of a group of restarts, as whole vectors */
GPC_INLINE int64_t padded(int64_t columns) {
    return (columns + GPC_VECTOR - 1) / GPC_VECTOR * GPC_VECTOR;
}

/* sixteen bytes, again and again */
GPC_INLINE gpc_bytes repeat(const uint8_t* sixteen) {
#if GPC_VECTOR == 64
    return (gpc_bytes)_mm512_broadcast_i32x4(_mm_loadu_si128((const void*)sixteen));
#elif GPC_VECTOR == 32
    return (gpc_bytes)_mm256_broadcastsi128_si256(
        _mm_loadu_si128((const void*)sixteen));
#else
    return *(const gpc_bytes*)sixteen;
#endif
}

/* lane x becomes byte places[x] of sixteen that are repeated */
GPC_INLINE gpc_bytes spread(gpc_bytes repeated, gpc_bytes places) {
#if GPC_VECTOR == 64
    return (gpc_bytes)_mm512_shuffle_epi8((__m512i)repeated, (__m512i)places);
#elif GPC_VECTOR == 32
    return (gpc_bytes)_mm256_shuffle_epi8((__m256i)repeated, (__m256i)places);
#elif defined(__SSSE3__)
    return (gpc_bytes)_mm_shuffle_epi8((__m128i)repeated, (__m128i)places);
#elif defined(__aarch64__)
    return (gpc_bytes)vqtbl1q_u8((uint8x16_t)repeated, (uint8x16_t)places);
#else
    gpc_bytes found;
    for (int x = 0; x < GPC_VECTOR; ++x) found[x] = repeated[places[x]];
    return found;
#endif
}

/* add 1 where two vectors are equal */
GPC_INLINE gpc_bytes add_equal(gpc_bytes total, gpc_bytes a, gpc_bytes b) {
#if GPC_VECTOR == 64
    const __m512i all = (__m512i)total;
    const __mmask64 equal = _mm512_cmpeq_epi8_mask((__m512i)a, (__m512i)b);
    return (gpc_bytes)_mm512_mask_add_epi8(all, equal, all, _mm512_set1_epi8(1));
#else
    return total - (gpc_bytes)(a == b);
#endif
}

/* What a group of at most SIDE restarts counts in: totals of 8 bits (K_i + 1, width) of
   one partition, and how many objects each row has seen. Lane c of a row is cluster
   names[c] of restart places[c]. */
typedef struct {
    uint8_t *totals, *hits, *places, *names;
    const uint8_t* packed;
    int64_t width, columns, line; /* columns in use, and of a whole row of counts */
    int64_t sign;
} group;

/* bring what a row has seen to its counts before 8 bits can overflow */
static __attribute__((noinline)) void empty_row(const group* g, int64_t j,
                                                int64_t* restrict counts) {
    uint8_t* restrict total = g->totals + j * g->width;
    if (g->sign > 0)
        for (int64_t c = 0; c < g->columns; ++c) counts[c] += total[c];
    else
        for (int64_t c = 0; c < g->columns; ++c) counts[c] -= total[c];
    memset(total, 0, (size_t)g->width);
    g->hits[j] = 0;
}

/* Add `number` objects to the totals of one partition, whose labels are `line` and
   whose rows of counts begin at `counts`. `vectors` at once, a number known to the
   compiler, as is `code_size`. */
GPC_INLINE void add_objects(const group* g, const int vectors, const void* line,
                            const int64_t code_size, int64_t number, int64_t* counts) {
    const int64_t width = vectors ? vectors * GPC_VECTOR : g->width;
    const uint8_t *places = g->places, *names = g->names, *packed = g->packed;
    uint8_t *totals = g->totals, *hits = g->hits;
    gpc_bytes place[4], name[4];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
        place[v] = *(const gpc_bytes*)(places + v * GPC_VECTOR);
        name[v] = *(const gpc_bytes*)(names + v * GPC_VECTOR);
    }
    for (int64_t t = 0; t < number; ++t) {
        const int64_t j = gpc_code(line, code_size, t);
        const gpc_bytes to = repeat(packed + SIDE * t);
        uint8_t* row = totals + j * width;
#pragma GCC unroll 4
        for (int64_t c = 0, v = 0; c < width; c += GPC_VECTOR, ++v) {
            const gpc_bytes at = vectors ? place[v] : *(const gpc_bytes*)(places + c);
            const gpc_bytes k = vectors ? name[v] : *(const gpc_bytes*)(names + c);
            *(gpc_bytes*)(row + c) =
                add_equal(*(const gpc_bytes*)(row + c), spread(to, at), k);
        }
        if (__builtin_expect(++hits[j] == MOST, 0))
            empty_row(g, j, counts + j * g->line);
    }
}

GPC_INLINE void add_vectors(const group* g, const void* line, const int64_t code_size,
                            int64_t number, int64_t* counts) {
    if (g->width == GPC_VECTOR)
        add_objects(g, 1, line, code_size, number, counts);
    else if (g->width == 2 * GPC_VECTOR)
        add_objects(g, 2, line, code_size, number, counts);
    else if (g->width == 4 * GPC_VECTOR)
        add_objects(g, 4, line, code_size, number, counts);
    else
        add_objects(g, 0, line, code_size, number, counts);
}

/* Write the clusters of objects begin .. end - 1 in at most SIDE restarts, lines of
   `assignment`, as rows of SIDE bytes, packed (n, SIDE). K <= 255. */
GPC_API void gpc_pack_clusters(const void* assignment, int64_t line,
                               int64_t cluster_size, int64_t n_restarts, int64_t begin,
                               int64_t end, uint8_t* packed) {
    for (int64_t q = 0; q < n_restarts; ++q)
        for (int64_t l = begin; l < end; ++l)
            packed[SIDE * l + q] =
                (uint8_t)gpc_cluster(assignment, cluster_size, q * line + l);
}

/* Bytes of scratch that gpc_count_rows needs for partitions of at most so many rows. */
GPC_API int64_t gpc_count_rows_scratch(int64_t most_rows, int64_t n_restarts,
                                       int64_t n_clusters) {
    const int64_t width = padded(gpc_min(SIDE, n_restarts) * n_clusters);
    return (most_rows + 2) * width + most_rows;
}

/* Add the n objects of packed clusters to the counts of partitions first .. last - 1,
   or take them away (sign < 0): all restarts of an object at once.

   packed: as gpc_pack_clusters writes it, of at most SIDE restarts; counts: the columns
   of these restarts, `line` numbers from one row to the next. K <= 255; scratch:
   aligned to 64 bytes. */
GPC_API void gpc_count_rows(const void* codes, int64_t code_size, int64_t stride,
                            const int64_t* offsets, int64_t first, int64_t last,
                            int64_t n_samples, const uint8_t* packed,
                            int64_t n_restarts, int64_t n_clusters, int64_t sign,
                            int64_t* counts, int64_t line, void* scratch) {
    int64_t most_rows = 0;
    for (int64_t i = first; i < last; ++i)
        most_rows = gpc_max(most_rows, offsets[i + 1] - offsets[i]);
    const int64_t columns = n_restarts * n_clusters;
    group g = {.totals = scratch,
               .packed = packed,
               .width = padded(columns),
               .columns = columns,
               .line = line,
               .sign = sign};
    g.places = g.totals + most_rows * g.width;
    g.names = g.places + g.width;
    g.hits = g.names + g.width;
    memset(scratch, 0, (size_t)((most_rows + 2) * g.width + most_rows));
    for (int64_t c = 0; c < columns; ++c) {
        g.places[c] = (uint8_t)(c / n_clusters);
        g.names[c] = (uint8_t)(c % n_clusters);
    }
    for (int64_t i = first; i < last; ++i) {
        const void* labels = gpc_codes_at(codes, code_size, i * stride);
        int64_t* own = counts + offsets[i] * line;
        if (code_size == 1)
            add_vectors(&g, labels, 1, n_samples, own);
        else
            add_vectors(&g, labels, 2, n_samples, own);
        for (int64_t j = 0; j < offsets[i + 1] - offsets[i]; ++j)
            if (g.hits[j]) empty_row(&g, j, own + j * line);
    }
}
