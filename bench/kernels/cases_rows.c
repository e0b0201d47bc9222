/* Cases of what adds up rows of a table for every object. */
#include "driver.h"

#define CODES w->codes, w->code_size, w->stride, w->offsets
#define CLUSTERS w->s.n_restarts, w->s.n_clusters

static size_t per_object(const world* w, size_t size) {
    return (size_t)(w->s.n_restarts * w->s.n_samples) * size;
}

enum { PLAIN, SCORES, ROW_TABLE, ROW_SUM, OWN };

static int prepare_assign(world* w) {
    const int64_t n = w->s.n_samples;
    w->table = make_table(w);
    w->line = n;
    w->assignment = output(w, per_object(w, (size_t)w->cluster_size), 0xa5);
    if (w->variant == SCORES || w->variant == OWN)
        w->best = output(w, per_object(w, 4), 0xa5);
    if (w->variant == SCORES) w->gaps = output(w, per_object(w, 4), 0xa5);
    if (w->variant == ROW_TABLE || w->variant == ROW_SUM) {
        w->row_weight = input(w, (size_t)n * 4);
        for (int64_t l = 0; l < n; ++l) w->row_weight[l] = (float)(1 + below(w, 900));
        if (w->variant == ROW_TABLE) w->row_table = make_table(w);
    }
    if (w->variant == ROW_SUM) {
        w->row_sum = input(w, (size_t)w->width * 4);
        for (int64_t c = 0; c < w->columns; ++c)
            w->row_sum[c] = (float)below(w, 100) / 9.0f;
    }
    if (w->variant == OWN) {
        const int64_t gap = w->s.gap;
        w->s.gap = 0; /* the backend hands over lines without gaps */
        w->own = make_assignment(w, 20);
        w->s.gap = gap;
        w->price = input(w, per_object(w, 4));
        for (int64_t at = 0; at < n * w->s.n_restarts; ++at)
            w->price[at] = -(float)below(w, 10 * w->s.n_partitions) / 3.0f;
    }
    return 1;
}

static int64_t assign_room(const world* w) {
    return gpc_assign_scratch(w->width, w->n_rows);
}

static void assign_part(world* w, int64_t begin, int64_t end, char* scratch) {
    gpc_assign(CODES, w->s.n_partitions, w->table, w->width, w->row_table, w->row_sum,
               w->row_weight, CLUSTERS, begin, end, w->assignment, w->cluster_size,
               w->line, w->best, w->gaps, w->own, w->price, scratch);
}

static int prepare_own(world* w) {
    const int64_t gap = w->s.gap;
    w->table = make_table(w);
    w->line = w->s.n_samples;
    w->s.gap = 0;
    w->own = make_assignment(w, 20);
    w->s.gap = gap;
    w->best = output(w, per_object(w, 4), 0xa5);
    return 1;
}

static void own_part(world* w, int64_t begin, int64_t end, char* scratch) {
    (void)scratch;
    gpc_own_scores(CODES, w->s.n_partitions, w->table, w->width, CLUSTERS, begin, end,
                   w->own, w->cluster_size, w->line, w->best);
}

static int64_t wide_of(const world* w) { return (w->columns + 15) / 16 * 16; }

static int prepare_scores(world* w) {
    const int64_t width = wide_of(w);
    w->wide_table = make_doubles(w, w->n_rows * width, 1 << 20, 0.001);
    w->scores = output(w, (size_t)(w->s.n_samples * w->columns) * 8, 0xa5);
    return 1;
}

static int64_t scores_room(const world* w) {
    return gpc_scores_scratch(wide_of(w), w->n_rows);
}

static void scores_part(world* w, int64_t begin, int64_t end, char* scratch) {
    gpc_scores(CODES, w->s.n_partitions, w->wide_table, wide_of(w), w->columns, begin,
               end, w->scores, scratch);
}

#define COLUMN "object, partition and column"
#define ASSIGN(label, variant)                                                       \
    {"assign", label, variant, prepare_assign, objects_of, assign_room, assign_part, \
     NULL,     4,     0,       every_column,   COLUMN}

const kernel_case row_cases[] = {
    ASSIGN("plain", PLAIN),
    ASSIGN("best-and-gap", SCORES),
    ASSIGN("row-table", ROW_TABLE),
    ASSIGN("row-sum", ROW_SUM),
    ASSIGN("own-price", OWN),
    {"own_scores", "plain", 0, prepare_own, objects_of, nothing, own_part, NULL, 4, 0,
     every_restart, "object, partition and restart"},
    {"scores", "plain", 0, prepare_scores, objects_of, scores_room, scores_part, NULL,
     4, 0, every_column, COLUMN},
    {0}};
