/* Runs programs whose sizes only the run knows; follows tilewright.h.
 *
 * For given sizes a program's function notes its kernel calls in a plan: which tensors each takes, and with which sizes.
 * Tensors that nobody sees get places in one block of memory. A plan is kept with its memory for the next run, which
 * makes the calls alone if it has the same sizes. */
#ifndef TILEWRIGHT_OPEN_H
#define TILEWRIGHT_OPEN_H

#include <math.h>

typedef struct tw_plan tw_plan;

/* A kernel: the steps of its parallel axis, in how many pieces each thread takes its part (0: one thread takes all), from
 * how many elements on several threads are worth it, and its scratch memory for each (-1: the kernel tells). */
typedef struct {
  int64_t extent, pieces, parallel_from, scratch_bytes;
} tw_kernel;

/* A program of open sizes, and how much room its plans need. */
typedef struct tw_routine {
  int (*plan)(tw_plan *plan, char *error, size_t size);
  const tw_kernel *kernels;
  const int64_t *shapes; /* where the extents of each input and output are among a plan's */
  const char *const *texts; /* what is wrong where the word of a report is not 0 */
  int64_t kernel_count, inputs, outputs, sizes, tensors, extents, numbers, reals, buffers, reports, calls, words;
  int64_t most; /* words of one call */
} tw_routine;

/* Memory of one tensor: bytes, the first and the last call that use it, and its place: a base of a run, and an offset. */
typedef struct {
  int64_t bytes, first, last, base, offset;
} tw_buffer;

/* A call as the program's `run_calls` reads it. */
typedef struct {
  int64_t address, words, extent, pieces, scratch_stride;
} tw_call_row;

enum { TW_SIZE, TW_ARENA, TW_WEIGHTS, TW_GIVEN }; /* bases; the inputs begin with the last, the outputs follow */

struct tw_plan {
  const tw_routine *routine;
  int64_t *sizes;                /* that the caller gives */
  int64_t *extents, *numbers;    /* of tensors; other whole numbers */
  double *reals;
  int64_t *held;                 /* the buffer of each tensor */
  int64_t *results;              /* the buffer of each output */
  int64_t *reports;              /* the buffer of each report's word */
  tw_buffer *buffers;            /* of inputs, weights, and what calls make */
  tw_call_row *calls;
  int64_t *kernels, *elements;   /* of each call: its kernel, and how many elements it makes */
  int64_t *bases, *offsets;      /* of each word; until they have places, a buffer (or -1, of sizes), and 0 */
  int64_t *addresses;            /* of the bases of a run */
  int64_t buffer_count, call_count, word_count, first_word, made;
  int fits;                      /* whether it is whole, for its sizes */
  int64_t arena_bytes;
  size_t room;
  char *arena;                   /* `room` bytes, the scratch memory at the end */
};

/* Arithmetic on sizes, which does not wrap: what is too large is the largest number, and no memory has room for it. */
static inline int64_t tw_add(int64_t a, int64_t b) {
  if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return b > 0 ? INT64_MAX : INT64_MIN;
  return a + b;
}

static inline int64_t tw_sub(int64_t a, int64_t b) {
  if (b < 0 ? a > INT64_MAX + b : a < INT64_MIN + b) return b < 0 ? INT64_MAX : INT64_MIN;
  return a - b;
}

static inline int64_t tw_mul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

/* Quotients are rounded toward zero, down, or up; by 0 they are 0. */
static inline int64_t tw_div(int64_t a, int64_t b) { return b == -1 ? tw_sub(0, a) : b ? a / b : 0; }
static inline int64_t tw_rem(int64_t a, int64_t b) { return b == -1 || !b ? 0 : a % b; }
static inline int64_t tw_floordiv(int64_t a, int64_t b) {
  return tw_div(a, b) - (b && tw_rem(a, b) && (a < 0) != (b < 0));
}
static inline int64_t tw_ceildiv(int64_t a, int64_t b) {
  return tw_div(a, b) + (b && tw_rem(a, b) && (a < 0) == (b < 0));
}
static inline int64_t tw_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tw_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t tw_aligned(int64_t bytes) { return tw_add(bytes, 63) / 64 * 64; }

/* The elements of a shape; -1 if it is none. */
static inline int64_t tw_elements(const int64_t *extents, int64_t rank) {
  int64_t count = 1, least = 0;
  for (int64_t i = 0; i < rank; i++) count = tw_mul(count, extents[i]), least = tw_min(least, extents[i]);
  return least < 0 ? -1 : count;
}

/* What a program's function notes of a call, in this order: the results' elements and buffers, the tensors, the sizes, the
 * kernel. */
static inline int64_t tw_count(tw_plan *plan, const int64_t *extents, int64_t rank) {
  int64_t count = tw_elements(extents, rank);
  plan->made = tw_add(plan->made, count);
  return count;
}

static inline int64_t tw_made(tw_plan *plan, int64_t count, int64_t itemsize) {
  const tw_buffer buffer = {tw_mul(count, itemsize), plan->call_count, plan->call_count, TW_ARENA, 0};
  plan->buffers[plan->buffer_count] = buffer;
  return plan->buffer_count++;
}

static inline void tw_word(tw_plan *plan, int64_t buffer, int64_t size) {
  plan->bases[plan->word_count] = buffer;
  plan->offsets[plan->word_count++] = size;
}

static inline void tw_tensor_word(tw_plan *plan, int64_t buffer) {
  plan->buffers[buffer].last = plan->call_count;
  tw_word(plan, buffer, 0);
}

/* Notes where a report's word is, which is read behind all calls. */
static inline void tw_reported(tw_plan *plan, int64_t report, int64_t buffer) {
  plan->reports[report] = buffer;
  plan->buffers[buffer].last = INT64_MAX;
}

static inline void tw_call(tw_plan *plan, int64_t kernel) {
  const tw_call_row row = {0, plan->word_count - plan->first_word, plan->routine->kernels[kernel].extent, 0, 0};
  plan->kernels[plan->call_count] = kernel;
  plan->elements[plan->call_count] = plan->made;
  plan->calls[plan->call_count++] = row;
  plan->first_word = plan->word_count;
  plan->made = 0;
}

/* An empty plan, in one block of memory but for its arena; NULL where there is none left. */
static inline tw_plan *tw_new_plan(const tw_routine *routine) {
  const int64_t bases = TW_GIVEN + routine->inputs + routine->outputs;
  const int64_t words = routine->sizes + routine->extents + routine->numbers + routine->reals + routine->tensors +
                        routine->outputs + routine->reports + 5 * routine->buffers + 7 * routine->calls + 2 * routine->words + bases;
  tw_plan *plan = (tw_plan *)calloc(1, sizeof *plan + (size_t)words * sizeof(int64_t));
  if (!plan) return NULL;
  int64_t *next = (int64_t *)(plan + 1);
  plan->routine = routine;
  plan->sizes = next, next += routine->sizes;
  plan->extents = next, next += routine->extents;
  plan->numbers = next, next += routine->numbers;
  plan->reals = (double *)next, next += routine->reals;
  plan->held = next, next += routine->tensors;
  plan->results = next, next += routine->outputs;
  plan->reports = next, next += routine->reports;
  plan->buffers = (tw_buffer *)next, next += 5 * routine->buffers;
  plan->calls = (tw_call_row *)next, next += 5 * routine->calls;
  plan->kernels = next, next += routine->calls;
  plan->elements = next, next += routine->calls;
  plan->bases = next, next += routine->words;
  plan->offsets = next, next += routine->words;
  plan->addresses = next;
  return plan;
}

static inline void tw_free_plan(tw_plan *plan) {
  if (plan) free(plan->arena);
  free(plan);
}

/* Notes the calls for these sizes. */
static inline int tw_note_calls(tw_plan *plan, const int64_t *sizes, char *error, size_t size) {
  plan->fits = 0;
  plan->buffer_count = plan->call_count = plan->word_count = plan->first_word = plan->made = 0;
  memcpy(plan->sizes, sizes, (size_t)plan->routine->sizes * sizeof *sizes);
  return plan->routine->plan(plan, error, size);
}

/* The extents of all inputs and outputs for these sizes, one shape after the other; they are NULL for scalars. */
static inline int tw_infer_shapes(const tw_program *program, const int64_t *sizes, int64_t *const *shapes, char *error,
                                  size_t size) {
  const tw_routine *routine = program->variants[0].routine;
  tw_plan *plan = tw_new_plan(routine);
  int status = plan ? tw_note_calls(plan, sizes, error, size) : tw_fail(error, size, "out of memory");
  for (int32_t i = 0; !status && i < program->inputs + program->outputs; i++)
    if (shapes[i])
      memcpy(shapes[i], plan->extents + routine->shapes[i], (size_t)program->tensors[i].rank * sizeof **shapes);
  tw_free_plan(plan);
  return status;
}

typedef void (*tw_kernel_code)(void *arguments, int64_t low, int64_t high, void *scratch);

/* A program of open sizes that is ready to run. */
typedef struct {
  tw_model base;
  tw_plan *spare; /* of a run that is over */
  int64_t *kernels;
  int64_t (*run_calls)(int64_t count, const void *calls, const void *which, const void *offsets, int64_t most,
                       const void *bases, void *scratch, void *team, int64_t nanoseconds);
  struct {
    int32_t threads;
    int32_t *lock;
    int64_t credit[3]; /* what several threads have gained of late: runtime/process/threads.py */
  } team;
} tw_open_model;

/* The smallest gap of at least so many bytes between buffers that are in use at the same time, sorted by place. */
static inline int64_t tw_gap(const tw_buffer *buffer, tw_buffer *const *placed, int64_t count) {
  int64_t best = -1, smallest = INT64_MAX, end = 0;
  for (int64_t i = 0; i < count; i++) {
    const tw_buffer *other = placed[i];
    if (other->last < buffer->first || buffer->last < other->first) continue;
    const int64_t gap = other->offset - end;
    if (gap >= tw_aligned(buffer->bytes) && gap < smallest) best = end, smallest = gap;
    end = tw_max(end, tw_add(other->offset, tw_aligned(other->bytes)));
  }
  return best < 0 ? end : best;
}

static inline int tw_larger(const void *a, const void *b) {
  const tw_buffer *const *first = (const tw_buffer *const *)a, *const *second = (const tw_buffer *const *)b;
  return (*first)->bytes > (*second)->bytes ? -1 : (*first)->bytes < (*second)->bytes;
}

/* Places all tensors that lie in the arena, the largest first; gives its bytes, or -1 without memory to work in. */
static inline int64_t tw_place(tw_plan *plan) {
  tw_buffer **order = (tw_buffer **)malloc((size_t)(plan->buffer_count + 1) * 2 * sizeof *order);
  tw_buffer **placed = order + plan->buffer_count;
  int64_t inside = 0, end = 0;
  if (!order) return -1;
  for (int64_t i = 0; i < plan->buffer_count; i++)
    if (plan->buffers[i].base == TW_ARENA) order[inside++] = &plan->buffers[i];
  qsort(order, (size_t)inside, sizeof *order, tw_larger);
  for (int64_t i = 0; i < inside; i++) {
    int64_t at = i;
    order[i]->offset = tw_gap(order[i], placed, i);
    end = tw_max(end, tw_add(order[i]->offset, tw_aligned(order[i]->bytes)));
    for (; at > 0 && placed[at - 1]->offset > order[i]->offset; at--) placed[at] = placed[at - 1];
    placed[at] = order[i];
  }
  free(order);
  return end;
}

/* Bytes of scratch memory for each thread of a call, whose words are noted. */
static inline int64_t tw_scratch(const tw_open_model *model, const tw_plan *plan, int64_t call, const int64_t *sizes) {
  int64_t answer[16], *aligned = answer + (64 - (uintptr_t)answer % 64) / sizeof *answer % 8;
  const int64_t needed = plan->routine->kernels[plan->kernels[call]].scratch_bytes;
  if (needed >= 0) return tw_aligned(needed);
  tw_kernel_code code = NULL;
  memcpy(&code, &model->kernels[plan->kernels[call]], sizeof code);
  code((void *)(uintptr_t)sizes, 0, -1, aligned); /* it reads sizes alone, where tensors are 0 */
  return tw_aligned(*aligned);
}

/* Where the tensors of inputs, weights and outputs are. */
static inline void tw_place_given(const tw_open_model *model, tw_plan *plan) {
  const tw_routine *routine = plan->routine;
  const tw_variant *variant = model->base.variant;
  for (int64_t i = 0; i < routine->inputs; i++) plan->buffers[i].base = TW_GIVEN + i;
  for (int64_t i = 0; i < variant->weight_count; i++) {
    plan->buffers[routine->inputs + i].base = TW_WEIGHTS;
    plan->buffers[routine->inputs + i].offset = (int64_t)variant->weights[i];
  }
  for (int64_t i = 0; i < routine->outputs; i++)
    if (plan->buffers[plan->results[i]].base == TW_ARENA)
      plan->buffers[plan->results[i]].base = TW_GIVEN + routine->inputs + i;
}

/* Completes the calls that are noted, and makes the arena as large as they want it. */
static inline int tw_complete(const tw_open_model *model, tw_plan *plan, char *error, size_t size) {
  int64_t scratch = 0, word = 0;
  tw_place_given(model, plan);
  plan->arena_bytes = tw_place(plan);
  if (plan->arena_bytes < 0) return tw_fail(error, size, "out of memory");
  for (int64_t i = 0; i < plan->call_count; word += plan->calls[i++].words) {
    const tw_kernel *kernel = &plan->routine->kernels[plan->kernels[i]];
    tw_call_row *row = &plan->calls[i];
    const int alone = model->base.threads == 1 || plan->elements[i] < kernel->parallel_from;
    row->address = model->kernels[plan->kernels[i]];
    row->pieces = alone ? 0 : kernel->pieces;
    row->scratch_stride = tw_scratch(model, plan, i, plan->offsets + word);
    scratch = tw_max(scratch, tw_mul(row->scratch_stride, row->pieces ? model->base.threads : 1));
  }
  for (int64_t i = 0; i < plan->word_count; i++) {
    const tw_buffer *buffer = plan->bases[i] < 0 ? NULL : &plan->buffers[plan->bases[i]];
    plan->bases[i] = buffer ? buffer->base : TW_SIZE;
    if (buffer) plan->offsets[i] = buffer->offset;
  }
  const size_t room = (size_t)tw_max(tw_add(plan->arena_bytes, scratch), 64);
  if (room > plan->room) {
    void *arena = NULL;
    free(plan->arena);
    plan->room = 0;
    plan->arena = NULL;
    if (posix_memalign(&arena, 64, room))
      return tw_fail(error, size, "%s: these sizes take %zu bytes of memory, which are not there",
                     model->base.program->name, room);
    plan->arena = (char *)arena;
    plan->room = room;
  }
  plan->fits = 1;
  return 0;
}

/* Bytes of the `i`-th of the inputs and outputs. */
static inline int64_t tw_bytes(const tw_open_model *model, const tw_plan *plan, int32_t i) {
  const tw_tensor *info = &model->base.program->tensors[i];
  return tw_elements(plan->extents + plan->routine->shapes[i], info->rank) * ((info->dtype.bits + 7) / 8);
}

/* Refuses memory that is not aligned to its elements, and outputs that share some with another tensor. */
static inline int tw_check_memory(const tw_open_model *model, const tw_plan *plan, char *error, size_t size) {
  const tw_program *program = model->base.program;
  const int64_t *at = plan->addresses + TW_GIVEN;
  for (int32_t i = 0; i < program->inputs + program->outputs; i++) {
    const char *role = i < program->inputs ? "input" : "output", *name = program->tensors[i].name;
    const int64_t bytes = tw_bytes(model, plan, i);
    if (bytes && (!at[i] || at[i] % ((program->tensors[i].dtype.bits + 7) / 8)))
      return tw_fail(error, size, "InputError: %s '%s' must be at a multiple of the size of its elements", role, name);
    for (int32_t j = 0; i >= program->inputs && j < i; j++)
      if (at[i] < at[j] + tw_bytes(model, plan, j) && at[j] < at[i] + bytes)
        return tw_fail(error, size, "InputError: %s '%s' has memory that overlaps that of '%s'", role, name,
                       program->tensors[j].name);
  }
  return 0;
}

/* Makes the calls of a plan, and copies outputs that no call has made. */
static inline void tw_make_calls(tw_open_model *model, tw_plan *plan) {
  const tw_routine *routine = plan->routine;
  if (plan->call_count)
    model->run_calls(plan->call_count, plan->calls, plan->bases, plan->offsets, routine->most, plan->addresses,
                     plan->arena + plan->arena_bytes, &model->team, INT64_MAX);
  for (int64_t i = 0; i < routine->outputs; i++) {
    const tw_buffer *buffer = &plan->buffers[plan->results[i]];
    const int64_t own = TW_GIVEN + routine->inputs + i, bytes = tw_bytes(model, plan, (int32_t)(routine->inputs + i));
    if (buffer->base != own && bytes)
      memcpy((void *)(uintptr_t)plan->addresses[own],
             (const void *)(uintptr_t)(plan->addresses[buffer->base] + buffer->offset), (size_t)bytes);
  }
}

/* Refuses a run that has made its calls where one of them has left a number from outside of what it indexes. */
static inline int tw_check_reports(const tw_plan *plan, char *error, size_t size) {
  for (int64_t i = 0; i < plan->routine->reports; i++) {
    const tw_buffer *buffer = &plan->buffers[plan->reports[i]];
    const int64_t word = *(const int64_t *)(uintptr_t)(plan->addresses[buffer->base] + buffer->offset);
    if (word) return tw_fail(error, size, "InputError: %s: %lld", plan->routine->texts[i], (long long)word);
  }
  return 0;
}

/* Runs the program for these sizes, as `tw_run` does. Several threads may: each has a plan of its own meanwhile. */
static inline int tw_open_run(tw_open_model *model, const int64_t *sizes, const void *const *inputs, void *const *outputs,
                              char *error, size_t size) {
  const tw_routine *routine = model->base.variant->routine;
  tw_plan *plan = __atomic_exchange_n(&model->spare, (tw_plan *)NULL, __ATOMIC_ACQ_REL);
  if (!plan && !(plan = tw_new_plan(routine))) return tw_fail(error, size, "out of memory");
  int status = 0;
  if (!plan->fits || memcmp(plan->sizes, sizes, (size_t)routine->sizes * sizeof *sizes)) {
    status = tw_note_calls(plan, sizes, error, size);
    if (!status) status = tw_complete(model, plan, error, size);
  }
  if (!status) {
    plan->addresses[TW_ARENA] = (int64_t)(uintptr_t)plan->arena;
    plan->addresses[TW_WEIGHTS] = (int64_t)(uintptr_t)model->base.weights.address;
    for (int64_t i = 0; i < routine->inputs; i++) plan->addresses[TW_GIVEN + i] = (int64_t)(uintptr_t)inputs[i];
    for (int64_t i = 0; i < routine->outputs; i++)
      plan->addresses[TW_GIVEN + routine->inputs + i] = (int64_t)(uintptr_t)outputs[i];
    status = tw_check_memory(model, plan, error, size);
  }
  if (!status) tw_make_calls(model, plan);
  if (!status) status = tw_check_reports(plan, error, size);
  tw_free_plan(__atomic_exchange_n(&model->spare, plan, __ATOMIC_ACQ_REL));
  return status;
}

/* Frees the program; NULL is none. No call of it may be under way. */
static inline void tw_open_free(tw_open_model *model) {
  if (!model) return;
  tw_free_plan(model->spare);
  free(model->kernels);
  tw_release(&model->base);
  free(model);
}

/* Asks the code for the addresses of its kernels. */
static inline int tw_find_kernels(tw_open_model *model, char *error, size_t size) {
  const tw_variant *variant = model->base.variant;
  TVMFFISafeCallType kernel = tw_find(model->base.program, model->base.library, "kernel", variant->number);
  TVMFFISafeCallType run_calls = tw_find(model->base.program, model->base.library, "run_calls", variant->number);
  TVMFFIAny found = tw_value(kTVMFFINone);
  if (!kernel || !run_calls || run_calls(NULL, NULL, 0, &found)) return tw_raised(error, size);
  memcpy(&model->run_calls, &found.v_ptr, sizeof found.v_ptr);
  model->kernels = (int64_t *)calloc((size_t)variant->routine->kernel_count + 1, sizeof *model->kernels);
  if (!model->kernels) return tw_fail(error, size, "out of memory");
  for (int64_t i = 0; i < variant->routine->kernel_count; i++) {
    const TVMFFIAny index = tw_int(i);
    if (kernel(NULL, &index, 1, &found)) return tw_raised(error, size);
    model->kernels[i] = (int64_t)(uintptr_t)found.v_ptr;
  }
  return 0;
}

/* A program of open sizes; NULL where it fails. */
static inline tw_open_model *tw_open_load(const tw_program *program, const char *path, const char *weights, int threads,
                                          char *error, size_t size) {
  tw_open_model *model = (tw_open_model *)calloc(1, sizeof *model);
  if (!model) return tw_fail(error, size, "out of memory"), (tw_open_model *)NULL;
  if (tw_prepare(&model->base, program, path, weights, threads, error, size)) return free(model), (tw_open_model *)NULL;
  if (tw_find_kernels(model, error, size)) return tw_open_free(model), (tw_open_model *)NULL;
  model->team.threads = model->base.threads;
  model->team.lock = &tw_team_lock;
  return model;
}

#endif
