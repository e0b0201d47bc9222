/* Counts of labels by cluster: integers, so that no order matters. */
#include "native.h"

#if defined(__SSSE3__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum {
    TILE = 2048,      /* objects whose clusters are together */
    SIDE = 16,        /* restarts that are counted side by side */
    MOST = 127,       /* objects that 8 bits can count */
    MOST_FILLS = 255, /* and 16 bits, in so many times */
    BLOCK = 1 << 14,  /* moves that are listed together */
    LOOK = 64         /* objects that are compared before any is listed */
};

/* Two assignments, (R, n) each, whose lines may be parts of longer ones. `before` may
   be NULL: then every object comes from nowhere. */
typedef struct {
    const void *before, *after;
    int64_t before_line, after_line, cluster_size, n_restarts, n_clusters;
} gpc_moves;

GPC_INLINE int64_t was(const gpc_moves* m, int64_t size, int64_t q, int64_t l) {
    return m->before ? gpc_cluster(m->before, size, q * m->before_line + l)
                     : m->n_clusters;
}

GPC_INLINE int64_t is(const gpc_moves* m, int64_t size, int64_t q, int64_t l) {
    return gpc_cluster(m->after, size, q * m->after_line + l);
}

GPC_INLINE void add_moves(const gpc_moves* m, int64_t size, int64_t begin, int64_t end,
                          int64_t* found) {
    uint8_t touched[LOOK];
    for (int64_t first = begin; first < end; first += LOOK) {
        const int64_t number = gpc_min(LOOK, end - first);
        memset(touched, 0, sizeof touched);
        for (int64_t q = 0; q < m->n_restarts; ++q) {
            int64_t steps = 0;
            for (int64_t t = 0; t < number; ++t) {
                const int64_t a = was(m, size, q, first + t);
                const int64_t b = is(m, size, q, first + t);
                touched[t] |= a != b;
                steps += (a != b) * ((a < m->n_clusters) + (b < m->n_clusters));
            }
            found[0] += steps;
        }
        for (int64_t t = 0; t < number; ++t) found[1] += touched[t];
    }
}

/* Add to found[0] how many counts change by one in a partition, and to found[1] how
   many of the objects begin .. end - 1 change their cluster in any restart. */
GPC_API void gpc_count_moves(const void* before, int64_t before_line, const void* after,
                             int64_t after_line, int64_t cluster_size,
                             int64_t n_restarts, int64_t n_clusters, int64_t begin,
                             int64_t end, int64_t* found) {
    const gpc_moves m = {before,       after,      before_line, after_line,
                         cluster_size, n_restarts, n_clusters};
    if (cluster_size == 1)
        add_moves(&m, 1, begin, end, found);
    else
        add_moves(&m, cluster_size, begin, end, found);
}

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

/* add 1 where two vectors are equal, or subtract it */
GPC_INLINE gpc_bytes add_equal(gpc_bytes total, gpc_bytes a, gpc_bytes b) {
#if GPC_VECTOR == 64
    const __m512i all = (__m512i)total;
    const __mmask64 equal = _mm512_cmpeq_epi8_mask((__m512i)a, (__m512i)b);
    return (gpc_bytes)_mm512_mask_add_epi8(all, equal, all, _mm512_set1_epi8(1));
#else
    return total - (gpc_bytes)(a == b);
#endif
}

GPC_INLINE gpc_bytes subtract_equal(gpc_bytes total, gpc_bytes a, gpc_bytes b) {
#if GPC_VECTOR == 64
    const __m512i all = (__m512i)total;
    const __mmask64 equal = _mm512_cmpeq_epi8_mask((__m512i)a, (__m512i)b);
    return (gpc_bytes)_mm512_mask_sub_epi8(all, equal, all, _mm512_set1_epi8(1));
#else
    return total + (gpc_bytes)(a == b);
#endif
}

/* What a group of at most SIDE restarts counts in: totals (rows, width) of 8 bits, and
   sums of 16 bits that they are added to; for every row how many objects its totals
   have seen, and how often they were added. Lane c of a row is cluster names[c] of
   restart places[c]. */
typedef struct {
    int8_t* totals;
    int16_t* sums;
    uint8_t *hits, *fills, *places, *names, *before, *after;
    int32_t* objects;
    int64_t width, columns, line; /* columns in use, and of a whole row of counts */
} group;

/* add a row of totals to its sums, and begin again */
static __attribute__((noinline)) void add_totals(int8_t* restrict total, int64_t width,
                                                 int16_t* restrict sum) {
    for (int64_t c = 0; c < width; c += 16)
        for (int x = 0; x < 16; ++x) sum[c + x] = (int16_t)(sum[c + x] + total[c + x]);
    memset(total, 0, (size_t)width);
}

static __attribute__((noinline)) void add_sums(int16_t* restrict sum, int64_t width,
                                               int64_t columns,
                                               int64_t* restrict counts) {
    for (int64_t c = 0; c < columns; ++c) counts[c] += sum[c];
    memset(sum, 0, (size_t)width * 2);
}

/* bring what a row has seen to its counts before 8 or 16 bits can overflow */
static void empty_row(const group* g, int64_t row, int64_t* counts) {
    add_totals(g->totals + row * g->width, g->width, g->sums + row * g->width);
    g->hits[row] = 0;
    if (++g->fills[row] < MOST_FILLS) return;
    g->fills[row] = 0;
    add_sums(g->sums + row * g->width, g->width, g->columns, counts);
}

/* Add `number` objects to the totals of partitions first .. last - 1. `vectors` at
   once, a number known to the compiler, as are `leaves` and `code_size`. */
GPC_INLINE void add_objects(const group* g, const int vectors, const int leaves,
                            const gpc_labels* labels, const int64_t code_size,
                            int64_t first, int64_t last, int64_t number,
                            int64_t* counts) {
    const uint8_t *old = g->before, *new = g->after;
    const int32_t* objects = g->objects;
    const int64_t width = vectors ? vectors * GPC_VECTOR : g->width;
    const uint8_t *places = g->places, *names = g->names;
    gpc_bytes place[4], name[4];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
        place[v] = *(const gpc_bytes*)(places + v * GPC_VECTOR);
        name[v] = *(const gpc_bytes*)(names + v * GPC_VECTOR);
    }
    for (int64_t i = first; i < last; ++i) {
        const void* line = gpc_codes_at(labels->codes, code_size, i * labels->stride);
        const int64_t from = labels->offsets[i] - labels->offsets[first];
        int8_t* top = g->totals + from * width;
        uint8_t* hits = g->hits + from;
        for (int64_t t = 0; t < number; ++t) {
            const int64_t j = gpc_code(line, code_size, objects[t]);
            const gpc_bytes from_here =
                leaves ? repeat(old + SIDE * t) : (gpc_bytes){0};
            const gpc_bytes to = repeat(new + SIDE* t);
            int8_t* row = top + j * width;
#pragma GCC unroll 4
            for (int64_t c = 0, v = 0; c < width; c += GPC_VECTOR, ++v) {
                const gpc_bytes at =
                    vectors ? place[v] : *(const gpc_bytes*)(places + c);
                const gpc_bytes k = vectors ? name[v] : *(const gpc_bytes*)(names + c);
                gpc_bytes total = *(const gpc_bytes*)(row + c);
                total = add_equal(total, spread(to, at), k);
                if (leaves) total = subtract_equal(total, spread(from_here, at), k);
                *(gpc_bytes*)(row + c) = total;
            }
            if (__builtin_expect(++hits[j] < MOST, 1)) continue;
            empty_row(g, from + j, counts + (labels->offsets[i] + j) * g->line);
        }
    }
}

GPC_INLINE void add_vectors(const group* g, const int leaves, const gpc_labels* labels,
                            const int64_t code_size, int64_t first, int64_t last,
                            int64_t number, int64_t* counts) {
    if (g->width == GPC_VECTOR)
        add_objects(g, 1, leaves, labels, code_size, first, last, number, counts);
    else if (g->width == 2 * GPC_VECTOR)
        add_objects(g, 2, leaves, labels, code_size, first, last, number, counts);
    else if (g->width == 4 * GPC_VECTOR)
        add_objects(g, 4, leaves, labels, code_size, first, last, number, counts);
    else
        add_objects(g, 0, leaves, labels, code_size, first, last, number, counts);
}

static void add_tile(const group* g, int leaves, const gpc_labels* labels,
                     int64_t first, int64_t last, int64_t number, int64_t* counts) {
    if (labels->code_size == 1)
        leaves ? add_vectors(g, 1, labels, 1, first, last, number, counts)
               : add_vectors(g, 0, labels, 1, first, last, number, counts);
    else
        leaves ? add_vectors(g, 1, labels, 2, first, last, number, counts)
               : add_vectors(g, 0, labels, 2, first, last, number, counts);
}

/* Write the clusters of restarts q .. q + number - 1 as rows of SIDE bytes, those of
   the objects from `first` on that move, and return how many do. `leaves` tells whether
   any was counted before. */
GPC_INLINE int64_t pack(const gpc_moves* m, int64_t cluster_size, int64_t q,
                        int64_t number, int64_t first, int64_t size, const group* g,
                        int* leaves) {
    for (int64_t x = 0; x < number; ++x)
        for (int64_t t = 0; t < size; ++t) {
            g->before[SIDE * t + x] = (uint8_t)was(m, cluster_size, q + x, first + t);
            g->after[SIDE * t + x] = (uint8_t)is(m, cluster_size, q + x, first + t);
        }
    uint64_t nowhere[2] = {0, 0}, counted = 0;
    memset(nowhere, (int)m->n_clusters, (size_t)number);
    int64_t moving = 0;
    for (int64_t t = 0; t < size; ++t) {
        uint64_t old[2], new[2];
        memcpy(old, g->before + SIDE * t, SIDE);
        memcpy(new, g->after + SIDE * t, SIDE);
        memcpy(g->before + SIDE * moving, old, SIDE);
        memcpy(g->after + SIDE * moving, new, SIDE);
        g->objects[moving] = (int32_t)t;
        moving += ((old[0] ^ new[0]) | (old[1] ^ new[1])) != 0;
        counted |= (old[0] ^ nowhere[0]) | (old[1] ^ nowhere[1]);
    }
    *leaves = counted != 0;
    return moving;
}

/* Bytes of scratch that gpc_count_rows needs. */
GPC_API int64_t gpc_count_rows_scratch(int64_t n_rows, int64_t n_restarts,
                                       int64_t n_clusters) {
    const int64_t width = padded(gpc_min(SIDE, n_restarts) * n_clusters);
    return (3 * n_rows + 2) * width + TILE * (2 * SIDE + 4) + 2 * n_rows;
}

/* Bring the counts of partitions first .. last - 1 from one assignment of n objects to
   another: all restarts of an object at once. K <= 255; scratch: aligned to 64 bytes.
 */
GPC_API void gpc_count_rows(const void* codes, int64_t code_size, int64_t stride,
                            const int64_t* offsets, int64_t first, int64_t last,
                            int64_t n_samples, const void* before, int64_t before_line,
                            const void* after, int64_t after_line, int64_t cluster_size,
                            int64_t n_restarts, int64_t n_clusters, int64_t* counts,
                            void* scratch) {
    const gpc_moves m = {before,       after,      before_line, after_line,
                         cluster_size, n_restarts, n_clusters};
    const int64_t n_rows = offsets[last] - offsets[first];
    const int64_t widest = padded(gpc_min(SIDE, n_restarts) * n_clusters);
    group g = {.totals = scratch, .line = n_restarts * n_clusters};
    g.sums = (int16_t*)(void*)(g.totals + n_rows * widest);
    g.places = (uint8_t*)(g.sums + n_rows * widest);
    g.names = g.places + widest;
    g.before = g.names + widest;
    g.after = g.before + TILE * SIDE;
    g.objects = (int32_t*)(void*)(g.after + TILE * SIDE);
    g.hits = (uint8_t*)(g.objects + TILE);
    g.fills = g.hits + n_rows;
    for (int64_t q = 0; q < n_restarts; q += SIDE) {
        const int64_t number = gpc_min(SIDE, n_restarts - q);
        g.columns = number * n_clusters;
        g.width = padded(g.columns);
        memset(g.totals, 0, (size_t)(n_rows * g.width));
        memset(g.sums, 0, (size_t)(n_rows * g.width) * 2);
        memset(g.hits, 0, 2 * (size_t)n_rows);
        memset(g.places, 0, (size_t)g.width);
        memset(g.names, 0, (size_t)g.width);
        memset(g.before, 0, 2 * TILE * SIDE);
        for (int64_t c = 0; c < g.columns; ++c) {
            g.places[c] = (uint8_t)(c / n_clusters);
            g.names[c] = (uint8_t)(c % n_clusters);
        }
        int64_t* own = counts + q * n_clusters;
        for (int64_t l = 0; l < n_samples; l += TILE) {
            const int64_t size = gpc_min(TILE, n_samples - l);
            int leaves;
            const int64_t moving =
                cluster_size == 1
                    ? pack(&m, 1, q, number, l, size, &g, &leaves)
                    : pack(&m, cluster_size, q, number, l, size, &g, &leaves);
            const gpc_labels labels = {gpc_codes_at(codes, code_size, l), code_size,
                                       stride, offsets, 0};
            add_tile(&g, leaves, &labels, first, last, moving, own);
        }
        for (int64_t row = 0; row < n_rows; ++row) {
            if (!g.hits[row] && !g.fills[row]) continue;
            int64_t* target = own + (offsets[first] + row) * g.line;
            empty_row(&g, row, target);
            add_sums(g.sums + row * g.width, g.width, g.columns, target);
        }
    }
}

/* Moves that are listed together: who moves, and which columns lose and gain, -1 for
   none; `present` has room for the places of some of them. */
typedef struct {
    int64_t *objects, *leave, *enter;
    uint16_t* present;
    int64_t number;
} move_list;

static move_list begin_list(int64_t* scratch) {
    const move_list list = {scratch, scratch + BLOCK, scratch + 2 * BLOCK,
                            (uint16_t*)(scratch + 3 * BLOCK), 0};
    return list;
}

/* Bytes of scratch that gpc_count_each and gpc_count_absent need. */
GPC_API int64_t gpc_count_each_scratch(int64_t n_columns) {
    return (3 * 8 + 2) * BLOCK + 8 * n_columns;
}

/* Whether most of the moving objects lack a label, by a look at the first of them. */
GPC_INLINE int mostly_missing(const move_list* list, const void* line,
                              const int64_t code_size, int64_t missing) {
    const int64_t looked = gpc_min(LOOK, list->number);
    int64_t present = 0;
    for (int64_t p = 0; p < looked; ++p)
        present += gpc_code(line, code_size, list->objects[p]) != missing;
    return 2 * present < looked;
}

/* list the moving objects that have a label; return how many */
GPC_INLINE int64_t list_present(const move_list* list, const void* line,
                                const int64_t code_size, int64_t missing) {
    int64_t present = 0;
    for (int64_t p = 0; p < list->number; ++p) {
        list->present[present] = (uint16_t)p;
        present += gpc_code(line, code_size, list->objects[p]) != missing;
    }
    return present;
}

/* what all moves together, each as heavy as its object, change in every column */
GPC_INLINE void sum_moves(const move_list* list, const int64_t* weight, int64_t columns,
                          int64_t* change) {
    memset(change, 0, (size_t)columns * sizeof(int64_t));
    for (int64_t p = 0; p < list->number; ++p) {
        const int64_t w = weight ? weight[list->objects[p]] : 1;
        if (list->leave[p] >= 0) change[list->leave[p]] -= w;
        if (list->enter[p] >= 0) change[list->enter[p]] += w;
    }
}

/* Missing labels are counted last where they are many: all moves without the others. */
GPC_INLINE void add_each(const gpc_labels* labels, const int64_t code_size,
                         int64_t first, int64_t last, const move_list* list,
                         int64_t columns, int64_t* change, int64_t* counts) {
    int known = 0;
    for (int64_t i = first; i < last; ++i) {
        const void* line = gpc_codes_at(labels->codes, code_size, i * labels->stride);
        int64_t* top = counts + labels->offsets[i] * columns;
        const int64_t missing = labels->offsets[i + 1] - labels->offsets[i] - 1;
        if (mostly_missing(list, line, code_size, missing)) {
            int64_t* absent = top + missing * columns;
            const int64_t present = list_present(list, line, code_size, missing);
            if (!known) sum_moves(list, NULL, columns, change);
            known = 1;
            for (int64_t c = 0; c < columns; ++c) absent[c] += change[c];
            for (int64_t x = 0; x < present; ++x) {
                const int64_t p = list->present[x];
                const int64_t a = list->leave[p], b = list->enter[p];
                int64_t* row =
                    top + gpc_code(line, code_size, list->objects[p]) * columns;
                if (a >= 0) --row[a], ++absent[a];
                if (b >= 0) ++row[b], --absent[b];
            }
            continue;
        }
        for (int64_t p = 0; p < list->number; ++p) {
            int64_t* row = top + gpc_code(line, code_size, list->objects[p]) * columns;
            if (list->leave[p] >= 0) --row[list->leave[p]];
            if (list->enter[p] >= 0) ++row[list->enter[p]];
        }
    }
}

/* the same for the weights of objects without a label, total (r, columns) */
GPC_INLINE void add_absent(const gpc_labels* labels, const int64_t code_size,
                           int64_t first, int64_t last, const move_list* list,
                           const int64_t* weight, int64_t columns, int64_t* change,
                           int64_t* total) {
    int known = 0;
    for (int64_t i = first; i < last; ++i) {
        const void* line = gpc_codes_at(labels->codes, code_size, i * labels->stride);
        const int64_t missing = labels->offsets[i + 1] - labels->offsets[i] - 1;
        int64_t* own = total + i * columns;
        if (mostly_missing(list, line, code_size, missing)) {
            const int64_t present = list_present(list, line, code_size, missing);
            if (!known) sum_moves(list, weight, columns, change);
            known = 1;
            for (int64_t c = 0; c < columns; ++c) own[c] += change[c];
            for (int64_t x = 0; x < present; ++x) {
                const int64_t p = list->present[x], w = weight[list->objects[p]];
                if (list->leave[p] >= 0) own[list->leave[p]] += w;
                if (list->enter[p] >= 0) own[list->enter[p]] -= w;
            }
            continue;
        }
        for (int64_t p = 0; p < list->number; ++p) {
            const int64_t l = list->objects[p];
            if (gpc_code(line, code_size, l) != missing) continue;
            if (list->leave[p] >= 0) own[list->leave[p]] -= weight[l];
            if (list->enter[p] >= 0) own[list->enter[p]] += weight[l];
        }
    }
}

GPC_INLINE void list_moves(const gpc_moves* m, int64_t size, int64_t q, int64_t start,
                           int64_t stop, move_list* list) {
    const int64_t column = q * m->n_clusters;
    int64_t differ = !m->before, number = list->number;
    for (int64_t l = start; l < stop; ++l)
        differ += was(m, size, q, l) != is(m, size, q, l);
    if (!differ) return;
    for (int64_t l = start; l < stop; ++l) {
        const int64_t a = was(m, size, q, l), b = is(m, size, q, l);
        list->objects[number] = l;
        list->leave[number] = a < m->n_clusters ? column + a : -1;
        list->enter[number] = b < m->n_clusters ? column + b : -1;
        number += a != b;
    }
    list->number = number;
}

/* bring counts, or with a weight the sums of absent ones, from one assignment to the
   other, a list of moves at a time */
static void add_lists(const gpc_labels* labels, int64_t first, int64_t last,
                      int64_t n_samples, const gpc_moves* m, const int64_t* weight,
                      int64_t* out, int64_t* scratch) {
    move_list list = begin_list(scratch);
    int64_t* change = (int64_t*)(void*)(list.present + BLOCK);
    const int64_t columns = m->n_restarts * m->n_clusters;
    for (int64_t q = 0; q < m->n_restarts; ++q)
        for (int64_t start = 0; start < n_samples; start += LOOK) {
            const int64_t stop = gpc_min(start + LOOK, n_samples);
            if (m->cluster_size == 1)
                list_moves(m, 1, q, start, stop, &list);
            else
                list_moves(m, m->cluster_size, q, start, stop, &list);
            const int is_last = q == m->n_restarts - 1 && stop == n_samples;
            if (list.number <= BLOCK - LOOK && !is_last) continue;
            if (weight)
                labels->code_size == 1
                    ? add_absent(labels, 1, first, last, &list, weight, columns, change,
                                 out)
                    : add_absent(labels, 2, first, last, &list, weight, columns, change,
                                 out);
            else
                labels->code_size == 1
                    ? add_each(labels, 1, first, last, &list, columns, change, out)
                    : add_each(labels, 2, first, last, &list, columns, change, out);
            list.number = 0;
        }
}

/* As gpc_count_rows, one move after another: for few moves, or many clusters. */
GPC_API void gpc_count_each(const void* codes, int64_t code_size, int64_t stride,
                            const int64_t* offsets, int64_t first, int64_t last,
                            int64_t n_samples, const void* before, int64_t before_line,
                            const void* after, int64_t after_line, int64_t cluster_size,
                            int64_t n_restarts, int64_t n_clusters, int64_t* counts,
                            void* scratch) {
    const gpc_moves m = {before,       after,      before_line, after_line,
                         cluster_size, n_restarts, n_clusters};
    const gpc_labels labels = {codes, code_size, stride, offsets, 0};
    add_lists(&labels, first, last, n_samples, &m, NULL, counts, scratch);
}

/* Bring the weights of the objects that lack a label in partitions first .. last - 1,
   total (r, R, K), from one assignment to another. */
GPC_API void gpc_count_absent(const void* codes, int64_t code_size, int64_t stride,
                              const int64_t* offsets, int64_t first, int64_t last,
                              int64_t n_samples, const void* before,
                              int64_t before_line, const void* after,
                              int64_t after_line, int64_t cluster_size,
                              int64_t n_restarts, int64_t n_clusters,
                              const int64_t* weight, int64_t* total, void* scratch) {
    const gpc_moves m = {before,       after,      before_line, after_line,
                         cluster_size, n_restarts, n_clusters};
    const gpc_labels labels = {codes, code_size, stride, offsets, 0};
    add_lists(&labels, first, last, n_samples, &m, weight, total, scratch);
}
