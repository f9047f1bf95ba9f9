// tvm-ffi's packed-function ABI in the LLVM dialect: what compiled code needs to take tensors and to raise errors.
// The structs are those of tvm/ffi/c_api.h and dlpack.h. Functions with a status return 0 for success.

// An argument or a result: type index, zero, payload.
!any = !llvm.struct<(i32, i32, i64)>
// DLTensor: data, (device type, device id), rank, (dtype code, bits, lanes), shape, strides, byte offset.
!tensor = !llvm.struct<(ptr, struct<(i32, i32)>, i32, i32, ptr, ptr, i64)>
// The bytes of a tensor: first address, first address behind it.
!span = !llvm.struct<(i64, i64)>

// TVMFFIByteArray: text and length.
!text = !llvm.struct<(ptr, i64)>

llvm.func @TVMFFIErrorCreate(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
llvm.func @TVMFFIErrorSetRaised(!llvm.ptr)
llvm.func @TVMFFIObjectDecRef(!llvm.ptr) -> i32

llvm.mlir.global internal constant @tw_input_error("InputError\00")
llvm.mlir.global internal constant @tw_memory_error("MemoryError\00")
llvm.mlir.global internal constant @tw_out_of_memory("out of memory\00")
llvm.mlir.global internal constant @tw_nothing("\00")

// The bytes of a text before the one that ends it.
llvm.func @tw_text_length(%text: !llvm.ptr) -> i64 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %end = arith.constant 0 : i8
  %length = scf.while (%i = %zero) : (i64) -> i64 {
    %at = llvm.getelementptr %text[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i8
    %byte = llvm.load %at : !llvm.ptr -> i8
    %more = arith.cmpi ne, %byte, %end : i8
    scf.condition(%more) %i : i64
  } do {
  ^bb0(%i: i64):
    %next = arith.addi %i, %one : i64
    scf.yield %next : i64
  }
  llvm.return %length : i64
}

llvm.func @tw_make_text(%data: !llvm.ptr, %length: i64) -> !text {
  %none = llvm.mlir.undef : !text
  %begun = llvm.insertvalue %data, %none[0] : !text
  %text = llvm.insertvalue %length, %begun[1] : !text
  llvm.return %text : !text
}

// Sets the error "{first}{second}" of this kind and returns -1. The error has no backtrace: that of our code says
// nothing, and tvm-ffi reads the debug information of all libraries for its first one (0.3 s, with torch 0.8).
llvm.func @tw_raise(%kind: !llvm.ptr, %first: !llvm.ptr, %second: !llvm.ptr) -> i32
    attributes {passthrough = ["cold", "noinline"]} {
  %success = arith.constant 0 : i32
  %failure = arith.constant -1 : i32
  %none = arith.constant 0 : i64
  %one = arith.constant 1 : i32
  %three = arith.constant 3 : i32
  %kind_length = llvm.call @tw_text_length(%kind) : (!llvm.ptr) -> i64
  %first_length = llvm.call @tw_text_length(%first) : (!llvm.ptr) -> i64
  %second_length = llvm.call @tw_text_length(%second) : (!llvm.ptr) -> i64
  %length = arith.addi %first_length, %second_length : i64
  %message = llvm.alloca %length x i8 : (i64) -> !llvm.ptr
  %behind = llvm.getelementptr %message[%first_length] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  "llvm.intr.memcpy"(%message, %first, %first_length) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
  "llvm.intr.memcpy"(%behind, %second, %second_length) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
  %texts = llvm.alloca %three x !text : (i32) -> !llvm.ptr
  %error = llvm.alloca %one x !llvm.ptr : (i32) -> !llvm.ptr
  %message_at = llvm.getelementptr %texts[1] : (!llvm.ptr) -> !llvm.ptr, !text
  %backtrace_at = llvm.getelementptr %texts[2] : (!llvm.ptr) -> !llvm.ptr, !text
  %kind_text = llvm.call @tw_make_text(%kind, %kind_length) : (!llvm.ptr, i64) -> !text
  %message_text = llvm.call @tw_make_text(%message, %length) : (!llvm.ptr, i64) -> !text
  %backtrace = llvm.call @tw_make_text(%message, %none) : (!llvm.ptr, i64) -> !text
  llvm.store %kind_text, %texts : !text, !llvm.ptr
  llvm.store %message_text, %message_at : !text, !llvm.ptr
  llvm.store %backtrace, %backtrace_at : !text, !llvm.ptr
  %status = llvm.call @TVMFFIErrorCreate(%texts, %message_at, %backtrace_at, %error)
    : (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
  %made = arith.cmpi eq, %status, %success : i32
  scf.if %made {
    %handle = llvm.load %error : !llvm.ptr -> !llvm.ptr
    llvm.call @TVMFFIErrorSetRaised(%handle) : (!llvm.ptr) -> ()
    %left = llvm.call @TVMFFIObjectDecRef(%handle) : (!llvm.ptr) -> i32
  }
  llvm.return %failure : i32
}

llvm.func @tw_raise_input_error(%first: !llvm.ptr, %second: !llvm.ptr) -> i32 {
  %kind = llvm.mlir.addressof @tw_input_error : !llvm.ptr
  %failure = llvm.call @tw_raise(%kind, %first, %second) : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
  llvm.return %failure : i32
}

llvm.func @tw_raise_out_of_memory() -> i32 {
  %kind = llvm.mlir.addressof @tw_memory_error : !llvm.ptr
  %what = llvm.mlir.addressof @tw_out_of_memory : !llvm.ptr
  %nothing = llvm.mlir.addressof @tw_nothing : !llvm.ptr
  %failure = llvm.call @tw_raise(%kind, %what, %nothing) : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
  llvm.return %failure : i32
}

// The DLTensor of an argument, null for anything that is no tensor. A Tensor object (70) has it behind its header of
// 24 bytes; a borrowed DLTensor* (7) is the payload itself.
llvm.func @tw_tensor(%arg: !llvm.ptr) -> !llvm.ptr {
  %object = arith.constant 70 : i32
  %borrowed = arith.constant 7 : i32
  %null = llvm.mlir.zero : !llvm.ptr
  %payload_at = llvm.getelementptr inbounds %arg[0, 2] : (!llvm.ptr) -> !llvm.ptr, !any
  %type = llvm.load %arg : !llvm.ptr -> i32
  %payload = llvm.load %payload_at : !llvm.ptr -> !llvm.ptr
  %inside = llvm.getelementptr %payload[24] : (!llvm.ptr) -> !llvm.ptr, i8
  %is_object = arith.cmpi eq, %type, %object : i32
  %is_borrowed = arith.cmpi eq, %type, %borrowed : i32
  %other = llvm.select %is_borrowed, %payload, %null : i1, !llvm.ptr
  %tensor = llvm.select %is_object, %inside, %other : i1, !llvm.ptr
  llvm.return %tensor : !llvm.ptr
}

// Whether the extents are those that the signature has.
llvm.func @tw_same_shape(%shape: !llvm.ptr, %want: !llvm.ptr, %rank: i64) -> i1 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %true = arith.constant true
  %same = scf.for %d = %zero to %rank step %one iter_args(%so_far = %true) -> i1 : i64 {
    %extent_at = llvm.getelementptr %shape[%d] : (!llvm.ptr, i64) -> !llvm.ptr, i64
    %want_at = llvm.getelementptr %want[%d] : (!llvm.ptr, i64) -> !llvm.ptr, i64
    %extent = llvm.load %extent_at : !llvm.ptr -> i64
    %wanted = llvm.load %want_at : !llvm.ptr -> i64
    %equal = arith.cmpi eq, %extent, %wanted : i64
    %both = arith.andi %so_far, %equal : i1
    scf.yield %both : i1
  }
  llvm.return %same : i1
}

// Whether the elements lie in row-major order without holes. Null strides say so; the stride of an extent of 1 says
// nothing; a tensor without elements is contiguous.
llvm.func @tw_contiguous(%shape: !llvm.ptr, %strides: !llvm.ptr, %rank: i64) -> i1 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %true = arith.constant true
  %null = llvm.mlir.zero : !llvm.ptr
  %compact = llvm.icmp "eq" %strides, %null : !llvm.ptr
  %result = scf.if %compact -> i1 {
    scf.yield %true : i1
  } else {
    %last = arith.subi %rank, %one : i64
    %size, %dense = scf.for %i = %zero to %rank step %one iter_args(%step = %one, %so_far = %true) -> (i64, i1) : i64 {
      %d = arith.subi %last, %i : i64
      %extent_at = llvm.getelementptr %shape[%d] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %stride_at = llvm.getelementptr %strides[%d] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %extent = llvm.load %extent_at : !llvm.ptr -> i64
      %stride = llvm.load %stride_at : !llvm.ptr -> i64
      %unit = arith.cmpi eq, %extent, %one : i64
      %equal = arith.cmpi eq, %stride, %step : i64
      %fits = arith.ori %unit, %equal : i1
      %both = arith.andi %so_far, %fits : i1
      %next = arith.muli %step, %extent : i64
      scf.yield %next, %both : i64, i1
    }
    %empty = arith.cmpi eq, %size, %zero : i64
    %either = arith.ori %dense, %empty : i1
    scf.yield %either : i1
  }
  llvm.return %result : i1
}

// Why a tensor does not fit its record of the signature: the address of a reason in words, null if it fits.
// The record is of i64: dtype, bytes of an element, bytes of all, rank, extents.
llvm.func @tw_misfit(%tensor: !llvm.ptr, %record: !llvm.ptr) -> !llvm.ptr {
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %cpu = arith.constant 1 : i32
  %null = llvm.mlir.zero : !llvm.ptr
  %none = llvm.icmp "eq" %tensor, %null : !llvm.ptr
  %reason = scf.if %none -> !llvm.ptr {
    %not_tensor = llvm.mlir.addressof @tw_not_tensor : !llvm.ptr
    scf.yield %not_tensor : !llvm.ptr
  } else {
    %device_at = llvm.getelementptr inbounds %tensor[0, 1] : (!llvm.ptr) -> !llvm.ptr, !tensor
    %rank_at = llvm.getelementptr inbounds %tensor[0, 2] : (!llvm.ptr) -> !llvm.ptr, !tensor
    %dtype_at = llvm.getelementptr inbounds %tensor[0, 3] : (!llvm.ptr) -> !llvm.ptr, !tensor
    %shape_at = llvm.getelementptr inbounds %tensor[0, 4] : (!llvm.ptr) -> !llvm.ptr, !tensor
    %strides_at = llvm.getelementptr inbounds %tensor[0, 5] : (!llvm.ptr) -> !llvm.ptr, !tensor
    %offset_at = llvm.getelementptr inbounds %tensor[0, 6] : (!llvm.ptr) -> !llvm.ptr, !tensor
    %device = llvm.load %device_at : !llvm.ptr -> i32
    %short_rank = llvm.load %rank_at : !llvm.ptr -> i32
    %dtype = llvm.load %dtype_at : !llvm.ptr -> i32
    %shape = llvm.load %shape_at : !llvm.ptr -> !llvm.ptr
    %strides = llvm.load %strides_at : !llvm.ptr -> !llvm.ptr
    %data = llvm.load %tensor : !llvm.ptr -> i64
    %offset = llvm.load %offset_at : !llvm.ptr -> i64
    %want_item_at = llvm.getelementptr %record[1] : (!llvm.ptr) -> !llvm.ptr, i64
    %want_rank_at = llvm.getelementptr %record[3] : (!llvm.ptr) -> !llvm.ptr, i64
    %want_shape = llvm.getelementptr %record[4] : (!llvm.ptr) -> !llvm.ptr, i64
    %want_dtype = llvm.load %record : !llvm.ptr -> i32
    %want_item = llvm.load %want_item_at : !llvm.ptr -> i64
    %want_rank = llvm.load %want_rank_at : !llvm.ptr -> i64
    %rank = arith.extui %short_rank : i32 to i64

    %same_device = arith.cmpi eq, %device, %cpu : i32
    %same_dtype = arith.cmpi eq, %dtype, %want_dtype : i32
    %same_rank = arith.cmpi eq, %rank, %want_rank : i64
    %steps = arith.select %same_rank, %rank, %zero : i64
    %same_shape = llvm.call @tw_same_shape(%shape, %want_shape, %steps) : (!llvm.ptr, !llvm.ptr, i64) -> i1
    %contiguous = llvm.call @tw_contiguous(%shape, %strides, %steps) : (!llvm.ptr, !llvm.ptr, i64) -> i1
    %address = arith.addi %data, %offset : i64
    %low_bits = arith.subi %want_item, %one : i64
    %excess = arith.andi %address, %low_bits : i64
    %aligned = arith.cmpi eq, %excess, %zero : i64

    // The first check that fails gives the reason: they are selected from the last to the first.
    %no_align = llvm.mlir.addressof @tw_not_aligned : !llvm.ptr
    %no_dense = llvm.mlir.addressof @tw_not_contiguous : !llvm.ptr
    %no_shape = llvm.mlir.addressof @tw_not_shape : !llvm.ptr
    %no_rank = llvm.mlir.addressof @tw_not_rank : !llvm.ptr
    %no_dtype = llvm.mlir.addressof @tw_not_dtype : !llvm.ptr
    %no_device = llvm.mlir.addressof @tw_not_device : !llvm.ptr
    %r0 = llvm.select %aligned, %null, %no_align : i1, !llvm.ptr
    %r1 = llvm.select %contiguous, %r0, %no_dense : i1, !llvm.ptr
    %r2 = llvm.select %same_shape, %r1, %no_shape : i1, !llvm.ptr
    %r3 = llvm.select %same_rank, %r2, %no_rank : i1, !llvm.ptr
    %r4 = llvm.select %same_dtype, %r3, %no_dtype : i1, !llvm.ptr
    %r5 = llvm.select %same_device, %r4, %no_device : i1, !llvm.ptr
    scf.yield %r5 : !llvm.ptr
  }
  llvm.return %reason : !llvm.ptr
}

llvm.mlir.global internal constant @tw_not_tensor("; the argument is no tensor\00")
llvm.mlir.global internal constant @tw_not_device("; the tensor is on another device\00")
llvm.mlir.global internal constant @tw_not_dtype("; the tensor has another dtype\00")
llvm.mlir.global internal constant @tw_not_rank("; the tensor has another rank\00")
llvm.mlir.global internal constant @tw_not_shape("; the tensor has another shape\00")
llvm.mlir.global internal constant @tw_not_contiguous("; the tensor is not contiguous\00")
llvm.mlir.global internal constant @tw_not_aligned("; the tensor's address is not a multiple of its element size\00")
llvm.mlir.global internal constant @tw_overlap("; its memory overlaps that of another argument\00")

// The `i`-th of a list of texts: offsets from the list's begin, then the texts themselves.
llvm.func @tw_text(%list: !llvm.ptr, %i: i64) -> !llvm.ptr {
  %offset_at = llvm.getelementptr %list[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i32
  %offset = llvm.load %offset_at : !llvm.ptr -> i32
  %text = llvm.getelementptr %list[%offset] : (!llvm.ptr, i32) -> !llvm.ptr, i8
  llvm.return %text : !llvm.ptr
}

// Checks `count` tensors against the records of `signature` and stores where their bytes lie.
llvm.func @tw_take_tensors(%args: !llvm.ptr, %signature: !llvm.ptr, %names: !llvm.ptr, %count: i64,
                                    %spans: !llvm.ptr) -> i32 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %header = arith.constant 4 : i64
  %success = arith.constant 0 : i32
  %null = llvm.mlir.zero : !llvm.ptr
  %end, %status = scf.for %i = %zero to %count step %one
      iter_args(%record = %signature, %so_far = %success) -> (!llvm.ptr, i32) : i64 {
    %arg = llvm.getelementptr %args[%i] : (!llvm.ptr, i64) -> !llvm.ptr, !any
    %tensor = llvm.call @tw_tensor(%arg) : (!llvm.ptr) -> !llvm.ptr
    %reason = llvm.call @tw_misfit(%tensor, %record) : (!llvm.ptr, !llvm.ptr) -> !llvm.ptr
    %fits = llvm.icmp "eq" %reason, %null : !llvm.ptr
    %bytes_at = llvm.getelementptr %record[2] : (!llvm.ptr) -> !llvm.ptr, i64
    %rank_at = llvm.getelementptr %record[3] : (!llvm.ptr) -> !llvm.ptr, i64
    %now = scf.if %fits -> i32 {
      %offset_at = llvm.getelementptr inbounds %tensor[0, 6] : (!llvm.ptr) -> !llvm.ptr, !tensor
      %data = llvm.load %tensor : !llvm.ptr -> i64
      %offset = llvm.load %offset_at : !llvm.ptr -> i64
      %bytes = llvm.load %bytes_at : !llvm.ptr -> i64
      %first = arith.addi %data, %offset : i64
      %behind = arith.addi %first, %bytes : i64
      %first_at = llvm.getelementptr %spans[%i, 0] : (!llvm.ptr, i64) -> !llvm.ptr, !span
      %behind_at = llvm.getelementptr %spans[%i, 1] : (!llvm.ptr, i64) -> !llvm.ptr, !span
      llvm.store %first, %first_at : i64, !llvm.ptr
      llvm.store %behind, %behind_at : i64, !llvm.ptr
      scf.yield %so_far : i32
    } else {
      %what = llvm.call @tw_text(%names, %i) : (!llvm.ptr, i64) -> !llvm.ptr
      // Only the first error counts.
      %first_error = arith.cmpi eq, %so_far, %success : i32
      %raised = scf.if %first_error -> i32 {
        %failure = llvm.call @tw_raise_input_error(%what, %reason) : (!llvm.ptr, !llvm.ptr) -> i32
        scf.yield %failure : i32
      } else {
        scf.yield %so_far : i32
      }
      scf.yield %raised : i32
    }
    %rank = llvm.load %rank_at : !llvm.ptr -> i64
    %length = arith.addi %rank, %header : i64
    %next = llvm.getelementptr %record[%length] : (!llvm.ptr, i64) -> !llvm.ptr, i64
    scf.yield %next, %now : !llvm.ptr, i32
  }
  llvm.return %status : i32
}

// Refuses outputs (the spans from `inputs` on) that share a byte with an input or with another output.
llvm.func @tw_refuse_overlap(%spans: !llvm.ptr, %inputs: i64, %count: i64,
                                      %names: !llvm.ptr) -> i32 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %success = arith.constant 0 : i32
  %status = scf.for %i = %inputs to %count step %one iter_args(%so_far = %success) -> i32 : i64 {
    %first_at = llvm.getelementptr %spans[%i, 0] : (!llvm.ptr, i64) -> !llvm.ptr, !span
    %behind_at = llvm.getelementptr %spans[%i, 1] : (!llvm.ptr, i64) -> !llvm.ptr, !span
    %first = llvm.load %first_at : !llvm.ptr -> i64
    %behind = llvm.load %behind_at : !llvm.ptr -> i64
    %inner = scf.for %j = %zero to %i step %one iter_args(%before = %so_far) -> i32 : i64 {
      %other_first_at = llvm.getelementptr %spans[%j, 0] : (!llvm.ptr, i64) -> !llvm.ptr, !span
      %other_behind_at = llvm.getelementptr %spans[%j, 1] : (!llvm.ptr, i64) -> !llvm.ptr, !span
      %other_first = llvm.load %other_first_at : !llvm.ptr -> i64
      %other_behind = llvm.load %other_behind_at : !llvm.ptr -> i64
      %low = arith.maxui %first, %other_first : i64
      %high = arith.minui %behind, %other_behind : i64
      %shared = arith.cmpi ult, %low, %high : i64
      %fine = arith.cmpi eq, %before, %success : i32
      %raise = arith.andi %shared, %fine : i1
      %now = scf.if %raise -> i32 {
        %what = llvm.call @tw_text(%names, %i) : (!llvm.ptr, i64) -> !llvm.ptr
        %why = llvm.mlir.addressof @tw_overlap : !llvm.ptr
        %failure = llvm.call @tw_raise_input_error(%what, %why) : (!llvm.ptr, !llvm.ptr) -> i32
        scf.yield %failure : i32
      } else {
        scf.yield %before : i32
      }
      scf.yield %now : i32
    }
    scf.yield %inner : i32
  }
  llvm.return %status : i32
}

// Raises `what` where two numbers differ.
llvm.func @tw_expect(%given: i32, %want: i32, %what: !llvm.ptr) -> i32 {
  %success = arith.constant 0 : i32
  %fits = arith.cmpi eq, %given, %want : i32
  %status = scf.if %fits -> i32 {
    scf.yield %success : i32
  } else {
    %nothing = llvm.mlir.addressof @tw_nothing : !llvm.ptr
    %failure = llvm.call @tw_raise_input_error(%what, %nothing) : (!llvm.ptr, !llvm.ptr) -> i32
    scf.yield %failure : i32
  }
  llvm.return %status : i32
}

// Stores a result: an integer (1), a pointer (4), an object (64 and more).
llvm.func @tw_return(%ret: !llvm.ptr, %type: i32, %payload: i64) {
  %zero = arith.constant 0 : i32
  %zero_at = llvm.getelementptr inbounds %ret[0, 1] : (!llvm.ptr) -> !llvm.ptr, !any
  %payload_at = llvm.getelementptr inbounds %ret[0, 2] : (!llvm.ptr) -> !llvm.ptr, !any
  llvm.store %type, %ret : i32, !llvm.ptr
  llvm.store %zero, %zero_at : i32, !llvm.ptr
  llvm.store %payload, %payload_at : i64, !llvm.ptr
  llvm.return
}
