/* A stand-in for libnvidia-ml.so.1 with the calls the product makes. What it answers stands in the JSON file named by
 * GPUAAS_TEST_NVML, which is read again at every call, so that a test changes the machine while the product runs:
 *
 *   {"init": 0, "driver": "580.159.04", "cuda": 13000,
 *    "gpus": [{"uuid": "GPU-…", "name": "NVIDIA H200", "memoryMiB": 143771, "minor": 0, "error": 0, "mig": -1,
 *              "slices": [{"uuid": "MIG-…", "profile": "1g.18gb", "start": 0, "memoryMiB": 16384, "gi": 7, "ci": 0}],
 *              "processes": [{"pid": 12, "bytes": 1073741824, "slice": 0}], "mps": [],
 *              "temperature": 40, "utilization": 0, "links": [0, 18], "pcie": [0, 40]}],
 *    "xids": [{"number": 1, "gpu": 0, "xid": 79}]}
 *
 * Beside the file, the folder FILE.d has a file UUID.PID for each process of a test that uses a card, with the bytes it
 * holds (and " mps" for a client of MPS), as the test's own libcuda.so.1 writes it; it counts while the process lives.
 *
 * `init` and `error` are NVML codes (0 success, 4 no permission, 9 driver not loaded, 15 lost, 18 version mismatch). */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long u64;
typedef int nvmlReturn_t;
enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, TIMEOUT = 10, LOST = 15 };

/* ---- JSON: a cursor into text; every function returns the position behind what it read, or NULL. ---- */

static const char *blank(const char *p) {
    while (p && *p && strchr(" \t\r\n,:", *p)) p++;
    return p;
}

static const char *skip(const char *p) {
    p = blank(p);
    if (*p == '"') {
        for (p++; *p && *p != '"'; p++)
            if (*p == '\\') p++;
        return p + 1;
    }
    if (*p == '{' || *p == '[') {
        char close = *p == '{' ? '}' : ']';
        for (p = blank(p + 1); *p && *p != close; p = blank(p)) p = skip(p);
        return p + 1;
    }
    while (*p && !strchr(" \t\r\n,:]}", *p)) p++;
    return p;
}

static const char *member(const char *p, const char *name) {
    if (!p || *(p = blank(p)) != '{') return NULL;
    size_t length = strlen(name);
    for (p = blank(p + 1); *p && *p != '}'; p = blank(skip(p))) {
        int same = *p == '"' && strncmp(p + 1, name, length) == 0 && p[length + 1] == '"';
        p = blank(skip(p));
        if (same) return p;
    }
    return NULL;
}

static const char *item(const char *p, int index) {
    if (!p || *(p = blank(p)) != '[') return NULL;
    for (p = blank(p + 1); *p && *p != ']'; p = blank(skip(p)))
        if (index-- == 0) return p;
    return NULL;
}

static int count_of(const char *p) {
    int n = 0;
    while (item(p, n)) n++;
    return n;
}

static long long number(const char *object, const char *name, long long otherwise) {
    const char *p = member(object, name);
    return p ? strtoll(p, NULL, 10) : otherwise;
}

static nvmlReturn_t text(const char *object, const char *name, char *out, unsigned length) {
    const char *p = member(object, name);
    if (!p || *p != '"') return NOT_SUPPORTED;
    const char *end = strchr(++p, '"');
    if ((unsigned)(end - p) >= length) return SMALL;
    memcpy(out, p, end - p);
    out[end - p] = 0;
    return OK;
}

static char file_text[1 << 20];

static const char *machine(void) {
    const char *path = getenv("GPUAAS_TEST_NVML");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) return "{}";
    ssize_t length = read(file, file_text, sizeof file_text - 1);
    close(file);
    file_text[length > 0 ? length : 0] = 0;
    return file_text;
}

/* ---- Handles: 1 + index of a card, or 1000 + 100 × card + slice. ---- */

static void *handle(long n) { return (void *)n; }
static int card_of(const void *h) { return (long)h >= 1000 ? ((long)h - 1000) / 100 : (long)h - 1; }
static int slice_of(const void *h) { return (long)h >= 1000 ? ((long)h - 1000) % 100 : -1; }

static const char *gpu(const void *h, nvmlReturn_t *error) {
    const char *found = item(member(machine(), "gpus"), card_of(h));
    *error = found ? (nvmlReturn_t)number(found, "error", 0) : INVALID;
    return *error == OK ? found : NULL;
}

static const char *slice(const char *card, const void *h) { return item(member(card, "slices"), slice_of(h)); }

#define CARD(h)                      \
    nvmlReturn_t error_;             \
    const char *card = gpu(h, &error_); \
    if (!card) return error_

nvmlReturn_t nvmlInit_v2(void) { return (nvmlReturn_t)number(machine(), "init", 0); }
nvmlReturn_t nvmlInitWithFlags(unsigned flags) { return (void)flags, nvmlInit_v2(); }
nvmlReturn_t nvmlShutdown(void) { return OK; }

const char *nvmlErrorString(nvmlReturn_t code) {
    switch (code) {
    case OK: return "Success";
    case 4: return "Insufficient Permissions";
    case 9: return "Driver Not Loaded";
    case LOST: return "GPU is lost";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned length) { return text(machine(), "driver", out, length); }
nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned length) { return text(machine(), "driver", out, length); }
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    return *version = (int)number(machine(), "cuda", 0), OK;
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
    return *count = (unsigned)count_of(member(machine(), "gpus")), OK;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) {
    CARD(handle(index + 1));
    return *out = handle(index + 1), OK;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, void **out) {
    const char *gpus = member(machine(), "gpus");
    char own[96];
    for (int i = 0; i < count_of(gpus); i++)
        if (text(item(gpus, i), "uuid", own, sizeof own) == OK && strcmp(own, uuid) == 0)
            return nvmlDeviceGetHandleByIndex_v2((unsigned)i, out);
    return NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetUUID(void *h, char *out, unsigned length) {
    CARD(h);
    return text(slice_of(h) < 0 ? card : slice(card, h), "uuid", out, length);
}

nvmlReturn_t nvmlDeviceGetName(void *h, char *out, unsigned length) {
    CARD(h);
    if (slice_of(h) < 0) return text(card, "name", out, length);
    char name[96], profile[96];
    text(card, "name", name, sizeof name);
    text(slice(card, h), "profile", profile, sizeof profile);
    return snprintf(out, length, "%s MIG %s", name, profile), OK;
}

nvmlReturn_t nvmlDeviceGetIndex(void *h, unsigned *index) {
    CARD(h);
    return *index = (unsigned)card_of(h), OK;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(void *h, unsigned *minor) {
    CARD(h);
    return *minor = (unsigned)number(card, "minor", card_of(h)), OK;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(void *h, int *major, int *minor) {
    CARD(h);
    return *major = (int)number(card, "major", 9), *minor = (int)number(card, "minorCapability", 0), OK;
}

typedef struct {
    char old_bus[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} pci_t;

nvmlReturn_t nvmlDeviceGetPciInfo_v3(void *h, pci_t *pci) {
    CARD(h);
    memset(pci, 0, sizeof *pci);
    pci->bus = (unsigned)card_of(h) + 1;
    pci->id = (unsigned)number(card, "pciId", 0x233510DE);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return OK;
}

/* What processes registered themselves; returns how many, at most `room` of them in `out`. */
typedef struct { unsigned pid; u64 bytes; int mps; } registered_t;

static int registered(const char *card, registered_t *out, int room) {
    char folder[4096], uuid[96], path[4608], line[64];
    const char *file = getenv("GPUAAS_TEST_NVML");
    if (!file || text(card, "uuid", uuid, sizeof uuid) != OK) return 0;
    snprintf(folder, sizeof folder, "%s.d", file);
    DIR *listing = opendir(folder);
    if (!listing) return 0;
    int n = 0;
    size_t length = strlen(uuid);
    for (struct dirent *entry; (entry = readdir(listing)) && n < room;) {
        if (strncmp(entry->d_name, uuid, length) != 0 || entry->d_name[length] != '.') continue;
        unsigned pid = (unsigned)strtoul(entry->d_name + length + 1, NULL, 10);
        snprintf(path, sizeof path, "/proc/%u/stat", pid);
        int stat = open(path, O_RDONLY);
        char state[512] = {0};
        if (stat >= 0) {
            if (read(stat, state, sizeof state - 1) < 0) state[0] = 0;
            close(stat);
        }
        const char *behind = strrchr(state, ')');
        if (!behind || behind[2] == 'Z' || behind[2] == 'X') continue; /* it has ended: the driver freed its memory */
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        int found = open(path, O_RDONLY);
        ssize_t got = found >= 0 ? read(found, line, sizeof line - 1) : -1;
        if (found >= 0) close(found);
        if (got <= 0) continue;
        line[got] = 0;
        out[n++] = (registered_t){pid, strtoull(line, NULL, 10), strstr(line, "mps") != NULL};
    }
    closedir(listing);
    return n;
}

static u64 used_on(const char *card, int at) {
    u64 used = 0;
    registered_t processes[256];
    for (int i = at < 0 ? registered(card, processes, 256) : 0; i > 0; i--) used += processes[i - 1].bytes;
    const char *lists[] = {member(card, "processes"), member(card, "mps")};
    for (int list = 0; list < 2; list++)
        for (int i = 0; i < count_of(lists[list]); i++) {
            const char *process = item(lists[list], i);
            if (at < 0 || number(process, "slice", -1) == at) used += (u64)number(process, "bytes", 0);
        }
    return used;
}

typedef struct { u64 total, free, used; } memory_t;
typedef struct { unsigned version; u64 total, reserved, free, used; } memory_v2_t;

static nvmlReturn_t memory_of(void *h, u64 *total, u64 *used) {
    CARD(h);
    const char *from = slice_of(h) < 0 ? card : slice(card, h);
    *total = (u64)number(from, "memoryMiB", 0) << 20;
    *used = used_on(card, slice_of(h));
    return OK;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(void *h, memory_t *memory) {
    nvmlReturn_t result = memory_of(h, &memory->total, &memory->used);
    memory->free = memory->total - memory->used;
    return result;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(void *h, memory_v2_t *memory) {
    nvmlReturn_t result = memory_of(h, &memory->total, &memory->used);
    memory->reserved = 0;
    memory->free = memory->total - memory->used;
    return result;
}

typedef struct { unsigned gpu, memory; } utilization_t;

nvmlReturn_t nvmlDeviceGetUtilizationRates(void *h, utilization_t *out) {
    CARD(h);
    return out->gpu = out->memory = (unsigned)number(card, "utilization", 0), OK;
}

nvmlReturn_t nvmlDeviceGetTemperature(void *h, int sensor, unsigned *out) {
    CARD(h);
    return (void)sensor, *out = (unsigned)number(card, "temperature", 40), OK;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(void *h, unsigned *out) {
    CARD(h);
    return *out = (unsigned)number(card, "milliwatts", 100000), OK;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(void *h, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    CARD(h);
    *corrected = *pending = 0;
    *uncorrected = *failed = (unsigned)number(card, "rowFailure", 0);
    return OK;
}

/* ---- Processes ---- */

typedef struct { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; } process_t;

static nvmlReturn_t processes(void *h, const char *list, unsigned *count, process_t *out) {
    CARD(h);
    const char *all = member(card, list);
    unsigned room = *count, n = 0;
    for (int i = 0; i < count_of(all); i++) {
        const char *process = item(all, i);
        long long on = number(process, "slice", -1);
        if (slice_of(h) >= 0 && on != slice_of(h)) continue;
        if (n < room && out) {
            const char *its = on >= 0 ? item(member(card, "slices"), (int)on) : NULL;
            out[n] = (process_t){(unsigned)number(process, "pid", 0), (u64)number(process, "bytes", 0),
                                 (unsigned)number(its, "gi", 0xFFFFFFFF), (unsigned)number(its, "ci", 0xFFFFFFFF)};
        }
        n++;
    }
    registered_t own[256];
    int wants_mps = strcmp(list, "mps") == 0, others = strcmp(list, "graphics") == 0 || slice_of(h) >= 0;
    for (int i = 0, total = others ? 0 : registered(card, own, 256); i < total; i++) {
        if (wants_mps && !own[i].mps) continue; /* a client of MPS stands in both lists */
        if (n < room && out) out[n] = (process_t){own[i].pid, own[i].bytes, 0xFFFFFFFF, 0xFFFFFFFF};
        n++;
    }
    *count = n;
    return n > room ? SMALL : OK;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, process_t *out) {
    return processes(h, "processes", n, out);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(void *h, unsigned *n, process_t *out) {
    return processes(h, "mps", n, out);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(void *h, unsigned *n, process_t *out) {
    return processes(h, "graphics", n, out);
}

/* ---- MIG ---- */

nvmlReturn_t nvmlDeviceGetMigMode(void *h, unsigned *current, unsigned *pending) {
    CARD(h);
    long long mode = number(card, "mig", -1);
    if (mode < 0) return NOT_SUPPORTED;
    return *current = *pending = (unsigned)mode, OK;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *count) {
    CARD(h);
    return *count = number(card, "mig", -1) == 1 ? 7 : 0, OK;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned index, void **out) {
    CARD(h);
    if ((int)index >= count_of(member(card, "slices"))) return NOT_FOUND;
    return *out = handle(1000 + 100 * card_of(h) + (long)index), OK;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(void *h, unsigned *id) {
    CARD(h);
    return *id = (unsigned)number(slice(card, h), "gi", 0), OK;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(void *h, unsigned *id) {
    CARD(h);
    return *id = (unsigned)number(slice(card, h), "ci", 0), OK;
}

/* ---- Links ---- */

nvmlReturn_t nvmlDeviceGetNvLinkState(void *h, unsigned link, int *active) {
    CARD(h);
    const char *links = member(card, "links");
    unsigned total = 0;
    for (int i = 0; i < count_of(links); i++) total += (unsigned)strtol(item(links, i), NULL, 10);
    if (total == 0) return NOT_SUPPORTED;
    return *active = link < total, OK;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(void *h, unsigned link, pci_t *pci) {
    CARD(h);
    const char *links = member(card, "links");
    for (int i = 0; i < count_of(links); i++) {
        unsigned here = (unsigned)strtol(item(links, i), NULL, 10);
        if (link < here) return nvmlDeviceGetPciInfo_v3(handle(i + 1), pci);
        link -= here;
    }
    return INVALID;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(void *h, void *other, int *level) {
    CARD(h);
    const char *pcie = item(member(card, "pcie"), card_of(other));
    return *level = pcie ? (int)strtol(pcie, NULL, 10) : 40, OK;
}

/* ---- Events ---- */

typedef struct { void *device; u64 type, data; unsigned gpu_instance, compute_instance; } event_t;
static long long last_event, last_line;

/* The line after `line` of FILE.d/xids, "UUID XID", which a process that faulted wrote; 0 where there is none. */
static int xid_line(long long line, long *card, u64 *xid) {
    const char *file = getenv("GPUAAS_TEST_NVML"), *gpus = member(machine(), "gpus");
    char path[4608], uuid[96], own[96];
    snprintf(path, sizeof path, "%s.d/xids", file ? file : "");
    FILE *found = fopen(path, "r");
    int there = 0;
    while (found && fscanf(found, "%95s %llu", uuid, xid) == 2 && !there) there = line-- == 0;
    if (found) fclose(found);
    for (*card = 0; there && item(gpus, (int)*card); ++*card)
        if (text(item(gpus, (int)*card), "uuid", own, sizeof own) == OK && strcmp(own, uuid) == 0) return 1;
    return 0;
}

nvmlReturn_t nvmlEventSetCreate(void **set) {
    const char *xids = member(machine(), "xids");
    last_event = number(item(xids, count_of(xids) - 1), "number", 0); /* only what comes from now on */
    long card;
    u64 xid;
    for (last_line = 0; xid_line(last_line, &card, &xid);) last_line++;
    return *set = handle(1), OK;
}
nvmlReturn_t nvmlEventSetFree(void *set) { return (void)set, OK; }
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(void *h, u64 *types) { return (void)h, *types = 0xFF, OK; }
nvmlReturn_t nvmlDeviceRegisterEvents(void *h, u64 types, void *set) {
    CARD(h);
    return (void)card, (void)types, (void)set, OK;
}

nvmlReturn_t nvmlEventSetWait_v2(void *set, event_t *event, unsigned milliseconds) {
    (void)set;
    for (unsigned waited = 0;; waited += 20) {
        const char *xids = member(machine(), "xids");
        for (int i = 0; i < count_of(xids); i++) {
            const char *xid = item(xids, i);
            if (number(xid, "number", 0) <= last_event) continue;
            last_event = number(xid, "number", 0);
            *event = (event_t){handle(number(xid, "gpu", 0) + 1), 8, (u64)number(xid, "xid", 0), 0xFFFFFFFF, 0xFFFFFFFF};
            return OK;
        }
        long card;
        u64 number_of;
        if (xid_line(last_line, &card, &number_of)) {
            last_line++;
            *event = (event_t){handle(card + 1), 8, number_of, 0xFFFFFFFF, 0xFFFFFFFF};
            return OK;
        }
        if (waited >= milliseconds) return TIMEOUT;
        usleep(20000);
    }
}
