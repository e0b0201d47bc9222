/* Counts of labels by cluster: integers, so that no order matters. */
#include "native.h"

enum {
    TILE = 512,          /* objects whose steps are together */
    MOST = 32767 - TILE, /* objects that 16 bits can count */
    BLOCK = 1 << 14,     /* moves that are listed together */
    LOOK = 64,           /* objects that are compared before any is listed */
    LANES = 64 / 2       /* rows of steps are padded to so many numbers */
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

GPC_INLINE int64_t padded(int64_t columns) {
    return (columns + LANES - 1) / LANES * LANES;
}

/* whether the object moves; its steps are written then */
GPC_INLINE int steps_of(const gpc_moves* m, int64_t size, int64_t l, int16_t* steps) {
    int moves = 0;
    for (int64_t q = 0; q < m->n_restarts; ++q) {
        const int64_t a = was(m, size, q, l), b = is(m, size, q, l);
        if (a == b) continue;
        moves = 1;
        if (a < m->n_clusters) steps[q * m->n_clusters + a] = -1;
        if (b < m->n_clusters) steps[q * m->n_clusters + b] = 1;
    }
    return moves || !m->before;
}

GPC_INLINE void add_steps(const void* codes, const int64_t code_size, int64_t stride,
                          const int64_t* offsets, int64_t first, int64_t last,
                          const int64_t* objects, int64_t number, const int16_t* steps,
                          int64_t width, int16_t* totals) {
    for (int64_t i = first; i < last; ++i) {
        const void* line = gpc_codes_at(codes, code_size, i * stride);
        int16_t* top = totals + (offsets[i] - offsets[first]) * width;
        for (int64_t t = 0; t < number; ++t) {
            int16_t* row = top + gpc_code(line, code_size, objects[t]) * width;
            const int16_t* step = steps + t * width;
            for (int64_t c = 0; c < width; c += (int64_t)(GPC_VECTOR / 2))
                *(gpc_shorts*)(row + c) += *(const gpc_shorts*)(step + c);
        }
    }
}

/* Bytes of scratch that gpc_count_rows needs. */
GPC_API int64_t gpc_count_rows_scratch(int64_t n_rows, int64_t columns) {
    return 2 * (n_rows + TILE) * padded(columns) + 8 * TILE;
}

/* Bring the counts of partitions first .. last - 1 from one assignment of n objects to
   another: all restarts of an object at once. scratch: aligned to 64 bytes. */
GPC_API void gpc_count_rows(const void* codes, int64_t code_size, int64_t stride,
                            const int64_t* offsets, int64_t first, int64_t last,
                            int64_t n_samples, const void* before, int64_t before_line,
                            const void* after, int64_t after_line, int64_t cluster_size,
                            int64_t n_restarts, int64_t n_clusters, int64_t* counts,
                            void* scratch) {
    const gpc_moves m = {before,       after,      before_line, after_line,
                         cluster_size, n_restarts, n_clusters};
    const int64_t columns = n_restarts * n_clusters, width = padded(columns);
    const int64_t base = offsets[first], n_rows = offsets[last] - base;
    int16_t *totals = scratch, *steps = totals + n_rows * width;
    int64_t* objects = (int64_t*)(void*)(steps + TILE * width);
    int64_t number = 0, since = 0;
    memset(scratch, 0, (size_t)((n_rows + TILE) * width * 2));
    for (int64_t l = 0; l < n_samples; ++l) {
        int16_t* step = steps + number * width;
        const int moves = cluster_size == 1 ? steps_of(&m, 1, l, step)
                                            : steps_of(&m, cluster_size, l, step);
        objects[number] = l;
        number += moves;
        if (number < TILE && l < n_samples - 1) continue;
        if (code_size == 1)
            add_steps(codes, 1, stride, offsets, first, last, objects, number, steps,
                      width, totals);
        else
            add_steps(codes, 2, stride, offsets, first, last, objects, number, steps,
                      width, totals);
        memset(steps, 0, (size_t)(number * width * 2));
        since += number;
        number = 0;
        if (since <= MOST && l < n_samples - 1) continue;
        for (int64_t row = 0; row < n_rows; ++row)
            for (int64_t c = 0; c < columns; ++c)
                counts[(base + row) * columns + c] += totals[row * width + c];
        memset(totals, 0, (size_t)(n_rows * width * 2));
        since = 0;
    }
}

/* Bytes of scratch that gpc_count_each needs. */
GPC_API int64_t gpc_count_each_scratch(void) { return 3 * 8 * BLOCK; }

GPC_INLINE void add_each(const void* codes, const int64_t code_size, int64_t stride,
                         const int64_t* offsets, int64_t first, int64_t last,
                         const int64_t* objects, const int64_t* leave,
                         const int64_t* enter, int64_t number, int64_t columns,
                         int64_t* counts) {
    for (int64_t i = first; i < last; ++i) {
        const void* line = gpc_codes_at(codes, code_size, i * stride);
        int64_t* top = counts + offsets[i] * columns;
        for (int64_t p = 0; p < number; ++p) {
            int64_t* row = top + gpc_code(line, code_size, objects[p]) * columns;
            if (leave[p] >= 0) --row[leave[p]];
            if (enter[p] >= 0) ++row[enter[p]];
        }
    }
}

GPC_INLINE int64_t list_moves(const gpc_moves* m, int64_t size, int64_t q,
                              int64_t start, int64_t stop, int64_t* objects,
                              int64_t* leave, int64_t* enter, int64_t number) {
    const int64_t column = q * m->n_clusters;
    int64_t differ = !m->before;
    for (int64_t l = start; l < stop; ++l)
        differ += was(m, size, q, l) != is(m, size, q, l);
    if (!differ) return number;
    for (int64_t l = start; l < stop; ++l) {
        const int64_t a = was(m, size, q, l), b = is(m, size, q, l);
        objects[number] = l;
        leave[number] = a < m->n_clusters ? column + a : -1;
        enter[number] = b < m->n_clusters ? column + b : -1;
        number += a != b;
    }
    return number;
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
    int64_t *objects = scratch, *leave = objects + BLOCK, *enter = leave + BLOCK;
    int64_t number = 0;
    for (int64_t q = 0; q < n_restarts; ++q)
        for (int64_t start = 0; start < n_samples; start += LOOK) {
            const int64_t stop = gpc_min(start + LOOK, n_samples);
            if (cluster_size == 1)
                number =
                    list_moves(&m, 1, q, start, stop, objects, leave, enter, number);
            else
                number = list_moves(&m, cluster_size, q, start, stop, objects, leave,
                                    enter, number);
            const int is_last = q == n_restarts - 1 && stop == n_samples;
            if (number <= BLOCK - LOOK && !is_last) continue;
            if (code_size == 1)
                add_each(codes, 1, stride, offsets, first, last, objects, leave, enter,
                         number, n_restarts * n_clusters, counts);
            else
                add_each(codes, 2, stride, offsets, first, last, objects, leave, enter,
                         number, n_restarts * n_clusters, counts);
            number = 0;
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
