/* Cases of loops of the host: sweeps and climbs, of which each is a call of its own. */
#include "driver.h"

enum { EQUAL_WEIGHTS, SHARES };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* One restart: state and sums of the first line of an assignment. */
static int prepare_sweep(world* w) {
    const int64_t r = w->s.n_partitions, n = w->s.n_samples,
                  n_clusters = w->s.n_clusters;
    w->s.n_restarts = 1;
    w->columns = n_clusters;
    if (w->variant == EQUAL_WEIGHTS) {
        w->weights = input(w, (size_t)r * 8);
        for (int64_t i = 0; i < r; ++i) w->weights[i] = 1.0;
    } else {
        w->weights = make_doubles(w, r, 1000, 0.001);
    }
    w->marginal_share = make_doubles(w, w->n_rows, 100, 0.01);
    char* start = make_assignment(w, 40);
    int64_t* counts = make_counts(w, start);
    int64_t* sizes = input(w, (size_t)(r * n_clusters) * 8);
    int64_t* members = input(w, (size_t)n_clusters * 8);
    for (int64_t l = 0; l < n; ++l)
        if (cluster_at(w, start, 0, l) < n_clusters)
            ++members[cluster_at(w, start, 0, l)];
    for (int64_t i = 0; i < r; ++i)
        for (int64_t row = w->offsets[i]; row < w->offsets[i + 1] - 1; ++row)
            for (int64_t k = 0; k < n_clusters; ++k)
                sizes[i * n_clusters + k] += counts[row * n_clusters + k];
    w->assignment = output_copy(w, start, (size_t)(n * w->cluster_size));
    w->counts = output_copy(w, counts, (size_t)(w->n_rows * n_clusters) * 8);
    w->sizes = output_copy(w, sizes, (size_t)(r * n_clusters) * 8);
    w->members = output_copy(w, members, (size_t)n_clusters * 8);
    w->found = output(w, 8, 0);
    return 1;
}

static int64_t sweep_room(const world* w) { return 8 * w->s.n_clusters; }

static void sweep_part(world* w, int64_t begin, int64_t end, char* scratch) {
    (void)begin, (void)end;
    w->found[0] =
        gpc_sweep(w->codes, w->code_size, w->stride, w->offsets, w->s.n_partitions,
                  w->s.n_samples, w->weights, w->marginal_share,
                  w->variant == EQUAL_WEIGHTS, w->assignment, w->cluster_size,
                  w->s.n_clusters, w->counts, w->sizes, w->members, scratch);
}

static int64_t sweep_lookups(const world* w) {
    return w->s.n_samples * w->s.n_partitions * w->s.n_clusters;
}

/* Climbs of at most 150 objects: codes without gaps, or stored similarities of one or
   two bytes. */
enum { FROM_CODES, STORED_8, STORED_16, SLOTS = 1024, CLIMBS = 24 };

static int prepare_climb(world* w) {
    const int64_t n = smaller(w->s.n_samples, 150), r = w->s.n_partitions;
    if (n == 0 || (w->variant == STORED_8 && r > 255)) return 0;
    w->n_left = n;
    uint8_t* tight = input(w, (size_t)(r * n * w->code_size));
    w->own_labels = input(w, (size_t)n * 4);
    for (int64_t i = 0; i < r; ++i)
        for (int64_t l = 0; l < n; ++l) {
            const int64_t code = code_at(w, i, l);
            if (w->code_size == 1)
                tight[i * n + l] = (uint8_t)code;
            else
                ((uint16_t*)(void*)tight)[i * n + l] = (uint16_t)code;
            w->own_labels[l] += code < w->n_labels[i];
        }
    w->left = tight;
    w->similarity_size = w->variant;
    if (w->variant != FROM_CODES) {
        w->similarity = input(w, (size_t)(n * n * w->variant));
        for (int64_t a = 0; a < n; ++a)
            for (int64_t b = 0; b < n; ++b) {
                int64_t shared = 0;
                for (int64_t i = 0; i < r; ++i)
                    shared += code_at(w, i, a) == code_at(w, i, b) &&
                              code_at(w, i, a) < w->n_labels[i];
                if (w->variant == STORED_8)
                    ((uint8_t*)w->similarity)[a * n + b] = (uint8_t)shared;
                else
                    ((uint16_t*)w->similarity)[a * n + b] = (uint16_t)shared;
            }
    }
    w->marks = input(w, (size_t)n * 8);
    for (int64_t l = 0; l < n; ++l) w->marks[l] = next_bits(w);
    w->found = output(w, (size_t)(smaller(n, CLIMBS) * 8) * 8, 0);
    w->sets = output(w, (size_t)(smaller(n, CLIMBS) * n), 0xa5);
    return 1;
}

static int64_t climbs_of(const world* w) { return smaller(w->n_left, CLIMBS); }

static int64_t climb_room(const world* w) { return SLOTS * 16 + w->n_left * 6 + 64; }

/* Every start climbs with a memory of its own, and then its neighbour with the same:
   the second may join the first, and no range knows of another. */
static void climb_part(world* w, int64_t begin, int64_t end, char* scratch) {
    uint64_t* keys = (uint64_t*)(void*)scratch;
    int32_t* visitor = (int32_t*)(void*)(keys + SLOTS);
    int32_t* near = visitor + 2 * SLOTS;
    uint16_t* row = (uint16_t*)(void*)(near + w->n_left);
    for (int64_t at = begin; at < end; ++at) {
        memset(keys, 0, SLOTS * 8);
        for (int64_t second = 0; second < 2; ++second)
            gpc_climb(w->left, w->code_size, w->s.n_partitions, w->n_left, w->n_labels,
                      w->similarity, w->similarity_size, w->own_labels, w->marks,
                      (at + second) % w->n_left, at, w->s.n_partitions, (int64_t)2,
                      keys, (int64_t)SLOTS, visitor, near, row,
                      w->sets + at * w->n_left, w->found + 8 * at + 4 * second);
    }
}

/* flips, of which the first is the start, and objects; and partitions where it reads
   codes */
static int64_t climb_lookups(const world* w) {
    int64_t flips = 0;
    for (int64_t at = 0; at < 2 * climbs_of(w); ++at) flips += w->found[4 * at + 1] + 1;
    return flips * w->n_left * (w->variant == FROM_CODES ? w->s.n_partitions : 1);
}

/* A graph of at most 80 vertices whose weights are small. */
static int prepare_tilo(world* w) {
    const int64_t n = smaller(w->s.n_samples < 2 ? 2 : w->s.n_samples, 80);
    w->n_left = n;
    w->graph = input(w, (size_t)(n * n) * 8);
    w->degree = input(w, (size_t)n * 8);
    for (int64_t a = 0; a < n; ++a)
        for (int64_t b = 0; b < a; ++b)
            w->graph[a * n + b] = w->graph[b * n + a] = below(w, 4);
    for (int64_t a = 0; a < n; ++a)
        for (int64_t b = 0; b < n; ++b) w->degree[a] += w->graph[a * n + b];
    int64_t* order = input(w, (size_t)n * 8);
    int64_t* left = input(w, (size_t)n * 8);
    int64_t* boundary = input(w, (size_t)n * 8);
    for (int64_t p = 0; p < n; ++p) order[p] = p;
    for (int64_t p = n - 1; p > 0; --p) {
        const int64_t other = below(w, p + 1), kept = order[p];
        order[p] = order[other];
        order[other] = kept;
    }
    int64_t sum = 0;
    for (int64_t p = 0; p < n; ++p) {
        const int64_t vertex = order[p];
        for (int64_t before = 0; before < p; ++before)
            left[vertex] += w->graph[vertex * n + order[before]];
        sum += w->degree[vertex] - 2 * left[vertex];
        boundary[p] = sum;
    }
    w->order = output_copy(w, order, (size_t)n * 8);
    w->left_sums = output_copy(w, left, (size_t)n * 8);
    w->boundary = output_copy(w, boundary, (size_t)n * 8);
    w->moves = output(w, (size_t)n * 16, 0xa5);
    w->found = output(w, 8, 0);
    return 1;
}

static void tilo_part(world* w, int64_t begin, int64_t end, char* scratch) {
    (void)begin, (void)end, (void)scratch;
    w->found[0] = gpc_tilo_sweep(w->graph, w->n_left, w->degree, w->order, w->left_sums,
                                 w->boundary, w->n_left, w->moves);
}

static int64_t tilo_lookups(const world* w) { return w->n_left; }

#define CLIMB(label, variant, lookup)                                           \
    {"climb", label, variant, prepare_climb, climbs_of, climb_room, climb_part, \
     NULL,    4,     0,       climb_lookups, lookup}
#define SWEEP(label, variant)                           \
    {"sweep", label,      variant,       prepare_sweep, \
     one,     sweep_room, sweep_part,    NULL,          \
     0,       0,          sweep_lookups, "object, partition and cluster"}

const kernel_case loop_cases[] = {
    SWEEP("equal-weights", EQUAL_WEIGHTS),
    SWEEP("shares", SHARES),
    CLIMB("from-codes", FROM_CODES, "flip, object and partition"),
    CLIMB("stored-8", STORED_8, "flip and object"),
    CLIMB("stored-16", STORED_16, "flip and object"),
    {"tilo_sweep", "plain", 0, prepare_tilo, one, nothing, tilo_part, NULL, 0, 0,
     tilo_lookups, "vertex"},
    {0}};
