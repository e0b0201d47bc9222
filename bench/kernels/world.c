/* Ensembles, tables and assignments that every machine draws alike. */
#define _POSIX_C_SOURCE 200112L
#include "driver.h"

#include <stdio.h>

/* splitmix64 */
uint64_t next_bits(world* w) {
    uint64_t z = (w->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t below(world* w, int64_t bound) {
    return (int64_t)((next_bits(w) >> 32) % (uint64_t)bound);
}

uint64_t digest_of(uint64_t seed, const void* memory, size_t size) {
    const unsigned char* bytes = memory;
    uint64_t found = seed ^ 0xcbf29ce484222325u;
    for (size_t at = 0; at < size; ++at) found = (found ^ bytes[at]) * 0x100000001b3u;
    return found;
}

static block* add_block(world* w, size_t size) {
    if (w->n_blocks == MOST_BLOCKS) {
        fprintf(stderr, "driver: a case has more than %d blocks\n", MOST_BLOCKS);
        exit(2);
    }
    block* made = &w->blocks[w->n_blocks++];
    *made = (block){NULL, size, NULL, 0};
    if (posix_memalign(&made->memory, 64, size ? size : 1)) {
        fprintf(stderr, "driver: no memory for %zu bytes\n", size);
        exit(2);
    }
    return made;
}

/* Memory that a kernel reads: its content has to be the same afterwards. */
void* input(world* w, size_t size) {
    void* memory = add_block(w, size)->memory;
    memset(memory, 0, size);
    return memory;
}

/* Memory that a kernel writes or changes; its digest is that of the case. */
void* output(world* w, size_t size, int fill) {
    block* made = add_block(w, size);
    made->image = malloc(size + 1);
    if (!made->image) exit(2);
    memset(made->image, fill, size);
    memcpy(made->memory, made->image, size);
    return made->memory;
}

void* output_copy(world* w, const void* image, size_t size) {
    void* memory = output(w, size, 0);
    memcpy(memory, image, size);
    memcpy(w->blocks[w->n_blocks - 1].image, image, size);
    return memory;
}

/* Partitions have many labels, few, and one. */
static int64_t label_count(const shape* s, int64_t i) {
    const int64_t half = s->labels / 2 + 1;
    return s->gap == 0 || i % 3 == 0 ? s->labels : i % 3 == 1 ? half : 1;
}

static void set_code(world* w, int64_t i, int64_t l, int64_t label) {
    const int64_t at = i * w->stride + l;
    if (w->code_size == 1)
        ((uint8_t*)w->codes)[at] = (uint8_t)label;
    else
        ((uint16_t*)(void*)w->codes)[at] = (uint16_t)label;
}

int64_t code_at(const world* w, int64_t i, int64_t l) {
    const int64_t at = i * w->stride + l;
    return w->code_size == 1 ? ((const uint8_t*)w->codes)[at]
                             : ((const uint16_t*)(const void*)w->codes)[at];
}

/* Lines of which each has a gap around it; the last ends with its last number. */
static char* make_lines(world* w, int64_t number, int64_t size) {
    const int64_t gap = w->s.gap, n = w->s.n_samples;
    const int64_t numbers = gap + (number - 1) * (n + 2 * gap) + n;
    return (char*)input(w, (size_t)(numbers * size)) + gap * size;
}

void open_world(world* w, const shape* s, int variant) {
    memset(w, 0, sizeof *w);
    w->s = *s;
    w->variant = variant;
    w->state = digest_of(0, s->name, strlen(s->name));
    const int64_t r = s->n_partitions, n = s->n_samples;
    w->columns = s->n_restarts * s->n_clusters;
    w->width = (w->columns + LANES - 1) / LANES * LANES;
    w->code_size = s->labels <= 255 ? 1 : 2;
    w->cluster_size = s->n_clusters <= 255 ? 1 : s->n_clusters <= 65535 ? 2 : 4;
    w->line = w->stride = n + 2 * s->gap;
    w->offsets = input(w, (size_t)(r + 1) * 8);
    w->n_labels = input(w, (size_t)r * 8);
    for (int64_t i = 0; i < r; ++i) {
        w->n_labels[i] = label_count(s, i);
        w->offsets[i + 1] = w->offsets[i] + w->n_labels[i] + 1;
    }
    w->n_rows = w->offsets[r];
    w->truth = input(w, (size_t)n * 8);
    for (int64_t l = 0; l < n; ++l) w->truth[l] = below(w, s->n_clusters);
    w->codes = make_lines(w, r, w->code_size);
    for (int64_t i = 0; i < r; ++i)
        for (int64_t l = 0; l < n; ++l) {
            int64_t label = w->truth[l] % w->n_labels[i];
            if (below(w, 100) < s->noise) label = below(w, w->n_labels[i]);
            if (below(w, 100) < s->missing) label = w->n_labels[i];
            set_code(w, i, l, label);
        }
}

void close_world(world* w) {
    for (int at = 0; at < w->n_blocks; ++at) {
        free(w->blocks[at].memory);
        free(w->blocks[at].image);
    }
}

/* A table (S, width) in which a label is cheap for its own clusters. */
float* make_table(world* w) {
    float* table = input(w, (size_t)(w->n_rows * w->width) * 4);
    for (int64_t i = 0; i < w->s.n_partitions; ++i)
        for (int64_t j = 0; j < w->n_labels[i]; ++j) {
            float* row = table + (w->offsets[i] + j) * w->width;
            for (int64_t k = 0; k < w->s.n_clusters; ++k)
                for (int64_t q = 0; q < w->s.n_restarts; ++q)
                    row[k * w->s.n_restarts + q] =
                        (float)(below(w, 1001) - (k % w->n_labels[i] == j ? 2000 : 0)) /
                        777.0f;
        }
    return table;
}

static void set_cluster(const world* w, char* clusters, int64_t at, int64_t k) {
    if (w->cluster_size == 1)
        ((uint8_t*)clusters)[at] = (uint8_t)k;
    else if (w->cluster_size == 2)
        ((uint16_t*)(void*)clusters)[at] = (uint16_t)k;
    else
        ((uint32_t*)(void*)clusters)[at] = (uint32_t)k;
}

int64_t cluster_at(const world* w, const char* clusters, int64_t q, int64_t l) {
    const int64_t at = q * w->line + l;
    if (w->cluster_size == 1) return ((const uint8_t*)clusters)[at];
    if (w->cluster_size == 2) return ((const uint16_t*)(const void*)clusters)[at];
    return ((const uint32_t*)(const void*)clusters)[at];
}

/* An assignment (R, line); of 100 objects `stray` are in any cluster, or in none. */
char* make_assignment(world* w, int64_t stray) {
    char* made = make_lines(w, w->s.n_restarts, w->cluster_size);
    for (int64_t q = 0; q < w->s.n_restarts; ++q)
        for (int64_t l = 0; l < w->s.n_samples; ++l) {
            int64_t k = w->truth[l];
            if (below(w, 100) < stray) k = below(w, w->s.n_clusters + 1);
            set_cluster(w, made, q * w->line + l, k);
        }
    return made;
}

/* Counts (S, R K), column q K + k, of an assignment; missing labels included. */
int64_t* make_counts(world* w, const char* clusters) {
    int64_t* counts = input(w, (size_t)(w->n_rows * w->columns) * 8);
    for (int64_t i = 0; i < w->s.n_partitions; ++i)
        for (int64_t q = 0; q < w->s.n_restarts; ++q)
            for (int64_t l = 0; l < w->s.n_samples; ++l) {
                const int64_t k = cluster_at(w, clusters, q, l);
                if (k < w->s.n_clusters)
                    ++counts[(w->offsets[i] + code_at(w, i, l)) * w->columns +
                             q * w->s.n_clusters + k];
            }
    return counts;
}

void make_marginals(world* w) {
    w->marginals = input(w, (size_t)w->n_rows * 8);
    for (int64_t i = 0; i < w->s.n_partitions; ++i)
        for (int64_t l = 0; l < w->s.n_samples; ++l) {
            const int64_t label = code_at(w, i, l);
            if (label < w->n_labels[i]) ++w->marginals[w->offsets[i] + label];
        }
}

/* Numbers 1, 2, ... up to `units`, times a unit. */
double* make_doubles(world* w, int64_t number, int64_t units, double unit) {
    double* made = input(w, (size_t)number * 8);
    for (int64_t at = 0; at < number; ++at)
        made[at] = (double)(1 + below(w, units)) * unit;
    return made;
}

int64_t objects_of(const world* w) { return w->s.n_samples; }
int64_t partitions_of(const world* w) { return w->s.n_partitions; }
int64_t one(const world* w) { return (void)w, 1; }
int64_t nothing(const world* w) { return (void)w, 0; }
int64_t every_restart(const world* w) {
    return w->s.n_samples * w->s.n_partitions * w->s.n_restarts;
}
int64_t every_column(const world* w) { return every_restart(w) * w->s.n_clusters; }
int64_t every_entry(const world* w) { return w->n_rows * w->columns; }
