/* Cases of k-means: points around one centre for each cluster, some of them equal. */
#include "driver.h"

enum { DOUBLE = 1, COSINE = 2, CAREFUL = 4 }; /* bits of a variant */
enum { MOST_FEATURES = 50, CANDIDATES = 3, ROUNDS = 4 };

static void set_number(const world* w, void* numbers, int64_t at, double value) {
    if (w->number_size == 4)
        ((float*)numbers)[at] = (float)value;
    else
        ((double*)numbers)[at] = value;
}

/* a coordinate of a point near the centre of a cluster */
static double coordinate(world* w, int64_t k, int64_t j) {
    return (double)((k * 31 + j * 17) % 23) + (double)(below(w, 2001) - 1000) / 300.0;
}

/* Points (n, d), of which every ninth equals the one before and every tenth is never
   drawn and moves no centroid. */
static void make_points(world* w) {
    const int64_t n = w->s.n_samples, r = w->s.n_partitions;
    w->number_size = w->variant & DOUBLE ? 8 : 4;
    const int64_t d = w->n_features = r < MOST_FEATURES ? r : MOST_FEATURES;
    w->points = input(w, (size_t)(n * d * w->number_size));
    w->fits = input(w, (size_t)(n * w->number_size));
    for (int64_t l = 0; l < n; ++l) {
        const int64_t bytes = d * w->number_size;
        char* mine = (char*)w->points + l * bytes;
        for (int64_t j = 0; j < d; ++j)
            set_number(w, mine, j, coordinate(w, w->truth[l], j));
        if (l % 9 == 8) memcpy(mine, mine - bytes, (size_t)bytes);
        set_number(w, w->fits, l, l % 10 == 9 ? __builtin_inf() : 1e-4);
    }
}

/* numbers of centroids for so many starts */
static int64_t places(const world* w, int64_t n_starts) {
    return n_starts * w->s.n_clusters * w->n_features;
}

static void* make_centroids(world* w, int64_t n_starts) {
    char* made = input(w, (size_t)(places(w, n_starts) * w->number_size));
    for (int64_t at = 0; at < places(w, n_starts); ++at)
        set_number(
            w, made, at,
            coordinate(w, at / w->n_features % w->s.n_clusters, at % w->n_features));
    return made;
}

static int prepare_nearest(world* w) {
    make_points(w);
    w->centroids = make_centroids(w, 1);
    w->nearest = output(w, (size_t)w->s.n_samples * 4, 0xa5);
    return 1;
}

static int64_t nearest_room(const world* w) {
    return gpc_kmeans_nearest_scratch(w->number_size, w->n_features, w->s.n_clusters);
}

static void nearest_part(world* w, int64_t begin, int64_t end, char* scratch) {
    gpc_kmeans_nearest(w->number_size, w->points, w->n_features, w->centroids,
                       w->s.n_clusters, (w->variant & COSINE) != 0, begin, end,
                       w->nearest, scratch);
}

static int64_t nearest_lookups(const world* w) {
    return w->s.n_samples * w->s.n_clusters * w->n_features;
}

static int64_t starts_of(const world* w) { return w->s.n_restarts; }

static int prepare_draw(world* w) {
    const int64_t size = w->columns;
    make_points(w);
    w->draws = input(w, (size_t)(size * CANDIDATES) * 8);
    for (int64_t at = 0; at < size * CANDIDATES; ++at)
        w->draws[at] = (double)below(w, 1 << 30) * 0x1p-30;
    w->found = output(w, (size_t)size * 8, 0xa5);
    w->moves = output(w, (size_t)w->s.n_restarts * 8, 0xa5);
    return 1;
}

static int64_t draw_room(const world* w) {
    return gpc_kmeans_draw_scratch(w->number_size, w->s.n_samples, w->n_features,
                                   CANDIDATES);
}

static void draw_part(world* w, int64_t first, int64_t last, char* scratch) {
    gpc_kmeans_draw(w->number_size, w->points, w->s.n_samples, w->n_features, w->fits,
                    w->draws, w->s.n_clusters, CANDIDATES, (w->variant & CAREFUL) != 0,
                    1e-5, first, last, w->found, w->moves, scratch);
}

static int64_t draw_lookups(const world* w) {
    return nearest_lookups(w) * w->s.n_restarts;
}

/* Every second start has a centroid less; the last wait where no point is. */
static int prepare_lloyd(world* w) {
    const int64_t n_starts = w->s.n_restarts, n_clusters = w->s.n_clusters;
    make_points(w);
    w->n_chosen = input(w, (size_t)n_starts * 8);
    for (int64_t s = 0; s < n_starts; ++s)
        w->n_chosen[s] = n_clusters - (n_clusters > 1 && s % 2);
    char* start = make_centroids(w, n_starts);
    for (int64_t at = n_clusters - 1; at < n_starts * n_clusters; at += n_clusters)
        for (int64_t j = 0; j < w->n_features && n_clusters > 2; ++j)
            set_number(w, start, at * w->n_features + j, 1000.0);
    w->centroids =
        output_copy(w, start, (size_t)(places(w, n_starts) * w->number_size));
    w->nearest = output(w, (size_t)(n_starts * w->s.n_samples) * 4, 0xa5);
    w->inertia = output(w, (size_t)n_starts * 8, 0xa5);
    return 1;
}

static int64_t lloyd_room(const world* w) {
    return gpc_kmeans_lloyd_scratch(w->number_size, w->s.n_samples, w->n_features,
                                    w->s.n_clusters);
}

static void lloyd_part(world* w, int64_t first, int64_t last, char* scratch) {
    gpc_kmeans_lloyd(w->number_size, w->points, w->s.n_samples, w->n_features, w->fits,
                     (w->variant & COSINE) != 0, 1e-6, w->s.n_clusters, w->n_chosen,
                     (int64_t)ROUNDS, first, last, w->centroids, w->nearest, w->inertia,
                     scratch);
}

#define NEAREST(label, variant) \
    {"kmeans_nearest",          \
     label,                     \
     variant,                   \
     prepare_nearest,           \
     objects_of,                \
     nearest_room,              \
     nearest_part,              \
     NULL,                      \
     4,                         \
     0,                         \
     nearest_lookups,           \
     "row, centroid and feature"}
#define DRAW(label, variant) \
    {"kmeans_draw",          \
     label,                  \
     variant,                \
     prepare_draw,           \
     starts_of,              \
     draw_room,              \
     draw_part,              \
     NULL,                   \
     4,                      \
     0,                      \
     draw_lookups,           \
     "start, row, centroid and feature"}
#define LLOYD(label, variant) \
    {"kmeans_lloyd",          \
     label,                   \
     variant,                 \
     prepare_lloyd,           \
     starts_of,               \
     lloyd_room,              \
     lloyd_part,              \
     NULL,                    \
     4,                       \
     0,                       \
     draw_lookups,            \
     "start, row, centroid and feature"}

const kernel_case kmeans_cases[] = {NEAREST("float32", 0),
                                    NEAREST("float64", DOUBLE),
                                    NEAREST("float32-cosine", COSINE),
                                    DRAW("float32", 0),
                                    DRAW("float32-careful", CAREFUL),
                                    DRAW("float64-careful", DOUBLE | CAREFUL),
                                    LLOYD("float32", 0),
                                    LLOYD("float64", DOUBLE),
                                    LLOYD("float64-cosine", DOUBLE | COSINE),
                                    {0}};
