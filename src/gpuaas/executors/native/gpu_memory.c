/* A memory budget for the GPU processes of one pod, enforced in the process that asks.
 *
 * Preloaded (LD_PRELOAD), the library stands before the CUDA driver's allocation calls. An allocation that would take the
 * pod over its budget fails with CUDA_ERROR_OUT_OF_MEMORY, before any neighbour on the card notices; memory queries
 * (cuMemGetInfo, cuDeviceTotalMem, NVML) show the budget as the card. Programs reach the driver in three ways, and all are
 * covered: as linked symbols, by dlsym, and by cuGetProcAddress, which the CUDA runtime uses.
 *
 *   GPUAAS_GPU_MEMORY       bytes for each visible device, in CUDA's order: "12884901888" or "12884901888,8589934592"
 *   GPUAAS_GPU_MEMORY_FILE  a file all processes of the pod map: one budget for them together
 *
 * The file holds one slot a process. A process keeps a record lock on its slot, which the kernel drops when the process
 * ends in whatever way, so what a killed process held is free again at the next allocation of any other.
 *
 * What passes by: programs that are statically linked or clear their environment, memory the driver takes for itself
 * beyond CONTEXT_BYTES, and memory of CUDA graphs' allocation nodes. The guard outside (NVML by process) stops those.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define DEVICES 16
#define SLOTS 512
#define CONTEXT_BYTES (512ull << 20) /* what a CUDA context costs on the card, once for each process and device */
#define OUT_OF_MEMORY 2              /* CUDA_ERROR_OUT_OF_MEMORY */

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUhandle;

typedef struct {
    int type, handle_types;
    struct { int type, id; } location;
    void *windows;
    unsigned char flags[8];
} CUprop;

/* ---------------------------------------------------------------------------------------------------------------- */
/* The account: who of the pod holds how much. */

typedef struct {
    uint64_t used[DEVICES];
} slot_t;

typedef struct {
    uint32_t magic, ready;
    pthread_mutex_t lock; /* robust: a holder that dies leaves it to the next */
    slot_t slots[SLOTS];
} account_t;

#define MAGIC 0x67707501u

static uint64_t budget[DEVICES];
static int budgets; /* how many devices have one; 0 switches the library off */
static account_t *account, private_account;
static int account_file = -1, my_slot = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char context_charged[DEVICES];

static int slot_lock(int type, int command, int slot) {
    struct flock range = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    if (fcntl(account_file, command, &range) < 0) return -1;
    return range.l_type;
}

static void account_init(account_t *a) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&a->lock, &attributes);
    a->magic = MAGIC;
    __atomic_store_n(&a->ready, 1, __ATOMIC_RELEASE);
}

static account_t *map_account(const char *path) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return NULL;
    /* Away from the numbers that programs close by habit: a closed descriptor drops the record lock. */
    int high = fcntl(file, F_DUPFD_CLOEXEC, 900);
    if (high >= 0) { close(file); file = high; }
    account_file = file;
    struct stat found;
    /* One byte past the slots serves as the lock of the file's first initialization. */
    struct flock first = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = SLOTS, .l_len = 1};
    if (fcntl(file, F_SETLKW, &first) < 0 || fstat(file, &found) < 0) goto failed;
    if ((size_t)found.st_size < sizeof(account_t) && ftruncate(file, sizeof(account_t)) < 0) goto failed;
    account_t *mapped = mmap(NULL, sizeof(account_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) goto failed;
    if (mapped->magic != MAGIC || !mapped->ready) account_init(mapped);
    first.l_type = F_UNLCK;
    fcntl(file, F_SETLK, &first);
    return mapped;
failed:
    close(file);
    account_file = -1;
    return NULL;
}

static void lock_account(void) {
    if (pthread_mutex_lock(&account->lock) == EOWNERDEAD) pthread_mutex_consistent(&account->lock);
}

static void unlock_account(void) { pthread_mutex_unlock(&account->lock); }

/* A child of fork starts without anything: what its parent holds stays the parent's. */
static void after_fork(void);

static void start(void) {
    const char *text = getenv("GPUAAS_GPU_MEMORY");
    while (text && *text && budgets < DEVICES) {
        char *end;
        budget[budgets++] = strtoull(text, &end, 10);
        text = *end == ',' ? end + 1 : "";
    }
    if (budgets == 0) return;
    const char *path = getenv("GPUAAS_GPU_MEMORY_FILE");
    account = path && *path ? map_account(path) : NULL;
    if (!account) {
        account_init(&private_account);
        account = &private_account;
    }
    pthread_atfork(NULL, NULL, after_fork);
}

static int device_has_budget(CUdevice device) {
    pthread_once(&once, start);
    return device >= 0 && device < budgets && budget[device] > 0;
}

/* Takes a slot under the lock; the slots of processes that have ended are emptied on the way. */
static void take_slot(void) {
    if (account_file < 0) { my_slot = 0; return; }
    for (int slot = 0; slot < SLOTS && my_slot < 0; slot++) {
        if (slot_lock(F_WRLCK, F_SETLK, slot) >= 0) {
            memset(&account->slots[slot], 0, sizeof(slot_t));
            my_slot = slot;
        }
    }
}

static uint64_t used_by_pod(CUdevice device) {
    uint64_t sum = 0;
    for (int slot = 0; slot < SLOTS; slot++) {
        uint64_t held = account->slots[slot].used[device];
        if (held == 0) continue;
        if (slot != my_slot && account_file >= 0 && slot_lock(F_WRLCK, F_GETLK, slot) == F_UNLCK) {
            memset(&account->slots[slot], 0, sizeof(slot_t)); /* its process has ended */
            continue;
        }
        sum += held;
    }
    return sum;
}

/* Charges the bytes, and the context where this is the process's first use of the device. 0 where they do not fit. */
static int charge(CUdevice device, uint64_t bytes) {
    lock_account();
    if (my_slot < 0) take_slot();
    uint64_t context = context_charged[device] ? 0 : CONTEXT_BYTES;
    int fits = my_slot >= 0;
    if (fits) {
        uint64_t used = used_by_pod(device) + context;
        fits = used <= budget[device] && bytes <= budget[device] - used;
    }
    if (fits) {
        account->slots[my_slot].used[device] += bytes + context;
        context_charged[device] = 1;
    }
    unlock_account();
    return fits;
}

static void refund(CUdevice device, uint64_t bytes) {
    lock_account();
    if (my_slot >= 0) {
        uint64_t *used = &account->slots[my_slot].used[device];
        *used = *used > bytes ? *used - bytes : 0;
    }
    unlock_account();
}

static uint64_t left_of(CUdevice device) {
    lock_account();
    uint64_t used = used_by_pod(device);
    if (!context_charged[device]) used += CONTEXT_BYTES;
    unlock_account();
    return used < budget[device] ? budget[device] - used : 0;
}

/* ---------------------------------------------------------------------------------------------------------------- */
/* What this process holds: the size and device of every pointer, handle and mapping, in one open-addressed table. */

enum { FREE_CELL, GONE_CELL, POINTER, HANDLE, MAPPING };

typedef struct {
    uint64_t key, bytes, handle; /* handle: of a MAPPING, the allocation it maps */
    int kind, device, maps, released;
} held_t;

static held_t *held;
static size_t held_size, held_count;
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t place_of(int kind, uint64_t key, size_t size) {
    uint64_t mixed = (key ^ ((uint64_t)kind << 60)) * 0x9E3779B97F4A7C15ull;
    return (size_t)(mixed >> 20) & (size - 1);
}

static held_t *find(int kind, uint64_t key) {
    if (!held) return NULL;
    for (size_t i = place_of(kind, key, held_size);; i = (i + 1) & (held_size - 1)) {
        if (held[i].kind == FREE_CELL) return NULL;
        if (held[i].kind == kind && held[i].key == key) return &held[i];
    }
}

static void insert(held_t entry) {
    if ((held_count + 1) * 2 > held_size) {
        size_t old_size = held_size;
        held_t *old = held, *bigger = calloc(old_size ? old_size * 2 : 1024, sizeof(held_t));
        if (!bigger) return; /* untracked: it stays charged until the process ends */
        held = bigger;
        held_size = old_size ? old_size * 2 : 1024;
        held_count = 0;
        for (size_t i = 0; i < old_size; i++)
            if (old[i].kind > GONE_CELL) insert(old[i]);
        free(old);
    }
    size_t i = place_of(entry.kind, entry.key, held_size);
    while (held[i].kind > GONE_CELL) i = (i + 1) & (held_size - 1);
    if (held[i].kind == FREE_CELL) held_count++;
    held[i] = entry;
}

static void hold(int kind, uint64_t key, uint64_t bytes, CUdevice device) {
    pthread_mutex_lock(&held_lock);
    insert((held_t){.key = key, .bytes = bytes, .kind = kind, .device = device});
    pthread_mutex_unlock(&held_lock);
}

/* Forgets what the key held and gives its bytes back. */
static void drop(int kind, uint64_t key) {
    pthread_mutex_lock(&held_lock);
    held_t *entry = find(kind, key);
    uint64_t bytes = entry ? entry->bytes : 0;
    int device = entry ? entry->device : 0;
    if (entry) entry->kind = GONE_CELL;
    pthread_mutex_unlock(&held_lock);
    if (bytes) refund(device, bytes);
}

static void after_fork(void) {
    my_slot = -1;
    memset(context_charged, 0, sizeof context_charged);
    pthread_mutex_init(&held_lock, NULL);
    free(held);
    held = NULL;
    held_size = held_count = 0;
}

/* ---------------------------------------------------------------------------------------------------------------- */
/* The driver's own functions. */

typedef void *(*dlsym_t)(void *, const char *);
static dlsym_t system_dlsym;

static dlsym_t real_dlsym(void) {
    if (!system_dlsym) {
        static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
        for (size_t i = 0; i < 3 && !system_dlsym; i++)
            system_dlsym = (dlsym_t)(uintptr_t)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    }
    return system_dlsym;
}

static void *next(void **kept, const char *name) {
    if (!*kept) *kept = real_dlsym()(RTLD_NEXT, name);
    return *kept;
}

/* A wrapper is the exported symbol itself. `REAL` is the driver's function, found when the program looked it up or, for a
 * program that links the driver, behind us in the search order. */
#define REAL(name) ((typeof(&name))next(&real_##name, #name))
#define DECLARE(name) static void *real_##name

static CUdevice current_device(void) {
    static void *real;
    static CUresult (*query)(CUdevice *);
    if (!query) query = (CUresult(*)(CUdevice *))next(&real, "cuCtxGetDevice");
    if (!query) {
        void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        if (driver) query = (CUresult(*)(CUdevice *))real_dlsym()(driver, "cuCtxGetDevice");
    }
    CUdevice device = 0;
    return query && query(&device) == 0 ? device : 0;
}

#define ALLOCATE(device, bytes, pointer, call)                                 \
    do {                                                                       \
        CUdevice on_ = (device);                                               \
        uint64_t bytes_ = (bytes);                                             \
        if (!device_has_budget(on_)) return (call);                            \
        if (!charge(on_, bytes_)) return OUT_OF_MEMORY;                        \
        CUresult result_ = (call);                                             \
        if (result_ == 0) hold(POINTER, (uint64_t) * (pointer), bytes_, on_);  \
        else refund(on_, bytes_);                                              \
        return result_;                                                        \
    } while (0)

DECLARE(cuMemAlloc_v2);
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    ALLOCATE(current_device(), bytes, pointer, REAL(cuMemAlloc_v2)(pointer, bytes));
}

DECLARE(cuMemAllocPitch_v2);
EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element) {
    /* The driver rounds rows up to 512 bytes. */
    ALLOCATE(current_device(), ((width + 511) & ~(size_t)511) * height, pointer,
             REAL(cuMemAllocPitch_v2)(pointer, pitch, width, height, element));
}

DECLARE(cuMemAllocManaged);
EXPORT CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags) {
    ALLOCATE(current_device(), bytes, pointer, REAL(cuMemAllocManaged)(pointer, bytes, flags));
}

/* Stream-ordered calls exist twice: _ptsz is for programs compiled with a default stream for each thread. */
#define ASYNC(suffix)                                                                                                    \
    DECLARE(cuMemAllocAsync##suffix);                                                                                    \
    EXPORT CUresult cuMemAllocAsync##suffix(CUdeviceptr *pointer, size_t bytes, void *stream) {                          \
        ALLOCATE(current_device(), bytes, pointer, REAL(cuMemAllocAsync##suffix)(pointer, bytes, stream));               \
    }                                                                                                                    \
    DECLARE(cuMemAllocFromPoolAsync##suffix);                                                                            \
    EXPORT CUresult cuMemAllocFromPoolAsync##suffix(CUdeviceptr *pointer, size_t bytes, void *pool, void *stream) {      \
        ALLOCATE(current_device(), bytes, pointer,                                                                       \
                 REAL(cuMemAllocFromPoolAsync##suffix)(pointer, bytes, pool, stream));                                   \
    }                                                                                                                    \
    DECLARE(cuMemFreeAsync##suffix);                                                                                     \
    EXPORT CUresult cuMemFreeAsync##suffix(CUdeviceptr pointer, void *stream) {                                          \
        CUresult result = REAL(cuMemFreeAsync##suffix)(pointer, stream);                                                 \
        if (result == 0) drop(POINTER, pointer);                                                                         \
        return result;                                                                                                   \
    }
ASYNC()
ASYNC(_ptsz)

DECLARE(cuMemFree_v2);
EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer) {
    CUresult result = REAL(cuMemFree_v2)(pointer);
    if (result == 0) drop(POINTER, pointer);
    return result;
}

/* Physical memory by handle: it is free once the handle is released and nothing maps it any more. */
DECLARE(cuMemCreate);
EXPORT CUresult cuMemCreate(CUhandle *handle, size_t bytes, const CUprop *prop, unsigned long long flags) {
    int on_device = prop && prop->location.type == 1; /* memory of the host does not count */
    CUdevice device = on_device ? prop->location.id : -1;
    if (!on_device || !device_has_budget(device)) return REAL(cuMemCreate)(handle, bytes, prop, flags);
    if (!charge(device, bytes)) return OUT_OF_MEMORY;
    CUresult result = REAL(cuMemCreate)(handle, bytes, prop, flags);
    if (result == 0) hold(HANDLE, *handle, bytes, device);
    else refund(device, bytes);
    return result;
}

/* Gives the bytes of a handle back once nobody holds them; call with the table locked. */
static uint64_t settled(held_t *handle) {
    if (!handle || !handle->released || handle->maps > 0) return 0;
    handle->kind = GONE_CELL;
    return handle->bytes;
}

DECLARE(cuMemRelease);
EXPORT CUresult cuMemRelease(CUhandle key) {
    CUresult result = REAL(cuMemRelease)(key);
    if (result != 0) return result;
    pthread_mutex_lock(&held_lock);
    held_t *handle = find(HANDLE, key);
    if (handle) handle->released = 1;
    int device = handle ? handle->device : 0;
    uint64_t bytes = settled(handle);
    pthread_mutex_unlock(&held_lock);
    if (bytes) refund(device, bytes);
    return 0;
}

DECLARE(cuMemMap);
EXPORT CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUhandle key, unsigned long long flags) {
    CUresult result = REAL(cuMemMap)(pointer, bytes, offset, key, flags);
    if (result != 0) return result;
    pthread_mutex_lock(&held_lock);
    held_t *handle = find(HANDLE, key);
    if (handle) {
        handle->maps++;
        insert((held_t){.key = pointer, .bytes = bytes, .handle = key, .kind = MAPPING});
    }
    pthread_mutex_unlock(&held_lock);
    return 0;
}

DECLARE(cuMemUnmap);
EXPORT CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
    CUresult result = REAL(cuMemUnmap)(pointer, bytes);
    if (result != 0) return result;
    /* One call may unmap several neighbouring mappings. */
    for (uint64_t at = pointer, end = pointer + bytes; at < end;) {
        pthread_mutex_lock(&held_lock);
        held_t *mapping = find(MAPPING, at);
        uint64_t step = mapping ? mapping->bytes : 0, freed = 0;
        int device = 0;
        if (mapping) {
            held_t *handle = find(HANDLE, mapping->handle);
            mapping->kind = GONE_CELL;
            if (handle) {
                handle->maps--;
                device = handle->device;
                freed = settled(handle);
            }
        }
        pthread_mutex_unlock(&held_lock);
        if (freed) refund(device, freed);
        if (!step) break;
        at += step;
    }
    return 0;
}

DECLARE(cuMemGetInfo_v2);
EXPORT CUresult cuMemGetInfo_v2(size_t *unused, size_t *total) {
    CUresult result = REAL(cuMemGetInfo_v2)(unused, total);
    CUdevice device = current_device();
    if (result != 0 || !device_has_budget(device)) return result; /* also without a context: the driver's answer stands */
    uint64_t left = left_of(device);
    if (*total > budget[device]) *total = budget[device];
    if (*unused > left) *unused = left;
    return 0;
}

DECLARE(cuDeviceTotalMem_v2);
EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    CUresult result = REAL(cuDeviceTotalMem_v2)(bytes, device);
    if (result == 0 && device_has_budget(device) && *bytes > budget[device]) *bytes = budget[device];
    return result;
}

/* ---------------------------------------------------------------------------------------------------------------- */
/* NVML inside the pod shows the budget as the card. Its devices are those of the machine, not those CUDA shows, so the
 * first budget stands for every card where the pod has one, which is how shares are given out. */

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2_t;

static int nvml_device(void) {
    pthread_once(&once, start);
    return budgets == 1 ? 0 : -1;
}

DECLARE(nvmlDeviceGetMemoryInfo);
EXPORT int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {
    int result = REAL(nvmlDeviceGetMemoryInfo)(device, memory);
    if (result == 0 && device_has_budget(nvml_device()) && memory->total > budget[0]) {
        memory->total = budget[0];
        memory->free = left_of(0);
        memory->used = memory->total - memory->free;
    }
    return result;
}

DECLARE(nvmlDeviceGetMemoryInfo_v2);
EXPORT int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2_t *memory) {
    int result = REAL(nvmlDeviceGetMemoryInfo_v2)(device, memory);
    if (result == 0 && device_has_budget(nvml_device()) && memory->total > budget[0]) {
        memory->total = budget[0];
        memory->reserved = 0;
        memory->free = left_of(0);
        memory->used = memory->total - memory->free;
    }
    return result;
}

/* ---------------------------------------------------------------------------------------------------------------- */
/* Look-ups. */

typedef struct {
    const char *symbol; /* as dlsym is asked */
    const char *base;   /* as cuGetProcAddress is asked, with a flag for the _ptsz variants */
    int per_thread;
    void *wrapper, **real;
} wrapped_t;

EXPORT CUresult cuGetProcAddress(const char *, void **, int, unsigned long long);
EXPORT CUresult cuGetProcAddress_v2(const char *, void **, int, unsigned long long, int *);
DECLARE(cuGetProcAddress);
DECLARE(cuGetProcAddress_v2);

#define WRAP(symbol, base, per_thread) {#symbol, base, per_thread, (void *)&symbol, &real_##symbol}
static const wrapped_t wrapped[] = {
    WRAP(cuMemAlloc_v2, "cuMemAlloc", 0),
    WRAP(cuMemAllocPitch_v2, "cuMemAllocPitch", 0),
    WRAP(cuMemAllocManaged, "cuMemAllocManaged", 0),
    WRAP(cuMemAllocAsync, "cuMemAllocAsync", 0),
    WRAP(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 1),
    WRAP(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 0),
    WRAP(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 1),
    WRAP(cuMemFree_v2, "cuMemFree", 0),
    WRAP(cuMemFreeAsync, "cuMemFreeAsync", 0),
    WRAP(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 1),
    WRAP(cuMemCreate, "cuMemCreate", 0),
    WRAP(cuMemRelease, "cuMemRelease", 0),
    WRAP(cuMemMap, "cuMemMap", 0),
    WRAP(cuMemUnmap, "cuMemUnmap", 0),
    WRAP(cuMemGetInfo_v2, "cuMemGetInfo", 0),
    WRAP(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 0),
    WRAP(cuGetProcAddress, "cuGetProcAddress.1", 0), /* what who asks for an old version is given */
    WRAP(cuGetProcAddress_v2, "cuGetProcAddress", 0),
    WRAP(nvmlDeviceGetMemoryInfo, NULL, 0),
    WRAP(nvmlDeviceGetMemoryInfo_v2, NULL, 0),
};
#define WRAPPED (sizeof wrapped / sizeof *wrapped)

static const wrapped_t *by_symbol(const char *name) {
    for (size_t i = 0; i < WRAPPED; i++)
        if (strcmp(wrapped[i].symbol, name) == 0) return &wrapped[i];
    return NULL;
}

#define STATUS_SINCE 12000 /* the driver version from which cuGetProcAddress has its fifth parameter */

/* flags: 1 the legacy default stream, 2 one for each thread. Names may carry their version and _ptsz already. */
static void replace(const char *name, void **found, int version, unsigned long long flags) {
    if (!found || !*found) return;
    if (version < STATUS_SINCE && strcmp(name, "cuGetProcAddress") == 0) name = "cuGetProcAddress.1";
    int async = strstr(name, "Async") != NULL;
    for (size_t i = 0; i < WRAPPED; i++) {
        const wrapped_t *entry = &wrapped[i];
        int same = entry->base && strcmp(entry->base, name) == 0 ? !async || entry->per_thread == ((flags & 2) != 0)
                                                                 : strcmp(entry->symbol, name) == 0;
        if (!same || entry->wrapper == *found) continue;
        if (!*entry->real) *entry->real = *found;
        *found = entry->wrapper;
        return;
    }
}

EXPORT CUresult cuGetProcAddress(const char *name, void **found, int version, unsigned long long flags) {
    CUresult result = REAL(cuGetProcAddress)(name, found, version, flags);
    if (result == 0) replace(name, found, version, flags);
    return result;
}

EXPORT CUresult cuGetProcAddress_v2(const char *name, void **found, int version, unsigned long long flags, int *status) {
    CUresult result = REAL(cuGetProcAddress_v2)(name, found, version, flags, status);
    if (result == 0 && version >= 3020) replace(name, found, version, flags);
    return result;
}

/* Every other name is passed on by a jump, not a call: RTLD_NEXT means the object that called, and the system's dlsym
 * finds that by the return address. The compiler turns the last call into a jump at -O2, which the build asks for. */
EXPORT void *dlsym(void *library, const char *name) {
    if (name[0] == 'c' || name[0] == 'n') {
        const wrapped_t *entry = by_symbol(name);
        if (entry && library != RTLD_NEXT) {
            void *found = real_dlsym()(library, name);
            if (!found || found == entry->wrapper) return found;
            if (!*entry->real) *entry->real = found;
            return entry->wrapper;
        }
    }
    return real_dlsym()(library, name);
}
