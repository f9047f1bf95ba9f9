// RUN: %opt %s --passes=prefetch-weights | filecheck %s
// RUN: %opt %s --passes=prefetch-weights{distance=8} | filecheck %s --check-prefix=NEAR
// RUN: %opt %s --passes=prefetch-weights{tiles=4} | filecheck %s --check-prefix=FEW
// RUN: %opt %s --passes=prefetch-weights --target "x86 -mcpu=znver4" | filecheck %s --check-prefix=HALVES

// Both cache lines of a row, before anything is loaded.
// CHECK-LABEL: func.func @stream(
// CHECK-SAME:    %[[X:.*]]: memref<512xf32>, %[[W:.*]]: memref<8x512x32xf32>
// CHECK:         scf.for %[[K:.*]] = %{{.*}} iter_args
// CHECK:           %[[FAR:.*]] = arith.constant 32 : index
// CHECK:           arith.addi %[[K]], %[[FAR]]
// CHECK:           memref.prefetch %[[W]]{{.*}}, read, locality<3>, data
// CHECK:           memref.prefetch %[[W]]{{.*}}, read, locality<3>, data
// CHECK-NOT:       memref.prefetch
// CHECK:           memref.load
// CHECK:           vector.load
// NEAR-LABEL: func.func @stream(
// NEAR:           arith.constant 8 : index
func.func @stream(%x: memref<512xf32>, %w: memref<8x512x32xf32>, %block: index) -> vector<32xf32>
    attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  %sum = scf.for %k = %c0 to %c512 step %c1 iter_args(%acc = %zero) -> (vector<32xf32>) {
    %a = memref.load %x[%k] : memref<512xf32>
    %b = vector.broadcast %a : f32 to vector<32xf32>
    %row = vector.load %w[%block, %k, %c0] : memref<8x512x32xf32>, vector<32xf32>
    %next = vector.fma %b, %row, %acc : vector<32xf32>
    scf.yield %next : vector<32xf32>
  }
  return %sum : vector<32xf32>
}

// Several tiles of rows go over a block of the weight: they share the lines of the next block, 2 of each row among 9.
// CHECK-LABEL: func.func @several_tiles(
// CHECK-SAME:    %[[W:.*]]: memref<8x512x32xf32>
// CHECK:         scf.for %[[N:[a-z0-9]+]] =
// CHECK:           scf.for %[[M:[a-z0-9]+]] =
// CHECK:             scf.for %[[K:[a-z0-9]+]] =
// CHECK-COUNT-2:       memref.prefetch %[[W]][%[[N]], {{.*}}locality<3>
// CHECK:               %[[BEFORE:.*]] = arith.muli %[[M]], %c512
// CHECK:               %[[STEP:.*]] = arith.addi %[[BEFORE]], %[[K]]
// CHECK:               %[[LINES:.*]] = arith.muli %[[STEP]], %c2
// CHECK:               %[[LINE:.*]] = arith.divui %[[LINES]], %c9
// CHECK:               %[[NEXT:.*]] = arith.addi %[[N]], %c1
// CHECK:               %[[PLACE:.*]] = arith.muli %[[LINE]], %c16
// CHECK:               memref.prefetch %[[W]][%[[NEXT]], %c0{{.*}}, %[[PLACE]]], read, locality<2>, data
// CHECK:               vector.load
// FEW-LABEL: func.func @several_tiles(
// FEW-NOT:     locality<2>
func.func @several_tiles(%w: memref<8x512x32xf32>, %lo: index, %hi: index) attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  scf.for %n = %lo to %hi step %c1 {
    scf.for %m = %c0 to %c9 step %c1 {
      %sum = scf.for %k = %c0 to %c512 step %c1 iter_args(%acc = %zero) -> (vector<32xf32>) {
        %row = vector.load %w[%n, %k, %c0] : memref<8x512x32xf32>, vector<32xf32>
        %next = arith.addf %row, %acc : vector<32xf32>
        scf.yield %next : vector<32xf32>
      }
      vector.print %sum : vector<32xf32>
    }
  }
  return
}

// Blocks and tiles of rows joined to one axis: what is left over of the division is the tile.
// CHECK-LABEL: func.func @joined_axis(
// CHECK:         scf.for %[[I:[a-z0-9]+]] =
// CHECK:           %[[M:.*]] = arith.remui %[[I]], %c4
// CHECK:           %[[N:.*]] = arith.divui %[[I]], %c4
// CHECK:           scf.for %[[K:[a-z0-9]+]] =
// CHECK:             %[[BEFORE:.*]] = arith.muli %[[M]], %c512
// CHECK:             arith.addi %[[BEFORE]], %[[K]]
// CHECK:             %[[NEXT:.*]] = arith.addi %[[N]], %c1
// CHECK:             memref.prefetch %{{.*}}[%[[NEXT]], %c0{{.*}}locality<2>
// FEW-LABEL: func.func @joined_axis(
// FEW:         locality<2>
func.func @joined_axis(%w: memref<8x512x32xf32>, %lo: index, %hi: index) attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  scf.for %i = %lo to %hi step %c1 {
    %n = arith.divui %i, %c4 : index
    %sum = scf.for %k = %c0 to %c512 step %c1 iter_args(%acc = %zero) -> (vector<32xf32>) {
      %row = vector.load %w[%n, %k, %c0] : memref<8x512x32xf32>, vector<32xf32>
      %next = arith.addf %row, %acc : vector<32xf32>
      scf.yield %next : vector<32xf32>
    }
    vector.print %sum : vector<32xf32>
  }
  return
}

// Rows of a block in the order of all its loops: 64 for each tap of the window, 3 x 64 for each tile.
// CHECK-LABEL: func.func @window(
// CHECK:         scf.for %[[N:[a-z0-9]+]] =
// CHECK:           scf.for %[[M:[a-z0-9]+]] =
// CHECK:             scf.for %[[TAP:[a-z0-9]+]] =
// CHECK:               scf.for %[[K:[a-z0-9]+]] =
// CHECK:                 %[[TAPS:.*]] = arith.muli %[[TAP]], %c64
// CHECK:                 %[[ROW:.*]] = arith.addi %[[K]], %[[TAPS]]
// CHECK:                 %[[BEFORE:.*]] = arith.muli %[[M]], %c192
// CHECK:                 arith.addi %[[BEFORE]], %[[ROW]]
// CHECK:                 memref.prefetch %{{.*}}[%{{.*}}, %c0{{.*}}, %c0{{.*}}, %{{.*}}], read, locality<2>
func.func @window(%w: memref<8x3x64x32xf32>, %lo: index, %hi: index) attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c64 = arith.constant 64 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  scf.for %n = %lo to %hi step %c1 {
    scf.for %m = %c0 to %c2 step %c1 {
      %sum = scf.for %i = %c0 to %c3 step %c1 iter_args(%part = %zero) -> (vector<32xf32>) {
        %taps = scf.for %k = %c0 to %c64 step %c1 iter_args(%acc = %part) -> (vector<32xf32>) {
          %row = vector.load %w[%n, %i, %k, %c0] : memref<8x3x64x32xf32>, vector<32xf32>
          %next = arith.addf %row, %acc : vector<32xf32>
          scf.yield %next : vector<32xf32>
        }
        scf.yield %taps : vector<32xf32>
      }
      vector.print %sum : vector<32xf32>
    }
  }
  return
}

// Four rows at a step: eight lines ahead, and four of the next block, since two tiles share it.
// CHECK-LABEL: func.func @four_rows_at_once(
// CHECK-COUNT-8:   locality<3>
// CHECK-COUNT-4:   locality<2>
// CHECK-NOT:       memref.prefetch
// CHECK:           vector.load
func.func @four_rows_at_once(%w: memref<8x512x32xf32>, %lo: index, %hi: index) attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  scf.for %n = %lo to %hi step %c1 {
    scf.for %m = %c0 to %c2 step %c1 {
      %sum = scf.for %k = %c0 to %c512 step %c4 iter_args(%acc = %zero) -> (vector<32xf32>) {
        %row = vector.load %w[%n, %k, %c0] : memref<8x512x32xf32>, vector<32xf32>
        %next = arith.addf %row, %acc : vector<32xf32>
        scf.yield %next : vector<32xf32>
      }
      vector.print %sum : vector<32xf32>
    }
  }
  return
}

// Rows of half a cache line, and a loop that takes two blocks at a step: a quarter of a line for each of two tiles.
// CHECK-LABEL: func.func @half_lines(
// CHECK:         scf.for %[[B:[a-z0-9]+]] =
// CHECK:             %[[N:.*]] = arith.muli %[[B]], %c2
// CHECK:             scf.for
// CHECK:               %[[LINE:.*]] = arith.divui %{{.*}}, %c4
// CHECK:               %[[NEXT:.*]] = arith.addi %[[N]], %c2
// CHECK:               %[[PLACE:.*]] = arith.muli %[[LINE]], %c16
// CHECK:               memref.prefetch %{{.*}}[%[[NEXT]], %c0{{.*}}, %[[PLACE]]], read, locality<2>
func.func @half_lines(%w: memref<8x512x8xf32>, %lo: index, %hi: index) attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant dense<0.0> : vector<8xf32>
  scf.for %b = %lo to %hi step %c1 {
    scf.for %m = %c0 to %c2 step %c1 {
      %n = arith.muli %b, %c2 : index
      %sum = scf.for %k = %c0 to %c512 step %c1 iter_args(%acc = %zero) -> (vector<8xf32>) {
        %row = vector.load %w[%n, %k, %c0] : memref<8x512x8xf32>, vector<8xf32>
        %next = arith.addf %row, %acc : vector<8xf32>
        scf.yield %next : vector<8xf32>
      }
      vector.print %sum : vector<8xf32>
    }
  }
  return
}

// With one tile of rows there is nobody to ask in time, nor where their number is not known: only the rows ahead.
// CHECK-LABEL: func.func @rejects_one_tile(
// CHECK:         locality<3>
// CHECK-NOT:     locality<2>
func.func @rejects_one_tile(%w: memref<8x512x32xf32>, %lo: index, %hi: index) attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  scf.for %n = %lo to %hi step %c1 {
    scf.for %m = %c0 to %c1 step %c1 {
      %sum = scf.for %k = %c0 to %c512 step %c1 iter_args(%acc = %zero) -> (vector<32xf32>) {
        %row = vector.load %w[%n, %k, %c0] : memref<8x512x32xf32>, vector<32xf32>
        %next = arith.addf %row, %acc : vector<32xf32>
        scf.yield %next : vector<32xf32>
      }
      vector.print %sum : vector<32xf32>
    }
  }
  return
}

// CHECK-LABEL: func.func @rejects_unknown_tiles(
// CHECK:         locality<3>
// CHECK-NOT:     locality<2>
func.func @rejects_unknown_tiles(%w: memref<8x512x32xf32>, %lo: index, %hi: index) attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  scf.for %n = %lo to %hi step %c1 {
    scf.for %m = %c0 to %hi step %c1 {
      %sum = scf.for %k = %c0 to %c512 step %c1 iter_args(%acc = %zero) -> (vector<32xf32>) {
        %row = vector.load %w[%n, %k, %c0] : memref<8x512x32xf32>, vector<32xf32>
        %next = arith.addf %row, %acc : vector<32xf32>
        scf.yield %next : vector<32xf32>
      }
      vector.print %sum : vector<32xf32>
    }
  }
  return
}

// Parts of rows do not follow each other in memory, and a row that the loop does not step through is there already.
// CHECK-LABEL: func.func @rejects_parts(
// CHECK-NOT:     memref.prefetch
func.func @rejects_parts(%w: memref<512x64xf32>, %same: memref<4x32xf32>) -> vector<32xf32>
    attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c512 = arith.constant 512 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  %sum = scf.for %k = %c0 to %c512 step %c1 iter_args(%acc = %zero) -> (vector<32xf32>) {
    %part = vector.load %w[%k, %c0] : memref<512x64xf32>, vector<32xf32>
    %row = vector.load %same[%c1, %c0] : memref<4x32xf32>, vector<32xf32>
    %next = vector.fma %part, %row, %acc : vector<32xf32>
    scf.yield %next : vector<32xf32>
  }
  return %sum : vector<32xf32>
}

// A row of a buffer, or at a place along another axis, that each step computes is no stream, and neither is there yet.
// CHECK-LABEL: func.func @rejects_computed_places(
// CHECK-NOT:     memref.prefetch
func.func @rejects_computed_places(%w: memref<8x512x32xf32>) -> vector<32xf32> attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  %sum = scf.for %k = %c0 to %c8 step %c1 iter_args(%acc = %zero) -> (vector<32xf32>) {
    %place = arith.divui %k, %c2 : index
    %row = vector.load %w[%place, %k, %c0] : memref<8x512x32xf32>, vector<32xf32>
    %part = memref.subview %w[%k, 0, 0] [1, 512, 32] [1, 1, 1]
        : memref<8x512x32xf32> to memref<512x32xf32, strided<[32, 1], offset: ?>>
    %other = vector.load %part[%k, %c0] : memref<512x32xf32, strided<[32, 1], offset: ?>>, vector<32xf32>
    %next = vector.fma %row, %other, %acc : vector<32xf32>
    scf.yield %next : vector<32xf32>
  }
  return %sum : vector<32xf32>
}

// Two parts of a sum, each asked for eight steps ahead, into the second cache, where both places are known.
// CHECK-LABEL: func.func @two_parts(
// CHECK:         scf.for %[[I:.*]] = %{{.*}} iter_args
// CHECK-NOT:       memref.prefetch
// CHECK:           %[[A:.*]] = arith.addi %{{.*}}, %[[I]]
// CHECK:           %[[B:.*]] = arith.addi %[[A]], %c256
// CHECK:           %[[C:.*]] = arith.addi %[[A]], %c8
// CHECK-COUNT-2:   memref.prefetch %{{.*}}[%{{.*}}, %[[C]], %{{.*}}], read, locality<2>, data
// CHECK:           %[[D:.*]] = arith.addi %[[B]], %c8
// CHECK-COUNT-2:   memref.prefetch %{{.*}}[%{{.*}}, %[[D]], %{{.*}}], read, locality<2>, data
// CHECK-NOT:       memref.prefetch
// CHECK:           scf.yield
// HALVES-LABEL: func.func @two_parts(
// HALVES-NOT:     memref.prefetch
func.func @two_parts(%w: memref<8x512x32xf32>, %block: index, %begin: index) -> vector<32xf32>
    attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c256 = arith.constant 256 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  %sum = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %zero) -> (vector<32xf32>) {
    %a = arith.addi %begin, %i : index
    %row = vector.load %w[%block, %a, %c0] : memref<8x512x32xf32>, vector<32xf32>
    %b = arith.addi %a, %c256 : index
    %other = vector.load %w[%block, %b, %c0] : memref<8x512x32xf32>, vector<32xf32>
    %both = arith.addf %row, %other : vector<32xf32>
    %next = arith.addf %both, %acc : vector<32xf32>
    scf.yield %next : vector<32xf32>
  }
  return %sum : vector<32xf32>
}

// Neighbouring steps are no parts.
// CHECK-LABEL: func.func @neighbours(
// CHECK-NOT:     memref.prefetch
// HALVES-LABEL: func.func @neighbours(
func.func @neighbours(%w: memref<8x512x32xf32>, %block: index, %begin: index) -> vector<32xf32>
    attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant dense<0.0> : vector<32xf32>
  %sum = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %zero) -> (vector<32xf32>) {
    %a = arith.addi %begin, %i : index
    %row = vector.load %w[%block, %a, %c0] : memref<8x512x32xf32>, vector<32xf32>
    %b = arith.addi %a, %c1 : index
    %other = vector.load %w[%block, %b, %c0] : memref<8x512x32xf32>, vector<32xf32>
    %both = arith.addf %row, %other : vector<32xf32>
    %next = arith.addf %both, %acc : vector<32xf32>
    scf.yield %next : vector<32xf32>
  }
  return %sum : vector<32xf32>
}

// A weight of 16 MB for two rows: 16 steps ahead, into the second cache. For five rows as for more.
// CHECK-LABEL: func.func @few_rows(
// CHECK:         scf.for
// CHECK:           arith.constant 16 : index
// CHECK-COUNT-2:   memref.prefetch {{.*}}locality<2>
// CHECK:         scf.for
// CHECK:           arith.constant 32 : index
// CHECK-COUNT-2:   memref.prefetch {{.*}}locality<3>
// CHECK-NOT:       memref.prefetch
// HALVES-LABEL: func.func @few_rows(
// HALVES-COUNT-4: memref.prefetch {{.*}}locality<3>
func.func @few_rows(%w: memref<256x512x32xf32>, %block: index) -> (vector<2x32xf32>, vector<5x32xf32>)
    attributes {tw.schedule = "tile"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c512 = arith.constant 512 : index
  %zero2 = arith.constant dense<0.0> : vector<2x32xf32>
  %zero5 = arith.constant dense<0.0> : vector<5x32xf32>
  %two = scf.for %k = %c0 to %c512 step %c1 iter_args(%acc = %zero2) -> (vector<2x32xf32>) {
    %row = vector.load %w[%block, %k, %c0] : memref<256x512x32xf32>, vector<32xf32>
    %rows = vector.broadcast %row : vector<32xf32> to vector<2x32xf32>
    %next = arith.addf %rows, %acc : vector<2x32xf32>
    scf.yield %next : vector<2x32xf32>
  }
  %five = scf.for %k = %c0 to %c512 step %c1 iter_args(%acc = %zero5) -> (vector<5x32xf32>) {
    %row = vector.load %w[%block, %k, %c0] : memref<256x512x32xf32>, vector<32xf32>
    %rows = vector.broadcast %row : vector<32xf32> to vector<5x32xf32>
    %next = arith.addf %rows, %acc : vector<5x32xf32>
    scf.yield %next : vector<5x32xf32>
  }
  return %two, %five : vector<2x32xf32>, vector<5x32xf32>
}

// Keys of one head among twelve, of which only the run knows how many there are: 32 steps ahead, into the second cache.
// CHECK-LABEL: func.func @cached_keys(
// CHECK:         %[[KEY:.*]] = affine.apply
// CHECK:         vector.load
// CHECK:         %[[AHEAD:.*]] = arith.addi %[[KEY]], %{{.*}} : index
// CHECK-COUNT-4: memref.prefetch %{{.*}}[%[[AHEAD]], %{{.*}}, %{{.*}}], read, locality<2>, data
// CHECK-NOT:     memref.prefetch
// HALVES-LABEL: func.func @cached_keys(
// HALVES-NOT:   memref.prefetch
func.func @cached_keys(%keys: memref<?x12x64xf32>, %query: vector<64xf32>, %scores: memref<?xf32>, %head: index,
                       %first: index) attributes {tw.schedule = "rows"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %c16 step %c1 {
    %place = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%first, %i)
    %key = vector.load %keys[%place, %head, %c0] : memref<?x12x64xf32>, vector<64xf32>
    %products = arith.mulf %query, %key fastmath<contract> : vector<64xf32>
    %score = vector.reduction <add>, %products, %zero : vector<64xf32> into f32
    memref.store %score, %scores[%i] : memref<?xf32>
  }
  return
}

// Rows near each other, of a known number, and those that no product reads are left alone.
// CHECK-LABEL: func.func @rejects_other_rows(
// CHECK-NOT:     memref.prefetch
// HALVES-LABEL: func.func @rejects_other_rows(
func.func @rejects_other_rows(%near: memref<?x4x64xf32>, %known: memref<128x12x64xf32>, %copied: memref<?x12x64xf32>,
                              %query: vector<64xf32>, %made: memref<?x64xf32>, %head: index)
    attributes {tw.schedule = "rows"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %c16 step %c1 {
    %a = vector.load %near[%i, %head, %c0] : memref<?x4x64xf32>, vector<64xf32>
    %b = vector.load %known[%i, %head, %c0] : memref<128x12x64xf32>, vector<64xf32>
    %c = vector.load %copied[%i, %head, %c0] : memref<?x12x64xf32>, vector<64xf32>
    %d = arith.mulf %query, %a : vector<64xf32>
    %e = arith.mulf %d, %b : vector<64xf32>
    vector.store %e, %made[%i, %c0] : memref<?x64xf32>, vector<64xf32>
    vector.store %c, %made[%i, %c0] : memref<?x64xf32>, vector<64xf32>
  }
  return
}
