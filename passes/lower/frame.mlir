// What a program with a routine needs: memory for tensors of sizes that only the run knows, and the frame that a caller
// gives to `main` (runtime/executors/frame.py). Code of `routine_text.py` calls these functions.

// Words of a frame: the function object to call back (or null); whether it is asked for memory and makes the kernels'
// calls; when the run has to end (nanoseconds of the monotonic clock, or 0); when signals were asked for last; the arena
// and the context, which `main` sets; then the inputs and the outputs.
!frame = !llvm.struct<(ptr, i64, i64, i64, ptr, ptr, array<0 x i64>)>
// At the begin of each chunk: its bytes, the next chunk. Of the first one, the arena: the bytes of all, the free blocks.
!arena = !llvm.struct<(i64, ptr, i64, ptr, array<4 x i64>)>
// Before each block: its bytes with this header, those of the block before it (0: it is the first), the references to it
// (0: it is free), the caller's name for what it stands for (or 0), the next and the previous free block.
!block = !llvm.struct<(i64, i64, i64, i64, ptr, ptr, array<2 x i64>)>

llvm.func @TVMFFIFunctionCall(!llvm.ptr, !llvm.ptr, i32, !llvm.ptr) -> i32

llvm.mlir.global internal constant @tw_timeout_error("TimeoutError\00")
llvm.mlir.global internal constant @tw_timed_out("the run took too long\00")
llvm.mlir.global internal constant @tw_one_number(" (%lld)\00")
llvm.mlir.global internal constant @tw_two_numbers(" (%lld and %lld)\00")
llvm.mlir.global internal constant @tw_next_extent("%s%lld\00")
llvm.mlir.global internal constant @tw_comma(", \00")

// Puts a tensor that `main` was given behind the frame's address, if it was, at the place of an input: its address and its
// extents. None stands for what the caller has put there. Raises `usage` for what is no tensor of this rank.
llvm.func @tw_put_input(%args: !llvm.ptr, %count: i32, %index: i32, %place: !llvm.ptr, %rank: i64, %usage: !llvm.ptr)
    -> i32 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %none = arith.constant 0 : i32
  %success = arith.constant 0 : i32
  %null = llvm.mlir.zero : !llvm.ptr
  %behind = arith.cmpi slt, %index, %count : i32
  %status = scf.if %behind -> i32 {
    %arg = llvm.getelementptr inbounds %args[%index] : (!llvm.ptr, i32) -> !llvm.ptr, !any
    %type = llvm.load %arg : !llvm.ptr -> i32
    %there = arith.cmpi eq, %type, %none : i32
    %taken = scf.if %there -> i32 {
      scf.yield %success : i32
    } else {
      %tensor = llvm.call @tw_tensor(%arg) : (!llvm.ptr) -> !llvm.ptr
      %is_tensor = llvm.icmp "ne" %tensor, %null : !llvm.ptr
      %fits = scf.if %is_tensor -> i1 {
        %rank_at = llvm.getelementptr inbounds %tensor[0, 2] : (!llvm.ptr) -> !llvm.ptr, !tensor
        %own_rank32 = llvm.load %rank_at : !llvm.ptr -> i32
        %own_rank = arith.extsi %own_rank32 : i32 to i64
        %same = arith.cmpi eq, %own_rank, %rank : i64
        scf.yield %same : i1
      } else {
        %false = arith.constant false
        scf.yield %false : i1
      }
      %put = scf.if %fits -> i32 {
        %shape_at = llvm.getelementptr inbounds %tensor[0, 4] : (!llvm.ptr) -> !llvm.ptr, !tensor
        %offset_at = llvm.getelementptr inbounds %tensor[0, 6] : (!llvm.ptr) -> !llvm.ptr, !tensor
        %data = llvm.load %tensor : !llvm.ptr -> i64
        %shape = llvm.load %shape_at : !llvm.ptr -> !llvm.ptr
        %offset = llvm.load %offset_at : !llvm.ptr -> i64
        %address = arith.addi %data, %offset : i64
        %extents = llvm.getelementptr inbounds %place[1] : (!llvm.ptr) -> !llvm.ptr, i64
        llvm.store %address, %place : i64, !llvm.ptr
        scf.for %axis = %zero to %rank step %one : i64 {
          %from = llvm.getelementptr inbounds %shape[%axis] : (!llvm.ptr, i64) -> !llvm.ptr, i64
          %to = llvm.getelementptr inbounds %extents[%axis] : (!llvm.ptr, i64) -> !llvm.ptr, i64
          %extent = llvm.load %from : !llvm.ptr -> i64
          llvm.store %extent, %to : i64, !llvm.ptr
        }
        scf.yield %success : i32
      } else {
        %nothing = llvm.mlir.addressof @tw_nothing : !llvm.ptr
        %failure = llvm.call @tw_raise_input_error(%usage, %nothing) : (!llvm.ptr, !llvm.ptr) -> i32
        scf.yield %failure : i32
      }
      scf.yield %put : i32
    }
    scf.yield %taken : i32
  } else {
    scf.yield %success : i32
  }
  llvm.return %status : i32
}

// Puts a block in front of the free ones, so that memory that was used last is used next.
llvm.func internal @tw_push_free(%arena: !llvm.ptr, %block: !llvm.ptr) {
  %null = llvm.mlir.zero : !llvm.ptr
  %zero = arith.constant 0 : i64
  %free_at = llvm.getelementptr inbounds %arena[0, 3] : (!llvm.ptr) -> !llvm.ptr, !arena
  %count_at = llvm.getelementptr inbounds %block[0, 2] : (!llvm.ptr) -> !llvm.ptr, !block
  %handle_at = llvm.getelementptr inbounds %block[0, 3] : (!llvm.ptr) -> !llvm.ptr, !block
  %next_at = llvm.getelementptr inbounds %block[0, 4] : (!llvm.ptr) -> !llvm.ptr, !block
  %previous_at = llvm.getelementptr inbounds %block[0, 5] : (!llvm.ptr) -> !llvm.ptr, !block
  %first = llvm.load %free_at : !llvm.ptr -> !llvm.ptr
  llvm.store %zero, %count_at : i64, !llvm.ptr
  llvm.store %zero, %handle_at : i64, !llvm.ptr
  llvm.store %first, %next_at : !llvm.ptr, !llvm.ptr
  llvm.store %null, %previous_at : !llvm.ptr, !llvm.ptr
  llvm.store %block, %free_at : !llvm.ptr, !llvm.ptr
  %some = llvm.icmp "ne" %first, %null : !llvm.ptr
  scf.if %some {
    %back_at = llvm.getelementptr inbounds %first[0, 5] : (!llvm.ptr) -> !llvm.ptr, !block
    llvm.store %block, %back_at : !llvm.ptr, !llvm.ptr
  }
  llvm.return
}

// Takes a block out of the list of free ones.
llvm.func internal @tw_unlink(%arena: !llvm.ptr, %block: !llvm.ptr) {
  %null = llvm.mlir.zero : !llvm.ptr
  %next_at = llvm.getelementptr inbounds %block[0, 4] : (!llvm.ptr) -> !llvm.ptr, !block
  %previous_at = llvm.getelementptr inbounds %block[0, 5] : (!llvm.ptr) -> !llvm.ptr, !block
  %next = llvm.load %next_at : !llvm.ptr -> !llvm.ptr
  %previous = llvm.load %previous_at : !llvm.ptr -> !llvm.ptr
  %free_at = llvm.getelementptr inbounds %arena[0, 3] : (!llvm.ptr) -> !llvm.ptr, !arena
  %is_first = llvm.icmp "eq" %previous, %null : !llvm.ptr
  %forth_at = llvm.getelementptr inbounds %previous[0, 4] : (!llvm.ptr) -> !llvm.ptr, !block
  %place = llvm.select %is_first, %free_at, %forth_at : i1, !llvm.ptr
  llvm.store %next, %place : !llvm.ptr, !llvm.ptr
  %some = llvm.icmp "ne" %next, %null : !llvm.ptr
  scf.if %some {
    %back_at = llvm.getelementptr inbounds %next[0, 5] : (!llvm.ptr) -> !llvm.ptr, !block
    llvm.store %previous, %back_at : !llvm.ptr, !llvm.ptr
  }
  llvm.return
}

// Makes a chunk one free block, with the header of a block behind it that is never free.
llvm.func internal @tw_free_chunk(%arena: !llvm.ptr, %chunk: !llvm.ptr, %bytes: i64) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %heads = arith.constant 128 : i64
  %size = arith.subi %bytes, %heads : i64
  %block = llvm.getelementptr inbounds %chunk[1] : (!llvm.ptr) -> !llvm.ptr, !arena
  %before_at = llvm.getelementptr inbounds %block[0, 1] : (!llvm.ptr) -> !llvm.ptr, !block
  llvm.store %size, %block : i64, !llvm.ptr
  llvm.store %zero, %before_at : i64, !llvm.ptr
  %end = llvm.getelementptr inbounds %block[%size] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %end_before_at = llvm.getelementptr inbounds %end[0, 1] : (!llvm.ptr) -> !llvm.ptr, !block
  %end_count_at = llvm.getelementptr inbounds %end[0, 2] : (!llvm.ptr) -> !llvm.ptr, !block
  llvm.store %zero, %end : i64, !llvm.ptr
  llvm.store %size, %end_before_at : i64, !llvm.ptr
  llvm.store %one, %end_count_at : i64, !llvm.ptr
  llvm.call @tw_push_free(%arena, %block) : (!llvm.ptr, !llvm.ptr) -> ()
  llvm.return
}

// Begins a run with an arena that a run before left, or a new one. Null if there is no memory.
llvm.func @tw_begin_run(%frame: !llvm.ptr, %context: !llvm.ptr) -> !llvm.ptr {
  %null = llvm.mlir.zero : !llvm.ptr
  %alignment = arith.constant 64 : i64
  %least = arith.constant 65536 : i64
  %kept = llvm.call @tw_take_kept(%context) : (!llvm.ptr) -> !llvm.ptr
  %none = llvm.icmp "eq" %kept, %null : !llvm.ptr
  %arena = scf.if %none -> !llvm.ptr {
    %new = llvm.call @aligned_alloc(%alignment, %least) : (i64, i64) -> !llvm.ptr
    %there = llvm.icmp "ne" %new, %null : !llvm.ptr
    scf.if %there {
      llvm.store %least, %new : i64, !llvm.ptr
    }
    scf.yield %new : !llvm.ptr
  } else {
    scf.yield %kept : !llvm.ptr
  }
  %there = llvm.icmp "ne" %arena, %null : !llvm.ptr
  scf.if %there {
    %bytes = llvm.load %arena : !llvm.ptr -> i64
    %next_at = llvm.getelementptr inbounds %arena[0, 1] : (!llvm.ptr) -> !llvm.ptr, !arena
    %all_at = llvm.getelementptr inbounds %arena[0, 2] : (!llvm.ptr) -> !llvm.ptr, !arena
    %free_at = llvm.getelementptr inbounds %arena[0, 3] : (!llvm.ptr) -> !llvm.ptr, !arena
    llvm.store %null, %next_at : !llvm.ptr, !llvm.ptr
    llvm.store %bytes, %all_at : i64, !llvm.ptr
    llvm.store %null, %free_at : !llvm.ptr, !llvm.ptr
    llvm.call @tw_free_chunk(%arena, %arena, %bytes) : (!llvm.ptr, !llvm.ptr, i64) -> ()
    %checked_at = llvm.getelementptr inbounds %frame[0, 3] : (!llvm.ptr) -> !llvm.ptr, !frame
    %arena_at = llvm.getelementptr inbounds %frame[0, 4] : (!llvm.ptr) -> !llvm.ptr, !frame
    %context_at = llvm.getelementptr inbounds %frame[0, 5] : (!llvm.ptr) -> !llvm.ptr, !frame
    %now = llvm.call @tw_now() : () -> i64
    llvm.store %now, %checked_at : i64, !llvm.ptr
    llvm.store %arena, %arena_at : !llvm.ptr, !llvm.ptr
    llvm.store %context, %context_at : !llvm.ptr, !llvm.ptr
  }
  llvm.return %arena : !llvm.ptr
}

// Ends a run: the next one gets the arena. One of several chunks becomes one chunk of all their bytes, so that a run of the
// same sizes allocates nothing.
llvm.func @tw_end_run(%frame: !llvm.ptr) {
  %null = llvm.mlir.zero : !llvm.ptr
  %alignment = arith.constant 64 : i64
  %arena_at = llvm.getelementptr inbounds %frame[0, 4] : (!llvm.ptr) -> !llvm.ptr, !frame
  %context_at = llvm.getelementptr inbounds %frame[0, 5] : (!llvm.ptr) -> !llvm.ptr, !frame
  %arena = llvm.load %arena_at : !llvm.ptr -> !llvm.ptr
  %context = llvm.load %context_at : !llvm.ptr -> !llvm.ptr
  %next_at = llvm.getelementptr inbounds %arena[0, 1] : (!llvm.ptr) -> !llvm.ptr, !arena
  %next = llvm.load %next_at : !llvm.ptr -> !llvm.ptr
  %several = llvm.icmp "ne" %next, %null : !llvm.ptr
  %left = scf.if %several -> !llvm.ptr {
    %all_at = llvm.getelementptr inbounds %arena[0, 2] : (!llvm.ptr) -> !llvm.ptr, !arena
    %all = llvm.load %all_at : !llvm.ptr -> i64
    scf.while (%chunk = %arena) : (!llvm.ptr) -> () {
      %some = llvm.icmp "ne" %chunk, %null : !llvm.ptr
      scf.condition(%some)
    } do {
      %at = llvm.load %arena_at : !llvm.ptr -> !llvm.ptr
      %after_at = llvm.getelementptr inbounds %at[0, 1] : (!llvm.ptr) -> !llvm.ptr, !arena
      %after = llvm.load %after_at : !llvm.ptr -> !llvm.ptr
      llvm.call @free(%at) : (!llvm.ptr) -> ()
      llvm.store %after, %arena_at : !llvm.ptr, !llvm.ptr
      scf.yield %after : !llvm.ptr
    }
    %new = llvm.call @aligned_alloc(%alignment, %all) : (i64, i64) -> !llvm.ptr
    %there = llvm.icmp "ne" %new, %null : !llvm.ptr
    scf.if %there {
      llvm.store %all, %new : i64, !llvm.ptr
    }
    scf.yield %new : !llvm.ptr
  } else {
    scf.yield %arena : !llvm.ptr
  }
  %there = llvm.icmp "ne" %left, %null : !llvm.ptr
  scf.if %there {
    llvm.call @tw_give_arena(%context, %left) : (!llvm.ptr, !llvm.ptr) -> ()
  }
  llvm.return
}

// New memory, a multiple of 64 bytes. Null if there is none, or the caller says that the machine has not as much: a system
// that promises more than it has would end the process.
llvm.func internal @tw_new_memory(%frame: !llvm.ptr, %bytes: i64) -> !llvm.ptr {
  %null = llvm.mlir.zero : !llvm.ptr
  %alignment = arith.constant 64 : i64
  %large = arith.constant 268435456 : i64
  %success = arith.constant 0 : i32
  %hook = llvm.load %frame : !llvm.ptr -> !llvm.ptr
  %hooked = llvm.icmp "ne" %hook, %null : !llvm.ptr
  %much = arith.cmpi uge, %bytes, %large : i64
  %asks = arith.andi %hooked, %much : i1
  %status = scf.if %asks -> i32 {
    %kind = arith.constant 4 : i64
    %asked = llvm.call @tw_hook(%frame, %kind, %bytes, %null) : (!llvm.ptr, i64, i64, !llvm.ptr) -> i32
    scf.yield %asked : i32
  } else {
    scf.yield %success : i32
  }
  %granted = arith.cmpi eq, %status, %success : i32
  %memory = scf.if %granted -> !llvm.ptr {
    %new = llvm.call @aligned_alloc(%alignment, %bytes) : (i64, i64) -> !llvm.ptr
    scf.yield %new : !llvm.ptr
  } else {
    scf.yield %null : !llvm.ptr
  }
  llvm.return %memory : !llvm.ptr
}

// A block of the arena for so many bytes, behind its header, with one reference to it: the smallest free one that is large
// enough. Null if there is no memory.
llvm.func internal @tw_allocate(%frame: !llvm.ptr, %bytes: i64) -> !llvm.ptr {
  %arena_at = llvm.getelementptr inbounds %frame[0, 4] : (!llvm.ptr) -> !llvm.ptr, !frame
  %arena = llvm.load %arena_at : !llvm.ptr -> !llvm.ptr
  %null = llvm.mlir.zero : !llvm.ptr
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %round = arith.constant 127 : i64
  %mask = arith.constant -64 : i64
  %heads = arith.constant 128 : i64
  %most = arith.constant 140737488355328 : i64
  %least_chunk = arith.constant 65536 : i64
  %alignment = arith.constant 64 : i64
  %possible = arith.cmpi ult, %bytes, %most : i64
  %taken = scf.if %possible -> !llvm.ptr {
    %up = arith.addi %bytes, %round : i64
    %size = arith.andi %up, %mask : i64
    %free_at = llvm.getelementptr inbounds %arena[0, 3] : (!llvm.ptr) -> !llvm.ptr, !arena
    %first = llvm.load %free_at : !llvm.ptr -> !llvm.ptr
    %found:3 = scf.while (%at = %first, %best = %null, %room = %most) : (!llvm.ptr, !llvm.ptr, i64)
        -> (!llvm.ptr, !llvm.ptr, i64) {
      %some = llvm.icmp "ne" %at, %null : !llvm.ptr
      %exact = arith.cmpi eq, %room, %size : i64
      %true = arith.constant true
      %inexact = arith.xori %exact, %true : i1
      %on = arith.andi %some, %inexact : i1
      scf.condition(%on) %at, %best, %room : !llvm.ptr, !llvm.ptr, i64
    } do {
    ^bb0(%at: !llvm.ptr, %best: !llvm.ptr, %room: i64):
      %own = llvm.load %at : !llvm.ptr -> i64
      %next_at = llvm.getelementptr inbounds %at[0, 4] : (!llvm.ptr) -> !llvm.ptr, !block
      %next = llvm.load %next_at : !llvm.ptr -> !llvm.ptr
      %fits = arith.cmpi uge, %own, %size : i64
      %smaller = arith.cmpi ult, %own, %room : i64
      %better = arith.andi %fits, %smaller : i1
      %best_now = llvm.select %better, %at, %best : i1, !llvm.ptr
      %room_now = llvm.select %better, %own, %room : i1, i64
      scf.yield %next, %best_now, %room_now : !llvm.ptr, !llvm.ptr, i64
    }
    %none = llvm.icmp "eq" %found#1, %null : !llvm.ptr
    %block = scf.if %none -> !llvm.ptr {
      // A new chunk, of at least half of all that is there: runs that grow allocate seldom.
      %all_at = llvm.getelementptr inbounds %arena[0, 2] : (!llvm.ptr) -> !llvm.ptr, !arena
      %next_at = llvm.getelementptr inbounds %arena[0, 1] : (!llvm.ptr) -> !llvm.ptr, !arena
      %all = llvm.load %all_at : !llvm.ptr -> i64
      %half = arith.divui %all, %two : i64
      %needed = arith.addi %size, %heads : i64
      %larger = arith.maxui %half, %needed : i64
      %enough = arith.maxui %larger, %least_chunk : i64
      %whole = arith.addi %enough, %alignment : i64
      %chunk_bytes = arith.andi %whole, %mask : i64
      %chunk = llvm.call @tw_new_memory(%frame, %chunk_bytes) : (!llvm.ptr, i64) -> !llvm.ptr
      %there = llvm.icmp "ne" %chunk, %null : !llvm.ptr
      %new = scf.if %there -> !llvm.ptr {
        %chunk_next_at = llvm.getelementptr inbounds %chunk[0, 1] : (!llvm.ptr) -> !llvm.ptr, !arena
        %others = llvm.load %next_at : !llvm.ptr -> !llvm.ptr
        llvm.store %chunk_bytes, %chunk : i64, !llvm.ptr
        llvm.store %others, %chunk_next_at : !llvm.ptr, !llvm.ptr
        llvm.store %chunk, %next_at : !llvm.ptr, !llvm.ptr
        %sum = arith.addi %all, %chunk_bytes : i64
        llvm.store %sum, %all_at : i64, !llvm.ptr
        llvm.call @tw_free_chunk(%arena, %chunk, %chunk_bytes) : (!llvm.ptr, !llvm.ptr, i64) -> ()
        %inside = llvm.getelementptr inbounds %chunk[1] : (!llvm.ptr) -> !llvm.ptr, !arena
        scf.yield %inside : !llvm.ptr
      } else {
        scf.yield %null : !llvm.ptr
      }
      scf.yield %new : !llvm.ptr
    } else {
      scf.yield %found#1 : !llvm.ptr
    }
    %there = llvm.icmp "ne" %block, %null : !llvm.ptr
    scf.if %there {
      llvm.call @tw_unlink(%arena, %block) : (!llvm.ptr, !llvm.ptr) -> ()
      %count_at = llvm.getelementptr inbounds %block[0, 2] : (!llvm.ptr) -> !llvm.ptr, !block
      llvm.store %one, %count_at : i64, !llvm.ptr
      %own = llvm.load %block : !llvm.ptr -> i64
      %rest = arith.subi %own, %size : i64
      %splits = arith.cmpi uge, %rest, %heads : i64
      scf.if %splits {
        %other = llvm.getelementptr inbounds %block[%size] : (!llvm.ptr, i64) -> !llvm.ptr, i8
        %behind = llvm.getelementptr inbounds %block[%own] : (!llvm.ptr, i64) -> !llvm.ptr, i8
        %other_before_at = llvm.getelementptr inbounds %other[0, 1] : (!llvm.ptr) -> !llvm.ptr, !block
        %behind_before_at = llvm.getelementptr inbounds %behind[0, 1] : (!llvm.ptr) -> !llvm.ptr, !block
        llvm.store %size, %block : i64, !llvm.ptr
        llvm.store %rest, %other : i64, !llvm.ptr
        llvm.store %size, %other_before_at : i64, !llvm.ptr
        llvm.store %rest, %behind_before_at : i64, !llvm.ptr
        llvm.call @tw_push_free(%arena, %other) : (!llvm.ptr, !llvm.ptr) -> ()
      }
    }
    scf.yield %block : !llvm.ptr
  } else {
    scf.yield %null : !llvm.ptr
  }
  llvm.return %taken : !llvm.ptr
}

// Gives a block back, joined with its neighbours if they are free.
llvm.func internal @tw_free_block(%arena: !llvm.ptr, %block: !llvm.ptr) {
  %zero = arith.constant 0 : i64
  %size = llvm.load %block : !llvm.ptr -> i64
  %behind = llvm.getelementptr inbounds %block[%size] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %behind_count_at = llvm.getelementptr inbounds %behind[0, 2] : (!llvm.ptr) -> !llvm.ptr, !block
  %behind_count = llvm.load %behind_count_at : !llvm.ptr -> i64
  %behind_free = arith.cmpi eq, %behind_count, %zero : i64
  %forth = scf.if %behind_free -> i64 {
    llvm.call @tw_unlink(%arena, %behind) : (!llvm.ptr, !llvm.ptr) -> ()
    %more = llvm.load %behind : !llvm.ptr -> i64
    %sum = arith.addi %size, %more : i64
    scf.yield %sum : i64
  } else {
    scf.yield %size : i64
  }
  %before_at = llvm.getelementptr inbounds %block[0, 1] : (!llvm.ptr) -> !llvm.ptr, !block
  %before = llvm.load %before_at : !llvm.ptr -> i64
  %back = arith.subi %zero, %before : i64
  %other = llvm.getelementptr inbounds %block[%back] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %has_other = arith.cmpi ne, %before, %zero : i64
  %other_count_at = llvm.getelementptr inbounds %other[0, 2] : (!llvm.ptr) -> !llvm.ptr, !block
  %one = arith.constant 1 : i64
  %other_count = scf.if %has_other -> i64 {
    %count = llvm.load %other_count_at : !llvm.ptr -> i64
    scf.yield %count : i64
  } else {
    scf.yield %one : i64
  }
  %other_free = arith.cmpi eq, %other_count, %zero : i64
  %whole:2 = scf.if %other_free -> (!llvm.ptr, i64) {
    llvm.call @tw_unlink(%arena, %other) : (!llvm.ptr, !llvm.ptr) -> ()
    %sum = arith.addi %forth, %before : i64
    scf.yield %other, %sum : !llvm.ptr, i64
  } else {
    scf.yield %block, %forth : !llvm.ptr, i64
  }
  llvm.store %whole#1, %whole#0 : i64, !llvm.ptr
  %end = llvm.getelementptr inbounds %whole#0[%whole#1] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %end_before_at = llvm.getelementptr inbounds %end[0, 1] : (!llvm.ptr) -> !llvm.ptr, !block
  llvm.store %whole#1, %end_before_at : i64, !llvm.ptr
  llvm.call @tw_push_free(%arena, %whole#0) : (!llvm.ptr, !llvm.ptr) -> ()
  llvm.return
}

// Calls the frame's function: what it is asked to do (HookCall in runtime/executors/frame.py), a number, words.
llvm.func internal @tw_hook(%frame: !llvm.ptr, %kind: i64, %number: i64, %words: !llvm.ptr) -> i32 {
  %three = arith.constant 3 : i32
  %one = arith.constant 1 : i32
  %zero = arith.constant 0 : i32
  %args = llvm.alloca %three x !any : (i32) -> !llvm.ptr
  %result = llvm.alloca %one x !any : (i32) -> !llvm.ptr
  %second = llvm.getelementptr inbounds %args[1] : (!llvm.ptr) -> !llvm.ptr, !any
  %third = llvm.getelementptr inbounds %args[2] : (!llvm.ptr) -> !llvm.ptr, !any
  %address = llvm.ptrtoint %words : !llvm.ptr to i64
  %nothing = arith.constant 0 : i64
  llvm.call @tw_return(%args, %one, %kind) : (!llvm.ptr, i32, i64) -> ()
  llvm.call @tw_return(%second, %one, %number) : (!llvm.ptr, i32, i64) -> ()
  llvm.call @tw_return(%third, %one, %address) : (!llvm.ptr, i32, i64) -> ()
  llvm.call @tw_return(%result, %zero, %nothing) : (!llvm.ptr, i32, i64) -> ()
  %hook = llvm.load %frame : !llvm.ptr -> !llvm.ptr
  %status = llvm.call @TVMFFIFunctionCall(%hook, %args, %three, %result) : (!llvm.ptr, !llvm.ptr, i32, !llvm.ptr) -> i32
  llvm.return %status : i32
}

// Asks the caller for memory; stores what it calls it, and its address.
llvm.func internal @tw_ask_memory(%frame: !llvm.ptr, %bytes: i64, %words: !llvm.ptr) -> i32 {
  %kind = arith.constant 0 : i64
  %status = llvm.call @tw_hook(%frame, %kind, %bytes, %words) : (!llvm.ptr, i64, i64, !llvm.ptr) -> i32
  llvm.return %status : i32
}

// Memory for a tensor of so many bytes: stores its owner, a block with one reference, and its address.
llvm.func @tw_new_tensor(%frame: !llvm.ptr, %bytes: i64, %pair: !llvm.ptr) -> i32 {
  %null = llvm.mlir.zero : !llvm.ptr
  %zero = arith.constant 0 : i64
  %success = arith.constant 0 : i32
  %watching_at = llvm.getelementptr inbounds %frame[0, 1] : (!llvm.ptr) -> !llvm.ptr, !frame
  %watching = llvm.load %watching_at : !llvm.ptr -> i64
  %watched = arith.cmpi ne, %watching, %zero : i64
  %inside = llvm.select %watched, %zero, %bytes : i1, i64
  %block = llvm.call @tw_allocate(%frame, %inside) : (!llvm.ptr, i64) -> !llvm.ptr
  %none = llvm.icmp "eq" %block, %null : !llvm.ptr
  %status = scf.if %none -> i32 {
    %exhausted = llvm.call @tw_raise_out_of_memory() : () -> i32
    scf.yield %exhausted : i32
  } else {
    %data_at = llvm.getelementptr inbounds %pair[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
    %asked = scf.if %watched -> i32 {
      %made = llvm.call @tw_ask_memory(%frame, %bytes, %pair) : (!llvm.ptr, i64, !llvm.ptr) -> i32
      %handle = llvm.load %pair : !llvm.ptr -> i64
      %handle_at = llvm.getelementptr inbounds %block[0, 3] : (!llvm.ptr) -> !llvm.ptr, !block
      llvm.store %handle, %handle_at : i64, !llvm.ptr
      scf.yield %made : i32
    } else {
      %data = llvm.getelementptr inbounds %block[1] : (!llvm.ptr) -> !llvm.ptr, !block
      llvm.store %data, %data_at : !llvm.ptr, !llvm.ptr
      scf.yield %success : i32
    }
    llvm.store %block, %pair : !llvm.ptr, !llvm.ptr
    scf.yield %asked : i32
  }
  llvm.return %status : i32
}

// An owner for what the caller calls by a handle, with one reference to it. Null if there is no memory.
llvm.func @tw_own_handle(%frame: !llvm.ptr, %handle: i64) -> !llvm.ptr {
  %null = llvm.mlir.zero : !llvm.ptr
  %zero = arith.constant 0 : i64
  %block = llvm.call @tw_allocate(%frame, %zero) : (!llvm.ptr, i64) -> !llvm.ptr
  %there = llvm.icmp "ne" %block, %null : !llvm.ptr
  scf.if %there {
    %handle_at = llvm.getelementptr inbounds %block[0, 3] : (!llvm.ptr) -> !llvm.ptr, !block
    llvm.store %handle, %handle_at : i64, !llvm.ptr
  }
  llvm.return %block : !llvm.ptr
}

// What the caller calls the thing that an owner stands for.
llvm.func @tw_handle(%owner: !llvm.ptr) -> i64 {
  %handle_at = llvm.getelementptr inbounds %owner[0, 3] : (!llvm.ptr) -> !llvm.ptr, !block
  %handle = llvm.load %handle_at : !llvm.ptr -> i64
  llvm.return %handle : i64
}

// Counts one more reference to an owner, if there is one: inputs, weights and outputs have none.
llvm.func @tw_retain(%owner: !llvm.ptr) {
  %null = llvm.mlir.zero : !llvm.ptr
  %one = arith.constant 1 : i64
  %some = llvm.icmp "ne" %owner, %null : !llvm.ptr
  scf.if %some {
    %count_at = llvm.getelementptr inbounds %owner[0, 2] : (!llvm.ptr) -> !llvm.ptr, !block
    %count = llvm.load %count_at : !llvm.ptr -> i64
    %more = arith.addi %count, %one : i64
    llvm.store %more, %count_at : i64, !llvm.ptr
  }
  llvm.return
}

// Counts one reference less. With the last one the memory is free, and the caller is told of its handle.
llvm.func @tw_release(%frame: !llvm.ptr, %owner: !llvm.ptr) {
  %null = llvm.mlir.zero : !llvm.ptr
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %some = llvm.icmp "ne" %owner, %null : !llvm.ptr
  scf.if %some {
    %count_at = llvm.getelementptr inbounds %owner[0, 2] : (!llvm.ptr) -> !llvm.ptr, !block
    %count = llvm.load %count_at : !llvm.ptr -> i64
    %less = arith.subi %count, %one : i64
    llvm.store %less, %count_at : i64, !llvm.ptr
    %last = arith.cmpi eq, %less, %zero : i64
    scf.if %last {
      %arena_at = llvm.getelementptr inbounds %frame[0, 4] : (!llvm.ptr) -> !llvm.ptr, !frame
      %arena = llvm.load %arena_at : !llvm.ptr -> !llvm.ptr
      %handle_at = llvm.getelementptr inbounds %owner[0, 3] : (!llvm.ptr) -> !llvm.ptr, !block
      %handle = llvm.load %handle_at : !llvm.ptr -> i64
      %named = arith.cmpi ne, %handle, %zero : i64
      scf.if %named {
        %kind = arith.constant 3 : i64
        %said = llvm.call @tw_hook(%frame, %kind, %handle, %null) : (!llvm.ptr, i64, i64, !llvm.ptr) -> i32
      }
      llvm.call @tw_free_block(%arena, %owner) : (!llvm.ptr, !llvm.ptr) -> ()
    }
  }
  llvm.return
}

// Memory for an output of so many bytes: what the caller offers (its address and its bytes at `place`) if that is enough,
// else new memory, which the caller has to free. Stores no owner, and the address.
llvm.func @tw_new_output(%frame: !llvm.ptr, %place: !llvm.ptr, %bytes: i64, %pair: !llvm.ptr) -> i32 {
  %null = llvm.mlir.zero : !llvm.ptr
  %zero = arith.constant 0 : i64
  %success = arith.constant 0 : i32
  %round = arith.constant 63 : i64
  %mask = arith.constant -64 : i64
  %most = arith.constant 140737488355328 : i64
  %watching_at = llvm.getelementptr inbounds %frame[0, 1] : (!llvm.ptr) -> !llvm.ptr, !frame
  %room_at = llvm.getelementptr inbounds %place[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %data_at = llvm.getelementptr inbounds %pair[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %watching = llvm.load %watching_at : !llvm.ptr -> i64
  %room = llvm.load %room_at : !llvm.ptr -> i64
  %watched = arith.cmpi ne, %watching, %zero : i64
  %enough = arith.cmpi uge, %room, %bytes : i64
  %status = scf.if %watched -> i32 {
    %asked = llvm.call @tw_ask_memory(%frame, %bytes, %pair) : (!llvm.ptr, i64, !llvm.ptr) -> i32
    %data = llvm.load %data_at : !llvm.ptr -> i64
    llvm.store %data, %place : i64, !llvm.ptr
    scf.yield %asked : i32
  } else {
    %made = scf.if %enough -> i32 {
      scf.yield %success : i32
    } else {
      %possible = arith.cmpi ult, %bytes, %most : i64
      %wanted = llvm.select %possible, %bytes, %most : i1, i64
      %up = arith.addi %wanted, %round : i64
      %whole = arith.andi %up, %mask : i64
      %new = llvm.call @tw_new_memory(%frame, %whole) : (!llvm.ptr, i64) -> !llvm.ptr
      %none = llvm.icmp "eq" %new, %null : !llvm.ptr
      %result = scf.if %none -> i32 {
        %exhausted = llvm.call @tw_raise_out_of_memory() : () -> i32
        scf.yield %exhausted : i32
      } else {
        llvm.store %new, %place : !llvm.ptr, !llvm.ptr
        llvm.store %whole, %room_at : i64, !llvm.ptr
        scf.yield %success : i32
      }
      scf.yield %result : i32
    }
    scf.yield %made : i32
  }
  %data = llvm.load %place : !llvm.ptr -> i64
  llvm.store %data, %data_at : i64, !llvm.ptr
  llvm.store %zero, %pair : i64, !llvm.ptr
  llvm.return %status : i32
}

// Leaves an output at its place: `data` is copied unless it lies there already.
llvm.func @tw_leave_output(%frame: !llvm.ptr, %place: !llvm.ptr, %data: !llvm.ptr, %bytes: i64, %pair: !llvm.ptr) -> i32 {
  %success = arith.constant 0 : i32
  %there = llvm.load %place : !llvm.ptr -> !llvm.ptr
  %same = llvm.icmp "eq" %there, %data : !llvm.ptr
  %status = scf.if %same -> i32 {
    scf.yield %success : i32
  } else {
    %made = llvm.call @tw_new_output(%frame, %place, %bytes, %pair) : (!llvm.ptr, !llvm.ptr, i64, !llvm.ptr) -> i32
    %fine = arith.cmpi eq, %made, %success : i32
    scf.if %fine {
      %target = llvm.load %place : !llvm.ptr -> !llvm.ptr
      "llvm.intr.memcpy"(%target, %data, %bytes) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
    }
    scf.yield %made : i32
  }
  llvm.return %status : i32
}

// Ends the run where a signal or its deadline asks for that.
llvm.func @tw_tick(%frame: !llvm.ptr) -> i32 {
  %zero = arith.constant 0 : i64
  %success = arith.constant 0 : i32
  %deadline_at = llvm.getelementptr inbounds %frame[0, 2] : (!llvm.ptr) -> !llvm.ptr, !frame
  %checked_at = llvm.getelementptr inbounds %frame[0, 3] : (!llvm.ptr) -> !llvm.ptr, !frame
  %deadline = llvm.load %deadline_at : !llvm.ptr -> i64
  %limited = arith.cmpi ne, %deadline, %zero : i64
  %late = scf.if %limited -> i1 {
    %now = llvm.call @tw_now() : () -> i64
    %over = arith.cmpi sge, %now, %deadline : i64
    scf.yield %over : i1
  } else {
    %false = arith.constant false
    scf.yield %false : i1
  }
  %status = scf.if %late -> i32 {
    %kind = llvm.mlir.addressof @tw_timeout_error : !llvm.ptr
    %text = llvm.mlir.addressof @tw_timed_out : !llvm.ptr
    %nothing = llvm.mlir.addressof @tw_nothing : !llvm.ptr
    %raised = llvm.call @tw_raise(%kind, %text, %nothing) : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
    scf.yield %raised : i32
  } else {
    %asked = llvm.call @tw_interrupted(%checked_at) : (!llvm.ptr) -> i32
    scf.yield %asked : i32
  }
  llvm.return %status : i32
}

// The bytes of scratch memory that a kernel asks for, for these words.
llvm.func internal @tw_ask_scratch(%kernel: !llvm.ptr, %words: !llvm.ptr) -> i64 {
  %zero = arith.constant 0 : i64
  %asking = arith.constant -1 : i64
  %one = arith.constant 1 : i32
  %round = arith.constant 63 : i64
  %mask = arith.constant -64 : i64
  %answer = llvm.alloca %one x i64 : (i32) -> !llvm.ptr
  llvm.store %zero, %answer : i64, !llvm.ptr
  llvm.call %kernel(%words, %zero, %asking, %answer) : !llvm.ptr, (!llvm.ptr, i64, i64, !llvm.ptr) -> ()
  %bytes = llvm.load %answer : !llvm.ptr -> i64
  %up = arith.addi %bytes, %round : i64
  %whole = arith.andi %up, %mask : i64
  llvm.return %whole : i64
}

// Of a kernel: its address, its steps, in how many pieces a thread takes its part (0: one thread does all), the elements of
// its results from which several threads are worth it, the bytes of scratch memory for each (-1: it is asked). An element
// counts as often as what is summed up for it is long.
!facts = !llvm.struct<(ptr, i64, i64, i64, i64)>

// Calls a kernel on its words. Its results have so many elements; one that would make none is not called. Where the caller
// watches, it makes the call.
llvm.func @tw_call_kernel(%frame: !llvm.ptr, %number: i64, %facts: !llvm.ptr, %words: !llvm.ptr, %elements: i64) -> i32 {
  %null = llvm.mlir.zero : !llvm.ptr
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %one32 = arith.constant 1 : i32
  %success = arith.constant 0 : i32
  %extent_of = llvm.getelementptr inbounds %facts[0, 1] : (!llvm.ptr) -> !llvm.ptr, !facts
  %pieces_of = llvm.getelementptr inbounds %facts[0, 2] : (!llvm.ptr) -> !llvm.ptr, !facts
  %enough_of = llvm.getelementptr inbounds %facts[0, 3] : (!llvm.ptr) -> !llvm.ptr, !facts
  %scratch_of = llvm.getelementptr inbounds %facts[0, 4] : (!llvm.ptr) -> !llvm.ptr, !facts
  %kernel = llvm.load %facts : !llvm.ptr -> !llvm.ptr
  %extent = llvm.load %extent_of : !llvm.ptr -> i64
  %most_pieces = llvm.load %pieces_of : !llvm.ptr -> i64
  %enough = llvm.load %enough_of : !llvm.ptr -> i64
  %known_scratch = llvm.load %scratch_of : !llvm.ptr -> i64
  %pays = arith.cmpi sge, %elements, %enough : i64
  %pieces = llvm.select %pays, %most_pieces, %zero : i1, i64
  %asks = arith.cmpi slt, %known_scratch, %zero : i64
  %scratch = scf.if %asks -> i64 {
    %asked = llvm.call @tw_ask_scratch(%kernel, %words) : (!llvm.ptr, !llvm.ptr) -> i64
    scf.yield %asked : i64
  } else {
    scf.yield %known_scratch : i64
  }
  %watching_at = llvm.getelementptr inbounds %frame[0, 1] : (!llvm.ptr) -> !llvm.ptr, !frame
  %watching = llvm.load %watching_at : !llvm.ptr -> i64
  %watched = arith.cmpi ne, %watching, %zero : i64
  %status = scf.if %watched -> i32 {
    %kind = arith.constant 2 : i64
    %call = llvm.alloca %one32 x !llvm.array<5 x i64> : (i32) -> !llvm.ptr
    %words_at = llvm.getelementptr inbounds %call[1] : (!llvm.ptr) -> !llvm.ptr, i64
    %extent_at = llvm.getelementptr inbounds %call[2] : (!llvm.ptr) -> !llvm.ptr, i64
    %pieces_at = llvm.getelementptr inbounds %call[3] : (!llvm.ptr) -> !llvm.ptr, i64
    %scratch_at = llvm.getelementptr inbounds %call[4] : (!llvm.ptr) -> !llvm.ptr, i64
    llvm.store %kernel, %call : !llvm.ptr, !llvm.ptr
    llvm.store %words, %words_at : !llvm.ptr, !llvm.ptr
    llvm.store %extent, %extent_at : i64, !llvm.ptr
    llvm.store %pieces, %pieces_at : i64, !llvm.ptr
    llvm.store %scratch, %scratch_at : i64, !llvm.ptr
    %made = llvm.call @tw_hook(%frame, %kind, %number, %call) : (!llvm.ptr, i64, i64, !llvm.ptr) -> i32
    scf.yield %made : i32
  } else {
    %any = arith.cmpi ne, %elements, %zero : i64
    %arena_at = llvm.getelementptr inbounds %frame[0, 4] : (!llvm.ptr) -> !llvm.ptr, !frame
    %context_at = llvm.getelementptr inbounds %frame[0, 5] : (!llvm.ptr) -> !llvm.ptr, !frame
    %arena = llvm.load %arena_at : !llvm.ptr -> !llvm.ptr
    %context = llvm.load %context_at : !llvm.ptr -> !llvm.ptr
    %threads32 = llvm.load %context : !llvm.ptr -> i32
    %threads = arith.extsi %threads32 : i32 to i64
    %whole = arith.cmpi eq, %pieces, %zero : i64
    %single = arith.cmpi eq, %threads, %one : i64
    %alone = arith.ori %whole, %single : i1
    %users = llvm.select %alone, %one, %threads : i1, i64
    %bytes = arith.muli %users, %scratch : i64
    %block = llvm.call @tw_allocate(%frame, %bytes) : (!llvm.ptr, i64) -> !llvm.ptr
    %none = llvm.icmp "eq" %block, %null : !llvm.ptr
    %made = scf.if %none -> i32 {
      %exhausted = llvm.call @tw_raise_out_of_memory() : () -> i32
      scf.yield %exhausted : i32
    } else {
      %room = llvm.getelementptr inbounds %block[1] : (!llvm.ptr) -> !llvm.ptr, !block
      scf.if %any {
        scf.if %alone {
          llvm.call %kernel(%words, %zero, %extent, %room) : !llvm.ptr, (!llvm.ptr, i64, i64, !llvm.ptr) -> ()
        } else {
          llvm.call @tw_parallel_for(%kernel, %words, %extent, %pieces, %room, %scratch, %context)
            : (!llvm.ptr, !llvm.ptr, i64, i64, !llvm.ptr, i64, !llvm.ptr) -> ()
        }
      }
      llvm.call @tw_free_block(%arena, %block) : (!llvm.ptr, !llvm.ptr) -> ()
      %on = llvm.call @tw_tick(%frame) : (!llvm.ptr) -> i32
      scf.yield %on : i32
    }
    scf.yield %made : i32
  }
  llvm.return %status : i32
}

// Calls a function of the host on words: those of its arguments, then those of its results.
llvm.func @tw_call_host(%frame: !llvm.ptr, %number: i64, %words: !llvm.ptr) -> i32 {
  %kind = arith.constant 1 : i64
  %status = llvm.call @tw_hook(%frame, %kind, %number, %words) : (!llvm.ptr, i64, i64, !llvm.ptr) -> i32
  llvm.return %status : i32
}

// Raises an InputError of a text, and the `count` (at most 2) numbers behind it.
llvm.func @tw_refuse(%text: !llvm.ptr, %count: i64, %first: i64, %second: i64) -> i32 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %zero8 = arith.constant 0 : i8
  %room32 = arith.constant 64 : i32
  %room = arith.constant 64 : i64
  %numbers = llvm.alloca %room32 x i8 : (i32) -> !llvm.ptr
  llvm.store %zero8, %numbers : i8, !llvm.ptr
  %none = arith.cmpi eq, %count, %zero : i64
  %single = arith.cmpi eq, %count, %one : i64
  %of_one = llvm.mlir.addressof @tw_one_number : !llvm.ptr
  %of_two = llvm.mlir.addressof @tw_two_numbers : !llvm.ptr
  %format = llvm.select %single, %of_one, %of_two : i1, !llvm.ptr
  scf.if %none {
  } else {
    %length = llvm.call @snprintf(%numbers, %room, %format, %first, %second)
      vararg(!llvm.func<i32 (ptr, i64, ptr, ...)>) : (!llvm.ptr, i64, !llvm.ptr, i64, i64) -> i32
  }
  %failure = llvm.call @tw_raise_input_error(%text, %numbers) : (!llvm.ptr, !llvm.ptr) -> i32
  llvm.return %failure : i32
}

// Raises an InputError of a text, which ends where a shape begins, the shape, and a format of what comes then and a number.
llvm.func @tw_refuse_shape(%text: !llvm.ptr, %shape: !llvm.ptr, %rank: i64, %then: !llvm.ptr, %number: i64) -> i32 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %zero8 = arith.constant 0 : i8
  %room32 = arith.constant 2048 : i32
  %room = arith.constant 2048 : i64
  %shown = llvm.alloca %room32 x i8 : (i32) -> !llvm.ptr
  %nothing = llvm.mlir.addressof @tw_nothing : !llvm.ptr
  %comma = llvm.mlir.addressof @tw_comma : !llvm.ptr
  %format = llvm.mlir.addressof @tw_next_extent : !llvm.ptr
  llvm.store %zero8, %shown : i8, !llvm.ptr
  %length = scf.for %i = %zero to %rank step %one iter_args(%at = %zero) -> i64 : i64 {
    %extent_at = llvm.getelementptr %shape[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
    %extent = llvm.load %extent_at : !llvm.ptr -> i64
    %is_first = arith.cmpi eq, %i, %zero : i64
    %before = llvm.select %is_first, %nothing, %comma : i1, !llvm.ptr
    %place = llvm.getelementptr %shown[%at] : (!llvm.ptr, i64) -> !llvm.ptr, i8
    %left = arith.subi %room, %at : i64
    %written32 = llvm.call @snprintf(%place, %left, %format, %before, %extent)
      vararg(!llvm.func<i32 (ptr, i64, ptr, ...)>) : (!llvm.ptr, i64, !llvm.ptr, !llvm.ptr, i64) -> i32
    %written = arith.extsi %written32 : i32 to i64
    %next = arith.addi %at, %written : i64
    scf.yield %next : i64
  }
  %end = llvm.getelementptr %shown[%length] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %end_room = arith.subi %room, %length : i64
  %ended = llvm.call @snprintf(%end, %end_room, %then, %number) vararg(!llvm.func<i32 (ptr, i64, ptr, ...)>)
    : (!llvm.ptr, i64, !llvm.ptr, i64) -> i32
  %failure = llvm.call @tw_raise_input_error(%text, %shown) : (!llvm.ptr, !llvm.ptr) -> i32
  llvm.return %failure : i32
}

// Puts rows behind the `used` ones of a state, of `needed` in all, and of as many bytes each; `place` has the address of
// its memory, `room` its bytes, and whether there may be no more. Where there have to be more, it leaves twice as many, of new
// memory with a copy of the rows; the old one stays with the caller, and may still be read.
llvm.func @tw_append(%frame: !llvm.ptr, %place: !llvm.ptr, %room: !llvm.ptr, %row: i64, %used: i64, %needed: i64,
                     %new: !llvm.ptr, %text: !llvm.ptr) -> i32 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %round = arith.constant 63 : i64
  %mask = arith.constant -64 : i64
  %least = arith.constant 4096 : i64
  %most = arith.constant 140737488355328 : i64
  %success = arith.constant 0 : i32
  %null = llvm.mlir.zero : !llvm.ptr
  %before = llvm.call @tw_multiply(%used, %row) : (i64, i64) -> i64
  %whole = llvm.call @tw_multiply(%needed, %row) : (i64, i64) -> i64
  %there = llvm.load %room : !llvm.ptr -> i64
  %fits = arith.cmpi sle, %whole, %there : i64
  %status = scf.if %fits -> i32 {
    scf.yield %success : i32
  } else {
    %fixed_at = llvm.getelementptr inbounds %room[1] : (!llvm.ptr) -> !llvm.ptr, i64
    %fixed = llvm.load %fixed_at : !llvm.ptr -> i64
    %stays = arith.cmpi ne, %fixed, %zero : i64
    %refused = scf.if %stays -> i32 {
      %some = arith.maxsi %row, %one : i64
      %rows = arith.divsi %there, %some : i64
      %full = llvm.call @tw_refuse(%text, %two, %needed, %rows) : (!llvm.ptr, i64, i64, i64) -> i32
      scf.yield %full : i32
    } else {
      %twice = llvm.intr.sadd.sat(%there, %there) : (i64, i64) -> i64
      %larger = arith.maxsi %twice, %whole : i64
      %enough = arith.maxsi %larger, %least : i64
      %bounded = arith.minsi %enough, %most : i64
      %up = arith.addi %bounded, %round : i64
      %bytes = arith.andi %up, %mask : i64
      %possible = arith.cmpi sle, %whole, %most : i64
      %memory = scf.if %possible -> !llvm.ptr {
        %made = llvm.call @tw_new_memory(%frame, %bytes) : (!llvm.ptr, i64) -> !llvm.ptr
        scf.yield %made : !llvm.ptr
      } else {
        scf.yield %null : !llvm.ptr
      }
      %none = llvm.icmp "eq" %memory, %null : !llvm.ptr
      %grown = scf.if %none -> i32 {
        %exhausted = llvm.call @tw_raise_out_of_memory() : () -> i32
        scf.yield %exhausted : i32
      } else {
        %old = llvm.load %place : !llvm.ptr -> !llvm.ptr
        "llvm.intr.memcpy"(%memory, %old, %before) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
        llvm.store %memory, %place : !llvm.ptr, !llvm.ptr
        llvm.store %bytes, %room : i64, !llvm.ptr
        scf.yield %success : i32
      }
      scf.yield %grown : i32
    }
    scf.yield %refused : i32
  }
  %ready = arith.cmpi eq, %status, %success : i32
  scf.if %ready {
    %data = llvm.load %place : !llvm.ptr -> !llvm.ptr
    %behind = llvm.getelementptr %data[%before] : (!llvm.ptr, i64) -> !llvm.ptr, i8
    %more = arith.subi %whole, %before : i64
    "llvm.intr.memcpy"(%behind, %new, %more) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
  }
  llvm.return %status : i32
}

// Rows that a loop collects, in a block: how many there are, the bytes of one, the bytes that there is room for, the rank
// of one; its extents; the rows, at a multiple of 64 bytes behind the block's begin.
!rows = !llvm.struct<(i64, i64, i64, i64, array<0 x i64>)>

// The bytes of a block of rows before the first one.
llvm.func internal @tw_rows_head(%rank: i64) -> i64 {
  %word = arith.constant 8 : i64
  %words = arith.constant 4 : i64
  %round = arith.constant 63 : i64
  %mask = arith.constant -64 : i64
  %all = arith.addi %rank, %words : i64
  %bytes = arith.muli %all, %word : i64
  %up = arith.addi %bytes, %round : i64
  %head = arith.andi %up, %mask : i64
  llvm.return %head : i64
}

// Puts a row behind those that `owner` has (null: none), and stores what owns them then, with one more reference: the same
// block where the caller is the `last` to read it, nobody else has it, and there is room; else a block of twice as many.
// Rows of another shape are refused.
llvm.func @tw_collect_row(%frame: !llvm.ptr, %owner: !llvm.ptr, %row: !llvm.ptr, %bytes: i64, %shape: !llvm.ptr, %rank: i64,
                          %last: i64, %text: !llvm.ptr, %then: !llvm.ptr, %pair: !llvm.ptr) -> i32 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %word = arith.constant 8 : i64
  %four = arith.constant 4 : i64
  %least = arith.constant 512 : i64
  %true = arith.constant true
  %success = arith.constant 0 : i32
  %null = llvm.mlir.zero : !llvm.ptr
  %head = llvm.call @tw_rows_head(%rank) : (i64) -> i64
  %extent_bytes = arith.muli %rank, %word : i64
  %first = llvm.icmp "eq" %owner, %null : !llvm.ptr
  %old = llvm.getelementptr inbounds %owner[1] : (!llvm.ptr) -> !llvm.ptr, !block
  %old_extents = llvm.getelementptr inbounds %old[0, 4] : (!llvm.ptr) -> !llvm.ptr, !rows
  %fits = scf.if %first -> i1 {
    scf.yield %true : i1
  } else {
    %alike = scf.for %i = %zero to %rank step %one iter_args(%so_far = %true) -> i1 : i64 {
      %was_at = llvm.getelementptr %old_extents[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %is_at = llvm.getelementptr %shape[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %was = llvm.load %was_at : !llvm.ptr -> i64
      %is = llvm.load %is_at : !llvm.ptr -> i64
      %equal = arith.cmpi eq, %was, %is : i64
      %both = arith.andi %so_far, %equal : i1
      scf.yield %both : i1
    }
    scf.yield %alike : i1
  }
  %status = scf.if %fits -> i32 {
    %used = scf.if %first -> i64 {
      scf.yield %zero : i64
    } else {
      %count = llvm.load %old : !llvm.ptr -> i64
      %so_many = arith.muli %count, %bytes : i64
      scf.yield %so_many : i64
    }
    %needed = llvm.intr.sadd.sat(%used, %bytes) : (i64, i64) -> i64
    %stays = scf.if %first -> i1 {
      %false = arith.constant false
      scf.yield %false : i1
    } else {
      %references_at = llvm.getelementptr inbounds %owner[0, 2] : (!llvm.ptr) -> !llvm.ptr, !block
      %room_at = llvm.getelementptr inbounds %old[0, 2] : (!llvm.ptr) -> !llvm.ptr, !rows
      %references = llvm.load %references_at : !llvm.ptr -> i64
      %room = llvm.load %room_at : !llvm.ptr -> i64
      %alone = arith.cmpi eq, %references, %last : i64
      %enough = arith.cmpi sle, %needed, %room : i64
      %here = arith.andi %alone, %enough : i1
      scf.yield %here : i1
    }
    %block = scf.if %stays -> !llvm.ptr {
      llvm.call @tw_retain(%owner) : (!llvm.ptr) -> ()
      scf.yield %owner : !llvm.ptr
    } else {
      %twice = llvm.intr.sadd.sat(%needed, %needed) : (i64, i64) -> i64
      %room = arith.maxsi %twice, %least : i64
      %whole = llvm.intr.sadd.sat(%room, %head) : (i64, i64) -> i64
      %new = llvm.call @tw_allocate(%frame, %whole) : (!llvm.ptr, i64) -> !llvm.ptr
      %there = llvm.icmp "ne" %new, %null : !llvm.ptr
      scf.if %there {
        %rows = llvm.getelementptr inbounds %new[1] : (!llvm.ptr) -> !llvm.ptr, !block
        %bytes_at = llvm.getelementptr inbounds %rows[0, 1] : (!llvm.ptr) -> !llvm.ptr, !rows
        %room_at = llvm.getelementptr inbounds %rows[0, 2] : (!llvm.ptr) -> !llvm.ptr, !rows
        %rank_at = llvm.getelementptr inbounds %rows[0, 3] : (!llvm.ptr) -> !llvm.ptr, !rows
        %extents = llvm.getelementptr inbounds %rows[0, 4] : (!llvm.ptr) -> !llvm.ptr, !rows
        %count = scf.if %first -> i64 {
          scf.yield %zero : i64
        } else {
          %had = llvm.load %old : !llvm.ptr -> i64
          %from = llvm.getelementptr %old[%head] : (!llvm.ptr, i64) -> !llvm.ptr, i8
          %to = llvm.getelementptr %rows[%head] : (!llvm.ptr, i64) -> !llvm.ptr, i8
          "llvm.intr.memcpy"(%to, %from, %used) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
          scf.yield %had : i64
        }
        llvm.store %count, %rows : i64, !llvm.ptr
        llvm.store %bytes, %bytes_at : i64, !llvm.ptr
        llvm.store %room, %room_at : i64, !llvm.ptr
        llvm.store %rank, %rank_at : i64, !llvm.ptr
        "llvm.intr.memcpy"(%extents, %shape, %extent_bytes) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
      }
      scf.yield %new : !llvm.ptr
    }
    llvm.store %block, %pair : !llvm.ptr, !llvm.ptr
    %none = llvm.icmp "eq" %block, %null : !llvm.ptr
    %put = scf.if %none -> i32 {
      %exhausted = llvm.call @tw_raise_out_of_memory() : () -> i32
      scf.yield %exhausted : i32
    } else {
      %rows = llvm.getelementptr inbounds %block[1] : (!llvm.ptr) -> !llvm.ptr, !block
      %begin = llvm.getelementptr %rows[%head] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      %behind = llvm.getelementptr %begin[%used] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      "llvm.intr.memcpy"(%behind, %row, %bytes) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
      %count = llvm.load %rows : !llvm.ptr -> i64
      %more = arith.addi %count, %one : i64
      llvm.store %more, %rows : i64, !llvm.ptr
      scf.yield %success : i32
    }
    scf.yield %put : i32
  } else {
    %refused = llvm.call @tw_refuse_shape(%text, %shape, %rank, %then, %zero)
      : (!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64) -> i32
    scf.yield %refused : i32
  }
  llvm.return %status : i32
}

// A tensor of all rows of a block, its owner and its address; `shape` gets its extents, or stays where there are no rows.
llvm.func @tw_collect_all(%frame: !llvm.ptr, %owner: !llvm.ptr, %shape: !llvm.ptr, %rank: i64, %pair: !llvm.ptr) -> i32 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %word = arith.constant 8 : i64
  %success = arith.constant 0 : i32
  %null = llvm.mlir.zero : !llvm.ptr
  %some = llvm.icmp "ne" %owner, %null : !llvm.ptr
  %status = scf.if %some -> i32 {
    %rows = llvm.getelementptr inbounds %owner[1] : (!llvm.ptr) -> !llvm.ptr, !block
    %bytes_at = llvm.getelementptr inbounds %rows[0, 1] : (!llvm.ptr) -> !llvm.ptr, !rows
    %extents = llvm.getelementptr inbounds %rows[0, 4] : (!llvm.ptr) -> !llvm.ptr, !rows
    %count = llvm.load %rows : !llvm.ptr -> i64
    %bytes = llvm.load %bytes_at : !llvm.ptr -> i64
    %inner = arith.subi %rank, %one : i64
    %extent_bytes = arith.muli %inner, %word : i64
    %behind = llvm.getelementptr inbounds %shape[1] : (!llvm.ptr) -> !llvm.ptr, i64
    llvm.store %count, %shape : i64, !llvm.ptr
    "llvm.intr.memcpy"(%behind, %extents, %extent_bytes) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
    %all = arith.muli %count, %bytes : i64
    %made = llvm.call @tw_new_tensor(%frame, %all, %pair) : (!llvm.ptr, i64, !llvm.ptr) -> i32
    %fine = arith.cmpi eq, %made, %success : i32
    scf.if %fine {
      %head = llvm.call @tw_rows_head(%inner) : (i64) -> i64
      %from = llvm.getelementptr %rows[%head] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      %to_at = llvm.getelementptr inbounds %pair[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
      %to = llvm.load %to_at : !llvm.ptr -> !llvm.ptr
      "llvm.intr.memcpy"(%to, %from, %all) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
    }
    scf.yield %made : i32
  } else {
    %made = llvm.call @tw_new_tensor(%frame, %zero, %pair) : (!llvm.ptr, i64, !llvm.ptr) -> i32
    scf.yield %made : i32
  }
  llvm.return %status : i32
}

// Copies elements that lie apart: of a box of `rank` sizes, with the bytes from one to the next along each axis.
llvm.func @tw_copy_box(%target: !llvm.ptr, %source: !llvm.ptr, %rank: i64, %sizes: !llvm.ptr, %strides: !llvm.ptr,
                       %element: i64) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %all = scf.for %axis = %zero to %rank step %one iter_args(%product = %element) -> i64 : i64 {
    %size_at = llvm.getelementptr %sizes[%axis] : (!llvm.ptr, i64) -> !llvm.ptr, i64
    %size = llvm.load %size_at : !llvm.ptr -> i64
    %next = arith.muli %product, %size : i64
    scf.yield %next : i64
  }
  %some = arith.cmpi ne, %rank, %zero : i64
  %last = arith.subi %rank, %one : i64
  %last_size_at = llvm.getelementptr %sizes[%last] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %last_stride_at = llvm.getelementptr %strides[%last] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  // Rows whose elements lie side by side are copied as one.
  %row:2 = scf.if %some -> (i64, i64) {
    %size = llvm.load %last_size_at : !llvm.ptr -> i64
    %stride = llvm.load %last_stride_at : !llvm.ptr -> i64
    %dense = arith.cmpi eq, %stride, %element : i64
    %whole = arith.muli %size, %element : i64
    %bytes = llvm.select %dense, %whole, %element : i1, i64
    %outer = llvm.select %dense, %last, %rank : i1, i64
    scf.yield %bytes, %outer : i64, i64
  } else {
    scf.yield %element, %zero : i64, i64
  }
  %empty = arith.cmpi eq, %all, %zero : i64
  %step = llvm.select %empty, %one, %row#0 : i1, i64
  scf.for %at = %zero to %all step %step : i64 {
    %number = arith.divui %at, %step : i64
    %place:2 = scf.for %i = %zero to %row#1 step %one iter_args(%left = %number, %offset = %zero) -> (i64, i64) : i64 {
      %before = arith.subi %row#1, %one : i64
      %axis = arith.subi %before, %i : i64
      %size_at = llvm.getelementptr %sizes[%axis] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %stride_at = llvm.getelementptr %strides[%axis] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %size = llvm.load %size_at : !llvm.ptr -> i64
      %stride = llvm.load %stride_at : !llvm.ptr -> i64
      %index = arith.remui %left, %size : i64
      %rest = arith.divui %left, %size : i64
      %own = arith.muli %index, %stride : i64
      %sum = arith.addi %offset, %own : i64
      scf.yield %rest, %sum : i64, i64
    }
    %from = llvm.getelementptr %source[%place#1] : (!llvm.ptr, i64) -> !llvm.ptr, i8
    %to = llvm.getelementptr %target[%at] : (!llvm.ptr, i64) -> !llvm.ptr, i8
    "llvm.intr.memcpy"(%to, %from, %step) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
  }
  llvm.return
}

// Arithmetic on sizes. Numbers that would be larger than any size stay the largest, and a quotient by 0 is 0.
llvm.func @tw_multiply(%a: i64, %b: i64) -> i64 {
  %zero = arith.constant 0 : i64
  %most = arith.constant 9223372036854775807 : i64
  %least = arith.constant -9223372036854775808 : i64
  %pair = "llvm.intr.smul.with.overflow"(%a, %b) : (i64, i64) -> !llvm.struct<(i64, i1)>
  %product = llvm.extractvalue %pair[0] : !llvm.struct<(i64, i1)>
  %over = llvm.extractvalue %pair[1] : !llvm.struct<(i64, i1)>
  %signs = arith.xori %a, %b : i64
  %negative = arith.cmpi slt, %signs, %zero : i64
  %end = llvm.select %negative, %least, %most : i1, i64
  %result = llvm.select %over, %end, %product : i1, i64
  llvm.return %result : i64
}

// The quotient toward zero.
llvm.func @tw_divide(%a: i64, %b: i64) -> i64 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %minus_one = arith.constant -1 : i64
  %by_zero = arith.cmpi eq, %b, %zero : i64
  %by_minus_one = arith.cmpi eq, %b, %minus_one : i64
  %special = arith.ori %by_zero, %by_minus_one : i1
  %divisor = llvm.select %special, %one, %b : i1, i64
  %quotient = arith.divsi %a, %divisor : i64
  %negated = llvm.intr.ssub.sat(%zero, %a) : (i64, i64) -> i64
  %exact = llvm.select %by_minus_one, %negated, %quotient : i1, i64
  %result = llvm.select %by_zero, %zero, %exact : i1, i64
  llvm.return %result : i64
}

llvm.func @tw_remainder(%a: i64, %b: i64) -> i64 {
  %zero = arith.constant 0 : i64
  %quotient = llvm.call @tw_divide(%a, %b) : (i64, i64) -> i64
  %product = arith.muli %quotient, %b : i64
  %rest = arith.subi %a, %product : i64
  %by_zero = arith.cmpi eq, %b, %zero : i64
  %result = llvm.select %by_zero, %zero, %rest : i1, i64
  llvm.return %result : i64
}

// The quotient toward the smaller number.
llvm.func @tw_floor_divide(%a: i64, %b: i64) -> i64 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %quotient = llvm.call @tw_divide(%a, %b) : (i64, i64) -> i64
  %rest = llvm.call @tw_remainder(%a, %b) : (i64, i64) -> i64
  %inexact = arith.cmpi ne, %rest, %zero : i64
  %signs = arith.xori %rest, %b : i64
  %opposite = arith.cmpi slt, %signs, %zero : i64
  %lower = arith.andi %inexact, %opposite : i1
  %less = arith.subi %quotient, %one : i64
  %result = llvm.select %lower, %less, %quotient : i1, i64
  llvm.return %result : i64
}

// The quotient toward the larger number.
llvm.func @tw_ceiling_divide(%a: i64, %b: i64) -> i64 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %quotient = llvm.call @tw_divide(%a, %b) : (i64, i64) -> i64
  %rest = llvm.call @tw_remainder(%a, %b) : (i64, i64) -> i64
  %inexact = arith.cmpi ne, %rest, %zero : i64
  %signs = arith.xori %rest, %b : i64
  %same = arith.cmpi sge, %signs, %zero : i64
  %higher = arith.andi %inexact, %same : i1
  %more = arith.addi %quotient, %one : i64
  %result = llvm.select %higher, %more, %quotient : i1, i64
  llvm.return %result : i64
}
