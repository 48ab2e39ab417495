// out = x + scale * y, number by number.
//
// x, y, out: N numbers of type T each, one after another. scale: one number, float32.
// The sum is taken in float32. Together the grid's threads go through all N numbers, and a thread has about four.
// --- your code: add_scaled
#error "2.5.1 A kernel in Metal"
// --- end
