/* Adds the seconds in the file $CLOCK_FILE, a 64-bit integer, to the wall clock of a process (LD_PRELOAD). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static int64_t added_s(void) {
    static volatile int64_t *added;
    if (!added) {
        const char *path = getenv("CLOCK_FILE");
        int file = path ? open(path, O_RDONLY) : -1;
        if (file < 0) return 0;
        added = mmap(0, sizeof *added, PROT_READ, MAP_SHARED, file, 0);
    }
    return *added;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += added_s();
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec found;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return failed;
}
