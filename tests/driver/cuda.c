/* A stand-in for libcuda.so.1: one device of 64 GiB (or GPUAAS_TEST_CUDA_GIB) whose allocations are numbers. Where GPUAAS_TEST_NVML names
 * the file of the stand-in for NVML, what the process holds is written beside it, for that to report. Enough of the driver for the memory
 * budget to be tested without a card: every call the library wraps, reached as programs reach them. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int CUresult;
typedef unsigned long long u64;

static u64 taken, next_pointer = 0x10000;
static const u64 CONTEXT = 512ull << 20;
#define TOTAL total_bytes()

static u64 total_bytes(void) {
    const char *gib = getenv("GPUAAS_TEST_CUDA_GIB");
    return (gib ? strtoull(gib, NULL, 10) : 64) << 30;
}

/* As a driver counts it: what is allocated, and the context. */
static void report(void) {
    const char *file = getenv("GPUAAS_TEST_NVML"), *card = getenv("CUDA_VISIBLE_DEVICES");
    const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[4608], next[4640];
    if (!file || !card || !*card) return;
    snprintf(path, sizeof path, "%s.d", file);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s.d/%.*s.%d", file, (int)strcspn(card, ","), card, (int)getpid());
    snprintf(next, sizeof next, "%s.d/new.%d", file, (int)getpid());
    FILE *out = fopen(next, "w");
    if (!out) return;
    fprintf(out, "%llu%s", taken + CONTEXT, pipe && *pipe ? " mps" : "");
    fclose(out);
    rename(next, path);
}

/* What other processes that live hold of the card. */
static u64 others(void) {
    const char *file = getenv("GPUAAS_TEST_NVML"), *card = getenv("CUDA_VISIBLE_DEVICES");
    char path[4608], line[64];
    u64 sum = 0;
    if (!file || !card || !*card) return 0;
    int length = (int)strcspn(card, ",");
    snprintf(path, sizeof path, "%s.d", file);
    DIR *listing = opendir(path);
    if (!listing) return 0;
    for (struct dirent *entry; (entry = readdir(listing));) {
        if (strncmp(entry->d_name, card, (size_t)length) != 0 || entry->d_name[length] != '.') continue;
        int pid = atoi(entry->d_name + length + 1);
        snprintf(path, sizeof path, "%s.d/%s", file, entry->d_name);
        FILE *found = pid != (int)getpid() && kill(pid, 0) == 0 ? fopen(path, "r") : NULL;
        if (!found) continue;
        if (fgets(line, sizeof line, found)) sum += strtoull(line, NULL, 10);
        fclose(found);
    }
    closedir(listing);
    return sum;
}

static u64 sizes[4096]; /* of the allocations, by their number: pointers tell it */
static size_t next_size;

static CUresult release(u64 p) {
    if (!p) return 1;
    u64 number = (p - 0x10000) >> 40;
    if (number < next_size) taken -= sizes[number], sizes[number] = 0;
    report();
    return 0;
}

static CUresult take(u64 *out, u64 bytes) {
    u64 held = taken + others();
    if (held > TOTAL || bytes > TOTAL - held) return 2;
    taken += bytes;
    *out = next_pointer;
    next_pointer += 1ull << 40; /* far apart, so that mappings beside each other are the test's own doing */
    if (next_size < 4096) sizes[next_size++] = bytes;
    report();
    return 0;
}

CUresult cuInit(unsigned flags) { return (void)flags, 0; }
CUresult cuCtxGetDevice(int *device) { return *device = 0, 0; }
CUresult cuMemAlloc_v2(u64 *p, size_t n) { return take(p, n); }
CUresult cuMemAllocPitch_v2(u64 *p, size_t *pitch, size_t w, size_t h, unsigned e) {
    (void)e;
    *pitch = (w + 511) & ~(size_t)511;
    return take(p, *pitch * h);
}
CUresult cuMemAllocManaged(u64 *p, size_t n, unsigned f) { return (void)f, take(p, n); }
CUresult cuMemAllocAsync(u64 *p, size_t n, void *s) { return (void)s, take(p, n); }
CUresult cuMemAllocAsync_ptsz(u64 *p, size_t n, void *s) { return (void)s, take(p, n); }
CUresult cuMemAllocFromPoolAsync(u64 *p, size_t n, void *o, void *s) { return (void)o, (void)s, take(p, n); }
CUresult cuMemAllocFromPoolAsync_ptsz(u64 *p, size_t n, void *o, void *s) { return (void)o, (void)s, take(p, n); }
CUresult cuMemFree_v2(u64 p) { return release(p); }
CUresult cuMemFreeAsync(u64 p, void *s) { return (void)s, release(p); }
CUresult cuMemFreeAsync_ptsz(u64 p, void *s) { return (void)s, release(p); }
CUresult cuMemCreate(u64 *h, size_t n, const void *prop, u64 f) { return (void)prop, (void)f, take(h, n); }
CUresult cuMemRelease(u64 h) { return h ? 0 : 1; }
CUresult cuMemMap(u64 p, size_t n, size_t o, u64 h, u64 f) { return (void)p, (void)n, (void)o, (void)h, (void)f, 0; }
CUresult cuMemUnmap(u64 p, size_t n) { return (void)p, (void)n, 0; }
CUresult cuMemGetInfo_v2(size_t *f, size_t *t) { return *f = TOTAL - taken, *t = TOTAL, 0; }
CUresult cuDeviceTotalMem_v2(size_t *n, int d) { return (void)d, *n = TOTAL, 0; }
CUresult cuGetProcAddress_v2(const char *name, void **found, int version, u64 flags, int *status);
CUresult cuGetProcAddress(const char *name, void **found, int version, u64 flags) {
    return cuGetProcAddress_v2(name, found, version, flags, NULL);
}

/* A kernel that is launched faults: the driver reports Xid 31, and the next synchronization fails. */
static int faulted;
CUresult cuModuleLoadData(void **module, const void *image) { return (void)image, *module = &faulted, 0; }
CUresult cuModuleGetFunction(void **f, void *module, const char *name) { return (void)name, *f = module, 0; }
CUresult cuLaunchKernel(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned n, void *s,
                        void **p, void **x) {
    (void)f, (void)a, (void)b, (void)c, (void)d, (void)e, (void)g, (void)n, (void)s, (void)p, (void)x;
    const char *file = getenv("GPUAAS_TEST_NVML"), *card = getenv("CUDA_VISIBLE_DEVICES");
    char path[4608];
    faulted = 1;
    if (!file || !card) return 0;
    snprintf(path, sizeof path, "%s.d/xids", file);
    FILE *out = fopen(path, "a");
    if (!out) return 0;
    fprintf(out, "%s 31\n", card);
    fclose(out);
    const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
    snprintf(path, sizeof path, "%s/../log/server.log", pipe ? pipe : "");
    out = pipe ? fopen(path, "a") : NULL;
    if (out) fprintf(out, "Client {PID: 1} encountered a fatal GPU error\n"), fclose(out);
    return 0;
}
CUresult cuCtxSynchronize(void) { return faulted ? 700 : 0; }

static const struct { const char *name; void *plain, *per_thread; } calls[] = {
    {"cuMemAlloc", cuMemAlloc_v2, cuMemAlloc_v2},
    {"cuMemFree", cuMemFree_v2, cuMemFree_v2},
    {"cuMemAllocAsync", cuMemAllocAsync, cuMemAllocAsync_ptsz},
    {"cuMemFreeAsync", cuMemFreeAsync, cuMemFreeAsync_ptsz},
    {"cuMemCreate", cuMemCreate, cuMemCreate},
    {"cuMemGetInfo", cuMemGetInfo_v2, cuMemGetInfo_v2},
    {"cuGetProcAddress", cuGetProcAddress_v2, cuGetProcAddress_v2},
};

CUresult cuGetProcAddress_v2(const char *name, void **found, int version, u64 flags, int *status) {
    (void)version;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, name) == 0) {
            *found = flags & 2 ? calls[i].per_thread : calls[i].plain;
            if (status) *status = 0;
            return 0;
        }
    *found = NULL;
    return 500;
}
