// The times of calls: stamps around each, and the counters that a program with a profile adds them to.

llvm.func @pthread_self() -> i64

// Writes the monotonic clock's nanoseconds to a place of `stamps`, unless that is null.
llvm.func internal @tw_stamp(%stamps: !llvm.ptr, %index: i64) {
  %null = llvm.mlir.zero : !llvm.ptr
  %on = llvm.icmp "ne" %stamps, %null : !llvm.ptr
  scf.if %on {
    %nanoseconds = llvm.call @tw_clock() : () -> i64
    %at = llvm.getelementptr %stamps[%index] : (!llvm.ptr, i64) -> !llvm.ptr, i64
    llvm.store %nanoseconds, %at : i64, !llvm.ptr
  }
  llvm.return
}

// What a program counts of its calls, in words (runtime/counters.py): whether it counts, runs, the runs that there is room
// for in the trace; of each call its sum, least and most nanoseconds; then of each traced run its thread and stamps.
!counters = !llvm.struct<(i64, i64, i64, array<0 x struct<(i64, i64, i64)>>)>

// The place for the stamps of a run, or null where nothing is to be counted: no counters were given, or they are off.
llvm.func @tw_counting(%counters: !llvm.ptr, %stamps: !llvm.ptr) -> !llvm.ptr {
  %null = llvm.mlir.zero : !llvm.ptr
  %zero = arith.constant 0 : i64
  %given = llvm.icmp "ne" %counters, %null : !llvm.ptr
  %result = scf.if %given -> !llvm.ptr {
    %word = llvm.load %counters atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
    %on = arith.cmpi ne, %word, %zero : i64
    %place = llvm.select %on, %stamps, %null : i1, !llvm.ptr
    scf.yield %place : !llvm.ptr
  } else {
    scf.yield %null : !llvm.ptr
  }
  llvm.return %result : !llvm.ptr
}

// Adds the stamps of a run to the counters, unless `stamps` is null. Several threads may do so at once.
llvm.func @tw_count_run(%counters: !llvm.ptr, %calls: i64, %stamps: !llvm.ptr) {
  %null = llvm.mlir.zero : !llvm.ptr
  %on = llvm.icmp "ne" %stamps, %null : !llvm.ptr
  scf.if %on {
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %two = arith.constant 2 : i64
    %word = arith.constant 8 : i64
    scf.for %i = %zero to %calls step %one : i64 {
      %after = arith.addi %i, %one : i64
      %begin_at = llvm.getelementptr %stamps[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %end_at = llvm.getelementptr %stamps[%after] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %begin = llvm.load %begin_at : !llvm.ptr -> i64
      %end = llvm.load %end_at : !llvm.ptr -> i64
      %time = arith.subi %end, %begin : i64
      %sum_at = llvm.getelementptr %counters[0, 3, %i, 0] : (!llvm.ptr, i64) -> !llvm.ptr, !counters
      %least_at = llvm.getelementptr %counters[0, 3, %i, 1] : (!llvm.ptr, i64) -> !llvm.ptr, !counters
      %most_at = llvm.getelementptr %counters[0, 3, %i, 2] : (!llvm.ptr, i64) -> !llvm.ptr, !counters
      %sum = llvm.atomicrmw add %sum_at, %time monotonic : !llvm.ptr, i64
      %least = llvm.atomicrmw umin %least_at, %time monotonic : !llvm.ptr, i64
      %most = llvm.atomicrmw umax %most_at, %time monotonic : !llvm.ptr, i64
    }
    %runs_at = llvm.getelementptr inbounds %counters[0, 1] : (!llvm.ptr) -> !llvm.ptr, !counters
    %room_at = llvm.getelementptr inbounds %counters[0, 2] : (!llvm.ptr) -> !llvm.ptr, !counters
    %run = llvm.atomicrmw add %runs_at, %one release : !llvm.ptr, i64
    %room = llvm.load %room_at : !llvm.ptr -> i64
    %traced = arith.cmpi ult, %run, %room : i64
    scf.if %traced {
      %stride = arith.addi %calls, %two : i64
      %skip = arith.muli %run, %stride : i64
      %trace = llvm.getelementptr %counters[0, 3, %calls] : (!llvm.ptr, i64) -> !llvm.ptr, !counters
      %thread_at = llvm.getelementptr %trace[%skip] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %copy = llvm.getelementptr %thread_at[1] : (!llvm.ptr) -> !llvm.ptr, i64
      %count = arith.addi %calls, %one : i64
      %bytes = arith.muli %count, %word : i64
      "llvm.intr.memcpy"(%copy, %stamps, %bytes) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
      // Last: who reads this knows that the stamps are there.
      %thread = llvm.call @pthread_self() : () -> i64
      llvm.store %thread, %thread_at atomic release {alignment = 8 : i64} : i64, !llvm.ptr
    }
  }
  llvm.return
}
