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

/* A function of a program that is linked in. */
typedef struct {
  const char *name; /* as a shared library exports it */
  TVMFFISafeCallType function;
} tw_symbol;

/* What a compiled program says of its code for one CPU. */
typedef struct {
  const char *target;
  const char *const *cpu_flags; /* what /proc/cpuinfo must list; NULL ends them */
  int number;                   /* of its functions */
  int64_t weight_count;
  const uint64_t *weights; /* offsets in the file, or from where those inside begin */
} tw_variant;

/* What a compiled program says of itself. */
typedef struct {
  const char *name;
  uint64_t manifest_hash;  /* FNV-1a of the text that `metadata` returns */
  const char *fingerprint; /* of the weights file, which has it at an offset */
  uint64_t fingerprint_at, weights_bytes;
  int weights_inside; /* whether they are a part of the code, and no file */
  int32_t inputs, outputs;
  const tw_tensor *tensors; /* the inputs, then the outputs */
  int variant_count;
  const tw_variant *variants; /* the last one that the CPU can run is taken */
  const tw_symbol *symbols;   /* NULL for a shared library; a NULL name ends them */
} tw_program;

/* Weights in memory; `bytes` of a file are mapped, none where they are a part of the code. */
typedef struct {
  void *address;
  size_t bytes;
} tw_weights;

/* A program that is ready to run. Several threads may run it at once. */
typedef struct {
  const tw_program *program;
  const tw_variant *variant;
  void *library; /* NULL for one that is linked in */
  tw_weights weights;
  int threads;
  TVMFFIObjectHandle main;
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

/* The line of /proc/cpuinfo that lists what the CPU has, to be freed; NULL where it cannot be read. */
static inline char *tw_cpu_flags(void) {
  FILE *file = fopen("/proc/cpuinfo", "r");
  char *line = NULL;
  size_t room = 0;
  int found = 0;
  while (file && !found && getline(&line, &room, file) > 0)
    found = !strncmp(line, "flags", 5) || !strncmp(line, "Features", 8);
  if (file) fclose(file);
  if (!found) free(line);
  return found ? line : NULL;
}

/* Asks Linux for the registers of matrices (ARCH_REQ_XCOMP_PERM), which each process has to; whether it may use them. */
static inline int tw_request_matrix_registers(void) {
#if defined(__x86_64__)
  long refused;
  __asm__ volatile("syscall" : "=a"(refused) : "0"(158L), "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
  return !refused;
#else
  return 0;
#endif
}

/* The first feature that a variant needs and the process may not use; NULL if it can run. */
static inline const char *tw_lacking(const tw_variant *variant, const char *line) {
  const char *const *flag = variant->cpu_flags;
  while (*flag && line && tw_lists(line, *flag) && (strcmp(*flag, "amx_tile") || tw_request_matrix_registers())) flag++;
  return *flag;
}

/* Whether a variant is called so: by its target, or the CPU that this names. */
static inline int tw_called(const tw_variant *variant, const char *name) {
  const char *cpu = strstr(variant->target, "-mcpu=");
  size_t length = strlen(name);
  if (!strcmp(variant->target, name)) return 1;
  return cpu && !strncmp(cpu + 6, name, length) && (!cpu[6 + length] || cpu[6 + length] == ' ');
}

/* Says why no variant, or none of the `wanted` name, runs. */
static inline int tw_refuse_cpu(const tw_program *program, const char *wanted, const char *line, char *error,
                                size_t size) {
  char text[1024] = "";
  int several = 0;
  for (int i = 0; i < program->variant_count; i++) {
    const tw_variant *each = &program->variants[i];
    size_t used = strlen(text);
    if (wanted && !tw_called(each, wanted)) continue;
    snprintf(text + used, sizeof text - used, "%starget '%s', a CPU with %s", several++ ? "; " : "", each->target,
             tw_lacking(each, line));
  }
  if (!several) return tw_fail(error, size, "%s: there is no variant '%s'", program->name, wanted);
  return tw_fail(error, size, "%s: compiled for %s, which this one lacks: compile the model for this CPU", program->name,
                 text);
}

/* The last variant that the CPU can run; where there are several, $TILEWRIGHT_VARIANT may name one. */
static inline int tw_choose(const tw_program *program, const tw_variant **chosen, char *error, size_t size) {
  const char *wanted = program->variant_count > 1 ? getenv("TILEWRIGHT_VARIANT") : NULL;
  char *line = tw_cpu_flags();
  int status = 0, i = program->variant_count - 1;
  if (wanted && !*wanted) wanted = NULL;
  while (i >= 0 && ((wanted && !tw_called(&program->variants[i], wanted)) || tw_lacking(&program->variants[i], line))) i--;
  if (i < 0) status = tw_refuse_cpu(program, wanted, line, error, size);
  free(line);
  *chosen = i < 0 ? NULL : &program->variants[i];
  return status;
}

/* The function that a program exports under a name; `number` is that of its variant, or 0. NULL if there is none. */
static inline TVMFFISafeCallType tw_find(const tw_program *program, void *library, const char *name, int number) {
  char whole[64];
  TVMFFISafeCallType found = NULL;
  int length = snprintf(whole, sizeof whole, "__tvm_ffi_%s", name);
  if (number) snprintf(whole + length, sizeof whole - (size_t)length, "_%d", number);
  const tw_symbol *symbol = program->symbols;
  while (symbol && symbol->name && strcmp(symbol->name, whole)) symbol++;
  if (symbol) return symbol->function;
  *(void **)&found = dlsym(library, whole);
  return found;
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

static inline void tw_unmap(const tw_weights *weights) {
  if (weights->bytes) munmap(weights->address, weights->bytes);
}

/* The function object that `create` wants as an owner of the weights, which the model owns. */
static inline int tw_never_called(void *self, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  (void)self, (void)arguments, (void)count, (void)result;
  return 0;
}

/* Maps the weights file; the error says where it is not the program's. */
static inline int tw_map_weights(const tw_program *program, const char *path, tw_weights *weights, char *error,
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
  weights->bytes = (size_t)status.st_size;
  weights->address = mmap(NULL, weights->bytes, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (weights->address == MAP_FAILED) {
    weights->bytes = 0;
    return tw_fail(error, size, "cannot map %s: %s", path, strerror(errno));
  }
  const char *there = (const char *)weights->address + program->fingerprint_at;
  if (memcmp(there, program->fingerprint, strlen(program->fingerprint)))
    return tw_fail(error, size, "%s has the weights of another program: copy or compile both files together", path);
  return 0;
}

/* Calls `create`, which makes the model's `main`. */
static inline int tw_create(tw_model *model, char *error, size_t size) {
  const tw_variant *variant = model->variant;
  TVMFFISafeCallType create = tw_find(model->program, model->library, "create", variant->number);
  TVMFFIObjectHandle owner = NULL;
  TVMFFIAny made = tw_value(kTVMFFINone);
  uint64_t *addresses = (uint64_t *)malloc((size_t)(variant->weight_count + 1) * sizeof *addresses);
  if (!addresses) return tw_fail(error, size, "out of memory");
  for (int64_t i = 0; i < variant->weight_count; i++)
    addresses[i] = (uint64_t)(uintptr_t)model->weights.address + variant->weights[i];
  int status = !create || TVMFFIFunctionCreate(NULL, tw_never_called, NULL, &owner);
  if (!status) {
    const TVMFFIAny arguments[] = {tw_pointer(kTVMFFIOpaquePtr, addresses), tw_int(variant->weight_count),
                                   tw_int(model->threads), tw_pointer(kTVMFFIOpaquePtr, &tw_team_lock),
                                   tw_pointer(kTVMFFIFunction, owner)};
    status = create(NULL, arguments, 5, &made);
    TVMFFIObjectDecRef(owner); /* `main` has its own reference */
  }
  free(addresses);
  model->main = status ? NULL : made.v_obj;
  return status ? tw_raised(error, size) : 0;
}

/* Refuses code that is not the one that the header was made for. */
static inline int tw_check_code(const tw_program *program, void *library, char *error, size_t size) {
  TVMFFISafeCallType metadata = tw_find(program, library, "metadata", 0);
  TVMFFIAny text = tw_value(kTVMFFINone);
  if (!metadata) return tw_fail(error, size, "%s: the code is not a program made by Tilewright", program->name);
  if (metadata(NULL, NULL, 0, &text)) return tw_raised(error, size);
  const TVMFFIByteArray *bytes = (const TVMFFIByteArray *)((const char *)text.v_ptr + sizeof(TVMFFIObject));
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < bytes->size; i++) hash = (hash ^ (unsigned char)bytes->data[i]) * 0x100000001b3u;
  TVMFFIObjectDecRef(text.v_ptr);
  if (hash == program->manifest_hash) return 0;
  return tw_fail(error, size, "%s: the code is not that of this header: make the header again", program->name);
}

/* Opens a shared library, with what it needs of the process. */
static inline void *tw_open_library(const char *path, char *error, size_t size) {
  if (tw_load_openmp(error, size)) return NULL;
  char *whole = realpath(path, NULL); /* dlopen looks elsewhere for a name without a folder */
  void *library = whole ? dlopen(whole, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library) tw_fail(error, size, "cannot load %s: %s", path, whole ? dlerror() : strerror(errno));
  free(whole);
  return library;
}

/* The weights where they are: inside of the code, or in the file `path`. */
static inline int tw_find_weights(tw_model *model, const char *path, char *error, size_t size) {
  const tw_program *program = model->program;
  TVMFFIAny address = tw_value(kTVMFFINone);
  if (!model->variant->weight_count) return 0;
  if (!program->weights_inside) return tw_map_weights(program, path, &model->weights, error, size);
  TVMFFISafeCallType weights = tw_find(program, model->library, "weights", 0);
  if (!weights || weights(NULL, NULL, 0, &address)) return tw_raised(error, size);
  model->weights.address = address.v_ptr;
  return 0;
}

/* Frees what a model has. */
static inline void tw_release(tw_model *model) {
  if (model->main) TVMFFIObjectDecRef(model->main);
  tw_unmap(&model->weights);
  if (model->library) dlclose(model->library);
}

/* Fills in a model: the code in the library `path`, or that is linked in; the variant for this CPU; and the weights in the
 * file `weights` (any, NULL too, where there is none). 0 threads is one for each CPU. */
static inline int tw_prepare(tw_model *model, const tw_program *program, const char *path, const char *weights, int threads,
                             char *error, size_t size) {
  memset(model, 0, sizeof *model);
  model->program = program;
  model->threads = threads > 0 ? threads : (int)sysconf(_SC_NPROCESSORS_ONLN);
  int status = 0;
  if (!program->symbols) status = (model->library = tw_open_library(path, error, size)) ? 0 : -1;
  if (!status) status = tw_check_code(program, model->library, error, size);
  if (!status) status = tw_choose(program, &model->variant, error, size);
  if (!status) status = tw_find_weights(model, weights, error, size);
  if (status) tw_release(model);
  return status;
}

/* A program; NULL where it fails. */
static inline tw_model *tw_load(const tw_program *program, const char *path, const char *weights, int threads, char *error,
                                size_t size) {
  tw_model *model = (tw_model *)malloc(sizeof *model);
  int status = model ? tw_prepare(model, program, path, weights, threads, error, size)
                     : tw_fail(error, size, "out of memory");
  if (!status && (status = tw_create(model, error, size))) tw_release(model);
  if (status) free(model);
  return status ? NULL : model;
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
  tw_release(model);
  free(model);
}

#endif
