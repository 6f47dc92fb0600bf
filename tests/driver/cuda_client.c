/* A program that asks the driver for memory in one of the ways programs do: cuda_client WAY GIB... ; prints what it got.
 * A GIB of `f` frees the last allocation, `i` prints cuMemGetInfo, `w` waits for a line on standard input, `F` forks, `s5`
 * sleeps for 5 seconds, `x3` ends with exit code 3. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long long u64;
typedef struct { int type, handles; struct { int type, id; } location; void *w; unsigned char f[8]; } prop_t;

int cuMemAlloc_v2(u64 *, size_t);
int cuMemFree_v2(u64);
int cuMemGetInfo_v2(size_t *, size_t *);
int cuMemAllocManaged(u64 *, size_t, unsigned);
int cuMemAllocPitch_v2(u64 *, size_t *, size_t, size_t, unsigned);
int cuMemAllocFromPoolAsync(u64 *, size_t, void *, void *);
int cuMemCreate(u64 *, size_t, const prop_t *, u64);
int cuMemRelease(u64);
int cuMemMap(u64, size_t, size_t, u64, u64);
int cuMemUnmap(u64, size_t);

static const char *way;
static int (*alloc)(u64 *, size_t) = cuMemAlloc_v2;
static int (*alloc_async)(u64 *, size_t, void *);
static int (*release)(u64) = cuMemFree_v2;
static int (*release_async)(u64, void *);
static int (*info)(size_t *, size_t *) = cuMemGetInfo_v2;

static void look_up(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*address)(const char *, void **, int, u64, int *) = dlsym(driver, "cuGetProcAddress_v2");
    u64 flags = strcmp(way, "address-ptsz") == 0 ? 2 : 1;
    if (strcmp(way, "dlsym") == 0) {
        alloc = dlsym(driver, "cuMemAlloc_v2");
        release = dlsym(driver, "cuMemFree_v2");
        info = dlsym(driver, "cuMemGetInfo_v2");
    } else if (strcmp(way, "address") == 0) {
        void *again; /* as the CUDA runtime does: the look-up function is looked up through itself */
        address("cuGetProcAddress", &again, 12000, flags, NULL);
        address = again;
        address("cuMemAlloc", (void **)&alloc, 12000, flags, NULL);
        address("cuMemFree", (void **)&release, 12000, flags, NULL);
        address("cuMemGetInfo", (void **)&info, 12000, flags, NULL);
    } else if (strncmp(way, "address-", 8) == 0) {
        address("cuMemAllocAsync", (void **)&alloc_async, 12000, flags, NULL);
        address("cuMemFreeAsync", (void **)&release_async, 12000, flags, NULL);
    }
}

static int take(u64 *p, size_t bytes) {
    size_t pitch;
    prop_t prop = {.type = 1, .location = {strcmp(way, "handle-host") == 0 ? 2 : 1, 0}};
    if (alloc_async) return alloc_async(p, bytes, NULL);
    if (strcmp(way, "managed") == 0) return cuMemAllocManaged(p, bytes, 1);
    if (strcmp(way, "pitch") == 0) return cuMemAllocPitch_v2(p, &pitch, 1 << 20, bytes >> 20, 4);
    if (strcmp(way, "pool") == 0) return cuMemAllocFromPoolAsync(p, bytes, NULL, NULL);
    if (strncmp(way, "handle", 6) == 0) {
        int result = cuMemCreate(p, bytes, &prop, 0);
        /* Released at once, the memory stays taken as long as it is mapped. */
        if (result == 0 && strcmp(way, "handle-mapped") == 0) cuMemMap(*p, bytes, 0, *p, 0), cuMemRelease(*p);
        return result;
    }
    return alloc(p, bytes);
}

static void give_back(u64 p, size_t bytes) {
    if (release_async) release_async(p, NULL);
    else if (strcmp(way, "handle-mapped") == 0) cuMemUnmap(p, bytes);
    else if (strncmp(way, "handle", 6) == 0) cuMemRelease(p);
    else release(p);
}

int main(int count, char **words) {
    u64 last = 0;
    size_t size = 0, unused, total;
    char line[16];
    way = words[1];
    look_up();
    for (int i = 2; i < count; i++) {
        switch (words[i][0]) {
        case 'f': give_back(last, size); printf("freed\n"); break;
        case 'i':
            info(&unused, &total);
            printf("free %.1f of %.1f\n", unused / 1073741824.0, total / 1073741824.0);
            break;
        case 'w': fflush(stdout); if (!fgets(line, sizeof line, stdin)) return 1; break;
        case 's': fflush(stdout); usleep((useconds_t)(atof(words[i] + 1) * 1000000)); break;
        case 'x': fflush(stdout); return atoi(words[i] + 1);
        case 'F':
            fflush(stdout);
            if (fork() > 0) { wait(NULL); return 0; }
            break;
        default:
            size = (size_t)(atof(words[i]) * 1073741824.0);
            printf(take(&last, size) == 0 ? "got %s\n" : "refused %s\n", words[i]);
        }
        fflush(stdout);
    }
    return 0;
}
