/* As much of tvm-ffi's C API as a compiled program and its header call, and OpenMP for one thread: for machines that have
 * no such libraries. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

typedef struct {
  TVMFFIObject header;
  TVMFFISafeCallType call;
  void *self;
  void (*deleter)(void *);
} function;

typedef struct {
  TVMFFIObject header;
  TVMFFIErrorCell cell;
  char kind[64], message[512];
} error;

typedef struct {
  TVMFFIObject header;
  TVMFFIByteArray bytes;
} string;

static error raised;

int TVMFFIObjectIncRef(TVMFFIObjectHandle object) {
  ((TVMFFIObject *)object)->combined_ref_count++;
  return 0;
}

int TVMFFIObjectDecRef(TVMFFIObjectHandle object) {
  TVMFFIObject *header = object;
  if (--header->combined_ref_count || header->type_index == kTVMFFIError) return 0;
  if (header->type_index == kTVMFFIFunction && ((function *)object)->deleter)
    ((function *)object)->deleter(((function *)object)->self);
  free(object);
  return 0;
}

int TVMFFIFunctionCreate(void *self, TVMFFISafeCallType call, void (*deleter)(void *), TVMFFIObjectHandle *out) {
  function *made = calloc(1, sizeof *made);
  made->header.combined_ref_count = 1;
  made->header.type_index = kTVMFFIFunction;
  made->call = call, made->self = self, made->deleter = deleter;
  *out = made;
  return 0;
}

int TVMFFIFunctionCall(TVMFFIObjectHandle called, TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  function *made = called;
  return made->call(made->self, arguments, count, result);
}

int TVMFFIStringFromByteArray(const TVMFFIByteArray *input, TVMFFIAny *out) {
  string *made = calloc(1, sizeof *made);
  made->header.combined_ref_count = 1;
  made->header.type_index = kTVMFFIStr;
  made->bytes = *input;
  out->type_index = kTVMFFIStr;
  out->v_ptr = made;
  return 0;
}

int TVMFFIErrorCreate(const TVMFFIByteArray *kind, const TVMFFIByteArray *message, const TVMFFIByteArray *backtrace,
                      TVMFFIObjectHandle *out) {
  (void)backtrace;
  snprintf(raised.kind, sizeof raised.kind, "%.*s", (int)kind->size, kind->data);
  snprintf(raised.message, sizeof raised.message, "%.*s", (int)message->size, message->data);
  raised.header.type_index = kTVMFFIError;
  raised.header.combined_ref_count = 1;
  *out = &raised;
  return 0;
}

void TVMFFIErrorSetRaised(TVMFFIObjectHandle error) { TVMFFIObjectIncRef(error); }

void TVMFFIErrorMoveFromRaised(TVMFFIObjectHandle *result) {
  raised.header.type_index = kTVMFFIError;
  raised.header.combined_ref_count = 1;
  raised.cell.kind = (TVMFFIByteArray){raised.kind, strlen(raised.kind)};
  raised.cell.message = (TVMFFIByteArray){raised.message, strlen(raised.message)};
  *result = &raised;
}

int __kmpc_bound_thread_num(void *where) { return where ? 0 : 0; }
int __kmpc_bound_num_threads(void *where) { return where ? 1 : 1; }
int __kmpc_global_thread_num(void *where) { return where ? 0 : 0; }
void __kmpc_push_num_threads(void *where, int thread, int count) { (void)where, (void)thread, (void)count; }
void __kmpc_fork_call(void *where, int count, void *work, ...) { (void)where, (void)count, (void)work, abort(); }
