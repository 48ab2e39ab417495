// out = x + scale * y, element by element.
//
// x, y, out: N elements of type T each, contiguous. scale: one float32.
// Compute in float32. The grid's threads together cover all N elements, about four per thread.
// --- your code: add_scaled
#error "2.5.1 A kernel in Metal"
// --- end
