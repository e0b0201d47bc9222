/* Cases of what counts objects by label and cluster, or pairs of them. */
#include "driver.h"

#define CODES w->codes, w->code_size, w->stride, w->offsets
#define CLUSTERS w->s.n_restarts, w->s.n_clusters
#define MOVES \
    w->before, w->before ? w->line : 0, w->after, w->line, w->cluster_size, CLUSTERS

enum { ALL, SOME, FEW };

/* all objects are new, half of them move, or a few */
static int prepare_moves(world* w) {
    w->after = make_assignment(w, 10);
    if (w->variant == SOME) w->before = make_assignment(w, 50);
    if (w->variant == FEW) w->before = make_assignment(w, 2);
    return 1;
}

static int prepare_count(world* w) {
    prepare_moves(w);
    w->counts = output(w, (size_t)(w->n_rows * w->columns) * 8, 0);
    return 1;
}

enum { SIDE = 16 /* restarts that are counted side by side */, TAKEN_AWAY = 1 };

static int64_t side_of(const world* w, int64_t q) {
    const int64_t left = w->s.n_restarts - q;
    return left < SIDE ? left : SIDE;
}

static uint8_t* packed_from(const world* w, int64_t q) {
    return w->packed + q * w->s.n_samples; /* SIDE bytes for SIDE restarts */
}

static size_t packed_size(const world* w) {
    return (size_t)((w->s.n_restarts + SIDE - 1) / SIDE * SIDE * w->s.n_samples);
}

static int prepare_pack(world* w) {
    if (w->s.n_clusters > 255) return 0; /* names of clusters are bytes */
    w->after = make_assignment(w, 10);
    w->packed = output(w, packed_size(w), 0xa5);
    return 1;
}

static void pack_part(world* w, int64_t begin, int64_t end, char* scratch) {
    (void)scratch;
    for (int64_t q = 0; q < w->s.n_restarts; q += SIDE)
        gpc_pack_clusters(w->after + q * w->line * w->cluster_size, w->line,
                          w->cluster_size, side_of(w, q), begin, end,
                          packed_from(w, q));
}

static int prepare_rows(world* w) {
    if (w->s.n_clusters > 255) return 0;
    w->after = make_assignment(w, 10);
    w->packed = input(w, packed_size(w));
    pack_part(w, 0, w->s.n_samples, NULL);
    w->counts = output(w, (size_t)(w->n_rows * w->columns) * 8, 0);
    return 1;
}

static int64_t most_rows(const world* w) {
    int64_t most = 0;
    for (int64_t i = 0; i < w->s.n_partitions; ++i)
        if (w->n_labels[i] >= most) most = w->n_labels[i] + 1;
    return most;
}

static int64_t rows_room(const world* w) {
    return gpc_count_rows_scratch(most_rows(w), side_of(w, 0), w->s.n_clusters);
}

static void rows_part(world* w, int64_t first, int64_t last, char* scratch) {
    const int64_t n_clusters = w->s.n_clusters;
    for (int64_t q = 0; q < w->s.n_restarts; q += SIDE)
        gpc_count_rows(CODES, first, last, w->s.n_samples, packed_from(w, q),
                       side_of(w, q), n_clusters, w->variant == TAKEN_AWAY ? -1 : 1,
                       w->counts + q * n_clusters, w->columns, scratch);
}

static int64_t each_room(const world* w) {
    return gpc_count_each_scratch(w->s.n_restarts, w->s.n_clusters);
}

static void each_part(world* w, int64_t first, int64_t last, char* scratch) {
    gpc_count_each(CODES, first, last, w->s.n_samples, MOVES, w->counts, scratch);
}

static int prepare_absent(world* w) {
    prepare_moves(w);
    w->weight = input(w, (size_t)w->s.n_samples * 8);
    for (int64_t l = 0; l < w->s.n_samples; ++l) w->weight[l] = 1 + below(w, 1 << 30);
    w->total = output(w, (size_t)(w->s.n_partitions * w->columns) * 8, 0);
    return 1;
}

static void absent_part(world* w, int64_t first, int64_t last, char* scratch) {
    gpc_count_absent(CODES, first, last, w->s.n_samples, MOVES, w->weight, w->total,
                     scratch);
}

static int prepare_found(world* w) {
    prepare_moves(w);
    w->found = output(w, (size_t)(w->s.n_samples + 1) * 8, 0);
    return 1;
}

static void moves_part(world* w, int64_t begin, int64_t end, char* scratch) {
    (void)scratch;
    w->found[begin] = gpc_count_moves(MOVES, begin, end);
}

static void sum_found(world* w) {
    for (int64_t l = 1; l <= w->s.n_samples; ++l) {
        w->found[0] += w->found[l];
        w->found[l] = 0;
    }
}

static int64_t moves_lookups(const world* w) {
    return w->s.n_samples * w->s.n_restarts;
}

static int64_t soft_width(const world* w) { return (w->columns + 7) / 8 * 8; }

static int prepare_soft(world* w) {
    w->shares = make_doubles(w, w->s.n_samples * w->columns, 1000, 0.001);
    w->counts = output(w, (size_t)(w->n_rows * soft_width(w)) * 8, 0);
    return 1;
}

static int64_t soft_room(const world* w) {
    return gpc_soft_count_scratch(soft_width(w));
}

static void soft_part(world* w, int64_t first, int64_t last, char* scratch) {
    gpc_soft_count(CODES, first, last, w->s.n_samples, w->shares, w->columns, w->counts,
                   soft_width(w), scratch);
}

/* `number` objects from one on, codes without gaps */
static void* some_codes(world* w, int64_t first, int64_t number) {
    const int64_t r = w->s.n_partitions;
    uint8_t* made = input(w, (size_t)(r * number * w->code_size));
    for (int64_t i = 0; i < r; ++i)
        for (int64_t l = 0; l < number; ++l) {
            int64_t code = code_at(w, i, first + l);
            if (w->variant == 1 && code == w->n_labels[i]) code = 0;
            if (w->code_size == 1)
                made[i * number + l] = (uint8_t)code;
            else
                ((uint16_t*)(void*)made)[i * number + l] = (uint16_t)code;
        }
    return made;
}

static int prepare_pairs(world* w) {
    const int64_t n = w->s.n_samples;
    w->n_left = n < 60 ? n : 60;
    w->n_right = n < 2333 ? n : 2333;
    w->left = some_codes(w, n - w->n_left, w->n_left);
    w->right = some_codes(w, 0, w->n_right);
    w->same = output(w, (size_t)(w->n_left * w->n_right) * 4, 0);
    w->both = output(w, (size_t)(w->n_left * w->n_right) * 4, 0);
    return 1;
}

static int64_t left_of(const world* w) { return w->n_left; }

static void pairs_part(world* w, int64_t begin, int64_t end, char* scratch) {
    (void)scratch;
    gpc_pairs(w->left, w->n_left, w->right, w->n_right, w->code_size, w->n_labels,
              w->s.n_partitions, w->variant, begin, end, w->same, w->both);
}

static int64_t pairs_lookups(const world* w) {
    return w->n_left * w->n_right * w->s.n_partitions;
}

#define STEP "object, partition and restart"
#define COUNT(name, label, variant, prepare, room, part) \
    {name, label, variant, prepare, partitions_of, room, \
     part, NULL,  1,       0,       every_restart, STEP}
#define FOUND(label, variant) \
    {"count_moves",           \
     label,                   \
     variant,                 \
     prepare_found,           \
     objects_of,              \
     nothing,                 \
     moves_part,              \
     sum_found,               \
     1,                       \
     1,                       \
     moves_lookups,           \
     "object and restart"}

const kernel_case count_cases[] = {
    {"pack_clusters", "plain", 0, prepare_pack, objects_of, nothing, pack_part, NULL, 1,
     1, moves_lookups, "object and restart"},
    COUNT("count_rows", "all", 0, prepare_rows, rows_room, rows_part),
    COUNT("count_rows", "taken-away", TAKEN_AWAY, prepare_rows, rows_room, rows_part),
    COUNT("count_each", "all", ALL, prepare_count, each_room, each_part),
    COUNT("count_each", "half-moved", SOME, prepare_count, each_room, each_part),
    COUNT("count_each", "few-moved", FEW, prepare_count, each_room, each_part),
    COUNT("count_absent", "all", ALL, prepare_absent, each_room, absent_part),
    COUNT("count_absent", "half-moved", SOME, prepare_absent, each_room, absent_part),
    FOUND("all", ALL),
    FOUND("half-moved", SOME),
    FOUND("few-moved", FEW),
    {"soft_count", "plain", 0, prepare_soft, partitions_of, soft_room, soft_part, NULL,
     1, 0, every_column, "object, partition and column"},
    {"pairs", "some-missing", 0, prepare_pairs, left_of, nothing, pairs_part, NULL, 4,
     0, pairs_lookups, "pair and partition"},
    {"pairs", "complete", 1, prepare_pairs, left_of, nothing, pairs_part, NULL, 4, 0,
     pairs_lookups, "pair and partition"},
    {0}};
