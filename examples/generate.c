/* Generates tokens with a decoder that has an input `ids` and an output `scores` for the token that comes next:
 *
 *     tilewright header decoder.so --session
 *     cc -std=c99 generate.c $(tilewright header --link-flags) -o generate
 *     ./generate decoder.so decoder.safetensors COUNT TOKEN [TOKEN...]
 *
 * The keys and values of all tokens so far are the states, which the runs append to. */
#include "decoder.h"

int main(int argc, char **argv) {
  char error[512];
  if (argc < 5) return fprintf(stderr, "usage: %s LIBRARY WEIGHTS COUNT TOKEN [TOKEN...]\n", argv[0]), 2;
  decoder_t *model = decoder_load(argv[1], argv[2], 0, error, sizeof error);
  decoder_sizes_t sizes;
  decoder_outputs_t outputs;
  decoder_states_t states;
  memset(&sizes, 0, sizeof sizes);
  memset(&outputs, 0, sizeof outputs); /* the program makes them */
  memset(&states, 0, sizeof states);   /* and these: they begin without a token */
  int failed = !model;
  int64_t *ids = malloc((size_t)argc * sizeof *ids);
  if (!ids) return 1;
  sizes.dim_length = argc - 4; /* the prompt, and then one token at a time */
  for (int i = 4; i < argc; i++) ids[i - 4] = strtoll(argv[i], NULL, 10);
  for (long left = strtol(argv[3], NULL, 10); !failed && left > 0; left--) {
    failed = decoder_run(model, &sizes, ids, &states, &outputs, error, sizeof error);
    if (failed) break;
    size_t best = 0;
    for (size_t i = 1; i < outputs.out_scores.elements; i++)
      if (outputs.out_scores.data[i] > outputs.out_scores.data[best]) best = i;
    printf("%zu%s", best, left > 1 ? " " : "\n");
    ids[0] = (int64_t)best, sizes.dim_length = 1;
  }
  if (failed) fprintf(stderr, "error: %s\n", error);
  free(ids);
  decoder_free_outputs(&outputs);
  decoder_free_states(&states);
  decoder_free(model);
  return failed;
}
