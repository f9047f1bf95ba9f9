/* Runs ${name} ${how} and prints what its outputs begin with. Files of raw bytes may follow: one for each input to be
 * read, in order, then one for each output to be written. Inputs without a file are small numbers. */
#include "${header}"

static int usage(const char *program) {
  fprintf(stderr, "usage: %s ${arguments} [INPUT...] [OUTPUT...]\n", program);
  return 2;
}

static int fail(const char *error) {
  fprintf(stderr, "error: %s\n", error);
  return 1;
}

/* Reads or writes all bytes of a file, as `mode` says. */
static int transfer(const char *path, const char *mode, void *data, size_t bytes) {
  FILE *file = fopen(path, mode);
  size_t done = !file ? 0 : *mode == 'r' ? fread(data, 1, bytes, file) : fwrite(data, 1, bytes, file);
  if ((file && fclose(file)) || done != bytes) return fprintf(stderr, "error: %s has not %zu bytes for this tensor\n", path, bytes), 1;
  return 0;
}

int main(int argc, char **argv) {
  char error[512];
  if (argc < ${first}) return usage(argv[0]);
  setenv("KMP_BLOCKTIME", "2ms", 0); /* threads without work sleep soon */
${sizes}${inputs}
  ${name}_t *model = ${name}_load(${load});
${running}
    ${name}_free(model);
    return fail(error);
  }
  ${name}_free(model);
${outputs}
${freed}  return 0;
}
