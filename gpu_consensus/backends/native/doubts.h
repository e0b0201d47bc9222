/* What screening leaves in doubt, settled in float32 in partition order.

   With few clusters the restarts in doubt are assigned by tables of one restart, whose
   rows are short: their labels are copied while they are in a cache, so that `assign`
   finds them together as it finds all objects, and many at a time, since the tables of
   all restarts fit no cache. With many clusters rows are long and few of a row are in
   doubt: those are summed, one by one. */
#ifndef GPC_DOUBTS_H
#define GPC_DOUBTS_H

#include "native.h"

enum {
    DOUBTS = 1 << 14,      /* clusters in doubt that are summed together */
    LABEL_BYTES = 4 << 20, /* of labels that wait, of all restarts */
    FEWEST_ROWS = 16,
    MOST_ROWS = 1024,
    FRESH = 2048 /* restarts in doubt whose labels are copied together */
};

typedef struct {
    const gpc_labels* labels;
    const gpc_scoring* scoring;
    const float* apart; /* (R, S, apart_width), or NULL: clusters are summed */
    int64_t apart_width;
    int64_t first; /* the object that others are counted from */
    int64_t total; /* doubts so far */
    int64_t most;  /* that wait together, of a restart or of all */
    /* the objects of each restart (R, most) and how many they are, their labels
       (R, r, most), and their clusters (most) */
    uint32_t* objects;
    int64_t* numbers;
    void *codes, *clusters;
    /* the objects whose labels are not copied yet, and their places among labels */
    uint32_t *fresh, *places;
    int64_t n_fresh;
    /* clusters: object, column of the table and sum; all of one object and restart
       follow one another, the lowest k first */
    uint32_t* columns;
    float* scores;
    int64_t waiting; /* clusters */
    float* scratch;
} doubts;

GPC_INLINE int64_t rows_together(int64_t code_size, int64_t n_partitions,
                                 int64_t n_restarts) {
    const int64_t most = LABEL_BYTES / (code_size * n_partitions * n_restarts);
    return gpc_max(FEWEST_ROWS, gpc_min(most, MOST_ROWS));
}

/* labels from one partition to the next: not a power of two, whose lines would share a
   few places of a cache */
GPC_INLINE int64_t rows_apart(int64_t most) { return most / 64 * 64 + 96; }

GPC_INLINE int64_t lined_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Bytes of scratch that doubts need; apart_width = 0: clusters are summed. */
GPC_INLINE int64_t doubts_scratch(int64_t code_size, int64_t n_partitions,
                                  int64_t n_table_rows, int64_t apart_width,
                                  int64_t n_restarts, int64_t n_clusters) {
    if (!apart_width) return 12 * (DOUBTS + 2 * n_restarts * n_clusters) + 64;
    const int64_t most = rows_together(code_size, n_partitions, n_restarts);
    const int64_t labels = n_restarts * n_partitions * rows_apart(most) + GPC_AHEAD;
    return lined_up(4 * n_restarts * most) + lined_up(8 * n_restarts) +
           lined_up(labels * code_size) + lined_up(4 * most) + 8 * FRESH +
           gpc_assign_scratch(apart_width, n_table_rows) + 64;
}

GPC_INLINE doubts begin_doubts(const gpc_labels* labels, const gpc_scoring* scoring,
                               const float* apart, int64_t apart_width, int64_t first,
                               char* scratch) {
    doubts list = {.labels = labels,
                   .scoring = scoring,
                   .apart = apart,
                   .apart_width = apart_width,
                   .first = first,
                   .most = DOUBTS};
    scratch += -(intptr_t)scratch & 63;
    list.objects = (uint32_t*)(void*)scratch;
    const int64_t n_restarts = scoring->n_restarts;
    if (!apart) {
        const int64_t room = DOUBTS + 2 * n_restarts * scoring->n_clusters;
        list.columns = list.objects + room;
        list.scores = (float*)(void*)(list.columns + room);
        return list;
    }
    list.most = rows_together(labels->code_size, labels->n_partitions, n_restarts);
    scratch += lined_up(4 * n_restarts * list.most);
    list.numbers = (int64_t*)(void*)scratch;
    memset(list.numbers, 0, (size_t)n_restarts * 8);
    scratch += lined_up(8 * n_restarts);
    list.codes = scratch;
    const int64_t lines = n_restarts * labels->n_partitions;
    scratch +=
        lined_up((lines * rows_apart(list.most) + GPC_AHEAD) * labels->code_size);
    list.clusters = scratch;
    scratch += lined_up(4 * list.most);
    list.fresh = (uint32_t*)(void*)scratch;
    list.places = list.fresh + FRESH;
    list.scratch = (float*)(void*)(list.places + FRESH);
    return list;
}

GPC_INLINE void copy_labels(const doubts* list, const int64_t code_size) {
    const gpc_labels* labels = list->labels;
    const int64_t number = list->n_fresh, apart = rows_apart(list->most);
    const uint32_t *objects = list->fresh, *places = list->places;
    for (int64_t i = 0; i < labels->n_partitions; ++i) {
        const void* line =
            gpc_codes_at(labels->codes, code_size, i * labels->stride + list->first);
        if (code_size == 1) {
            uint8_t* copy = (uint8_t*)list->codes + i * apart;
            for (int64_t p = 0; p < number; ++p)
                copy[places[p]] = ((const uint8_t*)line)[objects[p]];
        } else {
            uint16_t* copy = (uint16_t*)list->codes + i * apart;
            for (int64_t p = 0; p < number; ++p)
                copy[places[p]] = ((const uint16_t*)line)[objects[p]];
        }
    }
}

/* copy the labels of the objects noted last, which are still in a cache */
static void keep_labels(doubts* list) {
    if (!list->n_fresh) return;
    if (list->labels->code_size == 1)
        copy_labels(list, 1);
    else
        copy_labels(list, 2);
    list->n_fresh = 0;
}

/* assign the objects that wait in a restart */
static void settle_restart(doubts* list, int64_t q) {
    const gpc_labels* labels = list->labels;
    const gpc_scoring* scoring = list->scoring;
    const int64_t number = list->numbers[q], size = scoring->cluster_size;
    const uint32_t* objects = list->objects + q * list->most;
    keep_labels(list);
    const int64_t n_rows = labels->offsets[labels->n_partitions];
    const int64_t apart = rows_apart(list->most);
    const void* codes =
        gpc_codes_at(list->codes, labels->code_size, q * labels->n_partitions * apart);
    gpc_assign(codes, labels->code_size, apart, labels->offsets, labels->n_partitions,
               list->apart + q * n_rows * list->apart_width, list->apart_width, NULL,
               NULL, NULL, 1, scoring->n_clusters, 0, number, list->clusters, size,
               list->most, NULL, NULL, NULL, NULL, list->scratch);
    for (int64_t p = 0; p < number; ++p)
        gpc_set_cluster(scoring->assignment, size,
                        q * scoring->line + list->first + objects[p],
                        gpc_cluster(list->clusters, size, p));
    list->numbers[q] = 0;
}

GPC_INLINE void add_doubts(const doubts* list, const int64_t code_size,
                           int64_t number) {
    const gpc_labels* labels = list->labels;
    const int64_t width = list->scoring->width;
    memset(list->scores, 0, (size_t)number * 4);
    for (int64_t i = 0; i < labels->n_partitions; ++i) {
        const void* line = gpc_codes_at(labels->codes, code_size, i * labels->stride);
        const float* part = list->scoring->table + labels->offsets[i] * width;
        for (int64_t p = 0; p < number; ++p) {
            const int64_t label =
                gpc_code(line, code_size, list->first + list->objects[p]);
            list->scores[p] += part[label * width + list->columns[p]];
        }
    }
}

/* sum the clusters that wait, and write the lowest of each object and restart */
static void settle_clusters(doubts* list, int64_t number) {
    const gpc_scoring* scoring = list->scoring;
    const int64_t n_restarts = scoring->n_restarts;
    if (list->labels->code_size == 1)
        add_doubts(list, 1, number);
    else
        add_doubts(list, 2, number);
    for (int64_t p = 0, next; p < number; p = next) {
        const int64_t l = list->first + list->objects[p];
        const int64_t q = list->columns[p] % n_restarts;
        int64_t best = p;
        for (next = p + 1; next < number && list->objects[next] == list->objects[p] &&
                           list->columns[next] % n_restarts == q;
             ++next)
            if (list->scores[next] < list->scores[best]) best = next;
        gpc_set_cluster(scoring->assignment, scoring->cluster_size,
                        q * scoring->line + l, list->columns[best] / n_restarts);
    }
}

/* Note that an object is in doubt in a restart: clusters less than `distance` above
   the lowest of its sums. */
static void note(doubts* list, const uint16_t* sums, int64_t q, int64_t l, int32_t low,
                 int32_t distance) {
    if (list->apart) {
        const int64_t place = list->numbers[q]++;
        const int64_t line = q * list->labels->n_partitions * rows_apart(list->most);
        list->objects[q * list->most + place] = (uint32_t)(l - list->first);
        list->fresh[list->n_fresh] = (uint32_t)(l - list->first);
        list->places[list->n_fresh] = (uint32_t)(line + place);
        list->total += 1;
        if (++list->n_fresh == FRESH) keep_labels(list);
        if (list->numbers[q] == list->most) settle_restart(list, q);
        return;
    }
    const int64_t n_restarts = list->scoring->n_restarts;
    int64_t number = list->waiting;
    for (int64_t c = q; c < list->scoring->n_clusters * n_restarts; c += n_restarts) {
        list->objects[number] = (uint32_t)(l - list->first);
        list->columns[number] = (uint32_t)c;
        number += (int32_t)sums[c] - low < distance;
    }
    list->total += number - list->waiting;
    if (number >= list->most) {
        settle_clusters(list, number);
        number = 0;
    }
    list->waiting = number;
}

/* settle what still waits */
static void settle_all(doubts* list) {
    if (!list->apart) {
        settle_clusters(list, list->waiting);
        return;
    }
    for (int64_t q = 0; q < list->scoring->n_restarts; ++q)
        if (list->numbers[q]) settle_restart(list, q);
}

#endif
