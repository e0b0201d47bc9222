/* Counts of labels by cluster, from one assignment to another: one move after another.
 */
#include "native.h"

enum {
    ROOM = 1 << 17, /* moves that are listed together, or more where one object may */
    LOOK = 64       /* objects that are compared before any is listed */
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

GPC_INLINE int64_t steps_of(const gpc_moves* m, int64_t size, int64_t q, int64_t start,
                            int64_t stop) {
    int32_t steps = 0;
    for (int64_t l = start; l < stop; ++l) {
        const int64_t a = was(m, size, q, l), b = is(m, size, q, l);
        steps += (a != b) * ((a < m->n_clusters) + (b < m->n_clusters));
    }
    return steps;
}

/* Return how many counts change by one in a partition as objects begin .. end - 1
   move. */
GPC_API int64_t gpc_count_moves(const void* before, int64_t before_line,
                                const void* after, int64_t after_line,
                                int64_t cluster_size, int64_t n_restarts,
                                int64_t n_clusters, int64_t begin, int64_t end) {
    const gpc_moves m = {before,       after,      before_line, after_line,
                         cluster_size, n_restarts, n_clusters};
    int64_t steps = 0;
    for (int64_t q = 0; q < n_restarts; ++q)
        for (int64_t l = begin; l < end; l += LOOK) {
            const int64_t stop = gpc_min(l + LOOK, end);
            steps += cluster_size == 1 ? steps_of(&m, 1, q, l, stop)
                                       : steps_of(&m, cluster_size, q, l, stop);
        }
    return steps;
}

/* The moves that wait: their objects, and the columns that they leave and enter, -1 for
   none. */
typedef struct {
    int32_t *objects, *leave, *enter;
    int64_t number;
} waiting;

/* Bytes of scratch that gpc_count_each needs. */
GPC_API int64_t gpc_count_each_scratch(int64_t n_restarts) {
    return 3 * 4 * (ROOM + LOOK * n_restarts);
}

GPC_INLINE void add_each(const void* codes, const int64_t code_size, int64_t stride,
                         const int64_t* offsets, int64_t first, int64_t last,
                         const waiting* list, int64_t columns, int64_t* counts) {
    const int64_t number = list->number;
    for (int64_t i = first; i < last; ++i) {
        const void* line = gpc_codes_at(codes, code_size, i * stride);
        const char* next = gpc_codes_at(line, code_size, i + 1 < last ? stride : 0);
        int64_t* top = counts + offsets[i] * columns;
        for (int64_t p = 0; p < number; ++p) {
            __builtin_prefetch(next + list->objects[p] * code_size);
            int64_t* row = top + gpc_code(line, code_size, list->objects[p]) * columns;
            if (list->leave[p] >= 0) --row[list->leave[p]];
            if (list->enter[p] >= 0) ++row[list->enter[p]];
        }
    }
}

GPC_INLINE void list_moves(const gpc_moves* m, int64_t size, int64_t q, int64_t start,
                           int64_t stop, waiting* list) {
    const int64_t column = q * m->n_clusters;
    int64_t differ = !m->before, number = list->number;
    for (int64_t l = start; l < stop; ++l)
        differ += was(m, size, q, l) != is(m, size, q, l);
    if (!differ) return;
    for (int64_t l = start; l < stop; ++l) {
        const int64_t a = was(m, size, q, l), b = is(m, size, q, l);
        list->objects[number] = (int32_t)l;
        list->leave[number] = (int32_t)(a < m->n_clusters ? column + a : -1);
        list->enter[number] = (int32_t)(b < m->n_clusters ? column + b : -1);
        number += a != b;
    }
    list->number = number;
}

/* Bring the counts of partitions first .. last - 1 from one assignment of n objects to
   another. n, R K < 2^31. */
GPC_API void gpc_count_each(const void* codes, int64_t code_size, int64_t stride,
                            const int64_t* offsets, int64_t first, int64_t last,
                            int64_t n_samples, const void* before, int64_t before_line,
                            const void* after, int64_t after_line, int64_t cluster_size,
                            int64_t n_restarts, int64_t n_clusters, int64_t* counts,
                            void* scratch) {
    const gpc_moves m = {before,       after,      before_line, after_line,
                         cluster_size, n_restarts, n_clusters};
    const int64_t columns = n_restarts * n_clusters, room = ROOM + LOOK * n_restarts;
    waiting list = {.objects = scratch};
    list.leave = list.objects + room;
    list.enter = list.leave + room;
    /* objects that surely find room together: their restarts follow one another, so
       that the columns of one stay in a cache */
    int64_t last_of = 0;
    for (int64_t start = 0; start < n_samples; start = last_of) {
        const int64_t fits = (room - list.number) / n_restarts / LOOK * LOOK;
        last_of = gpc_min(start + fits, n_samples);
        for (int64_t q = 0; q < n_restarts; ++q)
            for (int64_t l = start; l < last_of; l += LOOK) {
                const int64_t stop = gpc_min(l + LOOK, last_of);
                if (cluster_size == 1)
                    list_moves(&m, 1, q, l, stop, &list);
                else
                    list_moves(&m, cluster_size, q, l, stop, &list);
            }
        if (list.number <= ROOM / 2 && last_of < n_samples) continue;
        if (code_size == 1)
            add_each(codes, 1, stride, offsets, first, last, &list, columns, counts);
        else
            add_each(codes, 2, stride, offsets, first, last, &list, columns, counts);
        list.number = 0;
    }
}

/* Bring the weights of the objects that lack a label in partitions first .. last - 1,
   total (r, R, K), from one assignment to another. */
GPC_API void gpc_count_absent(const void* codes, int64_t code_size, int64_t stride,
                              const int64_t* offsets, int64_t first, int64_t last,
                              int64_t n_samples, const void* before,
                              int64_t before_line, const void* after,
                              int64_t after_line, int64_t cluster_size,
                              int64_t n_restarts, int64_t n_clusters,
                              const int64_t* weight, int64_t* total) {
    const gpc_moves m = {before,       after,      before_line, after_line,
                         cluster_size, n_restarts, n_clusters};
    const int64_t columns = n_restarts * n_clusters;
    for (int64_t i = first; i < last; ++i) {
        const void* line = gpc_codes_at(codes, code_size, i * stride);
        const int64_t missing = offsets[i + 1] - offsets[i] - 1;
        for (int64_t l = 0; l < n_samples; ++l) {
            if (gpc_code(line, code_size, l) != missing) continue;
            for (int64_t q = 0; q < n_restarts; ++q) {
                const int64_t a = was(&m, cluster_size, q, l);
                const int64_t b = is(&m, cluster_size, q, l);
                if (a == b) continue;
                int64_t* own = total + i * columns + q * n_clusters;
                if (a < n_clusters) own[a] -= weight[l];
                if (b < n_clusters) own[b] += weight[l];
            }
        }
    }
}
