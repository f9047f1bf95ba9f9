// What every compiled program needs around its kernels: its context, its arenas, and the one loop over threads.
// Follows dialects/packed.mlir. No mutable global: all state is in the context that `create` makes.

// Threads, lock word shared by all programs of the process (may be null), the team's account (tw_parallel_for), an object
// that lives as long as the context (it owns code and weights), arenas that wait for a call, weights.
!context = !llvm.struct<(i32, ptr, array<4 x i64>, ptr, array<16 x ptr>, array<0 x ptr>)>
// Of a team, in nanoseconds: its credit, when its last kernel ended, what waking its threads has cost since they slept.
// Then its caution: how many times a loss one thread computes before the team is tried again.
!account = !llvm.array<4 x i64>

llvm.func @malloc(i64) -> !llvm.ptr
llvm.func @aligned_alloc(i64, i64) -> !llvm.ptr
llvm.func @free(!llvm.ptr)
llvm.func @__kmpc_bound_thread_num(!llvm.ptr) -> i32
llvm.func @__kmpc_bound_num_threads(!llvm.ptr) -> i32
llvm.func @TVMFFIObjectIncRef(!llvm.ptr) -> i32
llvm.func @TVMFFIFunctionCreate(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
llvm.func @TVMFFIStringFromByteArray(!llvm.ptr, !llvm.ptr) -> i32
llvm.func @TVMFFIEnvCheckSignals() -> i32
llvm.func @clock_gettime(i32, !llvm.ptr) -> i32
llvm.func @sched_getcpu() -> i32
llvm.func @sched_getaffinity(i32, i64, !llvm.ptr) -> i32
llvm.func @sched_setaffinity(i32, i64, !llvm.ptr) -> i32
llvm.func @snprintf(!llvm.ptr, i64, !llvm.ptr, ...) -> i32

llvm.mlir.global internal constant @tw_error_is_set("EnvErrorAlreadySet\00")
llvm.mlir.global internal constant @tw_report_format(": %lld\00")
llvm.mlir.global internal constant @tw_create_usage("create takes (weight addresses: pointer, their number: int, threads: int, lock word: pointer, owner: object)\00")

// Runs [0, extent) of a kernel in one team of threads, each with its own scratch. A thread has a contiguous part, the
// same one in each kernel of this extent, so that what it wrote is in its cache; it takes one of so many pieces at a
// time. Who is ready goes on with what the others have left: cores are not equally fast when neighbours use them too,
// and parts not equally long. But a line that another core has changed takes 5 to 15 nanoseconds, and who has lost
// lines is late again in the next kernel. So who has taken less than 32 microseconds first waits for as long again. A
// caller that finds the team's lock taken runs alone: two teams would only share the same cores.
//
// A team pays where its threads have a CPU each. They may have none (another process computes), or sleep, and the caller
// waits at the end of the kernel until each has come by. So the context has a credit, in nanoseconds: a kernel adds what
// the others' steps would have taken the caller, and takes off what the caller has waited. Once that is less than
// nothing the program runs alone, until it has computed for as long as it has lost, and tries again, with a credit for
// threads to wake up. If it loses again, it computes four times as long, then 16 times, until it has once earned all the
// credit there is: a CPU that is missing for a moment is soon forgotten. A program with a team takes little longer
// than without, and one whose kernels are too small for a team finds that out.
//
// Waking the threads is paid once, by the first kernel, for all kernels until they sleep again. So it is taken off late:
// when they have slept again, or once the credit is lost without it.
//
// Pieces of -1 are for a kernel whose threads wait for each other (exchange-blocks): each takes its part at once. Its
// scratch begins with how far away the first thread's is, in which a count of steps begins at zero, a cache line behind.
//
// A thread that wakes up on its caller's CPU leaves it (tw_leave_cpu).
llvm.func @tw_parallel_for(%kernel: !llvm.ptr, %args: !llvm.ptr, %extent: i64, %pieces: i64, %scratch: !llvm.ptr,
                           %scratch_stride: i64, %context: !llvm.ptr) {
  %zero = arith.constant 0 : i64
  %one32 = arith.constant 1 : i32
  %free_word = arith.constant 0 : i32
  %false = arith.constant false
  %true = arith.constant true
  %null = llvm.mlir.zero : !llvm.ptr
  %threads = llvm.load %context : !llvm.ptr -> i32
  %lock_at = llvm.getelementptr inbounds %context[0, 1] : (!llvm.ptr) -> !llvm.ptr, !context
  %lock = llvm.load %lock_at : !llvm.ptr -> !llvm.ptr
  %has_lock = llvm.icmp "ne" %lock, %null : !llvm.ptr
  %wide = arith.extsi %threads : i32 to i64
  %useful = arith.minsi %wide, %extent : i64
  %team = arith.trunci %useful : i64 to i32
  %several = arith.cmpi sgt, %team, %one32 : i32
  %account = llvm.getelementptr inbounds %context[0, 2] : (!llvm.ptr) -> !llvm.ptr, !context
  %credit = llvm.load %account atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
  %owing = arith.cmpi slt, %credit, %zero : i64
  %repaying = arith.andi %several, %owing : i1
  %worth = arith.xori %several, %repaying : i1
  %together = scf.if %worth -> i1 {
    %mine = scf.if %has_lock -> i1 {
      %pair = llvm.cmpxchg %lock, %free_word, %one32 acquire monotonic : !llvm.ptr, i32
      %taken = llvm.extractvalue %pair[1] : !llvm.struct<(i32, i1)>
      scf.yield %taken : i1
    } else {
      scf.yield %true : i1
    }
    scf.yield %mine : i1
  } else {
    scf.yield %false : i1
  }
  %exchanges = arith.cmpi slt, %pieces, %zero : i64
  scf.if %together {
    scf.if %exchanges {
      %count_at = llvm.getelementptr %scratch[64] : (!llvm.ptr) -> !llvm.ptr, i8
      llvm.store %zero, %count_at : i64, !llvm.ptr
    }
    // Of each thread, in a cache line: how much of its part is taken, how many steps it has made; of the caller, when it
    // began with its steps and had none left.
    %taken = llvm.alloca %team x !llvm.array<8 x i64> {alignment = 64 : i64} : (i32) -> !llvm.ptr
    %zero_index = arith.constant 0 : index
    %one_index = arith.constant 1 : index
    %members = arith.index_cast %team : i32 to index
    scf.for %member = %zero_index to %members step %one_index {
      %number = arith.index_cast %member : index to i64
      %own = llvm.getelementptr %taken[%number, 0] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<8 x i64>
      %steps_at = llvm.getelementptr %taken[%number, 1] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<8 x i64>
      llvm.store %zero, %own : i64, !llvm.ptr
      llvm.store %zero, %steps_at : i64, !llvm.ptr
    }
    %called = llvm.call @tw_clock() : () -> i64
    %called_on = llvm.call @sched_getcpu() : () -> i32
    omp.parallel num_threads(%team : i32) {
      // Not omp_get_thread_num: GNU's runtime has that too, and its own threads (torch brings it) may be found first.
      %nowhere = llvm.mlir.zero : !llvm.ptr
      %thread32 = llvm.call @__kmpc_bound_thread_num(%nowhere) : (!llvm.ptr) -> i32
      %count32 = llvm.call @__kmpc_bound_num_threads(%nowhere) : (!llvm.ptr) -> i32
      %thread = arith.extsi %thread32 : i32 to i64
      %count = arith.extsi %count32 : i32 to i64
      %none = arith.constant 0 : i64
      %one = arith.constant 1 : i64
      %caller = arith.cmpi eq, %thread, %none : i64
      %steps_at = llvm.getelementptr %taken[%thread, 1] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<8 x i64>
      %began = llvm.call @tw_clock() : () -> i64
      scf.if %caller {
        %begun_at = llvm.getelementptr %taken[0, 2] : (!llvm.ptr) -> !llvm.ptr, !llvm.array<8 x i64>
        llvm.store %began, %begun_at : i64, !llvm.ptr
      } else {
        %woken_on = llvm.call @sched_getcpu() : () -> i32
        %crowded = arith.cmpi eq, %woken_on, %called_on : i32
        scf.if %crowded {
          llvm.call @tw_leave_cpu(%woken_on) : (i32) -> ()
        }
      }
      %at = arith.muli %scratch_stride, %thread : i64
      %own = llvm.getelementptr %scratch[%at] : (!llvm.ptr, i64) -> !llvm.ptr, i8
      scf.if %exchanges {
        %back = arith.subi %none, %at : i64
        llvm.store %back, %own : i64, !llvm.ptr
      }
      %at_once = arith.maxsi %pieces, %one : i64
      scf.for %i = %none to %count step %one : i64 {
        %sum = arith.addi %thread, %i : i64
        %whose = arith.remui %sum, %count : i64
        %after = arith.addi %whose, %one : i64
        %lo_n = arith.muli %extent, %whose : i64
        %hi_n = arith.muli %extent, %after : i64
        %lo = arith.divui %lo_n, %count : i64
        %hi = arith.divui %hi_n, %count : i64
        %length = arith.subi %hi, %lo : i64
        %piece = arith.ceildivui %length, %at_once : i64
        %begun = llvm.getelementptr %taken[%whose] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<8 x i64>
        %helps = arith.cmpi ne, %i, %none : i64
        %in_pieces = arith.cmpi sgt, %pieces, %one : i64
        %may_wait = arith.andi %helps, %in_pieces : i1
        scf.if %may_wait {
          %now = llvm.call @tw_clock() : () -> i64
          %spent = arith.subi %now, %began : i64
          %short = arith.constant 32000 : i64
          %waits = arith.cmpi slt, %spent, %short : i64
          %twice = arith.addi %spent, %spent : i64
          %grace = arith.constant 2000 : i64
          %more = arith.addi %twice, %grace : i64
          %some = arith.select %waits, %more, %none : i64
          %until = arith.addi %began, %some : i64
          scf.while : () -> () {
            %seen = llvm.load %begun atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
            %open = arith.cmpi ult, %seen, %length : i64
            %at_last = llvm.call @tw_clock() : () -> i64
            %early = arith.cmpi slt, %at_last, %until : i64
            %goes_on = arith.andi %open, %early : i1
            scf.condition(%goes_on)
          } do {
            scf.yield
          }
          scf.if %caller {  // it has waited for others, not computed
            %begun_at = llvm.getelementptr %taken[0, 2] : (!llvm.ptr) -> !llvm.ptr, !llvm.array<8 x i64>
            %waited_until = llvm.call @tw_clock() : () -> i64
            %idle = arith.subi %waited_until, %now : i64
            %started = llvm.load %begun_at : !llvm.ptr -> i64
            %later = arith.addi %started, %idle : i64
            llvm.store %later, %begun_at : i64, !llvm.ptr
          }
        }
        scf.while : () -> () {
          %before = llvm.atomicrmw add %begun, %piece monotonic : !llvm.ptr, i64
          %left = arith.cmpi ult, %before, %length : i64
          scf.if %left {
            %from = arith.addi %lo, %before : i64
            %next = arith.addi %from, %piece : i64
            %to = arith.minui %next, %hi : i64
            llvm.call %kernel(%args, %from, %to, %own) : !llvm.ptr, (!llvm.ptr, i64, i64, !llvm.ptr) -> ()
            %now_made = arith.subi %to, %from : i64
            %made = llvm.load %steps_at : !llvm.ptr -> i64
            %more = arith.addi %made, %now_made : i64
            llvm.store %more, %steps_at : i64, !llvm.ptr
          }
          scf.condition(%left)
        } do {
          scf.yield
        }
      }
      scf.if %caller {
        %ready_at = llvm.getelementptr %taken[0, 3] : (!llvm.ptr) -> !llvm.ptr, !llvm.array<8 x i64>
        %ready = llvm.call @tw_clock() : () -> i64
        llvm.store %ready, %ready_at : i64, !llvm.ptr
      }
      omp.terminator
    }
    %ended = llvm.call @tw_clock() : () -> i64
    scf.if %has_lock {
      llvm.store %free_word, %lock atomic release {alignment = 4 : i64} : i32, !llvm.ptr
    }
    %begun_at = llvm.getelementptr %taken[0, 2] : (!llvm.ptr) -> !llvm.ptr, !llvm.array<8 x i64>
    %ready_at = llvm.getelementptr %taken[0, 3] : (!llvm.ptr) -> !llvm.ptr, !llvm.array<8 x i64>
    %made_at = llvm.getelementptr %taken[0, 1] : (!llvm.ptr) -> !llvm.ptr, !llvm.array<8 x i64>
    %begun = llvm.load %begun_at : !llvm.ptr -> i64
    %ready = llvm.load %ready_at : !llvm.ptr -> i64
    %made = llvm.load %made_at : !llvm.ptr -> i64
    %own_time = arith.subi %ready, %begun : i64
    %whole_time = arith.subi %ended, %called : i64
    %waited = arith.subi %whole_time, %own_time : i64
    // One that found all taken is taken to have gained its wait: it says nothing about the team.
    %some = arith.cmpi sgt, %made, %zero : i64
    %others = arith.subi %extent, %made : i64
    %spared = scf.if %some -> i64 {
      %product = arith.muli %own_time, %others : i64
      %quotient = arith.divui %product, %made : i64
      scf.yield %quotient : i64
    } else {
      scf.yield %waited : i64
    }
    %gain = arith.subi %spared, %waited : i64
    llvm.call @tw_add_credit(%account, %gain, %called, %ended) : (!llvm.ptr, i64, i64, i64) -> ()
  } else {
    scf.if %repaying {
      %begun = llvm.call @tw_clock() : () -> i64
      llvm.call %kernel(%args, %zero, %extent, %scratch) : !llvm.ptr, (!llvm.ptr, i64, i64, !llvm.ptr) -> ()
      %ready = llvm.call @tw_clock() : () -> i64
      %time = arith.subi %ready, %begun : i64
      llvm.call @tw_repay(%account, %time) : (!llvm.ptr, i64) -> ()
    } else {
      llvm.call %kernel(%args, %zero, %extent, %scratch) : !llvm.ptr, (!llvm.ptr, i64, i64, !llvm.ptr) -> ()
    }
  }
  llvm.return
}

// Moves this thread to another CPU of those that it may use, if there is one. Linux puts a thread that is woken onto its
// waker's CPU where the others look as if they were busy, as halted ones of virtual machines do. There it and the caller
// take turns while the caller waits, and the scheduler leaves a thread where it is that has just run.
llvm.func internal @tw_leave_cpu(%cpu: i32) attributes {passthrough = ["noinline", "cold"]} {
  %self = arith.constant 0 : i32
  %one32 = arith.constant 1 : i32
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %words = arith.constant 16 : i64
  %nbytes = arith.constant 128 : i64
  %bits = arith.constant 64 : i64
  %success = arith.constant 0 : i32
  %cpus = arith.constant 1024 : i32
  %allowed = llvm.alloca %one32 x !llvm.array<16 x i64> : (i32) -> !llvm.ptr
  %others = llvm.alloca %one32 x !llvm.array<16 x i64> : (i32) -> !llvm.ptr
  %status = llvm.call @sched_getaffinity(%self, %nbytes, %allowed) : (i32, i64, !llvm.ptr) -> i32
  %known = arith.cmpi eq, %status, %success : i32
  %fits = arith.cmpi ult, %cpu, %cpus : i32
  %can = arith.andi %known, %fits : i1
  scf.if %can {
    %number = arith.extui %cpu : i32 to i64
    %its_word = arith.divui %number, %bits : i64
    %its_bit = arith.remui %number, %bits : i64
    %any = scf.for %i = %zero to %words step %one iter_args(%sum = %zero) -> (i64) : i64 {
      %from = llvm.getelementptr %allowed[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %to = llvm.getelementptr %others[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %word = llvm.load %from : !llvm.ptr -> i64
      %its = arith.cmpi eq, %i, %its_word : i64
      %set = arith.shli %one, %its_bit : i64
      %bit = arith.andi %word, %set : i64
      %cleared = arith.xori %word, %bit : i64
      %left = llvm.select %its, %cleared, %word : i1, i64
      llvm.store %left, %to : i64, !llvm.ptr
      %all = arith.ori %sum, %left : i64
      scf.yield %all : i64
    }
    %elsewhere = arith.cmpi ne, %any, %zero : i64
    scf.if %elsewhere {
      %moved = llvm.call @sched_setaffinity(%self, %nbytes, %others) : (i32, i64, !llvm.ptr) -> i32
      %free = llvm.call @sched_setaffinity(%self, %nbytes, %allowed) : (i32, i64, !llvm.ptr) -> i32
    }
  }
  llvm.return
}

// Adds what a team has gained in a kernel to the credit, which stays within 16 milliseconds: what was gained long ago says
// little about now, and neither does a process that was stopped. Who has lost owes what it was given for the trial as well.
// Threads that had nothing to do for 2 milliseconds sleep (runtime/process/threads.py). Calls at the same time may lose
// what one of them adds.
llvm.func internal @tw_add_credit(%account: !llvm.ptr, %gain: i64, %called: i64, %ended: i64) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %sixteen = arith.constant 16 : i64
  %most = arith.constant 16000000 : i64
  %least = arith.constant -16000000 : i64
  %trial = arith.constant 200000 : i64
  %awake = arith.constant 2000000 : i64
  %ended_at = llvm.getelementptr inbounds %account[0, 1] : (!llvm.ptr) -> !llvm.ptr, !account
  %waking_at = llvm.getelementptr inbounds %account[0, 2] : (!llvm.ptr) -> !llvm.ptr, !account
  %caution_at = llvm.getelementptr inbounds %account[0, 3] : (!llvm.ptr) -> !llvm.ptr, !account
  %before = llvm.load %ended_at atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
  llvm.store %ended, %ended_at atomic monotonic {alignment = 8 : i64} : i64, !llvm.ptr
  %idle = arith.subi %called, %before : i64
  %slept = arith.cmpi sgt, %idle, %awake : i64
  %waking = llvm.load %waking_at atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
  %credit = llvm.load %account atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
  %loss = arith.minsi %gain, %zero : i64
  %profit = arith.maxsi %gain, %zero : i64
  // Of threads that had slept: the last waking is due, and this one is for later.
  %paid = arith.addi %waking, %profit : i64
  %change = llvm.select %slept, %paid, %gain : i1, i64
  %kept = llvm.select %slept, %loss, %waking : i1, i64
  %sum = arith.addi %credit, %change : i64
  %lost = arith.cmpi slt, %sum, %zero : i64
  %all = arith.addi %sum, %kept : i64
  %owed = arith.subi %all, %trial : i64
  %left = llvm.select %lost, %owed, %sum : i1, i64
  %late = llvm.select %lost, %zero, %kept : i1, i64
  %high = arith.minsi %left, %most : i64
  %within = arith.maxsi %high, %least : i64
  llvm.store %late, %waking_at atomic monotonic {alignment = 8 : i64} : i64, !llvm.ptr
  %earned = arith.cmpi eq, %within, %most : i64
  %changes = arith.ori %lost, %earned : i1
  scf.if %changes {
    %caution = llvm.load %caution_at atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
    %longer = arith.shli %caution, %two : i64
    %more = arith.maxsi %longer, %one : i64
    %raised = arith.minsi %more, %sixteen : i64
    %next = llvm.select %lost, %raised, %zero : i1, i64
    llvm.store %next, %caution_at atomic monotonic {alignment = 8 : i64} : i64, !llvm.ptr
  }
  llvm.store %within, %account atomic monotonic {alignment = 8 : i64} : i64, !llvm.ptr
  llvm.return
}

// Takes what one thread has computed, divided by the caution, off what is owed. Who owes nothing more may try the team
// again.
llvm.func internal @tw_repay(%account: !llvm.ptr, %time: i64) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %trial = arith.constant 200000 : i64
  %caution_at = llvm.getelementptr inbounds %account[0, 3] : (!llvm.ptr) -> !llvm.ptr, !account
  %caution = llvm.load %caution_at atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
  %times = arith.maxsi %caution, %one : i64
  %credit = llvm.load %account atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
  %share = arith.divui %time, %times : i64
  %sum = arith.addi %credit, %share : i64
  %owing = arith.cmpi slt, %sum, %zero : i64
  %left = llvm.select %owing, %sum, %trial : i1, i64
  llvm.store %left, %account atomic monotonic {alignment = 8 : i64} : i64, !llvm.ptr
  llvm.return
}

// Nanoseconds of the monotonic clock, which Python's time.perf_counter_ns() reads too. The processor's own counter takes
// 14 ns and not 33, but each CPU has another one, which has to be calibrated, and not all let a program read it.
llvm.func internal @tw_clock() -> i64 {
  %monotonic = arith.constant 1 : i32
  %time = llvm.call @tw_read_clock(%monotonic) : (i32) -> i64
  llvm.return %time : i64
}

// One call of a table: kernel, number of its words, extent, pieces of a thread's part (0: this thread does all), bytes
// of scratch memory for each thread.
!call = !llvm.struct<(ptr, i64, i64, i64, i64)>

// Nanoseconds of a clock that only goes on, exact to a few milliseconds; reading it takes some 5 nanoseconds.
llvm.func internal @tw_now() -> i64 {
  %coarse = arith.constant 6 : i32
  %time = llvm.call @tw_read_clock(%coarse) : (i32) -> i64
  llvm.return %time : i64
}

llvm.func internal @tw_read_clock(%clock: i32) -> i64 {
  %one = arith.constant 1 : i32
  %billion = arith.constant 1000000000 : i64
  %time = llvm.alloca %one x !llvm.struct<(i64, i64)> : (i32) -> !llvm.ptr
  %status = llvm.call @clock_gettime(%clock, %time) : (i32, !llvm.ptr) -> i32
  %fraction_at = llvm.getelementptr inbounds %time[0, 1] : (!llvm.ptr) -> !llvm.ptr, !llvm.struct<(i64, i64)>
  %seconds = llvm.load %time : !llvm.ptr -> i64
  %fraction = llvm.load %fraction_at : !llvm.ptr -> i64
  %whole = arith.muli %seconds, %billion : i64
  %now = arith.addi %whole, %fraction : i64
  llvm.return %now : i64
}

// Asks the process that hosts this code (Python) whether a signal wants the run to end. Not 0 where it does: an error is set
// then.
llvm.func internal @tw_ask_signals() -> i32 {
  %success = arith.constant 0 : i32
  %signalled = llvm.call @TVMFFIEnvCheckSignals() : () -> i32
  %ends = arith.cmpi ne, %signalled, %success : i32
  %raised = scf.if %ends -> i32 {
    %kind = llvm.mlir.addressof @tw_error_is_set : !llvm.ptr
    %nothing = llvm.mlir.addressof @tw_nothing : !llvm.ptr
    %failure = llvm.call @tw_raise(%kind, %nothing, %nothing) : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
    scf.yield %failure : i32
  } else {
    scf.yield %success : i32
  }
  llvm.return %raised : i32
}

// The same, at most every 50 ms, of which `checked` has the last time, as asking takes the interpreter's lock.
llvm.func internal @tw_interrupted(%checked: !llvm.ptr) -> i32 attributes {passthrough = ["noinline"]} {
  %period = arith.constant 50000000 : i64
  %success = arith.constant 0 : i32
  %now = llvm.call @tw_now() : () -> i64
  %before = llvm.load %checked : !llvm.ptr -> i64
  %spent = arith.subi %now, %before : i64
  %due = arith.cmpi sge, %spent, %period : i64
  %result = scf.if %due -> i32 {
    llvm.store %now, %checked : i64, !llvm.ptr
    %asked = llvm.call @tw_ask_signals() : () -> i32
    scf.yield %asked : i32
  } else {
    scf.yield %success : i32
  }
  llvm.return %result : i32
}

// Raises an InputError of a text and the word behind it where that is not 0, and nothing has been raised before.
llvm.func @tw_report(%word_at: !llvm.ptr, %text: !llvm.ptr, %before: i32) -> i32 {
  %zero = arith.constant 0 : i64
  %success = arith.constant 0 : i32
  %room32 = arith.constant 32 : i32
  %room = arith.constant 32 : i64
  %word = llvm.load %word_at : !llvm.ptr -> i64
  %said = arith.cmpi ne, %word, %zero : i64
  %first = arith.cmpi eq, %before, %success : i32
  %raises = arith.andi %said, %first : i1
  %status = scf.if %raises -> i32 {
    %number = llvm.alloca %room32 x i8 : (i32) -> !llvm.ptr
    %format = llvm.mlir.addressof @tw_report_format : !llvm.ptr
    %length = llvm.call @snprintf(%number, %room, %format, %word) vararg(!llvm.func<i32 (ptr, i64, ptr, ...)>)
      : (!llvm.ptr, i64, !llvm.ptr, i64) -> i32
    %failure = llvm.call @tw_raise_input_error(%text, %number) : (!llvm.ptr, !llvm.ptr) -> i32
    scf.yield %failure : i32
  } else {
    scf.yield %before : i32
  }
  llvm.return %status : i32
}

// The bases of a run's words (core/call_layout.py): the addresses of the arena, of the tensors, of the weights.
llvm.func @tw_fill_bases(%bases: !llvm.ptr, %arena: !llvm.ptr, %spans: !llvm.ptr, %tensors: i64, %context: !llvm.ptr,
                         %weights: i64) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  llvm.store %arena, %bases : !llvm.ptr, !llvm.ptr
  %of_tensors = llvm.getelementptr inbounds %bases[1] : (!llvm.ptr) -> !llvm.ptr, i64
  scf.for %i = %zero to %tensors step %one : i64 {
    %from = llvm.getelementptr %spans[%i] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.struct<(i64, i64)>
    %to = llvm.getelementptr %of_tensors[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
    %address = llvm.load %from : !llvm.ptr -> i64
    llvm.store %address, %to : i64, !llvm.ptr
  }
  %of_weights = llvm.getelementptr %of_tensors[%tensors] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  scf.for %i = %zero to %weights step %one : i64 {
    %from = llvm.getelementptr %context[0, 5, %i] : (!llvm.ptr, i64) -> !llvm.ptr, !context
    %to = llvm.getelementptr %of_weights[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
    %address = llvm.load %from : !llvm.ptr -> i64
    llvm.store %address, %to : i64, !llvm.ptr
  }
  llvm.return
}

// Makes calls of a table in order (core/call_layout.py), `count` (1 or more) or those that begin within so many
// nanoseconds, and returns how many it made, and the number of their words. A call's words follow those of the call before,
// `most` of them at most: each is one of the bases, which are the addresses of this run (or 0, of sizes), and an offset to
// it. It notes when each call has ended, unless `stamps` is null.
llvm.func internal @tw_make_calls(%count: i64, %calls: !llvm.ptr, %which: !llvm.ptr, %offsets: !llvm.ptr, %most: i64,
                                  %bases: !llvm.ptr, %scratch: !llvm.ptr, %context: !llvm.ptr, %nanoseconds: i64,
                                  %stamps: !llvm.ptr) -> !llvm.struct<(i64, i64)> {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %false = arith.constant false
  %args = llvm.alloca %most x i64 : (i64) -> !llvm.ptr
  %begin = llvm.call @tw_now() : () -> i64
  %made:2 = scf.while (%i = %zero, %first = %zero) : (i64, i64) -> (i64, i64) {
    %call = llvm.getelementptr %calls[%i] : (!llvm.ptr, i64) -> !llvm.ptr, !call
    %length_at = llvm.getelementptr inbounds %call[0, 1] : (!llvm.ptr) -> !llvm.ptr, !call
    %extent_at = llvm.getelementptr inbounds %call[0, 2] : (!llvm.ptr) -> !llvm.ptr, !call
    %pieces_at = llvm.getelementptr inbounds %call[0, 3] : (!llvm.ptr) -> !llvm.ptr, !call
    %stride_at = llvm.getelementptr inbounds %call[0, 4] : (!llvm.ptr) -> !llvm.ptr, !call
    %kernel = llvm.load %call : !llvm.ptr -> !llvm.ptr
    %length = llvm.load %length_at : !llvm.ptr -> i64
    %extent = llvm.load %extent_at : !llvm.ptr -> i64
    %pieces = llvm.load %pieces_at : !llvm.ptr -> i64
    %stride = llvm.load %stride_at : !llvm.ptr -> i64
    scf.for %j = %zero to %length step %one : i64 {
      %number = arith.addi %first, %j : i64
      %which_at = llvm.getelementptr %which[%number] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %offset_at = llvm.getelementptr %offsets[%number] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %own = llvm.load %which_at : !llvm.ptr -> i64
      %offset = llvm.load %offset_at : !llvm.ptr -> i64
      %base_at = llvm.getelementptr %bases[%own] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %base = llvm.load %base_at : !llvm.ptr -> i64
      %value = arith.addi %base, %offset : i64
      %arg = llvm.getelementptr %args[%j] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      llvm.store %value, %arg : i64, !llvm.ptr
    }
    %alone = arith.cmpi eq, %pieces, %zero : i64
    scf.if %alone {
      llvm.call %kernel(%args, %zero, %extent, %scratch) : !llvm.ptr, (!llvm.ptr, i64, i64, !llvm.ptr) -> ()
    } else {
      llvm.call @tw_parallel_for(%kernel, %args, %extent, %pieces, %scratch, %stride, %context)
        : (!llvm.ptr, !llvm.ptr, i64, i64, !llvm.ptr, i64, !llvm.ptr) -> ()
    }
    %next = arith.addi %first, %length : i64
    %after = arith.addi %i, %one : i64
    llvm.call @tw_stamp(%stamps, %after) : (!llvm.ptr, i64) -> ()
    %more = arith.cmpi slt, %after, %count : i64
    %on = scf.if %more -> i1 {
      %now = llvm.call @tw_now() : () -> i64
      %spent = arith.subi %now, %begin : i64
      %early = arith.cmpi slt, %spent, %nanoseconds : i64
      scf.yield %early : i1
    } else {
      scf.yield %false : i1
    }
    scf.condition(%on) %after, %next : i64, i64
  } do {
  ^bb0(%i: i64, %first: i64):
    scf.yield %i, %first : i64, i64
  }
  %none = llvm.mlir.poison : !llvm.struct<(i64, i64)>
  %number = llvm.insertvalue %made#0, %none[0] : !llvm.struct<(i64, i64)>
  %both = llvm.insertvalue %made#1, %number[1] : !llvm.struct<(i64, i64)>
  llvm.return %both : !llvm.struct<(i64, i64)>
}

// The same for a host (runtime/process/threads.py), which asks for signals itself.
llvm.func @tw_run_calls(%count: i64, %calls: !llvm.ptr, %which: !llvm.ptr, %offsets: !llvm.ptr, %most: i64,
                        %bases: !llvm.ptr, %scratch: !llvm.ptr, %context: !llvm.ptr, %nanoseconds: i64) -> i64 {
  %null = llvm.mlir.zero : !llvm.ptr
  %both = llvm.call @tw_make_calls(%count, %calls, %which, %offsets, %most, %bases, %scratch, %context, %nanoseconds, %null)
    : (i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr)
    -> !llvm.struct<(i64, i64)>
  %made = llvm.extractvalue %both[0] : !llvm.struct<(i64, i64)>
  llvm.return %made : i64
}

// Makes all calls of a table. Every 50 ms it asks for signals between two of them; not 0 where one has ended the run.
llvm.func @tw_make_all_calls(%count: i64, %calls: !llvm.ptr, %which: !llvm.ptr, %offsets: !llvm.ptr, %most: i64,
                             %bases: !llvm.ptr, %scratch: !llvm.ptr, %context: !llvm.ptr, %stamps: !llvm.ptr) -> i32 {
  %zero = arith.constant 0 : i64
  %period = arith.constant 50000000 : i64
  %success = arith.constant 0 : i32
  %null = llvm.mlir.zero : !llvm.ptr
  llvm.call @tw_stamp(%stamps, %zero) : (!llvm.ptr, i64) -> ()
  %timed = llvm.icmp "ne" %stamps, %null : !llvm.ptr
  %end:3 = scf.while (%made = %zero, %words = %zero, %status = %success) : (i64, i64, i32) -> (i64, i64, i32) {
    %left = arith.cmpi slt, %made, %count : i64
    %fine = arith.cmpi eq, %status, %success : i32
    %on = arith.andi %left, %fine : i1
    scf.condition(%on) %made, %words, %status : i64, i64, i32
  } do {
  ^bb0(%made: i64, %words: i64, %status: i32):
    %rest = arith.subi %count, %made : i64
    %next = llvm.getelementptr %calls[%made] : (!llvm.ptr, i64) -> !llvm.ptr, !call
    %its_which = llvm.getelementptr %which[%words] : (!llvm.ptr, i64) -> !llvm.ptr, i64
    %its_offsets = llvm.getelementptr %offsets[%words] : (!llvm.ptr, i64) -> !llvm.ptr, i64
    %later = llvm.getelementptr %stamps[%made] : (!llvm.ptr, i64) -> !llvm.ptr, i64
    %its_stamps = llvm.select %timed, %later, %null : i1, !llvm.ptr
    %both = llvm.call @tw_make_calls(%rest, %next, %its_which, %its_offsets, %most, %bases, %scratch, %context, %period,
                                     %its_stamps)
      : (i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr)
      -> !llvm.struct<(i64, i64)>
    %more = llvm.extractvalue %both[0] : !llvm.struct<(i64, i64)>
    %more_words = llvm.extractvalue %both[1] : !llvm.struct<(i64, i64)>
    %after = arith.addi %made, %more : i64
    %after_words = arith.addi %words, %more_words : i64
    %early = arith.cmpi slt, %after, %count : i64
    %signalled = scf.if %early -> i32 {
      %asked = llvm.call @tw_ask_signals() : () -> i32
      scf.yield %asked : i32
    } else {
      scf.yield %success : i32
    }
    scf.yield %after, %after_words, %signalled : i64, i64, i32
  }
  llvm.return %end#2 : i32
}

// Reads words behind a run's calls, by base and offset, and raises the first that is not 0 with its text, unless the run
// has failed before.
llvm.func @tw_read_reports(%count: i64, %reports: !llvm.ptr, %bases: !llvm.ptr, %before: i32) -> i32 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %end = scf.for %i = %zero to %count step %one iter_args(%status = %before) -> i32 : i64 {
    %which_at = llvm.getelementptr %reports[%i, 0] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.struct<(i64, i64, ptr)>
    %offset_at = llvm.getelementptr %reports[%i, 1] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.struct<(i64, i64, ptr)>
    %text_at = llvm.getelementptr %reports[%i, 2] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.struct<(i64, i64, ptr)>
    %which = llvm.load %which_at : !llvm.ptr -> i64
    %offset = llvm.load %offset_at : !llvm.ptr -> i64
    %text = llvm.load %text_at : !llvm.ptr -> !llvm.ptr
    %base_at = llvm.getelementptr %bases[%which] : (!llvm.ptr, i64) -> !llvm.ptr, i64
    %base = llvm.load %base_at : !llvm.ptr -> !llvm.ptr
    %word_at = llvm.getelementptr %base[%offset] : (!llvm.ptr, i64) -> !llvm.ptr, i8
    %said = llvm.call @tw_report(%word_at, %text, %status) : (!llvm.ptr, !llvm.ptr, i32) -> i32
    scf.yield %said : i32
  }
  llvm.return %end : i32
}

// Memory that a call before left, or null.
llvm.func @tw_take_kept(%context: !llvm.ptr) -> !llvm.ptr {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %slots = arith.constant 16 : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %list = llvm.getelementptr inbounds %context[0, 4] : (!llvm.ptr) -> !llvm.ptr, !context
  %kept = scf.for %i = %zero to %slots step %one iter_args(%found = %null) -> !llvm.ptr : i64 {
    %searching = llvm.icmp "eq" %found, %null : !llvm.ptr
    %now = scf.if %searching -> !llvm.ptr {
      %slot = llvm.getelementptr %list[%i] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.ptr
      %taken = llvm.atomicrmw xchg %slot, %null acquire : !llvm.ptr, !llvm.ptr
      scf.yield %taken : !llvm.ptr
    } else {
      scf.yield %found : !llvm.ptr
    }
    scf.yield %now : !llvm.ptr
  }
  llvm.return %kept : !llvm.ptr
}

// Memory for one call: one that a call before left, else new. Null if there is none; never null for 0 bytes.
llvm.func @tw_take_arena(%context: !llvm.ptr, %arena_bytes: i64, %scratch_stride: i64) -> !llvm.ptr {
  %alignment = arith.constant 64 : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %kept = llvm.call @tw_take_kept(%context) : (!llvm.ptr) -> !llvm.ptr
  %none = llvm.icmp "eq" %kept, %null : !llvm.ptr
  %arena = scf.if %none -> !llvm.ptr {
    %threads = llvm.load %context : !llvm.ptr -> i32
    %wide = arith.extsi %threads : i32 to i64
    %scratch = arith.muli %wide, %scratch_stride : i64
    %sum = arith.addi %arena_bytes, %scratch : i64
    %bytes = arith.maxui %sum, %alignment : i64
    %new = llvm.call @aligned_alloc(%alignment, %bytes) : (i64, i64) -> !llvm.ptr
    scf.yield %new : !llvm.ptr
  } else {
    scf.yield %kept : !llvm.ptr
  }
  llvm.return %arena : !llvm.ptr
}

// Leaves a call's memory for the next call, or frees it when enough wait already.
llvm.func @tw_give_arena(%context: !llvm.ptr, %arena: !llvm.ptr) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %slots = arith.constant 16 : i64
  %null = llvm.mlir.zero : !llvm.ptr
  %list = llvm.getelementptr inbounds %context[0, 4] : (!llvm.ptr) -> !llvm.ptr, !context
  %rest = scf.for %i = %zero to %slots step %one iter_args(%mine = %arena) -> !llvm.ptr : i64 {
    %placing = llvm.icmp "ne" %mine, %null : !llvm.ptr
    %now = scf.if %placing -> !llvm.ptr {
      %slot = llvm.getelementptr %list[%i] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.ptr
      %pair = llvm.cmpxchg %slot, %null, %mine release monotonic : !llvm.ptr, !llvm.ptr
      %placed = llvm.extractvalue %pair[1] : !llvm.struct<(ptr, i1)>
      %left = llvm.select %placed, %null, %mine : i1, !llvm.ptr
      scf.yield %left : !llvm.ptr
    } else {
      scf.yield %mine : !llvm.ptr
    }
    scf.yield %now : !llvm.ptr
  }
  llvm.call @free(%rest) : (!llvm.ptr) -> ()
  llvm.return
}

// Called when the last reference to `main` goes. The owner goes last, by a jump that does not come back: it may be
// the one that keeps this very code mapped. (The result exists only to make the two signatures one.)
llvm.func @tw_delete(%context: !llvm.ptr) -> i32 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %slots = arith.constant 16 : i64
  %list = llvm.getelementptr inbounds %context[0, 4] : (!llvm.ptr) -> !llvm.ptr, !context
  scf.for %i = %zero to %slots step %one : i64 {
    %slot = llvm.getelementptr %list[%i] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.ptr
    %arena = llvm.load %slot : !llvm.ptr -> !llvm.ptr
    llvm.call @free(%arena) : (!llvm.ptr) -> ()
  }
  %owner_at = llvm.getelementptr inbounds %context[0, 3] : (!llvm.ptr) -> !llvm.ptr, !context
  %owner = llvm.load %owner_at : !llvm.ptr -> !llvm.ptr
  llvm.call @free(%context) : (!llvm.ptr) -> ()
  %status = llvm.call musttail @TVMFFIObjectDecRef(%owner) : (!llvm.ptr) -> i32
  llvm.return %status : i32
}

// Whether the type index is that of a pointer (4) or of None (0), which is a null pointer.
llvm.func @tw_is_pointer(%type: i32) -> i1 {
  %none = arith.constant 0 : i32
  %pointer = arith.constant 4 : i32
  %is_none = arith.cmpi eq, %type, %none : i32
  %is_pointer = arith.cmpi eq, %type, %pointer : i32
  %either = arith.ori %is_none, %is_pointer : i1
  llvm.return %either : i1
}

// The body of `create`: a context with copies of the weights' addresses, and the function object `main` around it.
llvm.func @tw_create(%args: !llvm.ptr, %count: i32, %weights: i64, %main: !llvm.ptr, %ret: !llvm.ptr) -> i32 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %word = arith.constant 8 : i64
  %int = arith.constant 1 : i32
  %five = arith.constant 5 : i32
  %first_object = arith.constant 64 : i32
  %function = arith.constant 68 : i32
  %success = arith.constant 0 : i32
  %null = llvm.mlir.zero : !llvm.ptr
  %null_byte = arith.constant 0 : i8
  %result_at = llvm.alloca %int x i64 : (i32) -> !llvm.ptr
  %enough = arith.cmpi eq, %count, %five : i32
  llvm.cond_br %enough, ^check, ^refuse

^check:
  %weights_type_at = llvm.getelementptr %args[0, 0] : (!llvm.ptr) -> !llvm.ptr, !any
  %number_type_at = llvm.getelementptr %args[1, 0] : (!llvm.ptr) -> !llvm.ptr, !any
  %threads_type_at = llvm.getelementptr %args[2, 0] : (!llvm.ptr) -> !llvm.ptr, !any
  %lock_type_at = llvm.getelementptr %args[3, 0] : (!llvm.ptr) -> !llvm.ptr, !any
  %owner_type_at = llvm.getelementptr %args[4, 0] : (!llvm.ptr) -> !llvm.ptr, !any
  %weights_type = llvm.load %weights_type_at : !llvm.ptr -> i32
  %number_type = llvm.load %number_type_at : !llvm.ptr -> i32
  %threads_type = llvm.load %threads_type_at : !llvm.ptr -> i32
  %lock_type = llvm.load %lock_type_at : !llvm.ptr -> i32
  %owner_type = llvm.load %owner_type_at : !llvm.ptr -> i32
  %weights_given_at = llvm.getelementptr %args[0, 2] : (!llvm.ptr) -> !llvm.ptr, !any
  %number_at = llvm.getelementptr %args[1, 2] : (!llvm.ptr) -> !llvm.ptr, !any
  %threads_given_at = llvm.getelementptr %args[2, 2] : (!llvm.ptr) -> !llvm.ptr, !any
  %lock_given_at = llvm.getelementptr %args[3, 2] : (!llvm.ptr) -> !llvm.ptr, !any
  %owner_given_at = llvm.getelementptr %args[4, 2] : (!llvm.ptr) -> !llvm.ptr, !any
  %addresses = llvm.load %weights_given_at : !llvm.ptr -> !llvm.ptr
  %number = llvm.load %number_at : !llvm.ptr -> i64
  %threads_wide = llvm.load %threads_given_at : !llvm.ptr -> i64
  %lock = llvm.load %lock_given_at : !llvm.ptr -> !llvm.ptr
  %owner = llvm.load %owner_given_at : !llvm.ptr -> !llvm.ptr
  %ok0 = llvm.call @tw_is_pointer(%weights_type) : (i32) -> i1
  %ok1 = arith.cmpi eq, %number_type, %int : i32
  %ok2 = arith.cmpi eq, %threads_type, %int : i32
  %ok3 = llvm.call @tw_is_pointer(%lock_type) : (i32) -> i1
  %ok4 = arith.cmpi sge, %owner_type, %first_object : i32
  %ok5 = arith.cmpi eq, %number, %weights : i64
  %ok6 = arith.cmpi sge, %threads_wide, %one : i64
  %and1 = arith.andi %ok0, %ok1 : i1
  %and2 = arith.andi %and1, %ok2 : i1
  %and3 = arith.andi %and2, %ok3 : i1
  %and4 = arith.andi %and3, %ok4 : i1
  %and5 = arith.andi %and4, %ok5 : i1
  %and6 = arith.andi %and5, %ok6 : i1
  llvm.cond_br %and6, ^make, ^refuse

^make:
  %end = llvm.getelementptr %null[0, 5] : (!llvm.ptr) -> !llvm.ptr, !context
  %fixed = llvm.ptrtoint %end : !llvm.ptr to i64
  %variable = arith.muli %weights, %word : i64
  %bytes = arith.addi %fixed, %variable : i64
  %context = llvm.call @malloc(%bytes) : (i64) -> !llvm.ptr
  %failed = llvm.icmp "eq" %context, %null : !llvm.ptr
  llvm.cond_br %failed, ^exhausted, ^fill

^fill:
  "llvm.intr.memset"(%context, %null_byte, %fixed) <{isVolatile = false}> : (!llvm.ptr, i8, i64) -> ()
  %threads = arith.trunci %threads_wide : i64 to i32
  %lock_at = llvm.getelementptr inbounds %context[0, 1] : (!llvm.ptr) -> !llvm.ptr, !context
  %owner_at = llvm.getelementptr inbounds %context[0, 3] : (!llvm.ptr) -> !llvm.ptr, !context
  %weights_at = llvm.getelementptr inbounds %context[0, 5] : (!llvm.ptr) -> !llvm.ptr, !context
  llvm.store %threads, %context : i32, !llvm.ptr
  llvm.store %lock, %lock_at : !llvm.ptr, !llvm.ptr
  llvm.store %owner, %owner_at : !llvm.ptr, !llvm.ptr
  "llvm.intr.memcpy"(%weights_at, %addresses, %variable) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
  %counted = llvm.call @TVMFFIObjectIncRef(%owner) : (!llvm.ptr) -> i32
  %delete = llvm.mlir.addressof @tw_delete : !llvm.ptr
  %status = llvm.call @TVMFFIFunctionCreate(%context, %main, %delete, %result_at)
    : (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
  %made = arith.cmpi eq, %status, %success : i32
  llvm.cond_br %made, ^done, ^lost(%status : i32)

^done:
  %object = llvm.load %result_at : !llvm.ptr -> i64
  llvm.call @tw_return(%ret, %function, %object) : (!llvm.ptr, i32, i64) -> ()
  llvm.return %success : i32

^lost(%code: i32):
  %freed = llvm.call @tw_delete(%context) : (!llvm.ptr) -> i32
  llvm.return %code : i32

^refuse:
  %usage = llvm.mlir.addressof @tw_create_usage : !llvm.ptr
  %nothing = llvm.mlir.addressof @tw_nothing : !llvm.ptr
  %refused = llvm.call @tw_raise_input_error(%usage, %nothing) : (!llvm.ptr, !llvm.ptr) -> i32
  llvm.return %refused : i32

^exhausted:
  %none_left = llvm.call @tw_raise_out_of_memory() : () -> i32
  llvm.return %none_left : i32
}
