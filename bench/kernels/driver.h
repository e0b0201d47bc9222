/* A program that runs every kernel of the C library on data that it makes itself.

   A case is a kernel, a variant of its arguments and a shape. Buffers are as large as
   they have to be and no larger, so that a sanitizer sees an access too many. The data
   come from integers alone: every processor and compiler makes the same, and results
   are compared by a digest. `signatures.h` is written from the signatures that Python
   calls by (bench/kernel_driver.py), so that a changed one does not compile. */
#ifndef DRIVER_H
#define DRIVER_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "signatures.h"

enum { LANES = 16, MOST_BLOCKS = 48 };

/* Partition i has `labels` labels, or fewer: see label_count. Lines of codes and of
   assignments are parts of longer ones, by `gap`, and begin anywhere. Of 100 labels
   `noise` have nothing to do with the others, and `missing` are missing. */
typedef struct {
    const char* name;
    int few; /* whether it is among the few shapes of a quick run */
    int64_t n_samples, n_restarts, n_clusters, n_partitions, labels, gap;
    int64_t noise, missing;
} shape;

typedef struct {
    void* memory;
    size_t size;
    char* image;   /* what an output held before the call; NULL for inputs */
    uint64_t seen; /* digest of an input before the call */
} block;

/* The ensemble of a shape, and whatever a case needs beside it. */
typedef struct {
    shape s;
    uint64_t state;
    block blocks[MOST_BLOCKS];
    int n_blocks;
    int64_t n_rows, columns, width, code_size, stride, cluster_size, line;
    int64_t *offsets, *n_labels, *truth;
    char* codes;
    int variant;
    /* inputs */
    float *table, *row_table, *row_sum, *row_weight, *price, *scale, *apart;
    double *wide_table, *weights, *norm, *rises, *shares, *marginal_share;
    int64_t *marginals, *weight, *graph, *degree;
    int32_t* own_labels;
    uint64_t* marks;
    void *own, *similarity, *left, *right;
    char *before, *after;
    uint8_t *small, *unit, *raised, *packed;
    uint16_t* distance;
    int64_t *lookup_parts, *lookup_rows;
    int64_t n_lookups, entry_size, small_width, similarity_size, n_left, n_right;
    double *alpha, *draws;
    int64_t *pairs, *whole, *n_chosen;
    void *points, *fits;
    int64_t number_size, n_features;
    /* outputs */
    char* assignment;
    float *best, *gaps, *enter, *stay, *spread, *level, *lowest;
    double *scores, *entropy;
    int64_t *counts, *total, *found, *sums[4], *sizes, *members, *order, *moves;
    int64_t *left_sums, *boundary;
    int32_t *same, *both, *nearest;
    double *votes, *matrix, *numbers, *heights, *inertia;
    int64_t *likeliest, *lists, *progress, *merged, *name, *joined;
    double* under;
    void* centroids;
    uint8_t* sets;
} world;

/* One case. `prepare` returns 0 where the kernel is never called with such a shape.
   `part` works on a range of 0 .. size - 1 in scratch of its own; `finish`, unless
   NULL, makes outputs independent of how the ranges were cut. */
typedef struct {
    const char *kernel, *label;
    int variant;
    int (*prepare)(world*);
    int64_t (*size)(const world*);
    int64_t (*room)(const world*);
    void (*part)(world*, int64_t begin, int64_t end, char* scratch);
    void (*finish)(world*);
    int64_t parts;  /* ranges per thread, as the backend cuts them; 0: never cut */
    int own_memory; /* whether ranges write to memory of their own only */
    int64_t (*lookups)(const world*);
    const char* lookup; /* what a lookup is, for who reads the counts */
} kernel_case;

extern const kernel_case row_cases[], screen_cases[], count_cases[], table_cases[],
    loop_cases[], sum_cases[], merge_cases[], kmeans_cases[];

/* numbers */
uint64_t next_bits(world* w);
int64_t below(world* w, int64_t bound);
uint64_t digest_of(uint64_t seed, const void* memory, size_t size);

/* memory */
void* input(world* w, size_t size);
void* output(world* w, size_t size, int fill);
void* output_copy(world* w, const void* image, size_t size);

/* parts of worlds */
void open_world(world* w, const shape* s, int variant);
void close_world(world* w);
int64_t code_at(const world* w, int64_t i, int64_t l);
int64_t cluster_at(const world* w, const char* clusters, int64_t q, int64_t l);
float* make_table(world* w);
char* make_assignment(world* w, int64_t stray);
int64_t* make_counts(world* w, const char* clusters);
void make_marginals(world* w);
double* make_doubles(world* w, int64_t number, int64_t units, double unit);

/* sizes that many cases share */
int64_t objects_of(const world* w);
int64_t partitions_of(const world* w);
int64_t one(const world* w);
int64_t nothing(const world* w);
int64_t every_column(const world* w);
int64_t every_restart(const world* w);
int64_t every_entry(const world* w);

#endif
