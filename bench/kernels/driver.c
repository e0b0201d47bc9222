/* See driver.h.

   driver about                         the library's version, level and flags
   driver list                          the kernels that have a case
   driver digest few|all THREADS        a digest of every case
   driver overlap KERNEL THREADS        the same with ranges that overlap: a bug
   driver overrun KERNEL 1              with a range that is too long: another
   driver count                         to be run by callgrind: a dump for each case

   Ranges are cut and shared out as gpu_consensus/backends/native/threads.py does it,
   but in a fixed order, so that neighbours are always on different threads. */
#define _POSIX_C_SOURCE 200112L
#include "driver.h"

#include <pthread.h>
#include <stdio.h>

#ifdef DRIVER_COUNTS
#include <valgrind/callgrind.h>
#endif

/* name, few, n, R, K, r, labels, gap, noise, missing */
static const shape SHAPES[] = {
    {"none", 1, 0, 2, 3, 2, 4, 0, 50, 10},
    {"single", 1, 1, 1, 1, 1, 3, 0, 50, 10},
    {"one-cluster", 0, 33, 1, 1, 5, 5, 1, 50, 10},
    {"one-cluster-many-starts", 0, 65, 9, 1, 4, 3, 1, 50, 10},
    {"odd", 1, 499, 3, 7, 4, 255, 5, 50, 10},
    {"one-start", 0, 1001, 1, 10, 20, 10, 3, 50, 10},
    {"ten-starts", 0, 301, 10, 10, 33, 30, 1, 60, 10},
    {"labels-256", 1, 300, 17, 3, 3, 256, 3, 50, 10},
    {"many-partitions", 0, 61, 40, 3, 261, 2, 1, 60, 10},
    {"many-clusters", 0, 2101, 1, 40, 2, 9, 7, 50, 10},
    {"clusters-256", 1, 101, 2, 256, 4, 12, 1, 50, 10},
    {"clusters-255", 0, 97, 1, 255, 4, 12, 1, 50, 10},
    {"clusters-300", 0, 91, 1, 300, 2, 6, 3, 50, 10},
    {"clusters-70000", 0, 19, 1, 70000, 1, 2, 1, 50, 10},
    {"labels-65535", 0, 71, 1, 3, 2, 65535, 1, 90, 10},
    {"undecided", 0, 2603, 4, 5, 61, 8, 1, 97, 2},
    {"undecided-one-start", 0, 2603, 1, 9, 61, 300, 1, 97, 2},
    {"decided", 0, 5003, 5, 4, 40, 6, 0, 40, 0},
    {"beyond-16-bits", 0, 70001, 1, 2, 2, 1, 0, 50, 1},
    {0}};

/* what instructions are counted on */
static const shape COUNTED[] = {
    {"R=1, K=10, 10 labels", 1, 2000, 1, 10, 50, 10, 0, 50, 2},
    {"R=10, K=10, 10 labels", 1, 2000, 10, 10, 50, 10, 0, 50, 2},
    {"R=10, K=10, 300 labels", 1, 2000, 10, 10, 50, 300, 0, 50, 2},
    {0}};

static const kernel_case* const GROUPS[] = {row_cases,   screen_cases, count_cases,
                                            table_cases, loop_cases,   sum_cases,
                                            merge_cases, kmeans_cases};
enum { N_GROUPS = sizeof GROUPS / sizeof GROUPS[0], MOST_THREADS = 16 };

/* what a run does wrong on purpose: a sanitizer has to say so */
typedef enum { NO_BUG, OVERLAP, OVERRUN } bug;

typedef struct {
    const kernel_case* its;
    world* w;
    int64_t number, first, step;
    bug planted;
} share;

static void work_on(const share* mine) {
    const int64_t room = mine->its->room(mine->w), size = mine->its->size(mine->w);
    void* scratch = NULL;
    if (posix_memalign(&scratch, 64, room ? (size_t)room : 1)) exit(2);
    memset(scratch, 0xa5, (size_t)room);
    for (int64_t part = mine->first; part < mine->number; part += mine->step) {
        const int64_t begin = size * part / mine->number;
        int64_t end = size * (part + 1) / mine->number;
        if (mine->planted == OVERLAP && end < size) ++end;
        if (mine->planted == OVERRUN && end == size) ++end;
        mine->its->part(mine->w, begin, end, scratch);
    }
    free(scratch);
}

static void* work_in_thread(void* mine) {
    work_on(mine);
    return NULL;
}

/* Run a case once, on so many threads. */
static void run(const kernel_case* its, world* w, int n_threads, bug planted) {
    const int64_t size = its->size(w);
    int64_t number = its->parts && n_threads > 1 ? n_threads * its->parts : 1;
    if (number > size) number = size > 0 ? size : 1;
    if (number < n_threads) n_threads = (int)number;
    share shares[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    for (int t = 0; t < n_threads; ++t)
        shares[t] = (share){its, w, number, t, n_threads, planted};
    for (int t = 1; t < n_threads; ++t)
        if (pthread_create(&threads[t], NULL, work_in_thread, &shares[t])) exit(2);
    work_on(&shares[0]);
    for (int t = 1; t < n_threads; ++t) pthread_join(threads[t], NULL);
}

static void note_inputs(world* w) {
    for (int at = 0; at < w->n_blocks; ++at)
        w->blocks[at].seen = digest_of(0, w->blocks[at].memory, w->blocks[at].size);
}

static void start_anew(world* w) {
    for (int at = 0; at < w->n_blocks; ++at)
        if (w->blocks[at].image)
            memcpy(w->blocks[at].memory, w->blocks[at].image, w->blocks[at].size);
}

/* The digest of all outputs; a changed input is an error. */
static uint64_t digest_case(const kernel_case* its, world* w) {
    uint64_t found = 0;
    for (int at = 0; at < w->n_blocks; ++at) {
        const block* b = &w->blocks[at];
        const uint64_t seen = digest_of(b->image ? found : 0, b->memory, b->size);
        if (b->image) {
            found = seen;
        } else if (seen != b->seen) {
            fprintf(stderr, "driver: %s %s wrote to an input, block %d\n", its->kernel,
                    its->label, at);
            exit(3);
        }
    }
    return found;
}

/* Run the cases of a kernel, or of all, and print their digests. */
static void digest(const char* kernel, int few, int n_threads, bug planted) {
    for (int g = 0; g < N_GROUPS; ++g)
        for (const kernel_case* its = GROUPS[g]; its->kernel; ++its)
            for (const shape* s = SHAPES; s->name; ++s) {
                if ((few && !s->few) || (kernel && strcmp(kernel, its->kernel)))
                    continue;
                world w;
                open_world(&w, s, its->variant);
                if (its->prepare(&w)) {
                    note_inputs(&w);
                    run(its, &w, n_threads, planted);
                    if (its->finish) its->finish(&w);
                    printf("%s\t%s\t%s\t%016llx\n", its->kernel, its->label, s->name,
                           (unsigned long long)digest_case(its, &w));
                }
                close_world(&w);
            }
}

/* Print what each case looks up; callgrind writes a dump for each, in this order. The
   first call is not counted: the linker finds the kernel in it. */
static void count(void) {
#ifdef DRIVER_COUNTS
    for (int g = 0; g < N_GROUPS; ++g)
        for (const kernel_case* its = GROUPS[g]; its->kernel; ++its)
            for (const shape* s = COUNTED; s->name; ++s) {
                world w;
                open_world(&w, s, its->variant);
                if (its->prepare(&w)) {
                    const int64_t size = its->size(&w), room = its->room(&w);
                    void* scratch = NULL;
                    if (posix_memalign(&scratch, 64, room ? (size_t)room : 1)) exit(2);
                    its->part(&w, 0, size, scratch);
                    start_anew(&w);
                    CALLGRIND_START_INSTRUMENTATION;
                    its->part(&w, 0, size, scratch);
                    CALLGRIND_STOP_INSTRUMENTATION;
                    CALLGRIND_DUMP_STATS_AT(its->kernel);
                    printf("%s\t%s\t%s\t%lld\t%s\n", its->kernel, its->label, s->name,
                           (long long)its->lookups(&w), its->lookup);
                    free(scratch);
                }
                close_world(&w);
            }
#else
    (void)COUNTED, (void)start_anew;
    fprintf(stderr, "driver: compiled without DRIVER_COUNTS\n");
    exit(2);
#endif
}

static void list(void) {
    const char* last = "";
    for (int g = 0; g < N_GROUPS; ++g)
        for (const kernel_case* its = GROUPS[g]; its->kernel; last = (its++)->kernel)
            if (strcmp(last, its->kernel))
                printf("%s\t%s\n", its->kernel,
                       !its->parts       ? "whole"
                       : its->own_memory ? "apart"
                                         : "shared");
}

int main(int argc, char** argv) {
    const char* mode = argc > 1 ? argv[1] : "";
    const int n_threads = argc > 3 ? atoi(argv[3]) : 1;
    if (n_threads < 1 || n_threads > MOST_THREADS) return 2;
    if (!strcmp(mode, "about"))
        printf("%lld\t%lld\t%s\n", (long long)gpc_abi(), (long long)gpc_cpu_level(),
               (const char*)gpc_build());
    else if (!strcmp(mode, "list"))
        list();
    else if (!strcmp(mode, "digest") && argc == 4)
        digest(NULL, !strcmp(argv[2], "few"), n_threads, NO_BUG);
    else if (!strcmp(mode, "overlap") && argc == 4)
        digest(argv[2], 1, n_threads, OVERLAP);
    else if (!strcmp(mode, "overrun") && argc == 4)
        digest(argv[2], 1, n_threads, OVERRUN);
    else if (!strcmp(mode, "count"))
        count();
    else
        return 2;
    return 0;
}
