// The one function by which MLX multiplies float32 matrices on a CPU. Loaded before MLX, it takes the place of that of
// the reference BLAS in MLX's package, and hands the work to NumPy's OpenBLAS, whose integers have 64 bits.
#include <cstdint>

namespace {
constexpr int ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112;  // the values of CBLAS
// Multiply-adds, a few milliseconds' work: below, a second thread gains little, and where another process has its core
// it is waited for longer than that.
constexpr int64_t WORTH_THREADS = int64_t{1} << 27;

using Gemm = void(int layout, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
                  int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
using Gemv = void(int layout, int trans, int64_t m, int64_t n, float alpha, const float* a, int64_t lda, const float* x,
                  int64_t step_x, float beta, float* y, int64_t step_y);
using SetThreads = void(int count);

Gemm* gemm;
Gemv* gemv;
SetThreads* set_threads;
int all_threads;
bool called;
}  // namespace

extern "C" void tiny_llm_sgemm_by(Gemm* its_gemm, Gemv* its_gemv, SetThreads* its_set_threads, int its_threads) {
    gemm = its_gemm;
    gemv = its_gemv;
    set_threads = its_set_threads;
    all_threads = its_threads;
}

// Whether there was a product since this was asked last.
extern "C" int tiny_llm_sgemm_called() {
    const bool before = called;
    called = false;
    return before;
}

extern "C" void cblas_sgemm(int layout, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a,
                            int lda, const float* b, int ldb, float beta, float* c, int ldc) {
    called = true;
    set_threads(int64_t{m} * n * k < WORTH_THREADS ? 1 : all_threads);
    if (m != 1 || k == 0 || layout != ROW_MAJOR) {
        gemm(layout, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    // One row: the weights are read once. OpenBLAS's own product would copy them first, which takes several times as long.
    const int64_t step = trans_a == NO_TRANS ? 1 : lda;
    if (trans_b == NO_TRANS) {
        gemv(layout, TRANS, k, n, alpha, b, ldb, a, step, beta, c, 1);
    } else {
        gemv(layout, NO_TRANS, n, k, alpha, b, ldb, a, step, beta, c, 1);
    }
}
