/* Cases of what adds shares of objects up: the E step, votes, and pairs of clusters.

   Sums over objects are whole numbers. Where the range is not all objects, they are
   made in memory of its own and added, as the backend does it thread by thread. */
#include "driver.h"

enum { MOST_COLUMNS = 12 };
enum { SHARES, COUNTS };        /* of the E step */
enum { BOTH, VOTES, QUESTION }; /* of a round of votes */

static int is_all(const world* w, int64_t begin, int64_t end) {
    return begin == 0 && end == w->s.n_samples;
}

static void add_up(int64_t* to, const int64_t* from, int64_t number) {
    for (int64_t at = 0; at < number; ++at)
        __atomic_fetch_add(to + at, from[at], __ATOMIC_RELAXED);
}

static int64_t sum_width(const world* w) { return (w->columns + 15) / 16 * 16; }

/* logarithms, down to where shares are 0 */
static double* make_logarithms(world* w, int64_t number) {
    double* made = input(w, (size_t)number * 8);
    for (int64_t at = 0; at < number; ++at)
        made[at] = -(double)below(w, 1 << 20) * 0x1p-15;
    return made;
}

static int prepare_expect(world* w) {
    const int64_t n = w->s.n_samples, n_restarts = w->s.n_restarts;
    w->wide_table = make_logarithms(w, w->n_rows * sum_width(w));
    w->alpha = make_logarithms(w, w->columns);
    if (w->variant == SHARES) {
        w->scores = output(w, (size_t)(n * w->columns) * 8, 0xa5);
        w->likeliest = output(w, (size_t)(n * n_restarts) * 8, 0xa5);
    } else {
        w->counts = output(w, (size_t)(w->n_rows * sum_width(w)) * 8, 0);
        w->found = output(w, (size_t)(2 * n_restarts) * 8, 0);
    }
    return 1;
}

static int64_t expect_scratch(const world* w) {
    const int64_t room = gpc_expect_scratch(sum_width(w), w->n_rows, w->s.n_clusters);
    return (room + 7) / 8 * 8;
}

static int64_t expect_sums(const world* w) {
    return w->n_rows * sum_width(w) + 2 * w->s.n_restarts;
}

static int64_t expect_room(const world* w) {
    return expect_scratch(w) + 8 * expect_sums(w);
}

static void expect_part(world* w, int64_t begin, int64_t end, char* scratch) {
    const int64_t number = w->n_rows * sum_width(w);
    const int apart = w->variant == COUNTS && !is_all(w, begin, end);
    int64_t *counts = w->counts, *halves = w->found;
    if (apart) {
        counts = (int64_t*)(void*)(scratch + expect_scratch(w));
        halves = counts + number;
        memset(counts, 0, (size_t)expect_sums(w) * 8);
    }
    gpc_expect(w->codes, w->code_size, w->stride, w->offsets, w->s.n_partitions,
               w->wide_table, sum_width(w), w->alpha, w->s.n_restarts, w->s.n_clusters,
               begin, end, counts, halves, w->scores, w->likeliest, scratch);
    if (!apart) return;
    add_up(w->counts, counts, number);
    add_up(w->found, halves, 2 * w->s.n_restarts);
}

/* Votes of the labels of the first partition, asked for by those of the last. */
static int64_t vote_sums(const world* w) {
    return (w->n_labels[w->s.n_partitions - 1] + 1) * w->s.n_clusters;
}

static int prepare_votes(world* w) {
    const int64_t n = w->s.n_samples, size = n * w->s.n_clusters;
    w->weights = input(w, (size_t)n * 8);
    for (int64_t l = 0; l < n; ++l) w->weights[l] = (double)below(w, 6);
    w->wide_table = make_doubles(w, (w->n_labels[0] + 1) * w->s.n_clusters, 1000, 1e-3);
    double* votes = make_doubles(w, size, 1000, 1e-3);
    w->votes = output_copy(w, votes, (size_t)size * 8);
    w->found = output(w, (size_t)vote_sums(w) * 8, 0);
    return 1;
}

static int64_t votes_room(const world* w) { return 8 * vote_sums(w); }

static void votes_part(world* w, int64_t begin, int64_t end, char* scratch) {
    char* last = w->codes + (w->s.n_partitions - 1) * w->stride * w->code_size;
    int64_t* sums = w->found;
    if (!is_all(w, begin, end)) {
        sums = (int64_t*)(void*)scratch;
        memset(sums, 0, (size_t)vote_sums(w) * 8);
    }
    gpc_vote_round(w->votes, w->s.n_clusters, w->weights,
                   w->variant == QUESTION ? NULL : w->codes, w->code_size,
                   w->wide_table, w->variant == VOTES ? NULL : last, w->code_size,
                   begin, end, sums);
    if (sums != w->found) add_up(w->found, sums, vote_sums(w));
}

static int64_t votes_lookups(const world* w) {
    return w->s.n_samples * w->s.n_clusters;
}

/* every two of a few columns, and a column with itself */
static int64_t few_columns(const world* w) {
    return w->s.n_clusters < MOST_COLUMNS ? w->s.n_clusters : MOST_COLUMNS;
}

static int64_t n_pairs(const world* w) {
    return few_columns(w) * (few_columns(w) + 1) / 2;
}

static int prepare_pairs(world* w) {
    w->shares = make_doubles(w, few_columns(w) * w->s.n_samples, 1001, 1e-3);
    for (int64_t at = 0; at < few_columns(w) * w->s.n_samples; at += 7)
        w->shares[at] = 0; /* whose logarithm is none */
    w->pairs = input(w, (size_t)n_pairs(w) * 16);
    for (int64_t a = 0, at = 0; a < few_columns(w); ++a)
        for (int64_t b = a; b < few_columns(w); ++b) {
            w->pairs[at++] = a;
            w->pairs[at++] = b;
        }
    w->found = output(w, (size_t)n_pairs(w) * 8, 0);
    return 1;
}

static int64_t pairs_room(const world* w) { return 8 * n_pairs(w); }

static void pairs_part(world* w, int64_t begin, int64_t end, char* scratch) {
    int64_t* sums = w->found;
    if (!is_all(w, begin, end)) {
        sums = (int64_t*)(void*)scratch;
        memset(sums, 0, (size_t)n_pairs(w) * 8);
    }
    gpc_pair_sums(w->shares, w->s.n_samples, w->pairs, n_pairs(w), begin, end, sums);
    if (sums != w->found) add_up(w->found, sums, n_pairs(w));
}

static int64_t pairs_lookups(const world* w) { return w->s.n_samples * n_pairs(w); }

#define EXPECT(label, variant, apart)                       \
    {"expect",   label,       variant,      prepare_expect, \
     objects_of, expect_room, expect_part,  NULL,           \
     4,          apart,       every_column, "object, partition and column"}
#define VOTE(label, variant) \
    {"vote_round",           \
     label,                  \
     variant,                \
     prepare_votes,          \
     objects_of,             \
     votes_room,             \
     votes_part,             \
     NULL,                   \
     1,                      \
     0,                      \
     votes_lookups,          \
     "object and cluster"}

const kernel_case sum_cases[] = {
    EXPECT("shares", SHARES, 0),
    EXPECT("counts", COUNTS, 1),
    VOTE("votes-and-sums", BOTH),
    VOTE("votes", VOTES),
    VOTE("sums", QUESTION),
    {"pair_sums", "plain", 0, prepare_pairs, objects_of, pairs_room, pairs_part, NULL,
     4, 1, pairs_lookups, "object and pair"},
    {0}};
