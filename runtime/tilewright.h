/* Loads and runs programs that Tilewright compiled, through tvm-ffi's C API. C99 on Linux.
 *
 * Needs the headers and the library of the package apache-tvm-ffi (`tvm-ffi-config` tells where they are), and an OpenMP
 * runtime of LLVM's or Intel's kind. A function that fails returns -1 or NULL, with one line in `error`, which has `size`
 * bytes. With -std=c99 include this header before any other. */
#ifndef TILEWRIGHT_H
#define TILEWRIGHT_H

#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

/* An input or an output: DLPack's dtype, and the extents. */
typedef struct {
  const char *name;
  DLDataType dtype;
  int32_t rank;
  const int64_t *shape;
} tw_tensor;

/* What a compiled program says of itself. */
typedef struct {
  const char *name;
  const char *target;
  const char *const *cpu_flags; /* what /proc/cpuinfo must list; NULL ends them */
  uint64_t manifest_hash;       /* FNV-1a of the text that `metadata` returns */
  const char *fingerprint;      /* of the weights file, which has it at an offset */
  uint64_t fingerprint_at, weights_bytes;
  int64_t weight_count;
  const uint64_t *weights; /* offsets in the file */
  int32_t inputs, outputs;
  const tw_tensor *tensors; /* the inputs, then the outputs */
} tw_program;

/* A program that is ready to run. Several threads may run it at once. */
typedef struct {
  const tw_program *program;
  void *library;           /* NULL for one that is linked in */
  TVMFFIObjectHandle main; /* keeps the mapped weights */
} tw_model;

/* One team of threads at a time: a call that finds it taken runs on its own thread alone. */
__attribute__((weak)) int32_t tw_team_lock;

static inline int tw_fail(char *error, size_t size, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (size) vsnprintf(error, size, format, arguments);
  va_end(arguments);
  return -1;
}

/* The error that a call through tvm-ffi has raised. */
static inline int tw_raised(char *error, size_t size) {
  TVMFFIObjectHandle raised = NULL;
  TVMFFIErrorMoveFromRaised(&raised);
  if (!raised) return tw_fail(error, size, "a call failed without saying why");
  const TVMFFIErrorCell *cell = (const TVMFFIErrorCell *)((const char *)raised + sizeof(TVMFFIObject));
  tw_fail(error, size, "%.*s: %.*s", (int)cell->kind.size, cell->kind.data, (int)cell->message.size, cell->message.data);
  TVMFFIObjectDecRef(raised);
  return -1;
}

static inline TVMFFIAny tw_value(int32_t type_index) {
  TVMFFIAny value;
  memset(&value, 0, sizeof value);
  value.type_index = type_index;
  return value;
}

static inline TVMFFIAny tw_int(int64_t number) {
  TVMFFIAny value = tw_value(kTVMFFIInt);
  value.v_int64 = number;
  return value;
}

static inline TVMFFIAny tw_pointer(int32_t type_index, void *pointer) {
  TVMFFIAny value = tw_value(type_index);
  value.v_ptr = pointer;
  return value;
}

/* Whether the words of `line` have `flag` among them. */
static inline int tw_lists(const char *line, const char *flag) {
  size_t length = strlen(flag);
  for (const char *at = line; (at = strstr(at, flag)); at += length)
    if (at != line && strchr(" \t:", at[-1]) && strchr(" \t\n", at[length])) return 1;
  return 0;
}

static inline int tw_check_cpu(const tw_program *program, char *error, size_t size) {
  if (!*program->cpu_flags) return 0;
  FILE *file = fopen("/proc/cpuinfo", "r");
  if (!file) return tw_fail(error, size, "cannot read /proc/cpuinfo: %s", strerror(errno));
  char *line = NULL;
  size_t room = 0;
  int found = 0, status = 0;
  while (!found && getline(&line, &room, file) > 0) found = !strncmp(line, "flags", 5) || !strncmp(line, "Features", 8);
  fclose(file);
  for (const char *const *flag = program->cpu_flags; *flag && !status; flag++)
    if (!found || !tw_lists(line, *flag))
      status = tw_fail(error, size, "%s: compiled for target '%s', a CPU with %s, which this one lacks: compile the model "
                       "for this CPU", program->name, program->target, *flag);
  free(line);
  return status;
}

/* Makes an OpenMP runtime's functions visible to the program's code, unless the process has one. */
static inline int tw_load_openmp(char *error, size_t size) {
  static const char *const names[] = {"libomp.so", "libomp.so.5", "libiomp5.so"};
  void *process = dlopen(NULL, RTLD_NOW);
  void *there = process ? dlsym(process, "__kmpc_fork_call") : NULL;
  if (process) dlclose(process);
  for (size_t i = 0; !there && i < sizeof names / sizeof *names; i++) there = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
  if (there) return 0;
  return tw_fail(error, size, "no OpenMP runtime found: link with libomp, or have LD_LIBRARY_PATH name its folder");
}

/* The mapped weights; none has no bytes. */
typedef struct {
  void *address;
  size_t bytes;
} tw_mapping;

static inline void tw_unmap(void *self) {
  tw_mapping *mapping = (tw_mapping *)self;
  if (mapping->bytes) munmap(mapping->address, mapping->bytes);
  free(mapping);
}

/* The function object that owns the mapping is there for its end alone. */
static inline int tw_never_called(void *self, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  (void)self, (void)arguments, (void)count, (void)result;
  return 0;
}

/* Maps the weights file; the error says where it is not the program's. */
static inline int tw_map_weights(const tw_program *program, const char *path, tw_mapping *mapping, char *error,
                                 size_t size) {
  struct stat status;
  int file = open(path ? path : "", O_RDONLY | O_CLOEXEC);
  if (file < 0 || fstat(file, &status)) {
    tw_fail(error, size, "cannot read the weights file %s: %s", path ? path : "(none)", strerror(errno));
    if (file >= 0) close(file);
    return -1;
  }
  if ((uint64_t)status.st_size < program->weights_bytes) {
    close(file);
    return tw_fail(error, size, "%s is truncated: it has %lld bytes of %llu", path, (long long)status.st_size,
                   (unsigned long long)program->weights_bytes);
  }
  mapping->bytes = (size_t)status.st_size;
  mapping->address = mmap(NULL, mapping->bytes, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapping->address == MAP_FAILED) {
    mapping->bytes = 0;
    return tw_fail(error, size, "cannot map %s: %s", path, strerror(errno));
  }
  const char *there = (const char *)mapping->address + program->fingerprint_at;
  if (memcmp(there, program->fingerprint, strlen(program->fingerprint)))
    return tw_fail(error, size, "%s has the weights of another program: copy or compile both files together", path);
  return 0;
}

/* Calls `create`; `owner` is what `main` keeps. */
static inline int tw_call_create(const tw_program *program, TVMFFISafeCallType create, const char *weights, int threads,
                                 TVMFFIObjectHandle owner, TVMFFIAny *main, char *error, size_t size) {
  uint64_t *addresses = (uint64_t *)malloc((size_t)(program->weight_count + 1) * sizeof *addresses);
  if (!addresses) return tw_fail(error, size, "out of memory");
  for (int64_t i = 0; i < program->weight_count; i++) addresses[i] = (uint64_t)(uintptr_t)weights + program->weights[i];
  if (threads <= 0) threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
  const TVMFFIAny arguments[] = {tw_pointer(kTVMFFIOpaquePtr, addresses), tw_int(program->weight_count), tw_int(threads),
                                 tw_pointer(kTVMFFIOpaquePtr, &tw_team_lock), tw_pointer(kTVMFFIFunction, owner)};
  *main = tw_value(kTVMFFINone);
  int status = create(NULL, arguments, 5, main);
  free(addresses);
  return status ? tw_raised(error, size) : 0;
}

/* Refuses code that is not the one that the header was made for. */
static inline int tw_check_code(const tw_program *program, TVMFFISafeCallType metadata, char *error, size_t size) {
  TVMFFIAny text = tw_value(kTVMFFINone);
  if (metadata(NULL, NULL, 0, &text)) return tw_raised(error, size);
  const TVMFFIByteArray *bytes = (const TVMFFIByteArray *)((const char *)text.v_ptr + sizeof(TVMFFIObject));
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < bytes->size; i++) hash = (hash ^ (unsigned char)bytes->data[i]) * 0x100000001b3u;
  TVMFFIObjectDecRef(text.v_ptr);
  if (hash == program->manifest_hash) return 0;
  return tw_fail(error, size, "%s: the code is not that of this header: make the header again", program->name);
}

/* A program from its functions, with the weights in the file `weights` (any, NULL too, where it has none), on so many
 * threads; 0 is one for each CPU. */
static inline tw_model *tw_start(const tw_program *program, TVMFFISafeCallType create, TVMFFISafeCallType metadata,
                                 const char *weights, int threads, char *error, size_t size) {
  tw_model *model = (tw_model *)calloc(1, sizeof *model);
  tw_mapping *mapping = (tw_mapping *)calloc(1, sizeof *mapping);
  TVMFFIObjectHandle owner = NULL;
  TVMFFIAny made;
  int status = model && mapping ? tw_check_code(program, metadata, error, size) : tw_fail(error, size, "out of memory");
  if (!status) status = tw_check_cpu(program, error, size);
  if (!status && program->weight_count) status = tw_map_weights(program, weights, mapping, error, size);
  if (!status && TVMFFIFunctionCreate(mapping, tw_never_called, tw_unmap, &owner)) status = tw_raised(error, size);
  if (!status) {
    status = tw_call_create(program, create, (const char *)mapping->address, threads, owner, &made, error, size);
    TVMFFIObjectDecRef(owner); /* `main` has its own reference */
  } else if (mapping) {
    tw_unmap(mapping);
  }
  if (status) {
    free(model);
    return NULL;
  }
  model->program = program;
  model->main = made.v_obj;
  return model;
}

/* A program from a shared library. */
static inline tw_model *tw_load(const tw_program *program, const char *path, const char *create_name, const char *weights,
                                int threads, char *error, size_t size) {
  if (tw_load_openmp(error, size)) return NULL;
  char *whole = realpath(path, NULL); /* dlopen looks elsewhere for a name without a folder */
  void *library = whole ? dlopen(whole, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library) tw_fail(error, size, "cannot load %s: %s", path, whole ? dlerror() : strerror(errno));
  free(whole);
  if (!library) return NULL;
  TVMFFISafeCallType create, metadata;
  *(void **)&create = dlsym(library, create_name);
  *(void **)&metadata = dlsym(library, "__tvm_ffi_metadata");
  tw_model *model = NULL;
  if (!create || !metadata)
    tw_fail(error, size, "%s is not a program made by Tilewright", path);
  else
    model = tw_start(program, create, metadata, weights, threads, error, size);
  if (model)
    model->library = library;
  else
    dlclose(library);
  return model;
}

/* Runs the program on the inputs' data and writes the outputs' in place: contiguous, each at a multiple of the size of
 * its elements. */
static inline int tw_run(tw_model *model, const void *const *inputs, void *const *outputs, char *error, size_t size) {
  const tw_program *program = model->program;
  int32_t count = program->inputs + program->outputs;
  char *room = (char *)calloc((size_t)count + 1, sizeof(DLTensor) + sizeof(TVMFFIAny));
  if (!room) return tw_fail(error, size, "out of memory");
  DLTensor *tensors = (DLTensor *)room;
  TVMFFIAny *arguments = (TVMFFIAny *)(tensors + count), result = tw_value(kTVMFFINone);
  for (int32_t i = 0; i < count; i++) {
    const tw_tensor *info = &program->tensors[i];
    tensors[i].data = i < program->inputs ? (void *)(uintptr_t)inputs[i] : outputs[i - program->inputs];
    tensors[i].device.device_type = kDLCPU;
    tensors[i].ndim = info->rank;
    tensors[i].dtype = info->dtype;
    tensors[i].shape = (int64_t *)(uintptr_t)info->shape;
    arguments[i] = tw_pointer(kTVMFFIDLTensorPtr, &tensors[i]);
  }
  int status = TVMFFIFunctionCall(model->main, arguments, count, &result);
  free(room);
  return status ? tw_raised(error, size) : 0;
}

/* Frees the program; NULL is none. No call of it may be under way. */
static inline void tw_free(tw_model *model) {
  if (!model) return;
  TVMFFIObjectDecRef(model->main);
  if (model->library) dlclose(model->library);
  free(model);
}

#endif
