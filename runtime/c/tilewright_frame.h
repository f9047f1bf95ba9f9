/* Runs programs with sizes, or a course, that only the run knows: their `main` takes a frame, words in which caller and
 * code leave each other tensors. Behind TW_FRAME_HEAD words, which are 0, come each input's address and extents, and then
 * each output's address, how many bytes there are, and its extents, which the run fills in. */
#ifndef TILEWRIGHT_FRAME_H
#define TILEWRIGHT_FRAME_H

enum { TW_FRAME_HEAD = ${head} };

static inline int64_t tw_word(const void *address) {
  return (int64_t)(uintptr_t)address;
}

/* The product of extents; it stays at the largest number where it would be larger. */
static inline int64_t tw_elements(const int64_t *shape, int32_t rank) {
  int64_t count = 1;
  for (int32_t axis = 0; axis < rank; axis++)
    if (!shape[axis]) return 0;
  for (int32_t axis = 0; axis < rank; axis++) count = count > INT64_MAX / shape[axis] ? INT64_MAX : count * shape[axis];
  return count;
}

/* Where a tensor of a frame begins and ends. An output's bytes are those that there are. */
static inline int64_t tw_place(const tw_program *program, const int64_t *frame, int32_t which, int64_t *bytes) {
  const tw_tensor *tensors = program->tensors;
  const int64_t *at = frame + TW_FRAME_HEAD, element = (tensors[which].dtype.bits + 7) / 8;
  for (int32_t i = 0; i < which; i++) at += tensors[i].rank + (i < program->inputs ? 1 : 2);
  const int64_t count = tw_elements(at + 1, tensors[which].rank);
  *bytes = which >= program->inputs ? at[1] : count > INT64_MAX / element ? INT64_MAX : count * element;
  return *at;
}

/* Refuses memory that is not aligned to its elements, and outputs that share some with another tensor. */
static inline int tw_check_frame(const tw_program *program, const int64_t *frame, char *error, size_t size) {
  for (int32_t i = 0; i < program->inputs + program->outputs; i++) {
    const char *role = i < program->inputs ? "input" : "output", *name = program->tensors[i].name;
    int64_t bytes, others;
    const int64_t at = tw_place(program, frame, i, &bytes);
    if (bytes && (!at || at % ((program->tensors[i].dtype.bits + 7) / 8)))
      return tw_fail(error, size, "InputError: %s '%s' must be at a multiple of the size of its elements", role, name);
    if (bytes > INT64_MAX - at)
      return tw_fail(error, size, "InputError: %s '%s' is larger than any memory", role, name);
    for (int32_t j = 0; i >= program->inputs && j < i; j++) {
      const int64_t other = tw_place(program, frame, j, &others);
      if (at < other + others && other < at + bytes)
        return tw_fail(error, size, "InputError: %s '%s' has memory that overlaps that of '%s'", role, name,
                       program->tensors[j].name);
    }
  }
  return 0;
}

/* Runs the program on a frame. Several threads may, each on a frame of its own. */
static inline int tw_run_frame(tw_model *model, int64_t *frame, char *error, size_t size) {
  const TVMFFIAny address = tw_int(tw_word(frame));
  TVMFFIAny result = tw_value(kTVMFFINone);
  if (tw_check_frame(model->program, frame, error, size)) return -1;
  return TVMFFIFunctionCall(model->main, (TVMFFIAny *)(uintptr_t)&address, 1, &result) ? tw_raised(error, size) : 0;
}

/* What a run has left of an output: the memory that was there, or new memory, which is the output's own then. */
static inline void *tw_take_output(const int64_t *word, int32_t rank, void *data, size_t *bytes, int *owned, int64_t *shape,
                                   size_t *elements) {
  void *now = (void *)(uintptr_t)word[0];
  if (shape) memcpy(shape, word + 2, (size_t)rank * sizeof *shape);
  if (elements) *elements = (size_t)tw_elements(word + 2, rank);
  if (now == data) return data;
  if (*owned) free(data);
  *owned = 1;
  *bytes = (size_t)word[1];
  return now;
}

/* The memory that a state is in now; the memory that it was in is freed, if it was its own. */
static inline void *tw_take_state(const int64_t *word, const int64_t *room, void *data, size_t *bytes, int *owned) {
  void *now = (void *)(uintptr_t)word[0];
  if (now == data) return data;
  if (*owned) free(data);
  *owned = 1;
  *bytes = (size_t)room[0];
  return now;
}

#endif
