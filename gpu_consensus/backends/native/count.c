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
   none; room to list those of them that have a label, and for what all of them change
   in every column. */
typedef struct {
    int32_t *objects, *leave, *enter, *present;
    int64_t* change;
    int64_t number;
} waiting;

GPC_INLINE int64_t room_of(int64_t n_restarts) { return ROOM + LOOK * n_restarts; }

/* Bytes of scratch that gpc_count_each and gpc_count_absent need. */
GPC_API int64_t gpc_count_each_scratch(int64_t n_restarts, int64_t n_clusters) {
    return 8 * n_restarts * n_clusters + 4 * 4 * room_of(n_restarts);
}

/* Whether most of the moving objects lack a label, by a look at the first of them. */
GPC_INLINE int mostly_missing(const waiting* list, const void* line,
                              const int64_t code_size, int64_t missing) {
    const int64_t looked = gpc_min(LOOK, list->number);
    int64_t present = 0;
    for (int64_t p = 0; p < looked; ++p)
        present += gpc_code(line, code_size, list->objects[p]) != missing;
    return 2 * present < looked;
}

/* list the moving objects that have a label; return how many */
GPC_INLINE int64_t list_present(const waiting* list, const void* line,
                                const int64_t code_size, int64_t missing) {
    int64_t present = 0;
    for (int64_t p = 0; p < list->number; ++p) {
        list->present[present] = (int32_t)p;
        present += gpc_code(line, code_size, list->objects[p]) != missing;
    }
    return present;
}

/* what all moves together, each as heavy as its object, change in every column */
GPC_INLINE void sum_moves(const waiting* list, const int64_t* weight, int64_t columns) {
    int64_t* change = list->change;
    memset(change, 0, (size_t)columns * sizeof(int64_t));
    for (int64_t p = 0; p < list->number; ++p) {
        const int64_t w = weight ? weight[list->objects[p]] : 1;
        if (list->leave[p] >= 0) change[list->leave[p]] -= w;
        if (list->enter[p] >= 0) change[list->enter[p]] += w;
    }
}

/* Missing labels are counted last where they are many: all moves without the others. */
GPC_INLINE void add_each(const gpc_labels* labels, const int64_t code_size,
                         int64_t first, int64_t last, const waiting* list,
                         int64_t columns, int64_t* counts) {
    int known = 0;
    for (int64_t i = first; i < last; ++i) {
        const void* line = gpc_codes_at(labels->codes, code_size, i * labels->stride);
        int64_t* top = counts + labels->offsets[i] * columns;
        const int64_t missing = labels->offsets[i + 1] - labels->offsets[i] - 1;
        if (mostly_missing(list, line, code_size, missing)) {
            int64_t* absent = top + missing * columns;
            const int64_t present = list_present(list, line, code_size, missing);
            if (!known) sum_moves(list, NULL, columns);
            known = 1;
            for (int64_t c = 0; c < columns; ++c) absent[c] += list->change[c];
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
        const char* next =
            gpc_codes_at(line, code_size, i + 1 < last ? labels->stride : 0);
        for (int64_t p = 0; p < list->number; ++p) {
            __builtin_prefetch(next + list->objects[p] * code_size);
            int64_t* row = top + gpc_code(line, code_size, list->objects[p]) * columns;
            if (list->leave[p] >= 0) --row[list->leave[p]];
            if (list->enter[p] >= 0) ++row[list->enter[p]];
        }
    }
}

/* the same for the weights of objects without a label, total (r, columns) */
GPC_INLINE void add_absent(const gpc_labels* labels, const int64_t code_size,
                           int64_t first, int64_t last, const waiting* list,
                           const int64_t* weight, int64_t columns, int64_t* total) {
    int known = 0;
    for (int64_t i = first; i < last; ++i) {
        const void* line = gpc_codes_at(labels->codes, code_size, i * labels->stride);
        const int64_t missing = labels->offsets[i + 1] - labels->offsets[i] - 1;
        int64_t* own = total + i * columns;
        if (mostly_missing(list, line, code_size, missing)) {
            const int64_t present = list_present(list, line, code_size, missing);
            if (!known) sum_moves(list, weight, columns);
            known = 1;
            for (int64_t c = 0; c < columns; ++c) own[c] += list->change[c];
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

/* Bring counts, or with a weight the sums of absent ones, from one assignment to the
   other, many moves at a time. */
static void add_moves(const gpc_labels* labels, int64_t first, int64_t last,
                      int64_t n_samples, const gpc_moves* m, const int64_t* weight,
                      int64_t* out, int64_t* scratch) {
    const int64_t n_restarts = m->n_restarts, columns = n_restarts * m->n_clusters;
    const int64_t room = room_of(n_restarts);
    int32_t* lists = (int32_t*)(scratch + columns);
    waiting list = {lists, lists + room, lists + 2 * room, lists + 3 * room, scratch,
                    0};
    /* objects that surely find room together: their restarts follow one another, so
       that the columns of one stay in a cache */
    int64_t last_of = 0;
    for (int64_t start = 0; start < n_samples; start = last_of) {
        const int64_t fits = (room - list.number) / n_restarts / LOOK * LOOK;
        last_of = gpc_min(start + fits, n_samples);
        for (int64_t q = 0; q < n_restarts; ++q)
            for (int64_t l = start; l < last_of; l += LOOK) {
                const int64_t stop = gpc_min(l + LOOK, last_of);
                if (m->cluster_size == 1)
                    list_moves(m, 1, q, l, stop, &list);
                else
                    list_moves(m, m->cluster_size, q, l, stop, &list);
            }
        if (list.number <= ROOM / 2 && last_of < n_samples) continue;
        if (weight)
            labels->code_size == 1
                ? add_absent(labels, 1, first, last, &list, weight, columns, out)
                : add_absent(labels, 2, first, last, &list, weight, columns, out);
        else
            labels->code_size == 1
                ? add_each(labels, 1, first, last, &list, columns, out)
                : add_each(labels, 2, first, last, &list, columns, out);
        list.number = 0;
    }
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
    const gpc_labels labels = {codes, code_size, stride, offsets, 0};
    add_moves(&labels, first, last, n_samples, &m, NULL, counts, scratch);
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
    add_moves(&labels, first, last, n_samples, &m, weight, total, scratch);
}
