// Preloaded into a process: its wall clock is ahead of the machine's by the nanoseconds that a file holds, now.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;

__attribute__((constructor)) static void map_file(void) {
    const char *name = getenv("KRAFTWATCH_SET_CLOCK");
    int file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *found = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) ahead = found;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, clock, at);
    if (failed || ahead == NULL || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return failed;
    int64_t now = at->tv_sec * INT64_C(1000000000) + at->tv_nsec + *ahead;
    at->tv_sec = now / 1000000000;
    at->tv_nsec = now % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at != NULL) *at = now.tv_sec;
    return now.tv_sec;
}
