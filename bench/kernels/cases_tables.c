/* Cases of what makes tables and sums from counts. */
#include "driver.h"

static int prepare_sums(world* w) {
    w->counts = make_counts(w, make_assignment(w, 20));
    make_marginals(w);
    const size_t size = (size_t)(w->s.n_partitions * w->columns) * 8;
    for (int x = 0; x < 4; ++x) w->sums[x] = output(w, size, 0xa5);
    if (w->variant) w->entropy = output(w, size, 0xa5);
    return 1;
}

static void sums_part(world* w, int64_t first, int64_t last, char* scratch) {
    (void)scratch;
    gpc_label_sums(w->counts, w->columns, w->offsets, w->marginals, first, last,
                   w->sums[0], w->sums[1], w->sums[2], w->sums[3], w->entropy);
}

/* utilities by their number in table.c */
enum { LP = 3, SEC = 6, SEC_ROW = 7, H_SMOOTH = 8 };

static int prepare_table(world* w) {
    w->counts = make_counts(w, make_assignment(w, 20));
    make_marginals(w);
    w->weights = make_doubles(w, w->s.n_partitions, 1000, 0.001);
    if (w->variant == LP || w->variant == SEC || w->variant == SEC_ROW)
        w->norm = make_doubles(w, w->s.n_partitions * w->columns, 500, 1.0);
    w->enter = output(w, (size_t)(w->n_rows * w->width) * 4, 0xa5);
    return 1;
}

static int64_t table_room(const world* w) { return gpc_table_scratch(w->columns); }

static void table_part(world* w, int64_t first, int64_t last, char* scratch) {
    gpc_table(w->variant, w->counts, w->offsets, w->marginals, w->weights, w->norm,
              w->variant == LP ? 5 : 0, w->s.n_restarts, w->s.n_clusters, first, last,
              w->enter, w->width, scratch);
}

/* the rises need no true logarithm: the kernel only looks them up */
static int prepare_prices(world* w) {
    w->counts = make_counts(w, make_assignment(w, 20));
    w->weights = make_doubles(w, w->s.n_partitions, 1000, 0.001);
    w->rises = make_doubles(w, w->s.n_samples + 1, 1 << 20, 0.0001);
    w->enter = output(w, (size_t)(w->n_rows * w->width) * 4, 0);
    w->stay = output(w, (size_t)(w->n_rows * w->width) * 4, 0);
    return 1;
}

static int64_t prices_room(const world* w) { return gpc_prices_scratch(w->columns); }

static void prices_part(world* w, int64_t first, int64_t last, char* scratch) {
    gpc_prices(w->variant, w->counts, w->offsets, w->weights, 0.75, w->rises,
               w->s.n_restarts, w->s.n_clusters, first, last, w->enter, w->stay,
               w->width, scratch);
}

#define ENTRY "entry of the table"
#define TABLE(label, variant)                                                       \
    {"table", label, variant, prepare_table, partitions_of, table_room, table_part, \
     NULL,    4,     0,       every_entry,   ENTRY}
#define PRICES(label, variant) \
    {                          \
        "prices",              \
        label,                 \
        variant,               \
        prepare_prices,        \
        partitions_of,         \
        prices_room,           \
        prices_part,           \
        NULL,                  \
        4,                     \
        0,                     \
        every_entry,           \
        ENTRY}

const kernel_case table_cases[] = {
    {"label_sums", "plain", 0, prepare_sums, partitions_of, nothing, sums_part, NULL, 4,
     0, every_entry, "count"},
    {"label_sums", "entropy", 1, prepare_sums, partitions_of, nothing, sums_part, NULL,
     4, 0, every_entry, "count"},
    TABLE("c", 0),
    TABLE("h", 1),
    TABLE("cos", 2),
    TABLE("l5", LP),
    TABLE("ivc", 4),
    TABLE("ipvc", 5),
    TABLE("sec", SEC),
    TABLE("sec-row", SEC_ROW),
    TABLE("h-smooth", H_SMOOTH),
    PRICES("c", 0),
    PRICES("h", 1),
    PRICES("cos", 2),
    {0}};
