module attributes {transform.with_named_sequence} {
  // Tiles that threads share, and the product that they read in each.
  transform.named_sequence @product(%kernel: !transform.any_op {transform.consumed}) {
    %ops = transform.structured.match ops{["linalg.generic"]} in %kernel : (!transform.any_op) -> !transform.any_op
    %product, %bias = transform.split_handle %ops : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tile, %loop = transform.structured.tile_using_forall %bias tile_sizes [4, 16]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %fused, %around = transform.structured.fuse_into_containing_op %product into %loop
      : (!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }

  // Loops around tiles of the result, which the compiler computes as those of its own schedules.
  transform.named_sequence @tiles(%kernel: !transform.any_op {transform.consumed}) {
    %result = transform.structured.match attributes {tw.stage = "result:store"} in %kernel
      : (!transform.any_op) -> !transform.any_op
    %rows, %outer = transform.structured.tile_using_for %result tile_sizes [5, 0]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %tile, %inner = transform.structured.tile_using_for %rows tile_sizes [0, 16]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %form = transform.param.constant {sums = ["k"], intrinsic = "outer_product"} -> !transform.any_param
    transform.annotate %tile "tw.form" = %form : !transform.any_op, !transform.any_param
    %shared = transform.param.constant unit -> !transform.any_param
    transform.annotate %outer "tw.shared_loop" = %shared : !transform.any_op, !transform.any_param
    %for = transform.cast %outer : !transform.any_op to !transform.op<"scf.for">
    %whole, %rest = transform.loop.peel %for : (!transform.op<"scf.for">) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }

  // Nothing that the kernel has.
  transform.named_sequence @nothing(%kernel: !transform.any_op {transform.consumed}) {
    %ops = transform.structured.match ops{["linalg.softmax"]} in %kernel : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
