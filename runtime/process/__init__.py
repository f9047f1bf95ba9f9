"""The process that programs run in: tvm-ffi, OpenMP's threads, memory, deadlines, files, the linking of objects."""
